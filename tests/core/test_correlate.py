"""Machines that share something and fail together: the common thing is the suspect, not they."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.case import Phase
from quarantine.core.correlate import Groups, Incidents, Onset, Suspect
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import RequestKind, State
from quarantine.core.model import Mode, Node, Taint
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.response import Correlation
from quarantine.core.snapshot import Plan, Snapshot
from tests.core.world import (
    MINUTE,
    NOW,
    after,
    answers,
    ask,
    carried_out,
    fleet,
    hot,
    node,
    policy,
    rules,
    snapshot,
    told,
)

ONE_INCIDENT = ("judge", None, "correlated")  # told once for the group, beside what holds each machine
TOPOLOGY = {"rack": "dc/rack", "leafswitch": "dc/leaf"}


def racked(count: int = 24, per_rack: int = 4) -> dict[str, Node]:
    """node-0 … in racks r0, r1, …; every other machine on leaf l0, the rest on l1."""
    return {
        name: replace(n, labels={"gpu": "yes", "dc/rack": f"r{i // per_rack}", "dc/leaf": f"l{i % 2}"})
        for i, (name, n) in enumerate(fleet(count).items())
    }


def law(**correlation: object) -> Rules:
    said = {"by": ["rack"], "machines": 3, "within": "15m", **correlation}
    return rules(policy(correlation=said, breaker={"maxShare": "100%"}), topology=TOPOLOGY)


def test_machines_of_one_rack_at_once_are_held_and_named() -> None:
    nodes = racked()
    look = snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6, 7)))
    made = plan(look, law())
    assert told(made) == [*(("quarantine", f"node-{n}", "correlated") for n in (4, 5, 6, 7)), ONE_INCIDENT]
    assert made.decisions[0].reason.endswith("held because 4 machines of rack r1 at once: the rack is the suspect")
    state = after(State(), made)
    assert all(case.phase is Phase.SUSPECTED for case in state.cases.values())
    assert plan(replace(look, state=state), law()).decisions == ()
    assert plan(replace(look, state=state, now=NOW + 180 * MINUTE), law()).decisions == (), "one row, not one a cycle"


def test_fewer_than_said_or_another_rack_stand_for_themselves() -> None:
    nodes = racked()
    assert all(d[2] is None for d in told(plan(snapshot(nodes, hot("node-4"), hot("node-5")), law())))
    made = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6, 20))), law())
    assert ("quarantine", "node-20", None) in told(made)
    assert ("quarantine", "node-4", "correlated") in told(made)


def test_what_is_spread_evenly_is_no_racks_doing() -> None:
    nodes = racked(24, per_rack=8)
    made = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (0, 1, 2, 8, 9, 10, 16, 17, 18))), law())
    assert all(held is None for action, _, held in told(made) if action == "quarantine")


def test_a_group_that_is_most_of_the_fleet_says_nothing() -> None:
    nodes = racked(12, per_rack=11)
    made = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (0, 1, 2))), law())
    assert all(held is None for action, _, held in told(made) if action == "quarantine")


def test_any_of_the_named_topologies_may_be_the_suspect() -> None:
    nodes = racked()
    bad = [hot(f"node-{n}") for n in (0, 4, 8, 12)]
    assert all(held is None for action, _, held in told(plan(snapshot(nodes, *bad), law())) if action == "quarantine")
    made = plan(snapshot(nodes, *bad), law(by=["rack", "leafswitch"]))
    assert told(made)[0] == ("quarantine", "node-0", "correlated")
    assert "4 machines of leafswitch l0 at once" in made.decisions[0].reason


def test_findings_that_began_far_apart_do_not_count_together() -> None:
    nodes, state = racked(), State()
    for number, name in enumerate(("node-4", "node-5", "node-6")):
        bad = [hot(n) for n in ("node-4", "node-5", "node-6")[: number + 1]]
        made = plan(snapshot(nodes, *bad, state=state, now=NOW + number * 20 * MINUTE), law())
        assert ("quarantine", name, None) in told(made)
        state = after(state, made)


def test_those_marked_lately_count_though_they_are_idle_and_cool_now() -> None:
    nodes, state = racked(), State()
    state = after(state, plan(snapshot(nodes, hot("node-4"), hot("node-5")), law()))
    state, nodes = carried_out(state, nodes)
    made = plan(snapshot(nodes, hot("node-6"), state=state, now=NOW + 5 * MINUTE), law())
    assert told(made) == [("quarantine", "node-6", "correlated"), ONE_INCIDENT]
    assert "3 machines of rack r1" in made.decisions[0].reason


def test_when_the_cause_is_gone_the_rest_is_judged_afresh() -> None:
    nodes = racked()
    state = after(State(), plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6))), law()))
    good = [hot(f"node-{n}", value=60) for n in (4, 5)]
    given_ = {"gpu-hot": answers(nodes, hot("node-6"), good=good)}
    made = plan(snapshot(nodes, state=state, now=NOW + 60 * MINUTE, given=given_), law())
    assert {(action, name) for action, name, _ in told(made)} == {
        (action, name) for action in ("recover", "dismiss") for name in ("node-4", "node-5")
    }
    look = snapshot(nodes, hot("node-6"), state=after(state, made), now=NOW + 75 * MINUTE)
    made = plan(look, law())
    assert told(made)[0] == ("quarantine", "node-6", None)
    assert plan(replace(look, state=after(look.state, made)), law()).decisions == ()


def test_silence_is_no_sign_that_the_cause_is_gone() -> None:
    nodes = racked()
    state = after(State(), plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6))), law()))
    made = plan(snapshot(nodes, hot("node-6"), state=state, now=NOW + 60 * MINUTE), law())
    assert made.decisions == ()


def test_a_new_finding_settles_first() -> None:
    nodes, state = racked(), State()
    slow = law(settle="2m")
    made = plan(snapshot(nodes, hot("node-4"), state=state), slow)
    assert told(made) == [("quarantine", "node-4", "settling")]
    state = after(state, made)
    assert plan(snapshot(nodes, hot("node-4"), state=state, now=NOW + MINUTE), slow).decisions == ()
    alone = plan(snapshot(nodes, hot("node-4"), state=state, now=NOW + 2 * MINUTE), slow)
    assert told(alone)[0] == ("quarantine", "node-4", None)
    more = [hot(f"node-{n}") for n in (4, 5, 6)]
    joined = plan(snapshot(nodes, *more, state=state, now=NOW + 2 * MINUTE), slow)
    assert told(joined) == [*(("quarantine", f"node-{n}", "correlated") for n in (4, 5, 6)), ONE_INCIDENT]


def test_a_finding_that_joins_an_old_suspicion_settles_from_when_it_began() -> None:
    nodes = racked()
    state = after(State(), plan(snapshot(nodes, hot("node-4", 1), mode=Mode.OBSERVE), law(settle="2m")))
    good = {"gpu-hot": answers(nodes, hot("node-4", 2), good=[hot("node-4", 1, value=60)])}
    made = plan(snapshot(nodes, state=state, now=NOW + 60 * MINUTE, given=good), law(settle="2m"))
    assert ("quarantine", "node-4", "settling") in told(made)


def test_machines_that_are_never_acted_on_do_not_count() -> None:
    nodes = racked()
    ignored = replace(law(), fleet=law().fleet.model_copy(update={"never_touch": ("node-4",)}))
    made = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6))), ignored)
    assert ("quarantine", "node-5", None) in told(made)


def test_machines_on_which_work_is_under_way_do_not_count() -> None:
    nodes, worked_on = racked(), rules(*law().policies, topology=TOPOLOGY, maintenance={"taints": ["ops/maintenance"]})
    nodes["node-4"] = replace(nodes["node-4"], taints=(Taint("ops/maintenance"),))
    made = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6))), worked_on)
    assert ("quarantine", "node-5", None) in told(made)
    assert ("quarantine", "node-4", "maintenance") in told(made)


def test_an_unknown_topology_groups_nothing() -> None:
    made = plan(snapshot(racked(), *(hot(f"node-{n}") for n in (4, 5, 6, 7))), law(by=["nvlink-domain"]))
    assert all(held is None for action, _, held in told(made) if action == "quarantine")


def hour(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def held(names: str = "456") -> tuple[dict[str, Node], State]:
    """Machines of rack r1, held together at 12:00."""
    nodes = racked()
    return nodes, after(State(), plan(snapshot(nodes, *(hot(f"node-{n}") for n in names)), law()))


def acted(made: Plan) -> list[str | None]:
    return [name for action, name, why in told(made) if action == "quarantine" and why is None]


def step(
    state: State, nodes: dict[str, Node], at: float, bad: str, good: str = "", ruled: Rules | None = None
) -> State:
    """The state after a cycle `at` minutes; nothing may be taken out in it, and planning again yields nothing."""
    given = answers(nodes, *(hot(f"node-{n}") for n in bad), good=[hot(f"node-{n}", value=60) for n in good])
    look = snapshot(nodes, state=state, now=hour(at), given={"gpu-hot": given})
    made = plan(look, ruled or law())
    assert acted(made) == [], f"at {at} min"
    then = after(state, made)
    assert plan(replace(look, state=then), ruled or law()).decisions == ()
    return then


def test_one_that_recovers_lets_the_others_not_go() -> None:
    nodes, state = held()
    state = step(state, nodes, 40, "56", good="4")
    state = step(state, nodes, 120, "56")
    state = step(state, nodes, 130, "6", good="5")
    state = step(state, nodes, 144, "6")
    made = plan(snapshot(nodes, hot("node-6"), state=state, now=hour(145)), law())
    assert acted(made) == ["node-6"], "the last one, `within` after the others left: it stands for itself"
    assert ("ticket", "node-6", None) in told(made)


def test_one_with_planned_work_lets_the_others_not_go() -> None:
    law_ = rules(*law(machines=2).policies, topology=TOPOLOGY, maintenance={"labels": {"work": "*"}})
    nodes = racked()
    state = after(State(), plan(snapshot(nodes, hot("node-4"), hot("node-5")), law_))
    nodes["node-4"] = replace(nodes["node-4"], labels={**nodes["node-4"].labels, "work": "switch"})
    state = step(state, nodes, 20, "45", ruled=law_)
    state = step(state, nodes, 34, "45", ruled=law_)
    assert acted(plan(snapshot(nodes, hot("node-5"), state=state, now=hour(35)), law_)) == ["node-5"]


def test_one_that_a_person_releases_lets_the_others_not_go() -> None:
    nodes, state = held()
    asked = [ask(RequestKind.RELEASE, "node-4")]
    bad = [hot(f"node-{n}") for n in "456"]
    made = plan(snapshot(nodes, *bad, state=state, now=hour(20), requests=asked), law())
    assert acted(made) == []
    step(after(state, made), nodes, 60, "456")


@pytest.mark.parametrize("machines", [2, 3])
def test_one_that_leaves_the_cluster_lets_the_others_not_go(machines: int) -> None:
    ruled = law(machines=machines)
    nodes = racked()
    names = "456"[:machines]
    state = after(State(), plan(snapshot(nodes, *(hot(f"node-{n}") for n in names)), ruled))
    del nodes["node-4"]
    for at in (20, 31, 44):  # it is retired after ten minutes
        state = step(state, nodes, at, names[1:], ruled=ruled)
    assert state.open_case_of("node-4") is None


def test_a_smaller_fleet_lets_nobody_go() -> None:
    nodes, state = held()
    fewer = {name: n for name, n in nodes.items() if n.labels["dc/rack"] == "r1"}
    step(state, fewer, 60, "456")


def test_a_latecomer_belongs_to_the_group_that_stands_suspected() -> None:
    nodes, state = held()
    state = step(state, nodes, 17, "4567")
    assert state.open_case_of("node-7").held_by == "correlated"  # type: ignore[union-attr]
    state = step(state, nodes, 200, "4567")
    other = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6, 7, 20)), state=state, now=hour(201)), law())
    assert acted(other) == ["node-20"], "another rack's"


def test_a_person_takes_one_out_of_a_suspected_group() -> None:
    nodes, state = held()
    look = snapshot(nodes, *(hot(f"node-{n}") for n in "456"), state=state, now=hour(20))
    made = plan(replace(look, requests=(ask(RequestKind.OPEN, "node-4"),)), law())
    assert acted(made) == ["node-4"]
    step(after(state, made), nodes, 60, "56")


def test_two_that_are_out_hold_a_third_for_the_time_only() -> None:
    nodes = racked()
    state = after(State(), plan(snapshot(nodes, hot("node-4"), hot("node-5")), law()))
    state, nodes = carried_out(state, nodes)
    state = step(state, nodes, 10, "6")
    state = step(state, nodes, 14, "6")
    made = plan(snapshot(nodes, hot("node-6"), state=state, now=hour(15)), law())
    assert told(made)[0] == ("quarantine", "node-6", None)
    assert ("ticket", "node-6", None) in told(made)


@pytest.mark.parametrize("settle", [None, "5m"])
def test_what_joins_a_machine_that_is_out_reports_no_rack(settle: str | None) -> None:
    nodes = racked()
    quiet = policy("gpu-warm", response={"ticket": "none", "notify": False})
    said = {"by": ["rack"], "machines": 3, "within": "15m", **({"settle": settle} if settle else {})}
    ruled = rules(quiet, policy(correlation=said, breaker={"maxShare": "100%"}), topology=TOPOLOGY)

    def look(state: State, at: float, warm: str, hot_ones: str, good: str = "") -> Snapshot:
        cool = [hot(f"node-{n}", value=60) for n in good]
        said = {
            "gpu-warm": answers(nodes, *(hot(f"node-{n}", 1) for n in warm)),
            "gpu-hot": answers(nodes, *(hot(f"node-{n}") for n in hot_ones), good=cool),
        }
        return snapshot(nodes, state=state, now=hour(at), given=said)

    made = plan(look(State(), 0, "4", ""), ruled)
    assert told(made) == [("quarantine", "node-4", None)]
    state, nodes = carried_out(after(State(), made), nodes)
    for at, bad, good in ((10, "4", ""), (12, "4567", ""), (60, "567", ""), (90, "", "567"), (300, "", "")):
        if settle is None and at == 10:
            continue  # alone, without time to settle, it would be reported at once
        made = plan(look(state, at, "4", bad, good), ruled)
        assert not {"ticket", "notify"} & {action for action, _, _ in told(made)}, f"at {at} min"
        state = after(state, made)


def test_a_joined_finding_of_the_machine_itself_is_reported_once_it_has_settled() -> None:
    nodes = racked()
    quiet = policy("gpu-warm", response={"ticket": "none", "notify": False})
    ruled = rules(quiet, *law(settle="5m").policies, topology=TOPOLOGY)
    warm = answers(nodes, hot("node-4", 1))
    state, nodes = carried_out(after(State(), plan(snapshot(nodes, given={"gpu-warm": warm}), ruled)), nodes)
    given_ = {"gpu-warm": warm, "gpu-hot": answers(nodes, hot("node-4"))}
    made = plan(snapshot(nodes, state=state, now=hour(10), given=given_), ruled)
    assert [action for action, _, _ in told(made)] == ["join"]
    made = plan(snapshot(nodes, state=after(state, made), now=hour(15), given=given_), ruled)
    assert [action for action, _, _ in told(made)] == ["ticket", "notify"]


def test_the_moments_at_which_a_group_is_let_go_are_deadlines() -> None:
    nodes, state = held()
    state = step(state, nodes, 40, "6", good="45")
    assert hour(55) in deadlines(state, law())


RULE = Correlation.model_validate({"by": ["rack"], "machines": 3, "within": "15m"})


def suspected(nodes: dict[str, Node], onsets: list[Onset], of: Onset, now: datetime) -> Suspect | None:
    groups = Groups.of(nodes.values(), RULE, TOPOLOGY)
    return Incidents(by_node(onsets), groups, RULE, now).suspect(of.node, of.at, now)


def by_node(onsets: list[Onset]) -> dict[str, list[Onset]]:
    return {o.node: [other for other in onsets if other.node == o.node] for o in onsets}


@pytest.mark.parametrize(
    ("bad_here", "bad_elsewhere", "is_suspected"), [(3, 0, True), (3, 6, True), (3, 7, False), (2, 0, False)]
)
def test_a_group_must_stand_out_threefold(bad_here: int, bad_elsewhere: int, is_suspected: bool) -> None:
    """A rack of 4 in a fleet of 28: 3 of 4 are three times 6 of 24, and less than that of 7."""
    onsets = [Onset(f"node-{n}", NOW) for n in (*range(bad_here), *range(4, 4 + bad_elsewhere))]
    assert (suspected(racked(28), onsets, onsets[0], NOW) is not None) is is_suspected


def test_a_rule_that_is_content_with_one_machine() -> None:
    made = plan(snapshot(racked(), hot("node-4")), law(machines=1))
    assert told(made) == [("quarantine", "node-4", "correlated"), ONE_INCIDENT]


@st.composite
def spells(draw: st.DrawFn) -> list[Onset]:
    """Of one fleet, within five hours; some are over."""
    found = []
    for _ in range(draw(st.integers(0, 20))):
        began = draw(st.integers(0, 300))
        lasts = draw(st.none() | st.integers(0, 120))
        left = None if lasts is None else hour(began + lasts)
        found.append(Onset(f"node-{draw(st.integers(0, 11))}", hour(began), left))
    return found


@given(racks=st.lists(st.integers(0, 3), min_size=12, max_size=12), onsets=spells(), machines=st.integers(1, 4))
def test_what_belongs_to_an_incident(racks: list[int], onsets: list[Onset], machines: int) -> None:
    nodes = {f"node-{n}": node(f"node-{n}", labels={"dc/rack": f"r{rack}"}) for n, rack in enumerate(racks)}
    rule = RULE.model_copy(update={"machines": machines})
    groups = Groups.of(nodes.values(), rule, TOPOLOGY)
    found = Incidents(by_node(onsets), groups, rule, hour(400))
    for incident in {i for o in onsets for i in found.of(o.node, o.at)}:
        assert len(incident.machines) >= machines
        rack = incident.group[1]
        assert all(nodes[name].labels["dc/rack"] == rack for name in incident.machines)
        assert 2 * len(groups.members[incident.group]) <= len(nodes)
        theirs = [o for o in onsets if incident in found.of(o.node, o.at)]
        first = min(o.at for o in theirs)
        assert len({o.node for o in theirs if o.at <= first + RULE.within}) >= machines
    for now in (0, 60, 150, 400):
        # What is known at a moment does not depend on what comes later.
        until = [o for o in onsets if o.at <= hour(now)]
        then = Incidents(by_node(until), groups, rule, hour(now))
        for o in until:
            assert bool(found.of(o.node, o.at)) or not then.of(o.node, o.at)
            if found.suspect(o.node, o.at, hour(now)) is None:
                assert then.suspect(o.node, o.at, hour(now)) is None


@given(onsets=spells(), leaver=st.integers(0, 19))
def test_who_leaves_lets_nobody_go(onsets: list[Onset], leaver: int) -> None:
    """Whoever stands correlated with two others still does, the moment one of those ceases to be bad."""
    nodes, now = racked(12), hour(300)
    before = {o: suspected(nodes, onsets, o, now) for o in onsets}
    after_ = [replace(o, left=now) if n == leaver and o.left is None else o for n, o in enumerate(onsets)]
    for o, then in zip(onsets, after_, strict=True):
        assert (before[o] is None) == (suspected(nodes, after_, then, now) is None)
