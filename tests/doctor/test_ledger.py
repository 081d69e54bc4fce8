"""The ledger as the doctor sees it: SQLite and a real Postgres, by the role it is reached as."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from quarantine.core.errors import SchemaMismatch
from quarantine.core.model import Mode
from quarantine.doctor import Finding, Level, Patient, ledger
from quarantine.ledger import grants
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.ownrights import own_rights
from quarantine.ledger.store import open_ledger
from quarantine.sandbox.kubeapi import Rule, User
from quarantine.sandbox.postgres import PostgresServer
from quarantine.settings import Kubernetes, Settings
from tests.doctor.conftest import Examine, of
from tests.e2e.worlds import World

KUBECONFIG = """
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: a, user: {token: t}}]
"""
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A migrated database with a writer, a reader and a requester."""
    with PostgresServer() as server:
        url = server.database("ledger")
        upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            for role in ("writer", "reader", "requester"):
                connection.execute(f"CREATE ROLE {role} LOGIN")
        grants.apply(url, grants.Roles("writer", "requester", "reader"))
        yield url


def as_role(url: str, role: str) -> str:
    return f"postgresql://{role}@{url.rpartition('@')[2]}"


def found_in(url: str, mode: Mode = Mode.OBSERVE, now: datetime = NOW) -> list[Finding]:
    settings = Settings(database_url=SecretStr(url), mode=mode, kubernetes=Kubernetes(kubeconfig=Path("there-is-none")))
    with Patient(settings, lambda: now) as patient:
        return list(ledger.check(patient))


def test_the_writers_role_is_right(database: str) -> None:
    found = found_in(as_role(database, "writer"))
    assert {f.level for f in found} <= {Level.GOOD, Level.NOTE}
    assert "role writer may append decisions, and can neither change nor remove one" in found[-1].sentence


def test_an_owner_could_change_what_was_decided(database: str) -> None:
    found = found_in(database)
    assert found[-1].level is Level.WARNING
    assert "could change or remove decisions" in found[-1].sentence


@pytest.mark.parametrize("role", ["reader", "requester"])
def test_who_cannot_write_is_no_controller(database: str, role: str) -> None:
    found = found_in(as_role(database, role))
    assert found[-1].level is Level.FAULT
    assert "INSERT on decisions" in " ".join(own_rights(as_role(database, role)).missing)
    assert f"as role {role}" in found[-1].sentence


def test_each_right_that_a_writer_is_given_is_looked_at(database: str) -> None:
    """Whichever of them is taken away, it is told."""
    taken = [("INSERT", "decisions"), ("UPDATE", "clusters"), ("DELETE", "cases"), ("INSERT", "requests")]
    for what, table in taken:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(f"REVOKE {what} ON {table} FROM writer")
        missing = own_rights(as_role(database, "writer")).missing
        grants.apply(database, grants.Roles("writer", "requester", "reader"))
        assert missing == (f"{what} on {table}",)
    assert own_rights(as_role(database, "writer")).missing == ()


def test_another_schema_is_told_with_what_to_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    upgrade(url)
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '0001'")
        raw.commit()
    with pytest.raises(SchemaMismatch, match="quarantine db upgrade"):
        found_in(url)


def test_who_wrote_last_and_when(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    upgrade(url)
    assert any("no controller has ever written" in f.sentence for f in found_in(url))
    with open_ledger(url, "default", now=lambda: NOW) as book:
        book.record(book.take_term("pod-1"), [])
    (fresh,) = (f for f in found_in(url, now=NOW + timedelta(seconds=20)) if "pod-1" in f.sentence)
    (late,) = (f for f in found_in(url, now=NOW + timedelta(minutes=20)) if "pod-1" in f.sentence)
    assert (fresh.level, fresh.sentence) == (Level.GOOD, "pod-1 wrote last, 20s ago")
    assert late.level is Level.WARNING
    assert "for 20m" in late.sentence


def test_sqlite_is_for_trying_it_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    assert found_in(url)[0].level is Level.NOTE
    assert found_in(url, Mode.ENFORCE)[0].level is Level.WARNING
    assert "there is no ledger at" in found_in(url)[-1].sentence
    assert not (tmp_path / "ledger.db").exists()


def test_sqlite_that_enforces_in_a_pod_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    settings = Settings(
        database_url=SecretStr(f"sqlite:///{tmp_path}/ledger.db"),
        mode=Mode.ENFORCE,
        kubernetes=Kubernetes(kubeconfig=tmp_path / "kubeconfig"),
    )
    with Patient(settings, lambda: NOW) as one:
        one.cluster().in_cluster = True
        found = list(ledger.check(one))
    assert found[0].level is Level.FAULT
    assert "refused" in found[0].sentence


# --- Whose trail it is ------------------------------------------------------------------------------------------------


def bound(cluster: World, uid: str | None, name: str = "test") -> None:
    """A ledger that another process has begun to write."""
    upgrade(cluster.database_url)
    with open_ledger(cluster.database_url, name, now=lambda: NOW) as book:
        book.take_term("pod-1", uid)


def told_of(cluster: World, examine: Examine, exit_code: int = 0) -> list[str]:
    return of(examine("trail", exit_code=exit_code), "trail").splitlines()


@pytest.fixture
def anew(cluster: World) -> Iterator[World]:
    """Without a ledger, before and after."""
    yield cluster
    for file in cluster.folder.glob("ledger.db*"):
        file.unlink()


def test_a_trail_of_this_cluster_is_well(anew: World, examine: Examine) -> None:
    bound(anew, anew.api.get("Namespace", "kube-system")["metadata"]["uid"])
    assert told_of(anew, examine) == ["good: the trail of test is that of this cluster > "]


def test_a_trail_of_another_cluster_is_a_fault_with_what_to_do(anew: World, examine: Examine) -> None:
    bound(anew, "uid-of-another-cluster")
    (told,) = told_of(anew, examine, 1)
    assert told.startswith("fault: the trail of 'test' in sqlite")
    assert "correct the kubeconfig, cluster or database_url, or run `quarantine db rebind`" in told


def test_a_trail_of_nobody_yet_is_told(anew: World, examine: Examine) -> None:
    bound(anew, None)
    (told,) = told_of(anew, examine)
    assert told.startswith("note: the ledger does not know yet whose the trail of test is")


@pytest.mark.parametrize(("uid", "level", "code"), [(None, "note", 0), ("uid-of-some-cluster", "fault", 1)])
def test_without_the_right_to_ask_it_is_said_what_that_means(
    anew: World, examine: Examine, uid: str | None, level: str, code: int
) -> None:
    bound(anew, uid)
    anew.api.gate.users = (User("quarantine", "t0ken", rules=(Rule(("list", "watch"), ("nodes",)),)),)
    anew.kube.write_kubeconfig(anew.folder / "kubeconfig", user="quarantine")
    (told,) = told_of(anew, examine, code)
    assert told.startswith(f"{level}: ")
    rights = of(examine("Kubernetes rights", exit_code=1), "Kubernetes rights", "warning")
    assert "missing: the right to get namespaces; without it another cluster could write this trail" in rights


def test_a_ledger_that_cannot_be_read_is_told_once(anew: World, examine: Examine) -> None:
    upgrade(anew.database_url)
    with closing(sqlite3.connect(anew.folder / "ledger.db")) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '0001'")
    found = examine("ledger", "trail", exit_code=1)
    assert [f["level"] for f in found if "older than" in f["sentence"]] == ["fault"]
    assert of(found, "trail") == "note: not looked at, since the ledger cannot be read > "
