"""When what happened to a machine: read out of real plans and their outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case, Effect, Evidence, HeldBy, Phase, RunOutcome
from quarantine.core.decision import Action, Decision, Kind, RequestKind
from quarantine.core.model import Device, DeviceKind, Machine, Mode, Severity, Verdict
from quarantine.core.record.milestones import Fate, Milestones, fate, follow
from quarantine.core.record.trace import Trace
from quarantine.core.state import evolve
from quarantine.core.tickets import TicketState
from quarantine.core.treatment.endings import ending_effects
from tests.core.record.lives import out_hours
from tests.core.record.recorded import record
from tests.core.treatment.life import ON_PROOF, REPLACE, REPORT, RESET, Life, asked, law
from tests.core.world import MINUTE, NOW, node, policy

HOUR = timedelta(hours=1)
NEW = Machine("uid-new", "acme://new", "sys-new", "boot-new")
REPLACED = law(ladder=[REPORT, {**REPLACE, "after": "10m"}], release=ON_PROOF, drain="now")


def of(life: Life) -> Milestones:
    return record(life.trail).of(life.node)


def requested() -> Life:
    """node-3 found hot at NOW, reported, empty a minute later, and its replacement asked for at 12:11."""
    life = Life(REPLACED)
    life.cycle()
    life.cycle()
    life.at = NOW + 11 * MINUTE
    life.cycle()
    assert life.phase() is Phase.SWAP_REQUESTED
    return life


def comes(life: Life, machine: Machine, at: datetime) -> None:
    """This machine is under the name from now on."""
    life.at, life.hot = at, False
    life.nodes = {**life.nodes, life.node: node(life.node, machine=machine)}
    life.cycle()


# --- Times ------------------------------------------------------------------------------------------------------------


def test_a_whole_life_by_its_times() -> None:
    life = requested()
    comes(life, NEW, NOW + 5 * HOUR)
    life.cycle()
    assert life.phase() is Phase.PROBATION
    life.cool = True
    life.at = NOW + 7 * HOUR
    life.cycle()
    found = of(life)
    assert found == Milestones(
        case=life.case.id,
        node="node-3",
        machine="system-uuid:sys-node-3",
        pool="gpu",
        provider="acme",
        policy="gpu-hot",
        signal="gpu.temperature",
        device="gpu:GPU-node-3-3",
        severity=Severity.CRITICAL,
        by_person=False,
        gate=False,
        phase=Phase.RELEASED,
        opened_at=NOW,
        found_at=NOW,
        out_at=NOW,
        marked_at=NOW,
        drained_at=NOW + MINUTE,
        ticket_at=NOW,
        asked_at=NOW + 11 * MINUTE,
        acknowledged_at=None,
        swapped_at=NOW + 5 * HOUR,
        back_at=NOW + 7 * HOUR,
        ended_at=NOW + 7 * HOUR,
        fate=Fate.CONFIRMED,
        same_returned=False,
    )


def test_what_was_held_first_is_out_since_it_was_decided_so() -> None:
    life = Life(law(ladder=[REPORT]), mode=Mode.OBSERVE)
    life.cycle()
    assert (of(life).opened_at, of(life).out_at, of(life).phase) == (NOW, None, Phase.SUSPECTED)
    life.mode = Mode.ENFORCE
    life.at = NOW + HOUR
    life.plan()
    assert (of(life).out_at, of(life).marked_at) == (NOW + HOUR, None), "its mark is not on the node yet"
    life.at += 5 * MINUTE
    life.carry_out()
    found = of(life)
    assert (found.opened_at, found.found_at, found.marked_at) == (NOW, NOW, NOW + HOUR + 5 * MINUTE)
    assert (found.ticket_at, found.asked_at) == (NOW + HOUR + 5 * MINUTE, None)


def test_it_was_asked_for_when_the_provider_had_heard_it() -> None:
    life = Life(law(ladder=[REPLACE]))
    life.cycle()
    life.plan()
    assert life.phase() is Phase.SWAP_REQUESTED
    assert of(life).asked_at is None, "it was decided, and not done yet"
    life.at = NOW + HOUR
    life.carry_out()
    assert (of(life).asked_at, of(life).ticket_at) == (NOW + HOUR, NOW + HOUR)


def test_where_the_provider_cannot_be_asked_people_ask() -> None:
    life = Life(law(ladder=[REPLACE]))
    life.cycle()
    life.plan()
    life.at = NOW + HOUR
    refused = Decision(life.at, Kind.FAILED, Action.STEP, "r", "t", case=life.case.id, effect=Effect.REPLACE)
    life.trail.append(refused)
    assert (of(life).asked_at, of(life).ticket_at) == (NOW + HOUR, None)


def test_a_ticket_without_a_reference_told_nobody() -> None:
    life = Life(law(ladder=[REPORT]))
    life.plan()
    case = life.case.id
    life.trail.append(Decision(NOW + HOUR, Kind.DONE, Action.TICKET, "r", "t", case=case, effect=Effect.TICKET))
    assert of(life).ticket_at is None
    life.trail.append(replace(life.trail[-1], at=NOW + 2 * HOUR, ref="ACME-7"))
    assert of(life).ticket_at == NOW + 2 * HOUR


def test_it_is_out_until_its_mark_is_taken_off() -> None:
    life = Life(law(ladder=[REPORT]))
    life.cycle()
    life.at = NOW + HOUR
    life.plan(asked(RequestKind.RELEASE))
    assert (of(life).ended_at, of(life).back_at, of(life).fate) == (NOW + HOUR, None, Fate.RETURNED)
    life.at = NOW + 3 * HOUR
    life.carry_out()
    assert of(life).back_at == NOW + 3 * HOUR
    assert out_hours(of(life), NOW, life.at) == 3.0


def test_a_machine_that_leaves_is_not_out_any_more() -> None:
    life = Life(law(ladder=[REPORT]))
    life.cycle()
    life.nodes = {name: n for name, n in life.nodes.items() if name != life.node}
    life.cycle()
    life.wait(timedelta(days=8))
    found = of(life)
    assert found.phase is Phase.RETIRED
    assert found.back_at == found.ended_at == life.at - MINUTE
    assert found.fate is Fate.CONFIRMED


def test_a_suspicion_that_went_by_itself_was_never_out() -> None:
    life = Life(law(ladder=[REPORT]), mode=Mode.OBSERVE)
    life.cycle()
    life.hot, life.cool = False, True
    life.cycle()
    found = of(life)
    assert (found.phase, found.ended_at) == (Phase.DISMISSED, NOW + MINUTE)
    assert (found.out_at, found.marked_at, found.back_at) == (None, None, None)
    assert found.fate is Fate.OPEN, "nobody has said that there was no fault"
    assert out_hours(found, NOW, NOW + HOUR) == 0.0


def test_what_was_decided_and_never_marked_cost_nothing() -> None:
    life = Life(law(ladder=[REPORT]))
    life.plan()
    life.at += HOUR
    life.hot, life.cool = False, True
    life.plan()
    life.carry_out()
    found = of(life)
    assert (found.phase, found.out_at, found.marked_at) == (Phase.DISMISSED, NOW, None)
    assert found.back_at == NOW + HOUR
    assert out_hours(found, NOW, NOW + HOUR) == 0.0


def test_times_do_not_run_backwards_where_a_leaders_clock_is_behind() -> None:
    life = Life(law(ladder=[REPORT]))
    life.cycle()
    life.at = NOW + HOUR
    life.plan(asked(RequestKind.RELEASE))
    unmark = Decision(NOW - HOUR, Kind.DONE, Action.RELEASE, "r", "t", case=life.case.id, effect=Effect.UNMARK)
    life.trail.append(unmark)
    assert of(life).back_at == NOW + HOUR


def test_a_mark_whose_outcome_comes_after_the_end_marked_nothing() -> None:
    life = Life(law(ladder=[REPORT]))
    life.plan()
    life.plan(asked(RequestKind.RELEASE))
    for minutes, effect in ((1, Effect.UNMARK), (2, Effect.MARK)):
        done = Decision(NOW, Kind.DONE, Action.RELEASE, "r", "t", case=life.case.id, effect=effect)
        life.trail.append(replace(done, at=NOW + minutes * MINUTE))
    assert (of(life).back_at, of(life).marked_at) == (NOW + MINUTE, None)


def test_what_is_asked_for_after_an_exchange_is_another_one() -> None:
    """Times are of the first, so that none of them is asked for after it came."""
    life = Life(law(ladder=[REPORT]))
    life.cycle()
    phases = (Phase.SWAPPED, Phase.PROBATION, Phase.QUARANTINED, Phase.SWAP_REQUESTED, Phase.SWAPPED)
    for hours, phase in enumerate(phases, start=1):
        moved = Decision(NOW + hours * HOUR, Kind.DECIDED, Action.PROVE, "r", "t", case=life.case.id, phase=phase)
        life.trail.append(moved)
    assert (of(life).asked_at, of(life).swapped_at) == (None, NOW + HOUR)


# --- Since when it is seen --------------------------------------------------------------------------------------------


def held(evidence: Evidence | None) -> Decision:
    found = Decision(NOW, Kind.HELD, Action.QUARANTINE, "r", "t", node="node-1", machine=Machine("u"), case="q-1")
    gpu = Device(DeviceKind.GPU, "GPU-1", "1")
    found = replace(found, phase=Phase.SUSPECTED, policy="p", device=gpu, severity=Severity.FATAL, verdict=Verdict.BAD)
    return replace(found, held_by=HeldBy.BUDGET, evidence=evidence)


def seen(at: datetime, since: datetime | None = None) -> Evidence:
    return Evidence("q", 1.0, "°C", "above 0", at, "s", trace=None if since is None else Trace("q", since=since))


@pytest.mark.parametrize(
    ("evidence", "found_at"),
    [
        (None, NOW),
        (seen(NOW - MINUTE), NOW - MINUTE),
        (seen(NOW + MINUTE), NOW),
        (seen(NOW - MINUTE, since=NOW - HOUR), NOW - HOUR),
        (seen(NOW - MINUTE, since=NOW + HOUR), NOW - MINUTE),
    ],
)
def test_it_was_seen_as_early_as_its_evidence_shows_and_never_after_its_case(
    evidence: Evidence | None, found_at: datetime
) -> None:
    found = record([held(evidence)]).of("node-1")
    assert (found.found_at, found.opened_at) == (found_at, NOW)


# --- What for ---------------------------------------------------------------------------------------------------------


def test_the_finding_that_took_it_out_is_the_cause_and_not_the_one_that_opened_its_case() -> None:
    other = replace(
        held(seen(NOW)), at=NOW + HOUR, kind=Kind.DECIDED, phase=Phase.QUARANTINED, held_by=None, policy="other"
    )
    other = replace(other, device=Device(DeviceKind.IB_PORT, "mlx5_0/1"), severity=Severity.WARNING)
    found = record([held(seen(NOW)), other]).of("node-1")
    assert (found.policy, found.device, found.severity) == ("other", "ib_port:mlx5_0/1", Severity.WARNING)
    later = replace(other, at=NOW + 2 * HOUR, action=Action.JOIN, phase=None, policy="third")
    assert record([held(seen(NOW)), other, later]).of("node-1").policy == "other"


def test_who_else_holds_it_back_is_not_what_it_was_opened_for() -> None:
    other = replace(held(seen(NOW)), at=NOW + HOUR, held_by=HeldBy.SETTLING, policy="other")
    assert record([held(seen(NOW)), other]).of("node-1").policy == "p"


def test_a_person_takes_out_for_no_policy() -> None:
    life = Life(law(ladder=[REPORT]), hot=False)
    life.cycle(asked(RequestKind.OPEN))
    found = of(life)
    assert (found.policy, found.signal, found.device, found.severity) == ("", "", "", None)
    assert (found.by_person, found.fate) == (True, Fate.CONFIRMED)


def test_a_person_who_takes_out_what_a_policy_suspects_is_the_cause() -> None:
    life = Life(law(policy(mode="observe")))
    life.cycle()
    assert of(life).policy == "gpu-hot"
    life.cycle(asked(RequestKind.OPEN))
    assert (of(life).policy, of(life).by_person, of(life).out_at) == ("", True, NOW + MINUTE)


def test_a_mark_that_was_found_is_out_since_it_was_taken_over() -> None:
    adopted = Decision(NOW, Kind.DECIDED, Action.ADOPT, "r", "t", node="node-1", machine=Machine("u"), case="q-1")
    adopted = replace(adopted, phase=Phase.QUARANTINED, cordoned_by_us=True)
    found = record([adopted]).of("node-1")
    assert (found.out_at, found.marked_at, found.policy, found.machine) == (NOW, NOW, "", "node-uid:u")


# --- What became of it ------------------------------------------------------------------------------------------------


def test_the_machine_that_was_sent_away_and_came_back_is_no_exchange() -> None:
    life = requested()
    was = life.case.machine
    comes(life, replace(was, node_uid="uid-again", boot_id="b-2"), NOW + HOUR)
    life.nodes[life.node] = replace(life.nodes[life.node], created_at=NOW + HOUR)
    life.cycle()
    life.cycle()
    found = of(life)
    assert life.held == {HeldBy.SAME_MACHINE}
    assert (found.same_returned, found.swapped_at) == (True, None)
    assert found.fate is Fate.OPEN


def test_a_machine_that_was_sent_away_from_elsewhere_is_no_exchange_though_it_is_another() -> None:
    life = requested()
    came = Decision(NOW + HOUR, Kind.DECIDED, Action.SWAP, "r", "t", case=life.case.id, machine=NEW)
    told = replace(came, kind=Kind.HELD, action=Action.PROVE, machine=None, held_by=HeldBy.SAME_MACHINE, hold_key="s/x")
    life.trail += [came, told]
    found = of(life)
    assert (found.same_returned, found.swapped_at, found.phase) == (True, None, Phase.SWAP_REQUESTED)
    assert found.fate is Fate.CONFIRMED, "the machine that was out is exchanged, whatever came"


def test_after_it_came_back_as_it_was_the_exchange_is_the_machine_that_is_another() -> None:
    life = requested()
    was = life.case.machine
    comes(life, NEW, NOW + HOUR)
    life.cycle()
    comes(life, replace(was, node_uid="uid-again"), NOW + 2 * HOUR)
    assert life.phase() is Phase.QUARANTINED
    found = of(life)
    assert (found.swapped_at, found.same_returned) == (NOW + HOUR, True)
    assert found.fate is Fate.OPEN
    assert found.machine == "system-uuid:sys-node-3"


def test_a_person_who_says_that_it_is_repaired_says_that_there_was_a_fault() -> None:
    life = Life(law(ladder=[REPORT], release=ON_PROOF))
    life.cycle()
    life.hot = False
    life.cycle(asked(RequestKind.REPAIRED))
    assert (of(life).phase, of(life).fate) == (Phase.PROBATION, Fate.CONFIRMED)
    life.cool = True
    life.wait(2 * HOUR)
    assert (of(life).phase, of(life).fate, of(life).swapped_at) == (Phase.RELEASED, Fate.CONFIRMED, None)


def test_a_reset_that_helped_confirms_nothing() -> None:
    life = Life(law(ladder=[RESET], release=ON_PROOF))
    life.cycles(2)
    life.hot = False
    life.ended(RunOutcome.SUCCEEDED)
    life.cycle()
    assert (of(life).phase, of(life).fate) == (Phase.PROBATION, Fate.OPEN)


def test_a_new_machine_that_left_the_gate_confirms_nothing() -> None:
    case = Case("q-1", "node-1", Machine("u"), Phase.RETIRED, NOW, NOW, (), "controller", "r", cordoned_by_us=True)
    assert fate(case) is Fate.CONFIRMED
    assert fate(replace(case, gate=True)) is Fate.OPEN


def test_a_person_who_takes_the_taint_away_refutes_and_nobody_else_who_ends_a_case_does() -> None:
    life = Life(law(ladder=[REPORT]))
    life.cycle()
    case = life.case
    over = Decision(life.at, Kind.DECIDED, Action.DISMISS, "r", "t", case=case.id, node=case.node)
    over = replace(over, phase=Phase.DISMISSED, effects=ending_effects(case))
    by_hand = [*life.trail, replace(over, until=NOW + timedelta(days=7))]
    assert record(by_hand).of("node-3").fate is Fate.REFUTED
    assert record([*life.trail, over]).of("node-3").fate is Fate.OPEN, "a ledger that was restored says nothing of it"
    unmarked = Decision(life.at, Kind.DONE, Action.RELEASE, "r", "t", case=case.id, effect=Effect.UNMARK)
    assert record([*life.trail, over, unmarked]).of("node-3").fate is Fate.OPEN, "what ended keeps its fate"


# --- The fold ---------------------------------------------------------------------------------------------------------


def test_what_changes_nothing_leaves_the_same_object() -> None:
    """The writer writes no row then."""
    life = Life(law(ladder=[REPORT]))
    life.cycle()
    before = of(life)
    shown = Decision(NOW + HOUR, Kind.DONE, Action.SHOW, "r", "t", case=life.case.id, effect=Effect.PHASE)
    case = evolve(life.state, shown).cases[life.case.id]
    assert follow(before, shown, case) is before


STAY = record([held(None)]).of("node-1")
times = st.integers(-600, 600).map(lambda minutes: NOW + timedelta(minutes=minutes))


@st.composite
def stays(draw: st.DrawFn) -> Milestones:
    marked, back = sorted([draw(times), draw(times)])
    return replace(STAY, marked_at=draw(st.sampled_from([marked, None])), back_at=draw(st.sampled_from([back, None])))


@given(stay=stays(), edges=st.lists(times, min_size=3, max_size=3).map(sorted))
@settings(deadline=None)
def test_hours_of_windows_that_touch_add_up(stay: Milestones, edges: list[datetime]) -> None:
    since, between, until = edges
    parts = out_hours(stay, since, between) + out_hours(stay, between, until)
    whole = out_hours(stay, since, until)
    assert abs(parts - whole) < 1e-9
    assert 0 <= whole <= (until - since) / HOUR
    assert out_hours(replace(stay, marked_at=None), since, until) == 0


# --- What the provider says -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "fate_of_it"),
    [
        (TicketState.ACKNOWLEDGED, Fate.OPEN),
        (TicketState.REPLACED, Fate.CONFIRMED),
        (TicketState.HOST_RELEASED, Fate.CONFIRMED),
        (TicketState.NO_FAULT_FOUND, Fate.REFUTED),
        (TicketState.REFUSED, Fate.OPEN),
        (TicketState.CLOSED, Fate.OPEN),
    ],
)
def test_the_providers_verdict_counts_until_the_machine_or_a_person_knows_better(
    state: TicketState, fate_of_it: Fate
) -> None:
    life = requested()
    life.at = NOW + HOUR
    life.says("T-2", state=state)
    life.cycle()
    assert of(life).fate is fate_of_it
    assert of(life).acknowledged_at == NOW + HOUR, "from the request for another machine, not from the report"
    comes(life, NEW, NOW + 5 * HOUR)
    assert of(life).fate is Fate.CONFIRMED


def test_a_report_that_is_seen_acknowledges_no_request() -> None:
    life = requested()
    life.says("T-1", state=TicketState.ACKNOWLEDGED)
    life.cycle()
    assert of(life).acknowledged_at is None
