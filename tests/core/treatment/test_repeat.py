"""Repeat offenders: counted from the cases that are remembered, by machine and not by name."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Case, Effect, EffectState, EffectStatus, Evidence, Finding, Phase
from quarantine.core.decision import State
from quarantine.core.model import Device, DeviceKind, Machine, Severity, Verdict
from quarantine.core.response import Repeat
from quarantine.core.treatment.repeat import Score, score, too_often
from tests.core.world import DONE, NOW

DAY = timedelta(days=1)
MACHINE = Machine("uid", "acme://7", "sys-7", "boot")
OTHER = Machine("uid-2", "acme://8", "sys-8", "boot")
RULE = Repeat.model_validate({"times": 2, "within": "14d"})
NEVER = EffectState(EffectStatus.ABANDONED)


def finding(days: float, signal: str = "gpu.temperature", **changes: object) -> Finding:
    """One that began so many days ago."""
    evidence = Evidence("q", 84, "°C", "t", NOW, signal=signal)
    began = NOW - days * DAY
    found = Finding("p", Device(DeviceKind.GPU, "GPU-1"), Severity.CRITICAL, began, Verdict.BAD, evidence)
    return replace(found, **changes)  # type: ignore[arg-type]


def case(days: float, *findings: Finding, machine: Machine = MACHINE, **changes: object) -> Case:
    """One that was opened so many days ago, marked, and ended by a release unless it is today's."""
    at = NOW - days * DAY
    phase = Phase.RELEASED if days else Phase.QUARANTINED
    found = findings or (finding(days),)
    base = Case(f"q-{days}", "node-7", machine, phase, at, at, found, "t", "r", effects={Effect.MARK: DONE})
    return replace(base, **changes)  # type: ignore[arg-type]


def remembered(*cases: Case) -> State:
    return State(cases={each.id: each for each in cases})


TODAY = case(0)


def test_what_a_machine_did_before_is_counted_and_said() -> None:
    told = {Effect.MARK: DONE, Effect.TICKET: DONE}
    state = remembered(
        TODAY,
        case(3, finding(3), finding(3, "gpu.xid.hardware"), effects=told),
        case(9, finding(9)),
        case(12, finding(12), effects={}, phase=Phase.DISMISSED),
    )
    found = score(state, TODAY)
    assert found == Score(out=2, findings=4, signals=2, xids=1, tickets=1)
    assert str(found) == (
        "out of service 2 times in the 28 days before; 4 findings by 2 signals, 1 of them XIDs; 1 ticket"
    )


def test_of_a_machine_that_nothing_is_remembered_of_nothing_is_said() -> None:
    assert str(score(remembered(TODAY), TODAY)) == ""
    assert str(Score(out=1, findings=1, signals=1)) == (
        "out of service once in the 28 days before; 1 finding by 1 signal; 0 tickets"
    )


def test_a_machine_is_known_by_its_hardware_and_not_by_its_name() -> None:
    moved = case(3, node="node-99", machine=replace(MACHINE, node_uid="uid-old", boot_id="x"))
    namesake = case(4, machine=OTHER)
    assert score(remembered(TODAY, moved, namesake), TODAY).out == 1


def test_of_an_exchange_the_machine_that_was_sent_away_is_meant() -> None:
    exchanged = case(3, sent_away=OTHER)
    assert score(remembered(TODAY, exchanged), TODAY).out == 0, "it came as the replacement"
    assert score(remembered(TODAY, replace(exchanged, machine=OTHER, sent_away=MACHINE)), TODAY).out == 1


def test_each_time_that_a_finding_came_back_counts_and_what_others_shared_does_not() -> None:
    times = tuple(NOW - d * DAY for d in (6, 5))
    flapping = finding(4, earlier=times, ended=tuple(at + DAY / 4 for at in times))
    shared = finding(4, shared=(NOW - 4 * DAY,))
    assert score(remembered(TODAY, case(6, flapping)), TODAY).findings == 3
    assert score(remembered(TODAY, case(4, shared)), TODAY).findings == 0


def test_later_cases_and_older_ones_are_not_before() -> None:
    state = remembered(case(0), case(3), case(27.9), case(28.1))
    assert score(state, case(3)).out == 2
    assert score(state, TODAY).out == 2


@pytest.mark.parametrize(
    ("before", "often"),
    [
        ([3], False),
        ([3, 9], True),
        ([3, 15], False),
        ([3, 9, 12], True),
    ],
)
def test_so_many_quarantines_within_the_time_are_too_many(before: list[float], often: bool) -> None:
    state = remembered(TODAY, *(case(days) for days in before))
    assert too_often(state, TODAY, RULE, NOW) is often


def test_what_was_decided_when_it_was_taken_out_holds_while_it_is_out() -> None:
    out = case(0, out_since=NOW)
    state = remembered(out, case(3), case(9))
    assert too_often(state, out, RULE, NOW)
    assert too_often(state, out, RULE, NOW + 8 * DAY)


@pytest.mark.parametrize(
    "second",
    [
        case(9, effects={}, phase=Phase.DISMISSED),  # never out
        case(9, phase=Phase.DISMISSED),  # a person found no fault
        replace(case(9), findings=(), gate=True),  # a new machine's proof
        case(9, effects={Effect.MARK: NEVER}),
        case(9, machine=OTHER),
    ],
)
def test_what_was_no_quarantine_is_not_counted(second: Case) -> None:
    assert not too_often(remembered(TODAY, case(3), second), TODAY, RULE, NOW)


def test_a_mark_that_was_to_be_put_back_when_the_case_ended_was_one() -> None:
    followed = case(9, effects={Effect.MARK: NEVER}, cordoned_by_us=True)
    assert too_often(remembered(TODAY, case(3), followed), TODAY, RULE, NOW)


def test_what_a_person_had_taken_out_counts() -> None:
    asked = replace(case(9), findings=(), by_person=True)
    assert too_often(remembered(TODAY, case(3), asked), TODAY, RULE, NOW)
