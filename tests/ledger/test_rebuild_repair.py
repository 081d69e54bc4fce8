"""Tables that do not say what the decisions add up to: found, told, made so; and what else such a repair must keep."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, Table, delete, insert, select, update
from typer.testing import CliRunner

from quarantine.cli.main import app
from quarantine.core.case import Effect, Phase
from quarantine.core.decision import ACTION_OF, Action, Census, Decision, Kind
from quarantine.core.errors import Superseded
from quarantine.ledger import answers
from quarantine.ledger import rebuild as module
from quarantine.ledger.engine import make_engine, reading, writing
from quarantine.ledger.rebuild import Difference, Rebuilt, rebuild
from quarantine.ledger.schema import actions, cases, clusters, decisions, holds, requests, tickets
from quarantine.ledger.staging import DERIVED, UNTOLD
from quarantine.ledger.store import SqlLedger
from tests.ledger.samples import (
    CLUSTER,
    NOW,
    SECOND,
    dismissed,
    ended,
    held,
    now,
    outcome,
    paused,
    quarantined,
    request,
)
from tests.ledger.test_rebuild import HISTORY, Step, history

RUNNER = CliRunner()
OTHER = "training-b"


@pytest.fixture
def told(ledger: SqlLedger, url: str) -> SqlLedger:
    """A ledger with a row in every table, and another cluster's beside it."""
    for one in (ledger, SqlLedger(make_engine(url), OTHER, now=now)):
        one.ask(request(1))
        one.ask(request(2))
        term = one.take_term("pod-1")
        one.record(term, list(everything()))
        one.attempt(term, "c-2/mark", NOW)
        one.postpone(term, "c-2/mark", "the far side is away")
        if one is not ledger:
            one.close()
    return ledger


def everything() -> Iterator[Decision]:
    """A decision for every table."""
    count = Decision(NOW, Kind.DECIDED, Action.COUNT, "gpu has 8 nodes", "controller 0.1.0", pool="gpu")
    yield replace(count, census=Census(8, 64, NOW))
    yield replace(count, action=Action.POLICY, policy="gpu-hot", policy_hash="ab" * 32)
    yield from (quarantined(1), quarantined(2), held("judge/gpu-hot"), paused("all"))
    for effect, ref in ((Effect.MARK, ""), (Effect.TICKET, "INC-1")):
        yield replace(outcome(effect, ref=ref, by_us=True), action=ACTION_OF[effect])
    yield ended(1, request="r-1")
    yield quarantined(3)
    yield dismissed(3)


def test_a_sound_ledger_is_left_alone(told: SqlLedger, engine: Engine) -> None:
    before = contents(engine)
    assert all(before[table.name] for table in DERIVED), "a row in every table"
    for write in (False, True):
        made = rebuild(engine, CLUSTER, now=NOW, write=write)
        assert made == Rebuilt(CLUSTER, len(list(everything())), {}, (), (), 0, written=False)
    assert contents(engine) == before


@pytest.mark.parametrize("what", ["altered", "deleted", "inserted"])
def test_every_row_is_looked_at_and_repaired(told: SqlLedger, engine: Engine, what: str) -> None:
    for table in DERIVED:
        one_table_is_repaired(engine, table, what)


def one_table_is_repaired(engine: Engine, table: Table, what: str) -> None:
    before = contents(engine)
    with writing(engine) as connection:
        if what == "deleted":
            connection.execute(delete(table).where(table.c.cluster == CLUSTER))
        elif what == "altered":
            connection.execute(update(table).where(table.c.cluster == CLUSTER).values(altered(table)))
        else:
            row = dict(connection.execute(select(table).where(table.c.cluster == CLUSTER).limit(1)).mappings().one())
            connection.execute(insert(table), [{**row, **another(table, row)}])
    broken = contents(engine)
    made = rebuild(engine, CLUSTER, now=NOW)
    assert set(made.counted) == {table.name}
    assert made.counted[table.name] == len(made.differences)
    assert contents(engine) == broken, "nothing is written without --write"
    for one in made.differences:
        assert (one.stored is None) is (what == "deleted")
        assert (one.should_be is None) is (what == "inserted")
    assert rebuild(engine, OTHER, now=NOW).sound
    repaired = rebuild(engine, CLUSTER, now=NOW, write=True)
    assert repaired == replace(made, written=True)
    lost = UNTOLD.get(table.name, frozenset()) if what == "deleted" else frozenset()
    assert without(contents(engine), lost) == without(before, lost)
    assert rebuild(engine, CLUSTER, now=NOW).sound


