"""Machines that share something and fail together: the common thing is the suspect, not they."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.case import Phase
from quarantine.core.correlate import Groups, Onsets
from quarantine.core.decision import State
from quarantine.core.model import Mode, Node, Taint
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.response import Correlation
from tests.core.world import MINUTE, NOW, after, answers, carried_out, fleet, hot, node, policy, rules, snapshot, told

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
    assert told(made) == [("quarantine", f"node-{n}", "correlated") for n in (4, 5, 6, 7)]
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
    assert told(made) == [("quarantine", "node-6", "correlated")]
    assert "3 machines of rack r1" in made.decisions[0].reason


def test_when_the_cause_is_gone_the_rest_is_judged_afresh() -> None:
    nodes = racked()
    state = after(State(), plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6))), law()))
    good = [hot(f"node-{n}", value=60) for n in (4, 5)]
    look = snapshot(
        nodes, state=state, now=NOW + 60 * MINUTE, given={"gpu-hot": answers(nodes, hot("node-6"), good=good)}
    )
    made = plan(look, law())
    assert ("quarantine", "node-6", None) in told(made)
    assert ("dismiss", "node-4", None) in told(made)
    assert plan(replace(look, state=after(state, made)), law()).decisions == ()


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
    assert told(joined) == [("quarantine", f"node-{n}", "correlated") for n in (4, 5, 6)]


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


RULE = Correlation.model_validate({"by": ["rack"], "machines": 3, "within": "15m"})


@pytest.mark.parametrize(
    ("bad_here", "bad_elsewhere", "suspected"), [(3, 0, True), (3, 6, True), (3, 7, False), (2, 0, False)]
)
def test_a_group_must_stand_out_threefold(bad_here: int, bad_elsewhere: int, suspected: bool) -> None:
    """A rack of 4 in a fleet of 28: 3 of 4 are three times 6 of 24, and less than that of 7."""
    nodes = racked(28)
    names = [f"node-{n}" for n in (*range(bad_here), *range(4, 4 + bad_elsewhere))]
    onsets = Onsets.of({name: [NOW] for name in names})
    found = Groups.of(nodes.values(), RULE, TOPOLOGY).suspect("node-0", NOW, onsets, RULE)
    assert (found is not None) is suspected


@given(
    racks=st.lists(st.integers(0, 3), min_size=1, max_size=24),
    bad=st.dictionaries(st.integers(0, 23), st.integers(0, 60), max_size=24),
    machines=st.integers(1, 6),
)
def test_a_suspect_is_what_so_many_bad_machines_share(racks: list[int], bad: dict[int, int], machines: int) -> None:
    nodes = {f"node-{n}": node(f"node-{n}", labels={"dc/rack": f"r{rack}"}) for n, rack in enumerate(racks)}
    rule = RULE.model_copy(update={"machines": machines})
    onsets: dict[str, list[datetime]] = {f"node-{n}": [NOW + m * MINUTE] for n, m in bad.items() if n < len(racks)}
    groups = Groups.of(nodes.values(), rule, TOPOLOGY)
    for name, (at,) in onsets.items():
        found = groups.suspect(name, at, Onsets.of(onsets), rule)
        if found is None:
            continue
        assert name in found.machines
        assert len(found.machines) >= machines
        for other in found.machines:
            assert nodes[other].labels["dc/rack"] == found.which
            assert abs(onsets[other][0] - at) <= timedelta(minutes=15)
        members = [n for n in nodes.values() if n.labels["dc/rack"] == found.which]
        assert 2 * len(members) <= len(nodes)
