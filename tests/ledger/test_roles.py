"""Postgres' roles: the writer does all that the controller does, and nobody but the owner gets at the trail."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import psycopg
import pytest
from psycopg import errors, sql

from quarantine.core.case import Effect
from quarantine.core.decision import Kind
from quarantine.core.errors import LedgerUnavailable, UsageError
from quarantine.core.rulefiles import PolicyRun, RuleFile
from quarantine.ledger import guards, migrate
from quarantine.ledger.engine import make_engine, reading
from quarantine.ledger.grants import Roles, script
from quarantine.ledger.rebind import Rebound, rebind
from quarantine.ledger.rebuild import rebuild
from quarantine.ledger.schema import METADATA
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.verify import Broken, Sound
from quarantine.ledger.views import VIEWS
from quarantine.sandbox.postgres import PostgresServer
from tests.ledger.samples import CLUSTER, NOW, dismissed, ended, held, now, outcome, paused, policy, quarantined
from tests.ledger.samples import request as asked

OWNER = "the owner"
ROLES = Roles("the writer", 'a "requester"', "reader-1")
COPY = (
    "INTO decisions SELECT cluster, {seq}, hash, prev_hash, '{{}}', at, kind, action, case_id, node, node_uid, device, "
    "pool, policy, verdict, held_by, actor, reason FROM decisions WHERE seq = 1"
)


_number = itertools.count()


@dataclass(frozen=True, slots=True)
class Place:
    """The database's URL for each of them."""

    owner: str
    writer: str
    requester: str
    reader: str


@pytest.fixture(scope="session")
def granted(server: PostgresServer) -> str:
    """Made as docs/database.md says: an owner that is no superuser migrates, and runs what `db grants` prints."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        for name in (OWNER, *(name for _, name in ROLES.named())):
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    url = server.database("granted")
    own(url)
    migrate.upgrade(of(OWNER, url))
    grant(of(OWNER, url))
    return "granted"


@pytest.fixture
def place(server: PostgresServer, granted: str) -> Iterator[Place]:
    """A database of this test's own."""
    name = f"roles_{next(_number)}"
    url = server.database(name, template=granted)
    own(url)
    yield Place(of(OWNER, url), *(of(role, url) for _, role in ROLES.named()))
    server.drop(name)


def of(user: str, url: str) -> str:
    return url.replace("quarantine@", f"{quote(user)}@")


def own(url: str) -> None:
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(name), sql.Identifier(OWNER)))


def grant(owner: str) -> None:
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(script(ROLES).encode())


@pytest.fixture
def ledger(place: Place) -> Iterator[SqlLedger]:
    """The controller's, with three rows of a trail."""
    with open_ledger(place.writer, CLUSTER, now=now) as opened:
        opened.record(opened.take_term("pod-1"), [quarantined(1), quarantined(2), held("x")], [policy()])
        yield opened


def test_who_can_write_can_rebind_and_nobody_else(place: Place) -> None:
    """The controller's role, which keeps whose the trail is, and the owner."""
    for url in (place.writer, place.owner):
        with open_ledger(url, CLUSTER, now=now) as ledger:
            ledger.take_term("pod-1", "uid-1")
        for role in (place.requester, place.reader):
            with pytest.raises(LedgerUnavailable, match="does not let this user do that"):
                rebound(role)
        assert rebound(url) is not None


def rebound(url: str) -> Rebound | None:
    engine = make_engine(url)
    try:
        return rebind(engine, CLUSTER, reason="made anew", actor="ada (cli)", now=NOW)
    finally:
        engine.dispose()


