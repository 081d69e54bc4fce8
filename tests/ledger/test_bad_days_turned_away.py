"""A server that turns a user away says why, and the advice is for that: each answer is a real server's."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from quarantine.core.errors import LedgerUnavailable
from quarantine.ledger.migrate import check, upgrade
from quarantine.sandbox.postgres import PostgresServer

RULES = """
host all quarantine 127.0.0.1/32 trust
host all known      127.0.0.1/32 scram-sha-256
host all rejected   127.0.0.1/32 reject
host all nobody     127.0.0.1/32 trust
host all sleeper    127.0.0.1/32 trust
host all shut_out   127.0.0.1/32 trust
"""
ROLES = """
CREATE ROLE known LOGIN PASSWORD 'right';
CREATE ROLE rejected LOGIN;
CREATE ROLE sleeper NOLOGIN;
CREATE ROLE shut_out LOGIN;
CREATE DATABASE ledger;
REVOKE CONNECT ON DATABASE ledger FROM PUBLIC;
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server with a door: its pg_hba.conf knows some users."""
    with PostgresServer() as running:
        with psycopg.connect(running.url, autocommit=True) as owner:
            for statement in ROLES.strip().splitlines():
                owner.execute(statement.encode())
            (running.data / "pg_hba.conf").write_text(RULES, encoding="utf-8")
            owner.execute("SELECT pg_reload_conf()")
        yield running


@pytest.mark.parametrize(
    ("user", "end", "what", "advice"),
    [
        ("known:wrong", "", "does not let this user in", "correct the user or the password"),
        ("known", "", "asks for a password and was given none", "PGPASSWORD"),
        ("nobody", "", "does not know this user", "create the role, or correct the user"),
        ("sleeper", "", "does not let this role log in", "with LOGIN"),
        ("shut_out", "", "does not let this user connect to the database", "GRANT CONNECT ON DATABASE"),
        ("rejected", "", "does not let this user in from here", r"pg_hba\.conf"),
        ("unlisted", "", "does not let this user in from here", r"pg_hba\.conf"),
        ("quarantine", "?sslmode=require", "do not agree about TLS", "sslmode"),
        ("quarantine", "_which_is_not", "does not exist", "create the database"),
    ],
)
def test_what_is_said_fits(guarded: PostgresServer, user: str, end: str, what: str, advice: str) -> None:
    url = f"postgresql://{user}@127.0.0.1:{guarded.port}/ledger{end}"
    with pytest.raises(LedgerUnavailable, match=rf"{what} \(.*\); .*{advice}") as caught:
        check(url)
    assert "wrong" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_who_may_not_make_tables_learns_who_may(guarded: PostgresServer) -> None:
    with pytest.raises(LedgerUnavailable, match=r"does not let this user do that \(.*only their owner upgrades"):
        upgrade(f"postgresql://shut_out@127.0.0.1:{guarded.port}/postgres")


def test_a_role_may_be_called_like_a_complaint(guarded: PostgresServer) -> None:
    """The words of the server are looked at, not the names in them."""
    with pytest.raises(LedgerUnavailable, match="does not let this user in from here"):
        check(f"postgresql://authentication%20failed@127.0.0.1:{guarded.port}/ledger")
