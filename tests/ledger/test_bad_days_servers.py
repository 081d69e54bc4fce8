"""A server that hangs, is cut off at any statement, loses an answer, fills up or is no primary any more."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from quarantine.core.case import Effect
from quarantine.core.errors import LedgerUnavailable, SchemaMismatch, UsageError
from quarantine.core.rulefiles import PolicyRun, RuleFile
from quarantine.ledger import bounded
from quarantine.ledger.engine import make_engine, unhurried, writing
from quarantine.ledger.faults import translated
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import REVISION
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.verify import Sound
from quarantine.sandbox.postgres import PostgresServer
from tests.ledger.mishaps import Wire, back_up, demote, hanging, promote, restore, small_disk, without_room
from tests.ledger.samples import CLUSTER, NOW, held, now, outcome, policy, quarantined, request
from tests.ledger.test_fencing import contents

RULES = [RuleFile("/policies/hot.yaml", "kind: Policy", "a" * 64, None, NOW)]
Write = Callable[[SqlLedger, int], object]
WRITES: dict[str, Write] = {  # every one of a cycle
    "take_term": lambda ledger, _: ledger.take_term("pod-1"),  # as whom it has it already
    "record": lambda ledger, term: ledger.record(term, [quarantined(2), held("x")], [policy("new", "new")]),
    "record nothing": lambda ledger, term: ledger.record(term, []),
    "attempt": lambda ledger, term: ledger.attempt(term, "c-1/mark", NOW),
    "postpone": lambda ledger, term: ledger.postpone(term, "c-1/mark", "503"),
    "settle": lambda ledger, term: ledger.settle(term, "c-1/mark", outcome(Effect.MARK, by_us=True)),
    "keep_rules": lambda ledger, term: ledger.keep_rules(term, RULES, {"gpu-hot": PolicyRun("a" * 64, 3)}),
    "ask": lambda ledger, _: ledger.ask(request(7)),
}


def name_of(url: str) -> str:
    name = make_url(url).database
    assert name is not None
    return name


@contextmanager
def led(url: str) -> Iterator[tuple[SqlLedger, int]]:
    """With a case whose mark is to be made."""
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        ledger.record(term, [quarantined(1)])
        yield ledger, term


# --- Broken off, at every statement of every write --------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES)
def test_a_connection_that_is_ended_at_any_statement_leaves_nothing(
    postgres: str, server: PostgresServer, write: str
) -> None:
    """As an administrator does it, or a restart of the server that does not wait."""
    with led(postgres) as (ledger, term), psycopg.connect(server.url, autocommit=True) as admin:
        place, left = 0, -1
        said: set[str] = set()

        def end(connection: Any, *_: object) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                pid = connection.connection.dbapi_connection.info.backend_pid
                admin.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

        event.listen(ledger._engine, "before_cursor_execute", end)
        event.listen(ledger._engine, "commit", end)
        before = contents(postgres)
        while True:
            left = place
            try:
                WRITES[write](ledger, term)
            except LedgerUnavailable as error:
                said.add(str(error).partition("); ")[2])
                assert contents(postgres) == before
                place += 1
            else:
                break
        left = -1
        assert said == {"start the database or correct the URL; the controller goes on by itself"}
        assert place >= 2, "a statement and the commit at least"
        assert contents(postgres) != before or write == "record nothing"
        assert isinstance(ledger.verify(), Sound)


@pytest.mark.parametrize("reaches", [False, True], ids=["commit lost", "answer lost"])
@pytest.mark.parametrize("write", WRITES)
def test_a_commit_or_its_answer_is_lost(postgres: str, server: PostgresServer, write: str, *, reaches: bool) -> None:
    """The writer cannot know which it was; what it reads next is one or the other, and never half of it."""
    with Wire(server.port) as wire, led(wire.url(name_of(postgres))) as (ledger, term):
        before = contents(postgres)
        wire.lose = (wire.commits + 1, reaches)
        with pytest.raises(LedgerUnavailable, match="cannot be reached"):
            WRITES[write](ledger, term)
        assert wire.lost
        after = contents(postgres)
        assert (after != before) is (reaches and write != "record nothing")
        view = ledger.load()
        with ledger._engine.connect():
            pass  # the pool has thrown the broken connection away
        assert isinstance(ledger.verify(), Sound)
        ledger.record(ledger.take_term("pod-3"), [quarantined(9)])
        assert set(ledger.load().state.cases) == {*view.state.cases, "c-9"}
        assert isinstance(ledger.verify(), Sound), (
            "what is remembered of the head is not what the answer would have said"
        )


def test_what_a_person_asks_is_asked_once_however_often_it_is_sent(postgres: str, server: PostgresServer) -> None:
    with Wire(server.port) as wire, open_ledger(wire.url(name_of(postgres)), CLUSTER, now=now) as ledger:
        wire.lose = (wire.commits + 1, True)
        with pytest.raises(LedgerUnavailable):
            ledger.ask(request(1))
        ledger.ask(request(1))
        assert [asked.id for asked in ledger.load().requests] == [request(1).id]


# --- A server that says nothing ---------------------------------------------------------------------------------------


@pytest.fixture
def impatient(postgres: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Waits for tenths of a second."""
    monkeypatch.setattr(bounded, "GRACE_S", 0.3)
    return f"{postgres}?options=-cstatement_timeout%3D200&connect_timeout=2"