def test_the_writer_lives_the_whole_life_of_a_ledger(place: Place) -> None:
    migrate.check(place.writer)
    file = RuleFile("hot.yaml", "kind: Policy\n", "ab" * 32, None, NOW)
    with open_ledger(place.writer, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        ledger.record(term, [])
        ledger.keep_rules(term, [file], {"gpu-hot": PolicyRun("ab" * 32, 1)})
        ledger.record(term, [quarantined(1), quarantined(2), held("x"), held("y"), paused("all")], [policy()])
        ledger.attempt(term, "c-1/mark", NOW)
        ledger.postpone(term, "c-1/mark", "a conflict")
        for effect in (Effect.MARK, Effect.EVENT, Effect.TICKET, Effect.NOTIFY):
            ledger.settle(term, f"c-1/{effect}", outcome(effect, ref="T-1" if effect is Effect.TICKET else ""))
        ledger.settle(term, "c-2/mark", outcome(Effect.MARK, 2, kind=Kind.FAILED))
        ledger.ask(asked(1))
        assert ledger.waiting() == {"r-1"}
        ledger.record(term, [ended(1, request="r-1"), dismissed(2), held("x", None)], [policy(text="new")])
        ledger.keep_rules(term, [], {})
        ledger.take_term("pod-2")
        view = ledger.load()
        assert (view.requests, ledger.waiting()) == ((), frozenset())
        assert set(view.state.holds) == {"y"}
        assert view.state.answered == {"r-1"}
        assert isinstance(ledger.verify(), Sound)


def test_the_writer_rebuilds(place: Place, ledger: SqlLedger) -> None:
    before = ledger.load().state
    with psycopg.connect(place.writer, autocommit=True) as connection:
        connection.execute("DELETE FROM holds")
        connection.execute("UPDATE cases SET phase = 'released'")
    engine = make_engine(place.writer)
    found = rebuild(engine, CLUSTER, now=NOW, write=True)
    assert found.written
    assert rebuild(engine, CLUSTER, now=NOW).sound
    engine.dispose()
    with open_ledger(place.writer, CLUSTER, now=now) as anew:
        assert anew.load().state == before


@pytest.mark.parametrize("who", ["requester", "reader"])
def test_who_reads_reads_everything(place: Place, ledger: SqlLedger, who: str) -> None:
    with open_ledger(getattr(place, who), CLUSTER, now=now) as reader:
        assert reader.load() == ledger.load()
        assert len(list(reader.decisions())) == 3
        assert isinstance(reader.verify(), Sound)
        assert reader.rule_files() == ()
        with pytest.raises(LedgerUnavailable, match="does not let this user do that"):
            reader.take_term("pod-9")
        with pytest.raises(LedgerUnavailable, match="permission denied"):
            reader.record(1, [held("z")])
    with psycopg.connect(getattr(place, who)) as connection:
        for name in (*METADATA.tables, *VIEWS):
            connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name)))
    engine = make_engine(getattr(place, who))
    with reading(engine) as seen:
        assert guards.differences(seen) == []
    engine.dispose()


def test_a_requester_asks_and_a_reader_does_not(place: Place, ledger: SqlLedger) -> None:
    with open_ledger(place.requester, CLUSTER, now=now) as people:
        people.ask(asked(1))
        people.ask(asked(1))
    with open_ledger(place.reader, CLUSTER, now=now) as dashboard, pytest.raises(LedgerUnavailable, match="permission"):
        dashboard.ask(asked(2))
    assert ledger.load().requests == (asked(1),)


def test_a_requester_can_neither_answer_nor_take_back_nor_hide(place: Place, ledger: SqlLedger) -> None:
    ledger.ask(asked(1))
    with psycopg.connect(place.requester, autocommit=True) as connection:
        for statement in (
            "UPDATE requests SET answered_seq = 1",
            "UPDATE requests SET body = '{}'",
            "DELETE FROM requests",
            "INSERT INTO requests SELECT cluster, 'r-9', kind, node, reason, actor, channel, at, body, 1 FROM requests",
            "INSERT INTO requests (cluster, id, kind, node, reason, actor, channel, at, body) "
            "SELECT cluster, id, kind, node, '', actor, channel, at, '{}' FROM requests "
            "ON CONFLICT (cluster, id) DO UPDATE SET body = EXCLUDED.body",
        ):
            refused(connection, statement)
    assert ledger.load().requests == (asked(1),)


