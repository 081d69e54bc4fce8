"""A ledger of every earlier revision, with the rows that the code of that revision wrote, brought to this one.

`earlier/NNNN.json` is what the last code of that revision had written, by table, after one story: three machines are
taken out, one with effects that could not be carried out yet, one is released on request, one is put back by hand; a
policy has no answer for a while, a person opens a case, and asks for something that is not answered yet. 0004 has a
waiver and a pause as well.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, Engine, MetaData, Table, func, insert, inspect, select
from sqlalchemy.schema import sort_tables

from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Decision
from quarantine.core.errors import SchemaMismatch, Superseded
from quarantine.core.record.milestones import Fate
from quarantine.ledger import drift, migrate, rebuild, schema, staging
from quarantine.ledger.engine import make_engine, reading, writing
from quarantine.ledger.records import milestones_of, span_of
from quarantine.ledger.schema import METADATA, REVISION
from quarantine.ledger.store import open_ledger
from quarantine.ledger.verify import Sound
from tests.ledger.samples import CLUSTER, NOW, outcome, paused, quarantined

EARLIER = ("0001", "0002", "0003", "0004")
AFTER = NOW + timedelta(hours=2)  # the story is over
FILES = Path(__file__).parent / "earlier"
RECORDS = ("milestones", "hold_spans", "machines", "sightings", "tickets")


@pytest.fixture(params=EARLIER)
def revision(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def old_url(empty_url: str, revision: str) -> str:
    """A database of each dialect at an earlier revision, with its rows."""
    install(empty_url, revision)
    return empty_url


def test_every_earlier_revision_is_known() -> None:
    """Whoever adds a migration keeps what the code before it wrote."""
    assert [path.stem for path in sorted(FILES.iterdir())] == list(EARLIER)
    assert all(number < REVISION for number in EARLIER)


def test_what_was_there_is_there(old_url: str, revision: str) -> None:
    before = rows_of(old_url)
    with pytest.raises(SchemaMismatch, match="older"):
        migrate.check(old_url)
    assert migrate.upgrade(old_url) == (revision, REVISION)
    assert drift.differences(old_url) == []
    after = rows_of(old_url)
    for table, rows in before.items():
        if table == "clusters":
            assert [row["seq"] for row in rows] == [row["seq"] for row in after[table]]
        else:
            assert [{**row, **was} for row, was in zip(after[table], rows, strict=True)] == after[table], table
    with open_ledger(old_url, CLUSTER, now=lambda: AFTER) as ledger:
        found = ledger.verify()
        assert isinstance(found, Sound)
        assert found.count == len(before["decisions"])
        view = ledger.load()
        phases = {case.node: case.phase for case in view.state.cases.values()}
        assert phases["node-1"] is Phase.RELEASED
        assert phases["node-2"] is Phase.DISMISSED
        assert phases["node-3"] is Phase.QUARANTINED
        assert {(effect.case, effect.effect) for effect in view.pending} >= {
            (case.id, Effect.MARK) for case in view.state.cases.values() if case.node == "node-3"
        }
        assert "r-9" in {request.id for request in view.requests}
        ledger.record(ledger.take_term("pod-2"), [paused("all", at=AFTER)])
        assert "pause/all" in ledger.load().state.words


def test_what_was_not_kept_is_made_from_the_decisions(old_url: str, revision: str) -> None:
    migrate.upgrade(old_url)
    engine = make_engine(old_url)
    with reading(engine) as connection:
        times = {row.node: milestones_of(row) for row in connection.execute(select(schema.milestones))}
        held = [span_of(row) for row in connection.execute(select(schema.hold_spans))]
        filed = {row.ref: row for row in connection.execute(select(schema.tickets))}
        machines = {row.key: row for row in connection.execute(select(schema.machines))}
        names = {(row.value, row.node_uid): row for row in connection.execute(select(schema.sightings))}
        last = connection.execute(select(func.max(schema.decisions.c.seq))).scalar_one()
    assert times["node-1"].out_at == times["node-1"].opened_at == NOW
    assert times["node-1"].marked_at == times["node-1"].ticket_at == NOW + timedelta(seconds=20)
    assert times["node-1"].fate is Fate.RETURNED
    assert times["node-2"].fate is Fate.REFUTED
    assert times["node-3"].marked_at is None
    assert times["node-5"].by_person
    assert {span.key for span in held} >= {"judge/gpu-hot"}
    assert all(span.until is None or span.until >= span.since for span in held)
    assert filed["INC-node-1"].closed_at is not None or revision < "0004", "before it no ticket was closed"
    assert "system-uuid:sys-node-3" in machines
    assert names["node-3", "uid-node-3"].first_seq <= names["acme://node-3", "uid-node-3"].last_seq <= last
    assert ("GPU-node-1-3", "uid-node-1") in names, "which evidence named"
    made = rebuild.rebuild(engine, CLUSTER, now=AFTER)
    engine.dispose()
    assert not made.unfit
    assert not made.counted.keys() & set(RECORDS)


def test_what_this_version_knows_better_is_a_rebuild_away(old_url: str) -> None:
    """An open case that an earlier version wrote lacks what that version did not tell; nothing else differs."""
    migrate.upgrade(old_url)
    with engine_of(old_url) as engine:
        before = rebuild.rebuild(engine, CLUSTER, now=AFTER)
        assert all(name.startswith("body.") for one in before.differences for name in one.should_be or {"no row"})
        assert rebuild.rebuild(engine, CLUSTER, now=AFTER, write=True).written is not before.sound
        assert rebuild.rebuild(engine, CLUSTER, now=AFTER).sound


def test_it_goes_on_from_there(old_url: str) -> None:
    migrate.upgrade(old_url)
    with open_ledger(old_url, CLUSTER, now=lambda: AFTER) as ledger:
        term = ledger.take_term("pod-2")
        (mark,) = (p for p in ledger.load().pending if p.effect is Effect.MARK)
        ledger.settle(term, mark.key, marked(mark.case))
        ledger.record(term, [quarantined(77, at=AFTER)])
    engine = make_engine(old_url)
    with reading(engine) as connection:
        chosen = select(schema.milestones).where(schema.milestones.c.case_id == mark.case)
        assert milestones_of(connection.execute(chosen).one()).marked_at == AFTER
    made = rebuild.rebuild(engine, CLUSTER, now=AFTER)
    engine.dispose()
    assert not made.counted.keys() & set(RECORDS)


def test_a_controller_of_the_earlier_version_writes_no_more(old_url: str) -> None:
    """What it would write is not in the tables that it does not know."""
    term = rows_of(old_url)["clusters"][0]["term"]
    migrate.upgrade(old_url)
    with open_ledger(old_url, CLUSTER, now=lambda: AFTER) as ledger, pytest.raises(Superseded):
        ledger.record(term, [quarantined(77, at=AFTER)])


def test_two_upgrade_it_at_once(old_url: str, revision: str) -> None:
    together = threading.Barrier(2)

    def start(_: int) -> tuple[str | None, str]:
        together.wait(timeout=30)
        return migrate.upgrade(old_url)

    with ThreadPoolExecutor(2) as pool:
        results = sorted(pool.map(start, range(2)), key=str)
    assert results == [(revision, REVISION), (REVISION, REVISION)]
    with engine_of(old_url) as engine:
        made = rebuild.rebuild(engine, CLUSTER, now=AFTER)
    assert not made.counted.keys() & set(RECORDS)


def test_a_breakdown_in_the_middle_leaves_nothing(old_url: str, revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows_of(old_url)
    copy = staging.Staging.copy
    copied: list[str] = []

    def broken(self: staging.Staging, table: Table, cluster: str) -> None:
        copy(self, table, cluster)
        copied.append(table.name)
        if len(copied) == 3:
            raise RuntimeError("the pod was evicted")

    monkeypatch.setattr(staging.Staging, "copy", broken)
    with pytest.raises(RuntimeError, match="evicted"):
        migrate.upgrade(old_url)
    monkeypatch.undo()
    assert rows_of(old_url) == before
    assert migrate.upgrade(old_url) == (revision, REVISION)
    assert drift.differences(old_url) == []


@pytest.mark.parametrize("revision", ["0004"], indirect=True)
def test_a_decision_that_cannot_be_read_is_in_no_way_of_an_upgrade(old_url: str) -> None:
    """`audit verify` and `db rebuild` name it: they need the upgrade first."""
    with engine_of(old_url) as engine, writing(engine) as connection:
        newest = select(schema.decisions).order_by(schema.decisions.c.seq.desc()).limit(1)
        row = dict(connection.execute(newest).mappings().one())
        row |= {"seq": row["seq"] + 1, "prev_hash": row["hash"], "hash": "0" * 64, "body": "{}"}
        connection.execute(insert(schema.decisions), [row])
        connection.execute(schema.clusters.update().values(seq=row["seq"], hash=row["hash"]))
    migrate.upgrade(old_url)
    with engine_of(old_url) as engine:
        made = rebuild.rebuild(engine, CLUSTER, now=AFTER)
        written = rebuild.rebuild(engine, CLUSTER, now=AFTER, write=True)
    assert [seq for seq, _ in made.unfit] == [row["seq"]]
    assert "cannot be read" in made.unfit[0][1]
    assert not made.sound
    assert not written.written


def install(url: str, revision: str) -> None:
    """The tables of an earlier revision, and in them the rows of its code."""

    def only_so_far(connection: Connection) -> None:
        command.upgrade(migrate.config(connection), revision)

    given: Mapping[str, Sequence[dict[str, Any]]] = json.loads((FILES / f"{revision}.json").read_text())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(migrate, "_run", only_so_far)
        patched.setattr(rebuild, "backfill", lambda _: None)
        migrate.upgrade(url)
    with engine_of(url) as engine, writing(engine) as connection:
        for table in sort_tables([METADATA.tables[name] for name in given]):
            connection.execute(insert(table), [typed(table, row) for row in given[table.name]])


def typed(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    times = {column.name for column in table.c if isinstance(column.type, schema.UtcDateTime)}
    return {name: datetime.fromisoformat(value) if value and name in times else value for name, value in row.items()}


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    made = make_engine(url)
    yield made
    made.dispose()


def marked(case: str) -> Decision:
    return replace(outcome(Effect.MARK, 3, by_us=True), at=AFTER, case=case)


def rows_of(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, by the tables that are there."""
    with engine_of(url) as engine, reading(engine) as connection:
        there = inspect(connection).get_table_names()
        found = MetaData()
        found.reflect(connection, only=[name for name in there if name != "alembic_version"])
        return {
            table.name: [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
            for table in found.sorted_tables
        }