@pytest.mark.parametrize("write", WRITES)
def test_a_server_that_hangs_is_given_up(impatient: str, server: PostgresServer, postgres: str, write: str) -> None:
    """Its kernel still takes what is sent: no time-out of TCP's, of libpq's or of the server's own ends that."""
    with led(impatient) as (ledger, term):
        before, begun = contents(postgres), time.monotonic()
        with hanging(server):
            for _ in range(2):  # over the connection that is open, and over a new one
                with pytest.raises(LedgerUnavailable, match=r"does not answer .*see whether its machine") as caught:
                    WRITES[write](ledger, term)
                assert "\n" not in str(caught.value)
        assert time.monotonic() - begun < 15
        assert contents(postgres) == before
        WRITES[write](ledger, term)
        assert isinstance(ledger.verify(), Sound)


def test_a_server_that_hangs_in_the_middle_is_given_up(impatient: str, server: PostgresServer, postgres: str) -> None:
    with led(impatient) as (ledger, term), ExitStack() as stack:
        before = contents(postgres)

        def hang(*arguments: object) -> None:
            if "INSERT INTO decisions" in str(arguments[2]):
                stack.enter_context(hanging(server))

        event.listen(ledger._engine, "before_cursor_execute", hang)
        with pytest.raises(LedgerUnavailable, match="does not answer"):
            ledger.record(term, [quarantined(2)])
        event.remove(ledger._engine, "before_cursor_execute", hang)
        stack.close()
        with psycopg.connect(postgres) as other:  # waits for the lock of what was abandoned, if it is still held
            other.execute("SELECT * FROM clusters FOR UPDATE")
        assert contents(postgres) == before
        ledger.record(term, [quarantined(2)])
        assert isinstance(ledger.verify(), Sound)


def test_what_may_take_long_is_not_given_up(impatient: str) -> None:
    """A migration, or the rebuilding of tables; the next transaction over the same connection is hurried again."""
    engine = make_engine(impatient)
    try:
        with writing(engine) as connection:
            unhurried(connection)
            connection.exec_driver_sql("SELECT pg_sleep(0.8)")
        with pytest.raises(LedgerUnavailable, match="took too long"), writing(engine) as connection:
            connection.exec_driver_sql("SELECT pg_sleep(0.8)")
        with writing(engine) as connection:
            driver: Any = connection.connection.dbapi_connection
            assert driver.limit_s == pytest.approx(0.5)
    finally:
        engine.dispose()


def test_a_server_without_a_time_out_of_statements_is_waited_for(postgres: str) -> None:
    """Whoever lifts it by the URL, the role or the database wants it so."""
    engine = make_engine(f"{postgres}?options=-cstatement_timeout%3D0")
    with writing(engine) as connection:
        driver: Any = connection.connection.dbapi_connection
        assert driver.limit_s is None
    engine.dispose()


def test_a_process_that_was_paused_in_mid_transaction(postgres: str) -> None:
    """The server has ended the transaction meanwhile, so that nobody else waits for it."""
    with led(f"{postgres}?options=-cidle_in_transaction_session_timeout%3D50") as (ledger, term):
        before = contents(postgres)

        def pause(connection: Any, *arguments: object) -> None:
            if "INSERT INTO decisions" in str(arguments[1]):
                pid = connection.connection.dbapi_connection.info.backend_pid
                with psycopg.connect(postgres, autocommit=True) as other:
                    end = time.monotonic() + 20
                    while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone():
                        assert time.monotonic() < end
                        threading.Event().wait(0.02)

        event.listen(ledger._engine, "before_cursor_execute", pause)
        with pytest.raises(LedgerUnavailable, match="ended a transaction that stood still"):
            ledger.record(term, [quarantined(2)])
        event.remove(ledger._engine, "before_cursor_execute", pause)
        assert contents(postgres) == before
        ledger.record(term, [quarantined(2)])


