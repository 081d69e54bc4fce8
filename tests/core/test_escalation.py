"""Single findings are watched; the nth within a time is acted on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from quarantine.core.case import Phase
from quarantine.core.decision import Decision, RequestKind, State
from quarantine.core.model import Mode, Sample, Verdict
from quarantine.core.planner import plan
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
    asked = [ask(RequestKind.RELEASE, "node-3")]
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