def test_the_writer_answers_requests_and_changes_nothing_else_of_them(place: Place, ledger: SqlLedger) -> None:
    ledger.ask(asked(1))
    with psycopg.connect(place.writer, autocommit=True) as connection:
        for statement in ("UPDATE requests SET body = '{}'", "UPDATE requests SET actor = 'x'", "DELETE FROM requests"):
            refused(connection, statement)


# --- nobody but the owner gets at the trail ---------------------------------------------------------------------------

BREAK_IN = [
    "UPDATE decisions SET body = 'x'",
    "UPDATE decisions SET seq = seq WHERE false",
    "DELETE FROM decisions WHERE seq = 2",
    "TRUNCATE decisions CASCADE",
    "TRUNCATE policy_versions",
    "UPDATE policy_versions SET text = 'x'",
    "DELETE FROM policy_versions",
    f"INSERT {COPY.format(seq=1)} ON CONFLICT (cluster, seq) DO UPDATE SET body = EXCLUDED.body",
    "MERGE INTO decisions d USING (SELECT 1) x ON d.seq = 1 WHEN MATCHED THEN DELETE",
    "MERGE INTO decisions d USING (SELECT 1) x ON d.seq = 1 WHEN MATCHED THEN UPDATE SET body = 'x'",
    "WITH gone AS (DELETE FROM decisions RETURNING *) SELECT count(*) FROM gone",
    "SELECT * FROM decisions FOR UPDATE",
    "ALTER TABLE decisions DISABLE TRIGGER ALL",
    "ALTER TABLE decisions DISABLE TRIGGER decisions_append_only",
    "ALTER TABLE decisions ENABLE REPLICA TRIGGER decisions_append_only",
    "ALTER TABLE decisions RENAME TO gone",
    "ALTER TABLE decisions ALTER COLUMN body TYPE text USING 'x'",
    "ALTER TABLE decisions OWNER TO CURRENT_USER",
    "ALTER TABLE decisions ENABLE ROW LEVEL SECURITY",
    "DROP TRIGGER decisions_append_only ON decisions",
    "DROP TABLE decisions CASCADE",
    "DROP FUNCTION quarantine_append_only() CASCADE",
    "CREATE OR REPLACE FUNCTION quarantine_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE RULE away AS ON INSERT TO decisions DO INSTEAD NOTHING",
    "CREATE RULE away AS ON INSERT TO decisions DO ALSO DELETE FROM decisions",
    "CREATE TRIGGER first BEFORE INSERT ON decisions FOR EACH ROW EXECUTE FUNCTION quarantine_append_only()",
    "CREATE TABLE child () INHERITS (decisions)",
    "CREATE VIEW mine AS SELECT * FROM decisions",
    "CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "DO $$ BEGIN EXECUTE 'DELETE FROM decisions'; END $$",
    "SET session_replication_role = replica",
    "SET SESSION AUTHORIZATION quarantine",
    'SET ROLE "the owner"',
    "COPY decisions FROM '/etc/passwd'",
    "COPY decisions TO PROGRAM 'cat'",
    "UPDATE pg_trigger SET tgenabled = 'D'",
    "UPDATE pg_class SET relacl = NULL WHERE relname = 'decisions'",
]


@pytest.mark.parametrize("who", ["writer", "requester", "reader"])
def test_nobody_else_gets_at_the_trail(place: Place, ledger: SqlLedger, who: str) -> None:
    before = list(ledger.decisions())
    with psycopg.connect(getattr(place, who), autocommit=True) as connection:
        connection.execute("GRANT DELETE, UPDATE, TRIGGER ON decisions TO CURRENT_USER")  # gives nothing, says nothing
        for statement in BREAK_IN:
            refused(connection, statement)
        for name in VIEWS:
            refused(connection, f"DELETE FROM {name}", also=errors.ObjectNotInPrerequisiteState)  # noqa: S608  (ours)
        if who != "writer":
            refused(connection, f"INSERT {COPY.format(seq=4)}")
            refused(connection, "UPDATE clusters SET hash = ''")
            refused(connection, "DELETE FROM cases")
    assert list(ledger.decisions()) == before
    assert isinstance(ledger.verify(), Sound)


