"""Secrets come in by the right door and do not get out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from quarantine.settings import load
from tests.settings.writing import EMPTY, refused, write


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slack:\n  token: xoxb-hush\n", "2: slack.token is a secret"),
        ("prometheus: {username: a, password: hush}\n", "prometheus.password is a secret"),
        ("prometheus:\n  bearer_token: hush\n", "use prometheus.bearer_token_file, or the variable QUARANTINE_PROM"),
        ("database_url: postgresql://u:hush@db/q\n", "use database_url_file, or the variable QUARANTINE_DATABASE_URL"),
        ("database_url: postgresql://db/q?user=u&password=hush\n", "database_url is a secret"),
        ("database_url: postgresql://u:hush@[db/q\n", "database_url is a secret"),
        (
            "tickets:\n  targets:\n    acme: {kind: jira, api_token: hush}\n",
            "3: tickets.targets.acme.api_token is a secret, and this file is no place for one; use api_token_file,",
        ),
        ("tickets: {targets: {acme: {kind: email, Password: hush}}}\n", "tickets.targets.acme.Password is a secret"),
    ],
)
def test_a_secret_in_the_file_is_refused(file: Path, text: str, words: str) -> None:
    message = refused(write(file, text))
    assert words in message
    assert message.startswith(f"{file}:")
    assert "hush" not in message


def test_secrets_do_not_show(tmp_path: Path) -> None:
    environ = {
        "QUARANTINE_DATABASE_URL": "postgresql://u:hush@db/q",
        "QUARANTINE_SLACK__TOKEN": "xoxb-hush",
        "QUARANTINE_PROMETHEUS__BEARER_TOKEN": "hush",
        "QUARANTINE_PROMETHEUS__HEADERS": '{"X-Api-Key": "hush"}',
        "QUARANTINE_TICKETS__TARGETS": '{"acme": {"kind": "github", "token": "hush"}}',
        "QUARANTINE_TICKETS__DEFAULT": "acme",
    }
    settings = load(None, {}, environ)
    assert settings.tickets.targets["acme"].options == {"token": "hush"}
    connection = settings.prometheus.connection()
    for whole in (settings, settings.tickets, settings.prometheus, connection):
        assert "hush" not in repr(whole) + str(whole)
    for wrong in (
        {"QUARANTINE_DATABASE_URL": "mysql://u:hush@db/q"},
        {"QUARANTINE_PROMETHEUS__URL": "x://u:hush@db/q"},
    ):
        assert "hush" not in refused(environ=environ | wrong)


def test_secrets_from_files(tmp_path: Path, file: Path) -> None:
    write(file, "database_url_file: db\nslack: {token_file: slack, channel: C1}\n")
    write(file.parent / "db", "postgresql://u:p@db/q\n")
    write(file.parent / "slack", "xoxb-1\n")
    settings = load(file, {}, EMPTY)
    assert settings.database_url.get_secret_value() == "postgresql://u:p@db/q"
    assert settings.slack.token == SecretStr("xoxb-1")
    assert settings.slack.enabled


def test_the_upper_word_on_a_secret_counts_whichever_form_it_has(tmp_path: Path, file: Path) -> None:
    write(file, "database_url_file: missing\nslack: {token_file: missing}\n")
    own = write(tmp_path / "own", "sqlite:///own.db")
    environ = {"QUARANTINE_SLACK__TOKEN": "xoxb-2", "QUARANTINE_DATABASE_URL_FILE": str(own)}
    settings = load(file, {}, environ)
    assert settings.slack.token == SecretStr("xoxb-2")
    assert settings.slack.token_file is None
    assert settings.database_url.get_secret_value() == "sqlite:///own.db"
    settings = load(file, {"database_url": "sqlite:///option.db"}, environ)
    assert settings.database_url.get_secret_value() == "sqlite:///option.db"
    assert settings.database_url_file is None


def test_both_forms_of_a_secret_in_one_place_are_refused(file: Path) -> None:
    environ = {"QUARANTINE_SLACK__TOKEN": "xoxb", "QUARANTINE_SLACK__TOKEN_FILE": "t"}
    assert refused(environ=environ) == "QUARANTINE_SLACK__TOKEN_FILE stands beside slack.token; give one of them."


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read (no such file or directory)"),
        (b"", "does not hold one line of text"),
        (b"\n \n", "does not hold one line of text"),
        (b"one\ntwo\n", "does not hold one line of text"),
        (b"\xff\xfe", "is not text"),
        (b"mysql://u:hush@db", "is neither Postgres nor SQLite"),
    ],
)
def test_a_secrets_file_that_cannot_be_used_is_told_where_it_is_named(
    file: Path, content: bytes | None, words: str
) -> None:
    write(file, "cluster: a\ndatabase_url_file: db\n")
    if content is not None:
        (file.parent / "db").write_bytes(content)
    message = refused(file)
    assert message.startswith(f"{file}:2: database_url_file")
    assert words in message
    assert "hush" not in message