def altered(table: Table) -> dict[str, Any]:
    """Another value in a column that the decisions tell."""
    keys = {column.name for column in table.primary_key}
    untold = UNTOLD.get(table.name, frozenset())
    name = next(column.name for column in reversed(table.columns) if column.name not in keys | untold)
    column = table.c[name]
    if column.type.python_type is str:
        return {name: "altered"}
    if column.type.python_type is bool:
        return {name: True}
    if column.type.python_type is int:
        return {name: 1}
    return {name: NOW - timedelta(days=400)}


def another(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """A key that no decision made."""
    key = next(column for column in table.primary_key if column.name not in ("cluster", "decided_seq"))
    return {key.name: "of-nobody" if key.type.python_type is str else 3}


def test_what_the_decisions_do_not_tell_is_kept(told: SqlLedger, engine: Engine) -> None:
    """How often an effect was tried, also where the rest of its row is repaired."""
    key = (actions.c.cluster == CLUSTER, actions.c.key == "c-2/mark")
    with writing(engine) as connection:
        connection.execute(update(actions).where(*key).values(status="done"))
    rebuild(engine, CLUSTER, now=NOW, write=True)
    with reading(engine) as connection:
        row = connection.execute(select(actions).where(*key)).one()
    assert (row.status, row.attempts, row.last_error) == ("pending", 1, "the far side is away")


def test_an_effect_asked_for_again_is_settled_before_it_is_pending(ledger: SqlLedger, engine: Engine) -> None:
    """At most one row of a key is pending at any moment, also while two of them are exchanged."""
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1, effects=(Effect.PHASE,))])
    ledger.settle(term, "c-1/phase", outcome(Effect.PHASE))
    ledger.record(term, [replace(quarantined(1, effects=(Effect.PHASE,)), action=Action.JOIN, at=NOW + 3 * SECOND)])
    before = contents(engine)
    with writing(engine) as connection:
        first = (actions.c.cluster == CLUSTER, actions.c.decided_seq == 1)
        connection.execute(update(actions).where(actions.c.decided_seq == 3).values(status="done", outcome_seq=2))
        connection.execute(update(actions).where(*first).values(status="pending", outcome_seq=None))
    assert rebuild(engine, CLUSTER, now=NOW, write=True).counted == {"actions": 2}
    assert contents(engine) == before


@pytest.mark.parametrize(("id_", "wrong", "right"), [("r-1", None, 9), ("r-1", 3, 9), ("r-2", 9, None)])
def test_which_decision_answered_a_request(
    told: SqlLedger, engine: Engine, id_: str, wrong: int | None, right: int | None
) -> None:
    key = (requests.c.cluster == CLUSTER, requests.c.id == id_)
    with writing(engine) as connection:
        connection.execute(update(requests).where(*key).values(answered_seq=wrong))
    made = rebuild(engine, CLUSTER, now=NOW, write=True)
    stored, should_be = {"answered_seq": wrong}, {"answered_seq": right}
    assert made.differences == (Difference("requests", f"id={id_}", stored, should_be),)
    with reading(engine) as connection:
        assert connection.execute(select(requests.c.answered_seq).where(*key)).scalar_one() == right


def test_the_fields_of_a_record_that_differ_are_told(told: SqlLedger, engine: Engine) -> None:
    key = (cases.c.cluster == CLUSTER, cases.c.id == "c-2")
    with writing(engine) as connection:
        body = json.loads(connection.execute(select(cases.c.body).where(*key)).scalar_one())
        body |= {"phase": "drained", "colour": "blue"}
        del body["pool"]
        connection.execute(update(cases).where(*key).values(body=json.dumps(body)))
    (found,) = rebuild(engine, CLUSTER, now=NOW).differences
    assert found.key == "id=c-2"
    assert found.stored == {"body.phase": "drained", "body.pool": None, "body.colour": "blue"}
    assert found.should_be == {"body.phase": "quarantined", "body.pool": "gpu", "body.colour": None}


@pytest.mark.parametrize("body", ["", "[]", "{", "[" * 100_000])
def test_a_body_that_is_no_record_is_told_as_it_is(told: SqlLedger, engine: Engine, body: str) -> None:
    with writing(engine) as connection:
        connection.execute(update(holds).where(holds.c.cluster == CLUSTER).values(body=body))
    (found,) = rebuild(engine, CLUSTER, now=NOW, write=True).differences
    assert (found.stored or {})["body"] == body
    assert rebuild(engine, CLUSTER, now=NOW).sound


