"""Where nothing is judged: planned work on a node, a machine that started a moment ago, a policy that only tells."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core import triage, upkeep
from quarantine.core.case import Effect, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State
from quarantine.core.draft import Draft
from quarantine.core.judge import Judgement
from quarantine.core.maintenance import under_maintenance
from quarantine.core.model import Answer, Mode, Node, Sample, Samples, Taint
from quarantine.core.planner import judge_all, plan
from quarantine.core.policy import Rules
from quarantine.core.signal import SignalSpec
from quarantine.core.snapshot import Snapshot
from tests.core.world import (
    DOWNED,
    FAILED,
    MINUTE,
    NOW,
    SIGNALS,
    after,
    answers,
    ask,
    carried_out,
    flapping,
    fleet,
    hot,
    node,
    policy,
    quarantined,
    rules,
    snapshot,
    suspected,
    told,
)

DRIVER = "nvidia.com/gpu-driver-upgrade-state"
SIGNS = {"labels": {DRIVER: "drain-required"}, "annotations": {"ops/work": "*"}, "taints": ["ops/maintenance"]}
LAW = rules(maintenance=SIGNS)


def worked_on(nodes: dict[str, Node] | None = None, name: str = "node-3") -> dict[str, Node]:
    known = nodes or fleet()
    return {**known, name: replace(known[name], annotations={**known[name].annotations, "ops/work": "board swap"})}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": {"gpu": "yes", DRIVER: "drain-required"}}, f"its label {DRIVER} is drain-required"),
        ({"labels": {"gpu": "yes", DRIVER: "upgrade-done"}}, None),
        ({"annotations": {"ops/work": "board swap"}}, "its annotation ops/work is board swap"),
        ({"annotations": {"ops/work": ""}}, "its annotation ops/work is there"),
        ({"annotations": {"ops/other": "x"}}, None),
        ({"taints": (Taint("ops/maintenance", "x", "NoExecute"),)}, "it has the taint ops/maintenance"),
        ({"taints": (Taint("ops/maintenance-done"),)}, None),
        ({}, None),
    ],
)
def test_what_says_that_work_is_under_way(changes: dict[str, object], said: str | None) -> None:
    nodes = {"node-3": node("node-3", **changes)}
    assert under_maintenance(nodes, LAW.fleet.maintenance).get("node-3") == said


def test_a_new_finding_is_held_once_and_judged_afresh_afterwards() -> None:
    look = snapshot(worked_on(), hot("node-3"))
    made = plan(look, LAW)
    assert told(made) == [("quarantine", "node-3", "maintenance")]
    assert made.decisions[0].reason.endswith(
        "held because planned work is under way on the node: its annotation ops/work is board swap"
    )
    assert made.bad_nodes == frozenset(), "what is seen there is no evidence"
    state = after(State(), made)
    assert state.cases == {}
    assert plan(replace(look, state=state, now=NOW + 60 * MINUTE), LAW).decisions == ()
    over = plan(snapshot(None, hot("node-3"), state=state, now=NOW + 90 * MINUTE), LAW)
    assert ("quarantine", "node-3", None) in told(over)
    assert after(state, over).holds == {}
    calm = plan(snapshot(None, state=state, now=NOW + 90 * MINUTE), LAW)
    assert after(state, calm).holds == {}


def test_a_suspicion_neither_advances_nor_ends_meanwhile() -> None:
    state = suspected()
    nodes = worked_on()
    made = plan(snapshot(nodes, hot("node-3"), state=state), LAW)
    assert told(made) == [("quarantine", "node-3", "maintenance")]
    state = after(state, made)
    assert state.open_case_of("node-3").held_by is HeldBy.OBSERVE_MODE  # type: ignore[union-attr]
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    good = plan(snapshot(nodes, state=state, given=given), LAW)
    assert all(d.action not in (Action.RECOVER, Action.DISMISS) for d in good.decisions)
    late = plan(snapshot(nodes, state=state, now=NOW + timedelta(days=15)), LAW)
    assert told(late)[-1] == ("release", "node-3", "overdue")
    assert late.decisions[-1].reason.endswith(
        "planned work is under way on the node: its annotation ops/work is board swap"
    )


def test_nothing_is_added_to_a_quarantine_nor_released_by_a_taint_that_is_gone() -> None:
    state, nodes = quarantined()
    nodes = worked_on({**nodes, "node-3": replace(nodes["node-3"], taints=(), unschedulable=False)})
    look = snapshot(nodes, hot("node-3"), hot("node-3", 6), state=state)
    made = plan(look, LAW)
    assert told(made) == [("quarantine", "node-3", "maintenance")]
    after_it = after(state, made)
    assert len(after_it.open_case_of("node-3").findings) == 1  # type: ignore[union-attr]
    assert plan(replace(look, state=after_it), LAW).decisions == ()
    known = plan(snapshot(nodes, hot("node-3"), state=state), LAW)
    assert known.decisions == (), "what is held against it already is no news"
    over = {**nodes, "node-3": replace(nodes["node-3"], annotations={})}
    assert ("dismiss", "node-3", None) in told(plan(snapshot(over, state=after_it), LAW))


def test_what_could_not_be_marked_waits_for_the_end_of_the_work() -> None:
    state = after(State(), plan(snapshot(None, hot("node-3")), rules()))
    later = snapshot(worked_on(), state=state, now=NOW + 11 * MINUTE)
    assert plan(later, LAW).decisions == ()
    assert ("dismiss", "node-3", None) in told(plan(replace(later, nodes=fleet()), LAW))


def test_a_person_still_opens_and_releases() -> None:
    made = plan(snapshot(worked_on(), requests=[ask(RequestKind.OPEN, "node-3")]), LAW)
    assert told(made)[0] == ("quarantine", "node-3", None)
    state, nodes = quarantined()
    made = plan(snapshot(worked_on(nodes), state=state, requests=[ask(RequestKind.RELEASE, "node-3")]), LAW)
    assert ("release", "node-3", None) in told(made)


def test_an_opted_out_node_says_so_first() -> None:
    made = plan(snapshot(worked_on(), hot("node-3")), rules(maintenance=SIGNS, never_touch=["node-3"]))
    assert told(made) == [("quarantine", "node-3", "ignored")]


# --- Grace after a start ----------------------------------------------------------------------------------------------


def started(look: Snapshot, law: Rules) -> tuple[Judgement, ...]:
    """The verdicts of a cycle in which every machine found bad has just started."""
    return tuple(replace(judgement, bad=(), in_grace=judgement.bad) for judgement in judge_all(look, law))


def triaged(look: Snapshot, law: Rules, judgements: tuple[Judgement, ...]) -> tuple[Decision, ...]:
    draft = Draft(look, law)
    draft.found(judgements)
    draft.judged = frozenset(judgement.policy.name for judgement in judgements)
    upkeep.late_marks(draft)
    triage.offences(draft, judgements)
    upkeep.deadlines(draft)
    return tuple(draft.decisions)


def test_what_is_found_after_a_start_opens_no_case_and_is_judged_afresh_afterwards() -> None:
    look = snapshot(None, hot("node-3"), hot("node-5"))
    made = triaged(look, rules(), started(look, rules()))
    assert [(d.node, d.held_by, d.case) for d in made] == [
        ("node-3", HeldBy.GRACE, None),
        ("node-5", HeldBy.GRACE, None),
    ]
    assert made[0].reason.endswith("held because the machine or its driver started a moment ago")
    state = after(State(), replace(plan(look, rules()), decisions=made))
    assert triaged(replace(look, state=state), rules(), started(look, rules())) == ()
    over = plan(snapshot(None, hot("node-3"), state=state, now=NOW + 10 * MINUTE), rules())
    assert ("quarantine", "node-3", None) in told(over)
    assert after(state, over).holds == {}


def test_a_start_adds_nothing_to_an_open_case_and_ends_none() -> None:
    state, nodes = quarantined()
    look = snapshot(nodes, hot("node-3"), hot("node-3", 6), state=state)
    assert triaged(look, rules(), started(look, rules())) == ()
    watched = snapshot(None, hot("node-3"), state=suspected(), now=NOW + timedelta(days=15))
    (overdue,) = triaged(watched, rules(), started(watched, rules()))
    assert (overdue.kind, overdue.held_by) == (Kind.HELD, HeldBy.OVERDUE), "past its deadline it is told, and not ended"
    assert overdue.reason.endswith("is not known, since the machine or its driver started a moment ago")
    waiting = after(State(), plan(snapshot(None, hot("node-3")), rules()))
    unmarked = snapshot(None, hot("node-3"), state=waiting, now=NOW + 11 * MINUTE)
    assert triaged(unmarked, rules(), started(unmarked, rules())) == ()


UPTIME = SignalSpec.model_validate(
    {
        "description": "uptime",
        "unit": "s",
        "device": "node",
        "type": "gauge",
        "plausible": {"min": 0, "max": 1e9},
        "interval": "30s",
        "sources": [{"exporter": "node-exporter", "metrics": ["up_seconds"], "node": {"first": ["node"]}}],
    }
)


def test_the_fleets_uptime_signal_tells_who_started_lately() -> None:
    made_of = rules(policy(grace={"boot": "10m"}), uptime="node.uptime")
    law = replace(made_of, signals={**SIGNALS, "node.uptime": UPTIME})

    def up(seconds: float) -> dict[str, Answer]:
        each = (Sample({"node": "node-3"}, seconds, NOW), Sample({"node": "node-5"}, 600, NOW))
        return {"node-exporter/up_seconds": Samples(each, "uptime")}

    look = replace(snapshot(None, hot("node-3"), hot("node-5")), uptime=up(300))
    made = plan(look, law)
    assert ("quarantine", "node-3", "grace") in told(made)
    assert ("quarantine", "node-5", None) in told(made)
    state = after(State(), made)
    assert plan(replace(look, state=state), law).decisions == ()
    over = plan(replace(look, state=state, now=NOW + 5 * MINUTE, uptime=up(600)), law)
    assert ("quarantine", "node-3", None) in told(over)
    untold = plan(replace(look, uptime={"node-exporter/up_seconds": Samples((), "uptime")}), law)
    assert told(untold) == [("quarantine", "node-3", "grace"), ("quarantine", "node-5", "grace")]
    assert untold.decisions[0].reason.endswith(
        "held because it is not told how long the machine has been up: it may have started a moment ago"
    )
    unknown: dict[str, Answer] = {"node-exporter/up_seconds": FAILED}
    assert told(plan(replace(look, uptime=unknown), law)) == [("judge", None, "no-answer")]


def test_another_policys_finding_acts_though_one_is_in_its_grace() -> None:
    nodes = fleet()
    labels = {"instance": "10.0.0.3:9100", "device": "mlx5_4", "port": "1"}
    given = {
        "gpu-hot": answers(nodes, hot("node-3")),
        "ib-flapping": answers(nodes, Sample(labels, 4.0, NOW), key=DOWNED),
    }
    law = rules(policy(), flapping())
    look = snapshot(nodes, given=given)
    graced, judged = judge_all(look, law)
    both = (replace(graced, bad=(), in_grace=graced.bad), judged)
    made = triaged(look, law, both)
    assert [(d.action, d.policy, d.held_by) for d in made] == [(Action.QUARANTINE, "ib-flapping", None)]
    state = after(State(), replace(plan(look, law), decisions=made))
    assert triaged(replace(look, state=state), law, both) == ()


# --- A policy that only tells -----------------------------------------------------------------------------------------

TELLS = policy(response={"taint": False})


def test_a_policy_that_only_tells_takes_nothing_out_and_asks_for_nothing() -> None:
    look = snapshot(None, hot("node-3"))
    made = plan(look, rules(TELLS))
    assert told(made) == [("quarantine", "node-3", "tells-only")]
    assert made.decisions[0].effects == ()
    state = after(State(), made)
    case = state.open_case_of("node-3")
    assert case is not None
    assert (case.phase, case.held_by) == (Phase.SUSPECTED, HeldBy.TELLS_ONLY)
    assert plan(replace(look, state=state), rules(TELLS)).decisions == ()
    assert told(plan(replace(look, mode=Mode.OBSERVE), rules(TELLS))) == [("quarantine", "node-3", "observe-mode")]


def test_one_that_acts_goes_before_a_worse_one_that_only_tells() -> None:
    nodes = fleet()
    labels = {"instance": "10.0.0.3:9100", "device": "mlx5_4", "port": "1"}
    given = {
        "gpu-hot": answers(nodes, hot("node-3")),
        "ib-flapping": answers(nodes, Sample(labels, 4.0, NOW), key=DOWNED),
    }
    law = rules(policy(severity="fatal", response={"taint": False}), flapping(severity="warning"))
    made = plan(snapshot(nodes, given=given), law)
    assert [(d.action, d.policy) for d in made.decisions if d.kind is Kind.DECIDED][:1] == [
        (Action.QUARANTINE, "ib-flapping")
    ]


def test_a_mark_not_made_yet_is_called_off_when_its_policy_only_tells_from_now_on() -> None:
    state = after(State(), plan(snapshot(None, hot("node-3")), rules()))
    made = plan(snapshot(None, hot("node-3"), state=state), rules(TELLS))
    assert told(made)[0] == ("dismiss", "node-3", None)
    state, _ = carried_out(after(state, made), fleet())
    assert all(not case.marked for case in state.cases.values())
    assert all(Effect.MARK not in d.effects for d in made.decisions)
