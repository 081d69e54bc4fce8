"""The views show what was recorded, the same on both dialects, and can be written through on neither."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from quarantine.core.case import Effect, HeldBy
from quarantine.core.decision import Action, Census, Decision, Kind
from quarantine.ledger.drift import differences
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.store import open_ledger
from quarantine.ledger.views import VIEWS
from tests.ledger.samples import CLUSTER, NOW, SECOND, ended, held, now, outcome, policy, quarantined, request

Row = dict[str, Any]
MINUTE = timedelta(minutes=1)
ODD = timedelta(seconds=90, microseconds=7)  # neither whole seconds nor milliseconds
_OF_NOW = ("open_seconds", "out_seconds", "seconds")  # of what still stands: counted to the moment of asking


@pytest.fixture
def both(sqlite: str, postgres: str) -> Iterator[tuple[Engine, Engine]]:
    """The same history in a database of each dialect."""
    engines = (make_engine(sqlite), make_engine(postgres))
    for made in engines:
        live(made)
    yield engines
    for made in engines:
        made.dispose()


def live(engine: Engine) -> None:
    """Two machines are taken out, and one of them is back; a hold, a request, a version, a pool."""
    url = engine.url.render_as_string(hide_password=False)
    later = NOW + ODD
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod")
        in_force = Decision(NOW, Kind.DECIDED, Action.POLICY, "gpu-hot came into force", "controller 0.1.0")
        in_force = replace(in_force, policy="gpu-hot", policy_hash=policy().hash, policy_revision="1234567")
        counted = Decision(
            NOW, Kind.DECIDED, Action.COUNT, "pool gpu has 1000 machines", "controller 0.1.0", pool="gpu"
        )
        sizes = [replace(counted, census=Census(1000, 8000, NOW)), replace(counted, census=Census(990, 7920, later))]
        first, second = quarantined(1), replace(quarantined(2), at=later)
        ledger.record(term, [in_force, *sizes, first, second], [policy(), policy(text="kind: Policy\nnew: true\n")])
        for effect, seconds, ref in ((Effect.MARK, 2, ""), (Effect.EVENT, 3, ""), (Effect.TICKET, 4, "T-1")):
            ledger.settle(term, f"c-1/{effect}", replace(outcome(effect, ref=ref), at=NOW + seconds * SECOND))
        ledger.ask(request(1))
        ledger.ask(request(2))
        ledger.record(term, [ended(1, at=NOW + 5 * MINUTE, request="r-1"), held("judge/gpu-hot", HeldBy.BREAKER)])
        ledger.settle(term, "c-1/unmark", replace(outcome(Effect.UNMARK), at=NOW + 6 * MINUTE + ODD))
        lifted = replace(held("judge/gpu-hot", None), at=NOW + 7 * MINUTE)
        ledger.record(term, [lifted, replace(held("sight", HeldBy.SIGHT), at=NOW + 8 * MINUTE)])


def shown(engine: Engine, view: str, where: str = "1 = 1") -> list[Row]:
    """Rows of a view as plain values, whatever the dialect's own are."""
    statement = text(f"SELECT * FROM {view} WHERE {where}")  # noqa: S608
    with engine.connect() as connection:
        found = [
            {name: plain(name, value) for name, value in row._mapping.items()} for row in connection.execute(statement)
        ]
    return sorted(found, key=repr)


def plain(name: str, value: Any) -> Any:
    if name in ("standing", "by_person", "gate", "same_returned", "out_now", "in_force"):
        return bool(value)
    if isinstance(value, str) and (
        name.endswith("_at") or name in ("at", "since", "until", "first_seen", "in_force_since")
    ):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def settled(row: Row) -> Row:
    """Without what is counted to the moment of asking."""
    over = row.get("standing") is False or row.get("until") is not None
    return {name: value for name, value in row.items() if over or name not in _OF_NOW}


def test_both_dialects_show_the_same(both: tuple[Engine, Engine]) -> None:
    for view in VIEWS:
        one, other = (
            [
                {k: v for k, v in row.items() if k not in _OF_NOW or row.get("standing") is False}
                for row in shown(e, view)
            ]
            for e in both
        )
        assert one == other, view
        assert one, f"{view} shows something"
        assert tuple(shown(both[0], view)[0]) == VIEWS[view]


def test_times_of_a_case_are_in_seconds_to_the_microsecond(engine: Engine) -> None:
    live(engine)
    (case,) = shown(engine, "quarantine_cases", "case_id = 'c-1'")
    assert (case["found_to_out_seconds"], case["out_to_marked_seconds"], case["out_to_ticket_seconds"]) == (0, 2, 4)
    assert case["out_to_back_seconds"] == 360 + 90.000007
    assert case["asked_to_swapped_seconds"] is None
    assert case["reason"] == "node-1: GPU 1 is at 91.5 °C, above 78 °C for 5m"
    assert (case["phase"], case["device"], case["severity"]) == ("released", "gpu:GPU-00000001", "critical")
    assert (case["by_person"], case["gate"], case["same_returned"]) == (False, False, False)
    (out,) = shown(engine, "quarantine_outages", "case_id = 'c-1'")
    assert (out["standing"], out["seconds"], out["back_at"]) == (False, 450.000007, NOW + 6 * MINUTE + ODD)


