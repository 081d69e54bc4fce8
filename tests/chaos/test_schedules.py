"""Every failure alone, a thousand random schedules of them, and proof that each thing that is looked for is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from quarantine.core import budget, recovery
from quarantine.core.draft import Draft
from quarantine.core.errors import TicketsUncertain
from quarantine.core.judge import Judgement
from quarantine.core.treatment import proof
from quarantine.execute import Executor, due, people
from quarantine.execute.outcome import Outcome
from tests.chaos import table
from tests.chaos.sim import NAMES, carried_out, drawn, named, run, run_named
from tests.chaos.sim_trouble import Accident
from tests.chaos.table import Row

SCHEDULES, CHUNK = 1000, 50
STOPPED = str(Accident.STOP)
BUSY = range(20, 76)  # calls of the leader's in the cycle that takes the first machine out, and some before and after


def all_well(rows: Iterable[Row]) -> None:
    """What is not is said in full: the seed is in the row."""
    wrong = [row for row in rows if not row.ok]
    assert not wrong, "\n" + table.table(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_each_failure_alone(name: str) -> None:
    all_well([run_named(name)])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, SCHEDULES, CHUNK))
def test_random_schedules(first: int) -> None:
    seen: Counter[str] = Counter()
    rows = []
    for seed in range(first, first + CHUNK):
        row, outside = carried_out(drawn(seed))
        rows.append(row)
        seen += outside.seen
    all_well(rows)
    # Else nothing was put to the test.
    wanted = {"marked": 50, "released": 1, "evicted": 5, "ticket (report)": 20, "ticket (replace)": 20, "ended": 2}
    assert seen >= Counter(wanted), seen


@pytest.mark.timeout(300)
@pytest.mark.parametrize("calls", [BUSY[:28], BUSY[28:]])
def test_who_is_stopped_at_any_line_sends_nothing_afterwards_but_what_was_under_way(calls: range) -> None:
    in_flight: Counter[str] = Counter()
    rows = []
    for number in calls:
        row, outside = carried_out(stopped(number))
        rows.append(row)
        assert outside.in_flight.total() <= 1, row.note
        in_flight += outside.in_flight
    all_well(rows)
    assert in_flight.total() > 0, "no stop met an effect"


def stopped(number: int) -> Any:
    """The leader stands still at this call, for as long as the other one needs to take over and to act."""
    schedule = named(STOPPED)
    return replace(schedule, episodes=(replace(schedule.episodes[0], begins=61, lasts=60, number=number),))


# --- Each property can fail -------------------------------------------------------------------------------------------


def test_a_breaker_that_never_trips_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "tripped", lambda _: None)
    monkeypatch.setattr(budget, "tripped_pools", lambda *_: {})
    assert run_named("Prometheus wrong answers (everybody is bad)").healthy_quarantined > 0


def test_absence_that_counts_as_good_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = recovery.recoveries

    def hopeful(draft: Draft, judgements: Iterable[Judgement]) -> None:
        real(draft, [replace(one, good={**dict(_silent(draft, one)), **one.good}) for one in judgements])

    monkeypatch.setattr(recovery, "recoveries", hopeful)
    monkeypatch.setattr(proof, "doubt", lambda *_: None)
    assert run_named("exporters gone, machines bad").released_on_absence > 0


def _silent(draft: Draft, judgement: Judgement) -> Iterator[tuple[Any, Any]]:
    """What an open case is about, and is not found bad now."""
    bad = {(one.node.name, one.device) for one in judgement.bad}
    for case in draft.open_cases():
        for finding in case.findings:
            if finding.policy == judgement.policy.name and (case.node, finding.device) not in bad:
                yield (case.node, finding.device), finding.evidence


def test_a_ticket_that_is_given_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = people._file

    def once(*args: Any) -> Outcome:
        try:
            return real(*args)
        except TicketsUncertain as error:
            return Outcome(f"it is given up: {error}", done=False)

    monkeypatch.setattr(people, "_file", once)
    assert run_named("tickets half-open").lost > 0


def test_a_ticket_that_is_not_looked_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "_found", lambda *_: None)
    assert run_named("tickets half-open").doubled > 0


def test_a_budget_that_holds_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "exceeded", lambda *_: None)
    assert run_named(STOPPED).over_budget > 0


def test_who_believes_to_lead_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executor, "barred", lambda _: "")
    assert any(run(stopped(number)).stale for number in BUSY)


def test_an_effect_that_is_never_tried_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., bool] = due.rested
    monkeypatch.setattr(due, "rested", lambda tried, *rest: tried.attempts == 0 and real(tried, *rest))
    row = run_named("Kubernetes API half-open")
    assert row.cycles_to_converge is None
    assert not row.ok