# --- No primary, no room, no place ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def replica() -> Iterator[PostgresServer]:
    """A server that can be made a standby."""
    with PostgresServer(wal_level="replica", max_wal_senders="2") as made:
        upgrade(made.database("ledger"))
        yield made


def test_a_standby_can_be_read_and_work_goes_on_when_it_is_promoted(replica: PostgresServer) -> None:
    with led(replica.url_of("ledger")) as (ledger, term):
        demote(replica)
        for write in WRITES.values():
            with pytest.raises(LedgerUnavailable, match=r"is read-only .*point the URL at the primary"):
                write(ledger, term)
        assert set(ledger.load().state.cases) == {"c-1"}, "what stands can be told all the same"
        assert isinstance(ledger.verify(), Sound)
        promote(replica)
        for name, write in WRITES.items():
            if name != "take_term":
                write(ledger, term)
        assert isinstance(ledger.verify(), Sound)


def test_a_connection_that_leads_to_a_former_primary_is_left(postgres: str, server: PostgresServer) -> None:
    """A failover by name or by a proxy leaves it open: only a new connection finds the server that takes writes."""
    name = name_of(postgres)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")  # for connections from now on
        with open_ledger(postgres, CLUSTER, now=now) as ledger:
            with pytest.raises(LedgerUnavailable, match="is read-only"):
                ledger.take_term("pod-1")
            with pytest.raises(LedgerUnavailable, match="is read-only"):
                ledger.take_term("pod-1")
            admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
            with suppress(LedgerUnavailable):  # over the old one, at most once
                ledger.take_term("pod-1")
            assert ledger.take_term("pod-1") in (1, 2)


def until_refused(ledger: SqlLedger, term: int) -> tuple[int, str]:
    """Decide and decide; how often that was kept, and what was said then."""
    for number in range(20_000):
        try:
            ledger.record(term, [quarantined(100 + number)])
        except LedgerUnavailable as error:
            return number, str(error)
    raise AssertionError("there is room for any number of decisions")


def test_a_disk_that_is_full(tmp_path_factory: pytest.TempPathFactory) -> None:
    with ExitStack() as stack:
        folder = Path(gettempdir()) / f"quarantine-small-{tmp_path_factory.getbasetemp().name}"
        room = stack.enter_context(small_disk(folder, 200))
        server = stack.enter_context(PostgresServer(parent=room, max_wal_size="32MB"))
        url = server.database("ledger")
        upgrade(url)
        ledger, term = stack.enter_context(led(url))
        with without_room(server, room, url):
            written, said = until_refused(ledger, term)
            assert "has no disk space left" in said
            assert "make room; the controller goes on by itself" in said
            before = contents(url)
            assert len(before["decisions"]) == 1 + written, "what was said to be kept, and no more"
            assert len(ledger.load().state.cases) == 1 + written, "it can be read"
        ledger.record(term, [quarantined(100 + written)])
        assert ledger.verify() == Sound(2 + written, list(ledger.decisions())[-1].hash)


def test_a_sqlite_file_that_may_not_grow(sqlite: str) -> None:
    with led(sqlite) as (ledger, term):
        ledger.close()
        limit = event.listens_for(ledger._engine, "connect")(_small)
        written, said = until_refused(ledger, term)
        assert "has no disk space left" in said
        assert len(list(ledger.decisions())) == 1 + written
        event.remove(ledger._engine, "connect", limit)
        ledger.close()
        ledger.record(term, [quarantined(100 + written)])
        assert isinstance(ledger.verify(), Sound)


def _small(connection: Any, _: object) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 20}")


def test_no_connection_is_left(postgres: str, server: PostgresServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as admin, open_ledger(postgres, CLUSTER, now=now) as ledger:
        admin.execute(f"ALTER DATABASE {name_of(postgres)} CONNECTION LIMIT 0")
        admin.execute("DROP ROLE IF EXISTS plain")
        admin.execute("CREATE ROLE plain LOGIN")
        try:
            with (
                open_ledger(postgres.replace("quarantine@", "plain@"), CLUSTER, now=now) as mine,
                pytest.raises(LedgerUnavailable, match=r"has no connection left .*max_connections"),
            ):
                mine.load()
        finally:
            admin.execute("DROP ROLE plain")
        admin.execute(f"ALTER DATABASE {name_of(postgres)} CONNECTION LIMIT -1")
        assert ledger.take_term("pod-1") == 1


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("53200", "has run out of memory or of another resource"),
        ("53400", "has run out of memory or of another resource"),
        ("XX001", "is damaged"),
        ("XX000", r"failed .*read the database's log"),
        ("57P02", "cannot be reached"),
        ("40P01", "aborted a transaction in favour of another one"),
        ("42P05", r"loses prepared statements .*\?prepare_threshold=none"),
        ("26000", r"loses prepared statements .*\?prepare_threshold=none"),
    ],
)
def test_what_a_server_says_of_itself(postgres: str, state: str, said: str) -> None:
    """An internal error is no damage: nobody is to restore a backup over it."""
    engine = make_engine(postgres)
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'it went wrong' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(LedgerUnavailable, match=said), writing(engine) as connection:
        connection.exec_driver_sql(raising)
    engine.dispose()