def test_what_is_open_now(engine: Engine) -> None:
    live(engine)
    (case,) = shown(engine, "quarantine_open_cases")
    assert (case["case_id"], case["node"], case["phase"]) == ("c-2", "node-2", "quarantined")
    assert (case["effects_waiting"], case["ticket"], case["held_by"]) == (4, None, None)
    with engine.connect() as connection:
        at = connection.execute(text("SELECT CURRENT_TIMESTAMP")).scalar_one()
    elapsed = (plain("at", at) - NOW - ODD).total_seconds()
    assert case["open_seconds"] == pytest.approx(elapsed, abs=5)
    assert case["out_seconds"] == pytest.approx(elapsed, abs=5)


def test_an_open_case_is_shown_with_its_ticket_and_what_holds_it(engine: Engine) -> None:
    live(engine)
    url = engine.url.render_as_string(hide_password=False)
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod")
        ledger.settle(term, "c-2/ticket", replace(outcome(Effect.TICKET, 2, ref="T-2"), at=NOW + 9 * MINUTE))
        hold = replace(held("case/c-2", HeldBy.DRAIN), reason="a disruption budget is in the way", at=NOW + 9 * MINUTE)
        ledger.record(term, [replace(hold, case="c-2", node="node-2", action=Action.DRAIN)])
    (case,) = shown(engine, "quarantine_open_cases")
    assert (case["ticket"], case["effects_waiting"]) == ("T-2", 3)
    assert (case["held_by"], case["hold_reason"]) == ("drain", "a disruption budget is in the way")


def test_requests_are_shown_with_their_answers(engine: Engine) -> None:
    live(engine)
    answered, waiting = shown(engine, "quarantine_requests")
    assert (answered["request_id"], answered["asked_at"], answered["actor"]) == ("r-1", NOW + SECOND, "a person")
    assert (answered["answer"], answered["answer_action"], answered["seconds"]) == ("repaired", "release", 299)
    assert (waiting["request_id"], waiting["answer"], waiting["seconds"]) == ("r-2", None, None)


def test_holds_tickets_versions_and_pools(engine: Engine) -> None:
    live(engine)
    over, stands = shown(engine, "quarantine_holds")
    assert (over["hold_key"], over["held_by"], over["standing"], over["seconds"]) == (
        "judge/gpu-hot",
        "breaker",
        False,
        420,
    )
    assert (stands["hold_key"], stands["standing"], stands["until"]) == ("sight", True, None)
    (ticket,) = shown(engine, "quarantine_tickets")
    assert (ticket["ref"], ticket["node"], ticket["ask"], ticket["filed_at"]) == (
        "T-1",
        "node-1",
        "report",
        NOW + 4 * SECOND,
    )
    versions = {
        row["hash"]: (row["in_force"], row["in_force_since"]) for row in shown(engine, "quarantine_policy_versions")
    }
    assert versions == {policy().hash: (True, NOW), "hash-of-kind: Policy\nnew: true\n": (False, None)}
    sizes = [(row["nodes"], row["since"], row["until"]) for row in shown(engine, "quarantine_pool_sizes")]
    assert sorted(sizes) == [(990, NOW + ODD, None), (1000, NOW, NOW + ODD)]


def test_machines_are_shown_with_what_they_cost(engine: Engine) -> None:
    live(engine)
    back, out = shown(engine, "quarantine_machines")
    assert (back["machine"], back["node"], back["cases"], back["outages"]) == ("system-uuid:system-1", "node-1", 1, 1)
    assert (back["out_now"], back["out_seconds"]) == (False, 450.000007)
    assert (out["machine"], out["out_now"]) == ("system-uuid:system-2", True)
    names = {(row["kind"], row["name"]) for row in shown(engine, "quarantine_names", "node = 'node-1'")}
    assert {("node", "node-1"), ("node-uid", "uid-1"), ("system-uuid", "system-1")} <= names


def test_effects_are_shown_from_decision_to_outcome(engine: Engine) -> None:
    live(engine)
    ticket, waiting = (
        shown(engine, "quarantine_effects", f"effect = 'ticket' AND case_id = 'c-{n}'")[0] for n in (1, 2)
    )
    assert (ticket["status"], ticket["decided_at"], ticket["outcome_at"], ticket["seconds"]) == (
        "done",
        NOW,
        NOW + 4 * SECOND,
        4,
    )
    assert (waiting["status"], waiting["outcome_at"]) == ("pending", None)
    trail = shown(engine, "quarantine_decisions")
    assert len(trail) == 13
    assert "body" not in trail[0]


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_written_through_a_view(engine: Engine, view: str) -> None:
    live(engine)
    column = VIEWS[view][1]
    for statement in (
        f"UPDATE {view} SET {column} = {column}",  # noqa: S608
        f"DELETE FROM {view}",  # noqa: S608
        f"INSERT INTO {view} (cluster) VALUES ('x')",  # noqa: S608
    ):
        with pytest.raises(DBAPIError, match=r"view"), engine.begin() as connection:
            connection.execute(text(statement))


def test_drift_notices_a_view_that_is_gone_or_another(engine: Engine) -> None:
    url = engine.url.render_as_string(hide_password=False)
    assert differences(url) == []
    with writing(engine) as connection:
        connection.execute(text("DROP VIEW quarantine_tickets"))
        connection.execute(text("DROP VIEW quarantine_holds"))
        connection.execute(text("CREATE VIEW quarantine_holds AS SELECT cluster, seq FROM hold_spans"))
    assert sorted(differences(url)) == [
        "differs: view quarantine_holds has the columns cluster, seq",
        "missing: view quarantine_tickets",
    ]
