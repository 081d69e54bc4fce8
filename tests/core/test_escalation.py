"""Single findings are watched; the nth within a time is acted on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from quarantine.core.case import Phase
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State
from quarantine.core.model import Mode, Node, Sample, Verdict
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Plan
from quarantine.core.state import FINDING_MEMORY, MOST_EARLIER, fold
from tests.core.world import (
    DOWNED,
    NOW,
    after,
    answers,
    ask,
    carried_out,
    flapping,
    fleet,
    hot,
    node,
    policy,
    rules,
    snapshot,
    told,
)

HOUR = timedelta(hours=1)
THIRD = rules(policy(escalation={"findings": 3, "within": "12h"}))


def episode(state: State, at: datetime, gpu: int = 3) -> State:
    """Found bad at `at`, and good again half an hour later."""
    state = after(state, plan(snapshot(None, hot("node-3", gpu), state=state, now=at), THIRD))
    good = {"gpu-hot": answers(fleet(), good=[hot("node-3", gpu, value=60)])}
    return after(state, plan(snapshot(None, state=state, now=at + HOUR / 2, given=good), THIRD))


def test_below_the_number_it_is_held_and_planning_again_yields_nothing() -> None:
    look = snapshot(None, hot("node-3"))
    made = plan(look, THIRD)
    assert told(made) == [("quarantine", "node-3", "escalation")]
    reason = made.decisions[0].reason
    assert reason.endswith("; held because it makes 1 of 3 findings within 12h, which policy gpu-hot waits for")
    assert made.decisions[0].effects == ()
    state = after(State(), made)
    assert state.open_case_of("node-3").phase is Phase.SUSPECTED  # type: ignore[union-attr]
    assert plan(replace(look, state=state), THIRD).decisions == ()
    assert plan(replace(look, state=state, now=NOW + 24 * HOUR), THIRD).decisions == (), "it lasts, and is one"


def test_the_third_within_the_time_is_acted_on() -> None:
    state = episode(episode(State(), NOW), NOW + HOUR)
    look = snapshot(None, hot("node-3"), state=state, now=NOW + 2 * HOUR)
    made = plan(look, THIRD)
    assert told(made)[0] == ("quarantine", "node-3", None)
    assert plan(replace(look, state=after(state, made)), THIRD).decisions == ()


def test_any_device_of_the_machine_counts() -> None:
    state = episode(episode(State(), NOW, gpu=1), NOW + HOUR, gpu=2)
    made = plan(snapshot(None, hot("node-3", 5), state=state, now=NOW + 2 * HOUR), THIRD)
    assert told(made)[0] == ("quarantine", "node-3", None)


def test_devices_that_turn_bad_at_once_are_one_event() -> None:
    made = plan(snapshot(None, *(hot("node-3", gpu) for gpu in range(8))), THIRD)
    assert told(made)[0] == ("quarantine", "node-3", "escalation")


def test_findings_of_longer_ago_do_not_count() -> None:
    state = episode(episode(State(), NOW), NOW + HOUR)
    made = plan(snapshot(None, hot("node-3"), state=state, now=NOW + 12 * HOUR), THIRD)
    assert told(made) == [("quarantine", "node-3", "escalation")]
    assert "2 of 3" in made.decisions[0].reason


def test_what_waits_for_the_budget_does_not_lose_its_count() -> None:
    full = replace(THIRD, fleet=rules(pools=[_pool(0)]).fleet)
    state = episode(episode(State(), NOW), NOW + HOUR)
    state = after(state, plan(snapshot(None, hot("node-3"), state=state, now=NOW + 2 * HOUR), full))
    assert state.open_case_of("node-3").held_by == "budget"  # type: ignore[union-attr]
    later = plan(snapshot(None, hot("node-3"), state=state, now=NOW + 48 * HOUR), THIRD)
    assert told(later)[0] == ("quarantine", "node-3", None)


def _pool(quarantined: int) -> dict[str, object]:
    share = "0%" if quarantined == 0 else quarantined
    budget = {"quarantined": share, "unavailable": 9, "perHour": 9}
    return {"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget}


def test_other_hardware_under_the_name_begins_anew() -> None:
    state = episode(episode(State(), NOW), NOW + HOUR)
    nodes = fleet()
    other = replace(nodes["node-3"].machine, node_uid="another", provider_id="acme://x", system_uuid="sys-x")
    nodes["node-3"] = node("node-3", machine=other)
    made = plan(snapshot(nodes, hot("node-3"), state=state, now=NOW + 2 * HOUR), THIRD)
    assert told(made) == [("quarantine", "node-3", "escalation")]
    assert "1 of 3" in made.decisions[0].reason
    same = {**nodes, "node-3": node("node-3", machine=replace(fleet()["node-3"].machine, node_uid="another"))}
    made = plan(snapshot(same, hot("node-3"), state=state, now=NOW + 2 * HOUR), THIRD)
    assert told(made)[0] == ("quarantine", "node-3", None), "the same machine under a new Node object"


def test_a_machine_that_a_person_put_back_begins_anew() -> None:
    state = episode(episode(State(), NOW), NOW + HOUR)
    state = after(state, plan(snapshot(None, hot("node-3"), state=state, now=NOW + 2 * HOUR), THIRD))
    state, nodes = carried_out(state, fleet())
    law = replace(THIRD, dismissal=timedelta(minutes=1))
    asked = [replace(ask(RequestKind.RELEASE, "node-3"), at=NOW + 3 * HOUR)]
    state = after(state, plan(snapshot(nodes, state=state, requests=asked, now=NOW + 3 * HOUR), law))
    made = plan(snapshot(None, hot("node-3"), state=state, now=NOW + 4 * HOUR), law)
    assert ("quarantine", "node-3", "escalation") in told(made)
    assert "1 of 3" in made.decisions[0].reason


def test_another_policys_finding_acts_by_itself() -> None:
    nodes = fleet()
    labels = {"instance": "10.0.0.3:9100", "device": "mlx5_4", "port": "1"}
    port = answers(nodes, Sample(labels, 4.0, NOW, query="q"), key=DOWNED)
    law = rules(policy(severity="fatal", escalation={"findings": 3, "within": "12h"}), flapping(severity="warning"))
    look = snapshot(nodes, given={"gpu-hot": answers(nodes, hot("node-3")), "ib-flapping": port})
    made = plan(look, law)
    assert told(made)[0] == ("quarantine", "node-3", None)
    assert made.decisions[0].policy == "ib-flapping"
    assert ("join", "node-3", None) in told(made)
    assert plan(replace(look, state=after(State(), made)), law).decisions == ()


def test_a_policy_that_waits_for_more_findings_files_no_ticket() -> None:
    nodes = fleet()
    labels = {"instance": "10.0.0.3:9100", "device": "mlx5_4", "port": "1"}
    port = answers(nodes, Sample(labels, 4.0, NOW, query="q"), key=DOWNED)
    silent = flapping(response={"ticket": "none", "notify": False})
    law = rules(policy(escalation={"findings": 2, "within": "12h"}), silent)
    made = plan(snapshot(nodes, given={"gpu-hot": answers(nodes, hot("node-3")), "ib-flapping": port}), law)
    assert [action for action, _, _ in told(made)] == ["quarantine", "join"]


def test_what_was_found_while_observing_counts_once_it_enforces() -> None:
    state = State()
    for at in (NOW, NOW + HOUR):
        state = after(state, plan(snapshot(None, hot("node-3"), state=state, now=at, mode=Mode.OBSERVE), THIRD))
        good = {"gpu-hot": answers(fleet(), good=[hot("node-3", value=60)])}
        look = snapshot(None, state=state, now=at + HOUR / 2, mode=Mode.OBSERVE, given=good)
        state = after(state, plan(look, THIRD))
    made = plan(snapshot(None, hot("node-3"), state=state, now=NOW + 2 * HOUR), THIRD)
    assert told(made)[0] == ("quarantine", "node-3", None)


@pytest.mark.parametrize("ended", [True, False])
def test_a_finding_that_is_back_remembers_when_it_began_before(ended: bool) -> None:
    """Also in a case that stays open, since another finding stands: the count is folded from the decisions alone."""
    law = THIRD
    state = State()
    decisions: list[Decision] = []
    standing = [] if ended else [hot("node-3", 7)]
    for number in range(3):
        at = NOW + number * HOUR
        for bad, good, when in (([hot("node-3")], [], at), ([], [hot("node-3", value=60)], at + HOUR / 2)):
            given = {"gpu-hot": answers(fleet(), *standing, *bad, good=good)}
            if number == 2 and good:
                continue
            made = plan(snapshot(None, state=state, now=when, given=given), law)
            decisions += made.decisions
            state = after(state, made)
    case = state.open_case_of("node-3")
    assert case is not None
    assert case.phase is Phase.QUARANTINED
    assert fold(State(), decisions) == state, "a restart forgets nothing"
    finding = next(f for f in case.findings if f.device.name.endswith("-3"))
    assert finding.verdict is Verdict.BAD
    assert finding.since == NOW + 2 * HOUR
    assert finding.earlier == (() if ended else (NOW, NOW + HOUR))


def test_the_memory_of_a_finding_is_bounded() -> None:
    state = State()
    for number in range(150):
        at = NOW + number * HOUR / 2
        standing = [hot("node-3", 7)]
        made = plan(snapshot(None, *standing, hot("node-3"), state=state, now=at), rules(policy(mode="observe")))
        state = after(state, made)
        good = {"gpu-hot": answers(fleet(), *standing, good=[hot("node-3", value=60)])}
        look = snapshot(None, state=state, now=at + HOUR / 4, given=good)
        state = after(state, plan(look, rules(policy(mode="observe"))))
    case = state.open_case_of("node-3")
    assert case is not None
    assert max(len(f.earlier) for f in case.findings) == MOST_EARLIER
    late = NOW + FINDING_MEMORY + 149 * HOUR
    state = after(state, plan(snapshot(None, hot("node-3"), state=state, now=late), rules(policy(mode="observe"))))
    finding = next(f for f in state.open_case_of("node-3").findings if f.since == late)  # type: ignore[union-attr]
    assert finding.earlier == ()


def step(law: Rules, state: State, at: datetime, bad: list[Sample], good: list[Sample]) -> tuple[Plan, State]:
    nodes = racked()
    given = {"gpu-hot": answers(nodes, *bad, good=[replace(one, value=60.0) for one in good])}
    look = snapshot(nodes, state=state, now=at, given=given)
    made = plan(look, law)
    state = after(state, made)
    assert plan(replace(look, state=state), law).decisions == ()
    return made, state


def racked() -> dict[str, Node]:
    return {n: replace(x, labels={**x.labels, "rack": f"r{i // 4}"}) for i, (n, x) in enumerate(fleet().items())}


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
@pytest.mark.parametrize("leaves", [False, True])
def test_what_a_rack_fails_in_together_is_none_of_the_machines_own_findings(mode: Mode, leaves: bool) -> None:
    if leaves and mode is Mode.OBSERVE:
        return
    spec = {"by": ["rack"], "machines": 3, "within": "15m"}
    often = {"findings": 3, "within": "1d"}
    law = rules(
        policy(escalation=often, correlation=spec, breaker={"maxShare": "100%"}, mode=mode), topology={"rack": "rack"}
    )
    state, rack = State(), [hot(f"node-{n}") for n in range(4)]
    for number in range(2):
        at = NOW + number * 3 * HOUR
        _, state = step(law, state, at, rack, [])
        _, state = step(law, state, at + HOUR, [], rack)
    law = rules(policy(escalation=often, correlation=spec, breaker={"maxShare": "100%"}), topology={"rack": "rack"})
    nodes = racked()
    if leaves:  # the trail says still that node-2 was held for its rack
        nodes = {name: n for name, n in nodes.items() if name not in ("node-0", "node-1", "node-3")}
    made = plan(snapshot(nodes, hot("node-2"), state=state, now=NOW + 6 * HOUR), law)
    assert told(made) == [("quarantine", "node-2", "escalation")]
    assert "1 of 3" in made.decisions[0].reason


def test_one_incident_whose_devices_turn_bad_one_after_the_other_counts_once() -> None:
    state = State()
    gpus = [hot("node-3", gpu) for gpu in (1, 2, 3)]
    for number in (1, 2, 3):
        _, state = step(THIRD, state, NOW + number * HOUR / 60, gpus[:number], [])
    _, state = step(THIRD, state, NOW + HOUR / 2, gpus[2:], gpus[:1])
    _, state = step(THIRD, state, NOW + HOUR, [], gpus[1:])
    made, state = step(THIRD, state, NOW + 2 * HOUR, gpus[:1], [])
    assert "2 of 3" in made.decisions[0].reason
    made, state = step(THIRD, state, NOW + 3 * HOUR, gpus[1:2], gpus[:1])
    assert not [d for d in made.decisions if d.kind is Kind.DECIDED and d.action is Action.QUARANTINE]
    _, state = step(THIRD, state, NOW + 4 * HOUR, [], gpus[1:2])
    made, state = step(THIRD, state, NOW + 5 * HOUR, gpus[2:], [])
    assert told(made)[0] == ("quarantine", "node-3", None)


def test_an_older_record_that_does_not_say_when_it_recovered() -> None:
    base = plan(snapshot(None, hot("node-3")), THIRD)
    finding = after(State(), base).open_case_of("node-3").findings[0]  # type: ignore[union-attr]
    old = replace(finding, earlier=(NOW - 2 * HOUR, NOW - HOUR))
    assert old.spells == ((NOW - 2 * HOUR, NOW - 2 * HOUR), (NOW - HOUR, NOW - HOUR), (NOW, None))
    good = replace(old, verdict=Verdict.GOOD, ended=(NOW + HOUR,))
    assert good.spells[1:] == ((NOW - HOUR, NOW - HOUR), (NOW, NOW + HOUR))