def refused(
    connection: psycopg.Connection, statement: str, also: type[psycopg.Error] = errors.InsufficientPrivilege
) -> None:
    """For want of a right: what merely fails, or does nothing, is not refused."""
    try:
        connection.execute(statement.encode())
    except (errors.InsufficientPrivilege, also):
        return
    except psycopg.Error as error:
        raise AssertionError(f"{statement}: {error}") from error
    raise AssertionError(f"{statement} was done")


@pytest.mark.parametrize("seq", [1, 2])
def test_the_writer_cannot_put_a_row_in_the_place_of_another(place: Place, ledger: SqlLedger, seq: int) -> None:
    with psycopg.connect(place.writer, autocommit=True) as connection, pytest.raises(errors.UniqueViolation):
        connection.execute(f"INSERT {COPY.format(seq=seq)}".encode())
    assert isinstance(ledger.verify(), Sound)


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        (f"INSERT {COPY.format(seq=0)}", 0),
        (f"INSERT {COPY.format(seq=-5)}", -5),
        (f"INSERT {COPY.format(seq=4)}", 4),
        (f"INSERT {COPY.format(seq=99)}", 4),
        ("UPDATE clusters SET seq = 2", 2),
        ("UPDATE clusters SET hash = repeat('0', 64)", 3),
    ],
)
def test_what_a_writer_still_can_is_found(place: Place, ledger: SqlLedger, statement: str, seq: int) -> None:
    with psycopg.connect(place.writer, autocommit=True) as connection:
        connection.execute(statement.encode())
    found = ledger.verify()
    assert isinstance(found, Broken)
    assert found.seq == seq


def test_the_owner_is_refused_until_it_switches_the_triggers_off(place: Place, ledger: SqlLedger) -> None:
    with psycopg.connect(place.owner, autocommit=True) as connection:
        for statement in BREAK_IN[:11]:
            if "WHERE false" not in statement:
                with pytest.raises(errors.RestrictViolation):
                    connection.execute(statement.encode())
        connection.execute("CREATE VIEW mine AS SELECT * FROM decisions")
        for statement in ("UPDATE mine SET body = 'x'", "DELETE FROM mine"):
            with pytest.raises(errors.RestrictViolation):
                connection.execute(statement.encode())
        connection.execute("ALTER TABLE decisions DISABLE TRIGGER USER")
        connection.execute("UPDATE decisions SET reason = 'it was not us' WHERE seq = 2")
    assert ledger.verify() == Broken(2, "was altered: its column reason does not say what its text says")


# --- the script -------------------------------------------------------------------------------------------------------


def test_running_it_again_takes_away_what_was_given_besides(place: Place, ledger: SqlLedger) -> None:
    with psycopg.connect(place.owner, autocommit=True) as connection:
        connection.execute('GRANT ALL ON decisions TO "the writer", "reader-1", PUBLIC')
        connection.execute('GRANT UPDATE (body) ON decisions TO "reader-1"')
        connection.execute('GRANT CREATE ON SCHEMA public TO "reader-1", PUBLIC')
    grant(place.owner)
    grant(place.owner)
    with psycopg.connect(place.owner) as connection:
        rights = connection.execute(
            "SELECT grantee, privilege_type FROM information_schema.role_table_grants "
            "WHERE table_name = 'decisions' AND grantee <> 'the owner' ORDER BY 1, 2"
        ).fetchall()
        assert rights == [
            ('a "requester"', "SELECT"),
            ("reader-1", "SELECT"),
            ("the writer", "INSERT"),
            ("the writer", "SELECT"),
        ]
    with psycopg.connect(place.reader, autocommit=True) as connection:
        refused(connection, "UPDATE decisions SET body = 'x'")
        refused(connection, "CREATE TABLE x (y integer)")