@pytest.mark.parametrize(("given", "after"), [("", 5), ("?prepare_threshold=none", None), ("?prepare_threshold=2", 2)])
def test_prepared_statements_can_be_done_without(postgres: str, given: str, after: int | None) -> None:
    """For poolers that give every transaction another connection."""
    engine = make_engine(f"{postgres}{given}")
    with writing(engine) as connection:
        driver: Any = connection.connection.dbapi_connection
        assert driver.prepare_threshold == after
        for number in range(8):
            connection.exec_driver_sql("SELECT %s::int", (number,))
        there = connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()
        assert (there > 0) is (after is not None)
    engine.dispose()


def test_a_wrong_number_of_uses_is_a_mistake_of_usage() -> None:
    with pytest.raises(UsageError, match="prepare_threshold=soon: write none, or a number"):
        make_engine("postgresql://h/d?prepare_threshold=soon")


def test_a_pooler_that_refuses_the_settings_of_a_connection(postgres: str) -> None:
    """As pgbouncer says it, and what to do about it."""
    said = 'connection to server at "h" failed: FATAL:  unsupported startup parameter: options'
    url = make_url(postgres)
    with pytest.raises(LedgerUnavailable, match=r"ignore_startup_parameters = options"), translated(url):
        raise OperationalError("", None, psycopg.OperationalError(said))


# --- Another schema, under a process that runs ------------------------------------------------------------------------


@pytest.mark.parametrize("found", ["9999", "0001"])
@pytest.mark.parametrize("write", WRITES)
def test_a_schema_that_changed_since_the_last_look_is_not_written(url: str, write: str, found: str) -> None:
    """Between the reading and the writing of a cycle somebody migrates: a row of this version may not fit any more."""
    engine = make_engine(url)
    with led(url) as (ledger, term):
        ledger.load()
        with writing(engine) as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :found"), {"found": found})
        before = contents(url)
        with pytest.raises(SchemaMismatch, match="newer" if found == "9999" else "older"):
            WRITES[write](ledger, term)
        assert contents(url) == before
        with writing(engine) as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :ours"), {"ours": REVISION})
        WRITES[write](ledger, term)
    engine.dispose()


# --- For hours --------------------------------------------------------------------------------------------------------


def test_tries_in_vain_leave_nothing_behind(server: PostgresServer, postgres: str) -> None:
    """Neither memory nor connections."""
    with Wire(server.port) as wire, led(wire.url(name_of(postgres))) as (ledger, term):

        def tries(count: int) -> int:
            for _ in range(count):
                wire.lose = (wire.commits + 1, False)
                with pytest.raises(LedgerUnavailable):
                    ledger.record(term, [])
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            early = tries(40)
            late = tries(200)
        finally:
            tracemalloc.stop()
        assert late - early < 200_000, "bytes, after two hundred more"
        wire.lose = None
        ledger.record(term, [quarantined(2)])
        with psycopg.connect(server.url) as admin:
            count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
            assert admin.execute(count, [name_of(postgres)]).fetchone() == (1,)


# --- Put back under a process that runs -------------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [True, False], ids=["it looks", "it writes at once"])
def test_what_was_kept_before_the_ledger_was_put_back_is_kept_again(
    postgres: str, server: PostgresServer, *, looks: bool
) -> None:
    """The same process decides by the same text, which the backup does not have."""
    name = name_of(postgres)
    try:
        with led(postgres) as (ledger, term):
            back_up(server, name)
            ledger.record(term, [quarantined(2)], [policy("hot", "a version")])
            restore(server, name)
            if looks:
                assert set(ledger.load().state.cases) == {"c-1"}
            ledger.record(term, [quarantined(3)], [policy("hot", "a version")])
            assert set(ledger.load().state.cases) == {"c-1", "c-3"}
            assert [row[1] for row in contents(postgres)["policy_versions"]] == [policy("hot", "a version").hash]
            assert isinstance(ledger.verify(), Sound)
    finally:
        server.drop(f"{name}_kept")