def test_only_so_many_are_told_and_all_are_counted(ledger: SqlLedger, engine: Engine) -> None:
    ledger.record(ledger.take_term("pod-1"), [quarantined(number) for number in range(50)])
    with writing(engine) as connection:
        connection.execute(delete(cases))
        connection.execute(delete(tickets))
    made = rebuild(engine, CLUSTER, now=NOW, shown=7)
    assert made.counted == {"cases": 50}
    assert [one.key for one in made.differences] == [f"id=c-{number}" for number in (0, 1, 10, 11, 12, 13, 14)]
    assert rebuild(engine, CLUSTER, now=NOW, shown=0).counted == {"cases": 50}


def test_a_controller_that_runs_is_succeeded_and_begins_anew(told: SqlLedger, engine: Engine) -> None:
    """What it remembers of the ledger is not true any more."""
    term = told.take_term("pod-1")
    told.load()
    with writing(engine) as connection:
        connection.execute(delete(holds))
    assert rebuild(engine, CLUSTER, now=NOW, write=True).written
    with pytest.raises(Superseded, match="held by quarantine db rebuild"):
        told.record(term, [quarantined(8)])
    told.record(told.take_term("pod-2"), [quarantined(8)])
    assert set(told.load().state.holds) == {"judge/gpu-hot"}
    assert rebuild(engine, CLUSTER, now=NOW).sound