def test_tables_of_later_versions_are_read_by_all_and_written_by_none(place: Place) -> None:
    with psycopg.connect(place.owner, autocommit=True) as connection:
        connection.execute("CREATE TABLE later (x integer)")
        connection.execute("CREATE VIEW later_view AS SELECT * FROM later")
    for user in (place.writer, place.requester, place.reader):
        with psycopg.connect(user, autocommit=True) as connection:
            connection.execute("SELECT * FROM later, later_view")
            refused(connection, "INSERT INTO later VALUES (1)")


def test_every_table_is_somebodys(place: Place) -> None:
    """A table that is added is a projection, or must be named in `grants`."""
    with psycopg.connect(place.owner) as connection:
        found = connection.execute(
            "SELECT c.relname, has_table_privilege('the writer', c.oid, 'INSERT'), "
            "has_table_privilege('the writer', c.oid, 'UPDATE'), has_table_privilege('the writer', c.oid, 'DELETE') "
            "FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v')"
        ).fetchall()
    rights = {name: (insert, update, delete) for name, insert, update, delete in found}
    assert rights.keys() == {*METADATA.tables, *VIEWS, "alembic_version"}
    special = {
        "decisions": (True, False, False),
        "policy_versions": (True, False, False),
        "clusters": (True, True, False),
        "requests": (True, False, False),
    }
    projections = dict.fromkeys(METADATA.tables, (True, True, True))
    only_read = dict.fromkeys((*VIEWS, "alembic_version"), (False, False, False))
    assert rights == {**projections, **only_read, **special}


def test_another_schema(empty_postgres: str, granted: str) -> None:
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "my ledger"')
    url = f'{empty_postgres}?options=-csearch_path%3D"my%5C%20ledger"'
    migrate.upgrade(url)
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute(script(ROLES, "my ledger").encode())
    with open_ledger(of("the writer", url), CLUSTER, now=now) as ledger:
        ledger.record(ledger.take_term("pod-1"), [quarantined(1)])
        assert isinstance(ledger.verify(), Sound)


@pytest.mark.parametrize(
    ("roles", "schema", "said"),
    [
        (Roles(), "public", "name at least one role: --writer, --requester or --reader"),
        (Roles(writer=""), "public", "--writer '' is no name"),
        (Roles(reader="x" * 64), "public", "1 to 63 plain characters"),
        (Roles(reader="ä" * 32), "public", "1 to 63 plain characters"),
        (Roles(reader="a\n; DROP TABLE decisions; --"), "public", "is no name"),
        (Roles(reader="a\x00"), "public", "is no name"),
        (Roles(reader="public"), "public", "--reader public: Postgres keeps that name to itself"),
        (Roles(reader="pg_monitor"), "public", "Postgres keeps that name to itself"),
        (Roles("a", "a"), "public", "each role needs a name of its own"),
        (Roles("a"), "", "--schema '' is no name"),
    ],
)
def test_names_that_cannot_be_meant_are_refused(roles: Roles, schema: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        script(roles, schema)
    assert said in str(raised.value)


def test_a_name_is_quoted_whatever_it_is(empty_postgres: str) -> None:
    evil = 'x"; DROP TABLE decisions; --'
    migrate.upgrade(empty_postgres)
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(evil)))
        try:
            connection.execute(script(Roles(writer=evil)).encode())
            allowed = connection.execute("SELECT has_table_privilege(%s, 'decisions', 'INSERT')", (evil,)).fetchone()
            assert allowed == (True,)
        finally:
            connection.execute(sql.SQL("DROP OWNED BY {0}").format(sql.Identifier(evil)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(evil)))
