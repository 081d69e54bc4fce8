"""What became of the machines that a policy picks, by the trail's word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quarantine.backtest.precision import cases_of, precision
from quarantine.core.case import Case, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Machine
from quarantine.core.record.milestones import Fate, fate
from tests.backtest.results import HOUR, START, outage, result


def case(node: str, phase: Phase = Phase.QUARANTINED, *, by_person: bool = False) -> Case:
    return Case(
        id=f"case-{node}",
        node=node,
        machine=Machine(node_uid=node),
        phase=phase,
        opened_at=START + HOUR,
        phase_since=START + 3 * HOUR,
        findings=(),
        opened_by="controller",
        reason="",
        cordoned_by_us=True,
        by_person=by_person,
    )


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (Phase.RETIRED, Fate.CONFIRMED),
        (Phase.SWAPPED, Fate.CONFIRMED),
        (Phase.DISMISSED, Fate.REFUTED),
        (Phase.RELEASED, Fate.RETURNED),
        (Phase.QUARANTINED, Fate.OPEN),
    ],
)
def test_the_phase_says_what_is_known(phase: Phase, expected: Fate) -> None:
    assert fate(case("a", phase)) is expected


def test_a_machine_that_an_autoscaler_took_confirms_nothing() -> None:
    assert fate(replace(case("a", Phase.RETIRED), cordoned_by_us=None)) is Fate.OPEN


def test_precision_is_confirmed_of_those_that_were_decided() -> None:
    trail = [case("a", Phase.RETIRED), case("b", Phase.DISMISSED), case("c", Phase.RELEASED), case("d")]
    found = precision(result(*(outage(name) for name in "abcde")), trail)
    (score,) = found.scores
    assert (score.confirmed, score.refuted, score.returned, score.open, score.unknown) == (1, 1, 1, 1, 1)
    assert score.precision == 0.5


def test_there_is_no_precision_of_nothing() -> None:
    (score,) = precision(result(outage("a")), []).scores
    assert (score.precision, score.unknown) == (None, 1)


def test_a_confirmed_fault_that_no_policy_finds_is_missed() -> None:
    trail = [case("a", Phase.RETIRED), case("z", Phase.RETIRED), case("y", by_person=True), case("x", Phase.DISMISSED)]
    assert [c.node for c in precision(result(outage("a")), trail).missed] == ["z", "y"]


def test_a_case_that_was_over_before_the_outage_says_nothing_of_it() -> None:
    (score,) = precision(result(outage("a", at=10 * HOUR)), [case("a", Phase.RETIRED)]).scores
    assert (score.confirmed, score.unknown) == (0, 1)


def test_a_suspicion_that_went_by_itself_was_put_to_nobody() -> None:
    gone = replace(case("a", Phase.DISMISSED), cordoned_by_us=None)
    found = precision(result(outage("a")), [gone])
    assert (found.scores[0].refuted, found.cases) == (0, 0)


def test_cases_are_folded_from_the_decisions() -> None:
    fields = {"node": "a", "machine": Machine(node_uid="a"), "case": "c1", "actor": "controller"}
    opened = Decision(START, Kind.DECIDED, Action.QUARANTINE, "bad", phase=Phase.QUARANTINED, **fields)  # type: ignore[arg-type]
    ended = Decision(START + HOUR, Kind.DECIDED, Action.RETIRE, "gone", phase=Phase.RETIRED, **fields)  # type: ignore[arg-type]
    (found,) = cases_of([opened, ended])
    assert (found.phase, found.phase_since, found.opened_at) == (Phase.RETIRED, START + HOUR, START)