def test_nobody_writes_meanwhile(told: SqlLedger, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer waits for the rebuild, which sees all that was committed before it."""
    term = told.take_term("pod-1")
    with writing(engine) as connection:
        connection.execute(delete(holds).where(holds.c.cluster == CLUSTER))
    failed: list[Exception] = []

    def record() -> None:
        try:
            told.record(term, [quarantined(9)])
        except Superseded as error:
            failed.append(error)

    writer = threading.Thread(target=record)
    compared = module._compared

    def slowly(*given: Any) -> Rebuilt:
        writer.start()
        writer.join(timeout=0.5)
        assert writer.is_alive(), "it waits"
        return compared(*given)

    monkeypatch.setattr(module, "_compared", slowly)
    assert rebuild(engine, CLUSTER, now=NOW, write=True).written
    writer.join(timeout=30)
    assert len(failed) == 1
    monkeypatch.undo()
    assert rebuild(engine, CLUSTER, now=NOW).sound


def test_what_breaks_off_leaves_nothing(told: SqlLedger, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(engine) as connection:
        connection.execute(delete(holds))
        connection.execute(delete(cases))
    before = contents(engine)

    def broken(*_: object) -> None:
        raise RuntimeError("the pod was evicted")

    monkeypatch.setattr(answers.Answers, "copy", broken)
    with pytest.raises(RuntimeError, match="evicted"):
        rebuild(engine, CLUSTER, now=NOW, write=True)
    monkeypatch.undo()
    assert contents(engine) == before
    assert rebuild(engine, CLUSTER, now=NOW, write=True).written


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"kind":"a kind of later"}', "cannot be read"),
        (
            '{"action":"release","actor":"x","at":"2026-11-29T12:00:00Z","case":"c-77","kind":"decided","reason":"y"}',
            "opens a case without its node",
        ),
    ],
)
def test_with_a_decision_that_cannot_be_folded_nothing_is_written(
    told: SqlLedger, engine: Engine, body: str, said: str
) -> None:
    with writing(engine) as connection:
        newest = select(decisions).where(decisions.c.cluster == CLUSTER).order_by(decisions.c.seq.desc()).limit(1)
        row = dict(connection.execute(newest).mappings().one())
        row |= {"seq": row["seq"] + 1, "prev_hash": row["hash"], "body": body}
        connection.execute(insert(decisions), [row])
        connection.execute(update(clusters).where(clusters.c.cluster == CLUSTER).values(seq=row["seq"]))
        connection.execute(delete(holds))
    before = contents(engine)
    made = rebuild(engine, CLUSTER, now=NOW, write=True)
    assert not made.written
    assert made.counted == {"holds": 1}
    ((seq, why),) = made.unfit
    assert (seq, made.unfit_count) == (row["seq"], 1)
    assert said in why
    assert contents(engine) == before


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=HISTORY, harm=st.lists(st.tuples(st.sampled_from(DERIVED), st.integers(0, 99), st.booleans()), max_size=6))
def test_whatever_is_done_to_the_tables_is_repaired(
    engine: Engine, steps: list[list[Step]], harm: list[tuple[Table, int, bool]]
) -> None:
    cluster = f"cluster-{next(_number)}"
    leader = SqlLedger(engine, cluster, now=now)
    for batch in history(steps):
        leader.record(leader.take_term("pod"), batch)
    before = contents(engine, cluster)
    harmed = set()
    for table, number, gone in harm:
        with writing(engine) as connection:
            rows = connection.execute(select(table).where(table.c.cluster == cluster)).mappings().all()
            if not rows:
                continue
            row = rows[number % len(rows)]
            key = [column == row[column.name] for column in table.primary_key]
            change = delete(table) if gone else update(table).values(altered(table))
            connection.execute(change.where(*key))
        harmed.add((table.name, tuple(row[column.name] for column in table.primary_key)))
    made = rebuild(engine, cluster, now=NOW, write=True)
    assert sum(made.counted.values()) <= len(harmed), "no row that was let alone"
    assert rebuild(engine, cluster, now=NOW).sound
    lost = UNTOLD["actions"]
    assert without(contents(engine, cluster), lost) == without(before, lost)
    assert leader.load().state == SqlLedger(engine, cluster, now=now).load().state


# --- The command ------------------------------------------------------------------------------------------------------


def test_the_command(told: SqlLedger, url: str, engine: Engine) -> None:
    sound = run(url, "--cluster", CLUSTER)
    assert sound.exit_code == 0
    assert sound.stdout == "The tables say what the 11 decisions of training-a add up to.\n"
    with writing(engine) as connection:
        connection.execute(update(cases).where(cases.c.id == "c-2").values(phase=Phase.DRAINED.value))
    found = run(url, "--all")
    assert found.exit_code == 1
    assert "id=c-2" in found.stdout
    assert "phase: drained" in found.stdout
    assert "phase: quarantined" in found.stdout
    assert "1 row are not what" not in found.stdout
    assert "1 row is not what the 11 decisions of training-a add up to: 1 of cases." in found.stdout
    assert "quarantine db rebuild --write" in found.stdout
    as_json = run(url, "--cluster", OTHER, "--output", "json")
    assert as_json.exit_code == 1
    (one,) = json.loads(as_json.stdout)
    assert (one["cluster"], one["sound"], one["counted"]) == (OTHER, False, {"cases": 1})
    assert one["differences"] == [
        {"table": "cases", "row": "id=c-2", "stored": {"phase": "drained"}, "should_be": {"phase": "quarantined"}}
    ]
    assert run(url, "--all", "--write").exit_code == 0
    assert run(url, "--all").exit_code == 0


def test_the_command_in_markdown_escapes_what_it_shows(told: SqlLedger, url: str, engine: Engine) -> None:
    with writing(engine) as connection:
        connection.execute(update(cases).where(cases.c.id == "c-2").values(node="<b>|x"))
    shown = run(url, "--cluster", CLUSTER, "--output", "markdown")
    assert shown.exit_code == 1
    assert "<b>" not in shown.stdout
    assert "| table | row | stored | should be |" in shown.stdout


def test_the_command_where_there_is_nothing(ledger: SqlLedger, url: str, tmp_path: object) -> None:
    nowhere = run(url, "--cluster", "elsewhere")
    assert nowhere.exit_code == 1
    assert "no trail of cluster 'elsewhere'" in nowhere.stderr
    absent = run(f"sqlite:///{tmp_path}/none.db")
    assert absent.exit_code == 1
    assert "there is no ledger at" in absent.stderr


def run(url: str, *arguments: str) -> Any:
    return RUNNER.invoke(app, ["db", "rebuild", "--database-url", url, *arguments])


# --- What is in the tables --------------------------------------------------------------------------------------------

Contents = dict[str, list[dict[str, Any]]]
_number = iter(range(10**6))


def contents(engine: Engine, cluster: str | None = None) -> Contents:
    """Every row that follows from the decisions, and the requests'."""
    found: Contents = {}
    with reading(engine) as connection:
        for table in (*DERIVED, requests):
            chosen = select(table).order_by(*table.primary_key)
            if cluster is not None:
                chosen = chosen.where(table.c.cluster == cluster)
            found[table.name] = [dict(row) for row in connection.execute(chosen).mappings()]
    return found


def without(found: Contents, lost: frozenset[str]) -> Contents:
    return {
        name: [{key: value for key, value in row.items() if key not in lost} for row in rows]
        for name, rows in found.items()
    }
