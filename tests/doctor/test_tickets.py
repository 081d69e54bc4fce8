"""Every kind of ticket system is asked by a search that files nothing, and tells wrong credentials from right ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine.adapters.tickets.keys import checked
from quarantine.adapters.tickets.targets import target
from quarantine.core.tickets import Answerable
from quarantine.doctor import Finding, Level, Patient, tickets
from quarantine.sandbox.desks.jira import JiraDesk
from quarantine.sandbox.desks.smtp import Mailbox, MailDesk
from quarantine.sandbox.desks.webhook import WebhookDesk
from quarantine.sandbox.desks.zendesk import ZendeskDesk
from quarantine.settings import Settings, Target, Tickets

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
RIGHT, WRONG = "right-hush-hush-hush-hush-hush-hush", "wrong-hush-hush-hush-hush-hush-hush"
USER = "gpu@lab.example"


def now() -> datetime:
    return NOW


@contextmanager
def desk(kind: str) -> Iterator[tuple[Any, dict[str, object]]]:
    """A desk of this kind, and the options of a target for it but for its secret."""
    if kind == "jira":
        with JiraDesk("GPU", USER, RIGHT, now, timedelta(0)) as jira:
            yield jira, {"url": jira.url, "project": "GPU", "user": USER}
    elif kind == "zendesk":
        with ZendeskDesk(USER, RIGHT, now) as zendesk:
            yield zendesk, {"url": zendesk.url, "email": USER}
    else:
        with WebhookDesk(RIGHT, now) as webhook:
            yield webhook, {"url": webhook.url}


def check(folder: Path, given: Mapping[str, object], **more: Any) -> list[Finding]:
    settings = Settings(
        policies=(folder / "there-are-none",),
        tickets=Tickets(targets={"desk": Target.model_validate(given)}, default="desk", **more),
    )
    with Patient(settings, now) as patient:
        return list(tickets.check(patient))


@pytest.mark.parametrize("kind", ["jira", "zendesk", "webhook"])
@pytest.mark.parametrize(("secret", "level"), [(RIGHT, Level.GOOD), (WRONG, Level.FAULT)])
def test_credentials_are_tried_and_nothing_is_filed(tmp_path: Path, kind: str, secret: str, level: Level) -> None:
    (tmp_path / "secret").write_text(secret)
    name = "secret_file" if kind == "webhook" else "token_file"
    with desk(kind) as (far, options):
        (found,) = check(tmp_path, {"kind": kind, **options, name: str(tmp_path / "secret")})
        assert not (far.issues if kind == "jira" else far.tickets)
    assert found.level is level, found
    assert f"target desk ({kind}): " in found.sentence
    assert "hush" not in found.sentence


@pytest.mark.parametrize(
    ("password", "replies", "level", "said"),
    [
        (RIGHT, {}, Level.GOOD, "it is reached, and lets us in"),
        (WRONG, {}, Level.FAULT, "does not take the login"),
        (RIGHT, {"MAIL": b"553 not yours"}, Level.FAULT, "does not take the sender gpu@lab.example"),
        (RIGHT, {"rma@acme.example": b"550 nobody"}, Level.FAULT, "does not take the recipient rma@acme.example"),
        (RIGHT, {"EHLO": b"421 busy"}, Level.UNREACHABLE, "it is to be tried again later"),
    ],
)
def test_a_mail_server_is_tried_up_to_the_message(
    tmp_path: Path, password: str, replies: dict[str, bytes], level: Level, said: str
) -> None:
    (tmp_path / "secret").write_text(password)
    box = Mailbox(login=(USER, RIGHT), replies=replies)
    with MailDesk(box) as desk:
        options = {"host": "127.0.0.1", "port": desk.port, "security": "none", "username": USER}
        who = {"sender": USER, "recipients": ["rma@acme.example"], "password_file": str(tmp_path / "secret")}
        (found,) = check(tmp_path, {"kind": "email", **options, **who})
    assert (found.level, box.taken) == (level, [])
    assert said in found.sentence
    assert "hush" not in found.sentence


@pytest.mark.parametrize("kind", ["jira", "zendesk", "webhook", "github"])
def test_one_that_is_away_did_not_answer(tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_text(RIGHT)
    options: dict[str, dict[str, object]] = {
        "jira": {"project": "GPU", "user": USER},
        "zendesk": {"email": USER},
        "webhook": {},
        "github": {"repository": "acme/repairs"},
    }
    name = "secret_file" if kind == "webhook" else "token_file"
    given = {"kind": kind, "url": "http://127.0.0.1:9", **options[kind], name: str(tmp_path / "secret")}
    (found,) = check(tmp_path, given)
    assert found.level is Level.UNREACHABLE, found


def test_one_that_hangs_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third party's kind may wait for ever."""
    release = threading.Event()

    def hangs(kind: str, *arguments: Any) -> Any:
        if kind == "theirs":
            release.wait(20)
        return target(kind, *arguments)

    monkeypatch.setattr(tickets, "target", hangs)
    monkeypatch.setattr(tickets, "_PATIENCE", timedelta(milliseconds=200))
    fine = Target.model_validate({"kind": "directory", "directory": str(tmp_path / "out")})
    targets = Tickets(targets={"a": Target(kind="theirs"), "b": fine}, default="b")
    with Patient(Settings(policies=(tmp_path / "none",), tickets=targets), now) as patient:
        found = list(tickets.check(patient))
    release.set()
    assert [f.level for f in found] == [Level.UNREACHABLE, Level.GOOD]
    assert found[0].sentence == "target a (theirs): it did not answer within 200ms"


def test_the_key_is_one_and_no_cases() -> None:
    assert checked(tickets.KEY) == tickets.KEY
    assert not tickets.KEY.startswith("q-")


def test_a_list_of_machines_that_cannot_be_read_is_told_and_the_targets_are_tried(tmp_path: Path) -> None:
    made = {"kind": "directory", "directory": str(tmp_path / "out")}
    found = check(tmp_path, made, assets=tmp_path / "machines.csv")
    assert [f.level for f in found] == [Level.FAULT, Level.GOOD]
    assert "machines.csv" in found[0].sentence
    (tmp_path / "machines.csv").write_text("node,serial\n")
    assert check(tmp_path, made, assets=tmp_path / "machines.csv")[0].level is Level.GOOD


class _Blind:
    """A kind that cannot be searched, of somebody else's making."""

    answerable = Answerable.BLIND


class _Tried(_Blind):
    """One that offers to be tried."""

    def check(self) -> None:
        raise ZeroDivisionError("a defect")


def test_what_cannot_be_searched_is_tried_where_it_offers_to_be() -> None:
    assert tickets._blind("target x", _Blind()).level is Level.NOTE  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):  # which is told as a fault of its code
        tickets._blind("target x", _Tried())  # type: ignore[arg-type]
