"""The database is away, refuses, is put back or is another version: the cluster is left alone, and work goes on after.

Real are the controller with its adapters, Postgres, Prometheus and the emulated API server; the time is simulated. The
controller is never started again, except where a test says so.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import structlog
from psycopg import sql
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from quarantine import app as composed
from quarantine.cli.main import app
from quarantine.controller import Controller
from quarantine.core.case import EffectStatus, HeldBy
from quarantine.core.decision import Action, RequestKind
from quarantine.core.errors import LedgerUnavailable, SchemaMismatch, Superseded
from quarantine.ledger import bounded
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import REVISION
from quarantine.ledger.store import SqlLedger
from quarantine.observe import Observer
from quarantine.sandbox.postgres import PostgresServer
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.settings import load
from tests.e2e.situations import Situation, hot, situation
from tests.e2e.witness import Noting, Witness, noting
from tests.ledger.mishaps import Wire, back_up, demote, hanging, promote, restore

Spell = Callable[[PostgresServer, str], Iterator[None]]
SMALL = {"count": 4, "gpus": 1, "ports": 1, "links": 0}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(wal_level="replica", max_wal_senders="2") as made:
        upgrade(made.database("migrated"))
        yield made


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    """The name of a migrated one."""
    server.start()
    name = f"ledger_{next(_numbers)}"
    server.database(name, template="migrated")
    yield name
    server.start()
    for made in (name, f"{name}_kept"):
        server.drop(made)


@dataclass
class Watched:
    """A situation, its witness, and what its ledger said it kept."""

    now: Situation
    witness: Witness
    noted: Noting

    def check(self) -> None:
        """Nothing was done without its record, and no decision is lost or doubled."""
        assert self.witness.unrecorded == []
        self.noted.check()

    def healed(self, *nodes: str) -> None:
        """These nodes are out, each with one ticket, and nothing is left to do."""
        self.check()
        assert self.now.out == set(nodes)
        assert self.now.pending == 0
        cases = [self.now.case(node) for node in nodes]
        for case in cases:
            assert case is not None
            assert {effect.status for effect in case.effects.values()} <= {EffectStatus.DONE, EffectStatus.ABANDONED}
        keys = [ticket["key"] for ticket in self.now.stage.tickets()]
        assert sorted(keys) == sorted(case.id for case in cases if case is not None)
        events = [event["involvedObject"]["name"] for event in self.now.stage.api.list("Event")]
        assert sorted(events) == sorted(nodes)


@dataclass(frozen=True)
class Place:
    """Where situations begin."""

    folder: Path
    prometheus: str
    server: PostgresServer

    @contextmanager
    def begin(self, name: str, url: str | None = None, **fields: Any) -> Iterator[Watched]:
        """A GPU that is hot from the fifth minute on, on node-1; the ledger is the database of this name."""
        folder = self.folder / name
        folder.mkdir()
        database = url or self.server.url_of(name)
        usual = {"faults": [hot(1)], "machines": SMALL, "lasts": "60m", "pool": {"budget": {"quarantined": "50%"}}}
        with situation(folder, self.prometheus, database, **{**usual, **fields}) as now:
            witness = Witness(now.stage.api, self.server.url_of(name))
            ledger = now.stage.ledger
            assert isinstance(ledger, SqlLedger)
            now.stage.controller, noted = noting(now.stage.controller, ledger)
            yield Watched(now, witness, noted)


@pytest.fixture
def place(tmp_path: Path, remembering: PrometheusServer, server: PostgresServer) -> Place:
    return Place(tmp_path, remembering.url, server)


# --- At every write ---------------------------------------------------------------------------------------------------

STRIPES = 4


@pytest.mark.slow
@pytest.mark.parametrize("stripe", range(STRIPES))
@pytest.mark.parametrize("reaches", [False, True], ids=["commit lost", "answer lost"])
@pytest.mark.timeout(400)
def test_the_connection_breaks_at_any_commit_of_a_quarantine(
    place: Place, server: PostgresServer, database: str, stripe: int, *, reaches: bool
) -> None:
    """Whether it was kept or not: the next cycle of the same process goes on from what the ledger says."""
    seen = 0
    for at in range(stripe + 1, 60, STRIPES):
        name = f"{database}_{at}"
        server.database(name, template="migrated")
        with Wire(server.port) as wire, place.begin(name, wire.url(name)) as it:
            it.now.minutes(9, every=timedelta(minutes=4.5))
            assert it.now.out == set()
            wire.lose = (wire.commits + at, reaches)
            with capture_logs() as logs:
                it.now.minutes(12)
            if not wire.lost:
                break
            it.now.minutes(20, every=timedelta(minutes=4))
            it.healed("node-1")
            seen += 1
            told = [line["event"] for line in logs if line["log_level"] == "warning"]
            assert any("cannot be reached" in sentence for sentence in told), told
    assert seen > 2


# --- For a spell ------------------------------------------------------------------------------------------------------


def down(server: PostgresServer, _: str) -> Iterator[None]:
    server.stop()
    yield
    server.start()


def killed(server: PostgresServer, _: str) -> Iterator[None]:
    server.kill()
    yield
    server.start()


def frozen(server: PostgresServer, _: str) -> Iterator[None]:
    with hanging(server):
        yield


def standby(server: PostgresServer, _: str) -> Iterator[None]:
    demote(server)
    yield
    promote(server)


def read_only(server: PostgresServer, name: str) -> Iterator[None]:
    change = sql.SQL("ALTER DATABASE {} {} default_transaction_read_only {}")
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(change.format(sql.Identifier(name), sql.SQL("SET"), sql.SQL("= on")))
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        admin.execute(change.format(sql.Identifier(name), sql.SQL("RESET"), sql.SQL("")))


def locked(server: PostgresServer, name: str) -> Iterator[None]:
    with psycopg.connect(server.url_of(name)) as other:
        other.execute("SELECT * FROM clusters FOR UPDATE")
        yield


def migrated_to(revision: str) -> Spell:
    def spell(server: PostgresServer, name: str) -> Iterator[None]:
        with psycopg.connect(server.url_of(name), autocommit=True) as other:
            other.execute("UPDATE alembic_version SET version_num = %s", [revision])
            yield
            other.execute("UPDATE alembic_version SET version_num = %s", [REVISION])

    return spell


@dataclass(frozen=True)
class Day:
    """A spell, the error in which its cycles end, and what is said then by them and by `quarantine status`."""

    spell: Spell
    said: str
    status: int  # its exit code
    error: type[Exception] = LedgerUnavailable
    minutes: int = 12
    beside: str = ""  # what `status` says where it is not the same


DAYS = {
    "down": Day(down, "cannot be reached", 3, minutes=180),
    "killed": Day(killed, "cannot be reached", 3),
    "frozen": Day(frozen, "does not answer", 3, minutes=2),
    "standby": Day(standby, "is read-only", 0),
    "read-only": Day(read_only, "is read-only", 0, minutes=180),
    "locked": Day(
        locked, "is locked by another transaction", 0, beside="it cannot write and does nothing; its log says why"
    ),
    "newer": Day(migrated_to("9999"), "newer than this code's", 3, SchemaMismatch),
    "older": Day(migrated_to("0001"), "older than this code's", 3, SchemaMismatch),
}


@pytest.mark.parametrize("day", DAYS)
def test_nothing_is_done_meanwhile_and_everything_after(
    place: Place, server: PostgresServer, database: str, day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "GRACE_S", 0.3)
    options = "options=-clock_timeout%3D200%20-cstatement_timeout%3D300&connect_timeout=2"
    url = f"{server.url_of(database)}?{options}".replace("quarantine@", "quarantine:s3cret@")
    spell = DAYS[day]
    with place.begin(database, url, lasts="4h") as it:
        it.now.minutes(9, every=timedelta(minutes=3))
        with capture_logs() as logs, contextmanager(spell.spell)(server, database):
            reports = it.now.minutes(9 + spell.minutes)
            told = quarantine(it, url, "status")
            planned = quarantine(it, url, "plan")
        assert len(reports) == spell.minutes
        for report in reports:
            assert isinstance(report.error, spell.error)
            assert report.sentence.startswith("nothing was done in this cycle: the ledger postgresql://quarantine:***@")
            assert spell.said in report.sentence
            assert "\n" not in report.sentence
        assert it.witness.writes == 0
        assert it.now.out == set()
        assert it.now.stage.tickets() == []
        warned = [line["event"] for line in logs if line["log_level"] == "warning"]
        assert warned[0] == reports[0].sentence
        assert len(warned) <= 3 + spell.minutes.bit_length() + spell.minutes // 64, "no storm"
        assert (told.exit_code, planned.exit_code) == (spell.status, spell.status)
        assert (spell.beside or spell.said) in told.stderr
        assert "s3cret" not in told.output + planned.output + str(logs)
        now = 9 + spell.minutes
        with capture_logs() as logs:
            it.now.minutes(now + 5)
        assert any("it goes on, after" in line["event"] for line in logs)
        it.now.minutes(now + 11, every=timedelta(minutes=3))
        it.healed("node-1")


def quarantine(it: Watched, url: str, command: str) -> Result:
    """A reading command, beside the controller."""
    config, logging = str(it.now.stage.folder / "quarantine.yaml"), structlog.get_config()
    try:
        return CliRunner().invoke(app, [command, "--config", config], env={"QUARANTINE_DATABASE_URL": url})
    finally:
        structlog.configure(**logging)


def test_it_goes_down_between_the_look_and_the_record(place: Place, server: PostgresServer, database: str) -> None:
    """What was seen and judged is judged again later, from what is seen by then."""
    with place.begin(database) as it:
        it.now.minutes(9, every=timedelta(minutes=3))

        class Looking:
            """The observer; the server is gone once it has looked."""

            def __init__(self, inner: Any) -> None:
                self._inner = inner

            def snapshot(self, *arguments: Any, **named: Any) -> Any:
                made = self._inner.snapshot(*arguments, **named)
                server.kill()
                return made

            def __getattr__(self, name: str) -> Any:
                return getattr(self._inner, name)

        sound = it.now.stage.controller
        it.now.stage.controller = replace(sound, observer=cast(Observer, Looking(sound.observer)))
        (report,) = it.now.minutes(12, every=timedelta(minutes=3))
        assert report.sentence.startswith("nothing was done in this cycle: the ledger")
        assert it.witness.writes == 0
        server.start()
        it.now.stage.controller = replace(it.now.stage.controller, observer=sound.observer)
        it.now.minutes(20)
        it.healed("node-1")


# --- Put back to an earlier moment ------------------------------------------------------------------------------------


def converge(it: Watched, until: float) -> bool:
    """Cycle on, and take the marks over where that is waited for; whether it was."""
    it.now.minutes(until, every=timedelta(minutes=2))
    waits = it.now.held(HeldBy.RESTORED)
    if waits:
        before = it.witness.writes
        it.now.minutes(until + 4, every=timedelta(minutes=2))
        assert it.witness.writes == before, "it only observes"
        it.now.ask(RequestKind.ADOPT, reason="the ledger is yesterday's")
    it.now.minutes(until + 10, every=timedelta(minutes=2))
    return waits


def all_texts_are_kept(it: Watched, url: str) -> bool:
    """A decision is explained by the text of its policy a year later."""
    with psycopg.connect(url) as connection:
        kept = {row[0] for row in connection.execute("SELECT hash FROM policy_versions")}
    return {d.policy_hash for d in it.now.stage.trail() if d.policy_hash is not None} <= kept


def test_restored_from_a_backup_that_is_older_than_the_marks(
    place: Place, server: PostgresServer, database: str
) -> None:
    with place.begin(database, faults=[hot(1), hot(2, at="32m")], machines={**SMALL, "count": 24}) as it:
        back_up(server, database)
        it.now.happens(policies={"gpu-hot": {"trigger": {"above": 79}}})  # a version that the backup does not have
        it.now.minutes(20, every=timedelta(minutes=2))
        assert it.now.out == {"node-1"}
        (ticket,) = it.now.stage.tickets()
        restore(server, database)
        it.noted.kept.clear()
        with capture_logs() as logs:
            writes = it.witness.writes
            it.now.minutes(44, every=timedelta(minutes=2))
        told = [line["event"] for line in logs]
        assert any(
            "it was restored from a backup, or a failover lost its last commits" in sentence for sentence in told
        )
        assert it.now.held(HeldBy.RESTORED)
        assert it.witness.writes == writes, "node-2 is bad meanwhile, and waits"
        assert all_texts_are_kept(it, server.url_of(database)), "what was kept before the backup was put back is gone"
        it.now.ask(RequestKind.ADOPT, reason="the backup of last night was put back")
        it.now.minutes(58, every=timedelta(minutes=2))
        it.check()
        assert it.now.out == {"node-1", "node-2"}
        assert it.now.case("node-1") is not None
        assert it.now.decided(Action.ADOPT, "node-1")
        assert [made["key"] for made in it.now.stage.tickets()].count(ticket["key"]) == 1
        assert len(it.now.stage.tickets()) == 2
        assert it.now.pending == 0


def test_a_node_that_was_released_after_the_backup_stays_in_service(
    place: Place, server: PostgresServer, database: str
) -> None:
    """The ledger still has its case, and the node has no taint: nobody marks it again."""
    with place.begin(database) as it:
        it.now.minutes(14, every=timedelta(minutes=2))
        assert it.now.out == {"node-1"}
        back_up(server, database)
        it.now.ask(RequestKind.RELEASE, "node-1", reason="looked at, and sound")
        it.now.minutes(18, every=timedelta(minutes=2))
        assert it.now.out == set()
        restore(server, database)
        it.noted.kept.clear()
        it.now.minutes(30, every=timedelta(minutes=2))
        it.check()
        assert it.now.out == set()
        assert it.now.case("node-1") is None
        assert it.now.pending == 0


@pytest.mark.slow
@pytest.mark.parametrize("stripe", range(STRIPES))
@pytest.mark.timeout(400)
def test_a_failover_loses_the_last_commits(place: Place, server: PostgresServer, database: str, stripe: int) -> None:
    """With asynchronous replication, what they recorded was done to the cluster already: nothing is done again."""
    adopted = []
    for at in range(stripe + 1, 60, STRIPES):
        name = f"{database}_{at}"
        server.database(name, template="migrated")
        with Wire(server.port) as wire, place.begin(name, wire.url(name)) as it:
            it.now.minutes(9, every=timedelta(minutes=3))
            kept, done = wire.commits + at, threading.Event()

            def keep(wire: Wire = wire, kept: int = kept, name: str = name, done: threading.Event = done) -> None:
                if wire.commits == kept:
                    back_up(server, name)  # as it is without this commit, which is cut off
                    done.set()

            wire.before_commit = keep
            it.now.minutes(12)
            if wire.commits < kept:
                break
            assert done.wait(60)
            it.now.minutes(16)
            assert it.now.out == {"node-1"}
            restore(server, name)
            it.noted.kept.clear()
            adopted.append(converge(it, 24))
            it.check()
            assert it.now.out == {"node-1"}, at
            assert it.now.pending == 0, at
            assert len(it.now.stage.tickets()) == 1, at
            events = [event["involvedObject"]["name"] for event in it.now.stage.api.list("Event")]
            assert events == ["node-1"], at
            assert all_texts_are_kept(it, server.url_of(name)), at
            assert not it.now.held(HeldBy.RESTORED), at
    assert len(adopted) > 1


def test_a_writer_whose_term_the_failover_lost_stops_and_the_next_one_goes_on(
    place: Place, server: PostgresServer, database: str
) -> None:
    url = server.url_of(database)
    with place.begin(database) as it:
        back_up(server, database)
        with process(it, url) as second:
            assert second.cycle().error is None
            restore(server, database)
            with suppress(LedgerUnavailable):
                it.noted.load()  # the pool finds that its connections were cut
            with pytest.raises(Superseded, match=r"term 2 .*is at term 1"):
                second.cycle()
        with process(it, url) as third:
            it.now.stage.controller, _ = noting(third, it.noted._ledger)
            it.now.minutes(20, every=timedelta(minutes=2))
        it.healed("node-1")


@contextmanager
def process(it: Watched, url: str) -> Iterator[Controller]:
    """Another one, on the same ledger."""
    given = load(it.now.stage.folder / "quarantine.yaml", {}, {"QUARANTINE_DATABASE_URL": url})
    with composed.parts(given, watch=False, acts=True) as parts:
        yield composed.controller(parts)
