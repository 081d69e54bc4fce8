"""What a cycle obeys: broken files are said once and lifted, and a policy that is new in its version only observes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core import rulefiles
from quarantine.core.case import HeldBy
from quarantine.core.decision import State
from quarantine.core.law import Law, without_records
from quarantine.core.model import DeviceKind, Mode
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.rulefiles import BrokenFile, InForce, PolicyRun
from quarantine.core.signal import SignalSpec
from quarantine.core.snapshot import Plan, Snapshot
from tests.core.world import (
    FAILED,
    GPU_TEMPERATURE,
    MINUTE,
    NOW,
    after,
    answers,
    flapping,
    fleet,
    hot,
    policy,
    quarantined,
    rules,
    snapshot,
    told,
)

SETTLE = 3
TAKEN_OUT = [("quarantine", "node-3", None), ("ticket", "node-3", None), ("notify", "node-3", None)]
HOT = BrokenFile("/p/hot.yaml", "/p/hot.yaml:3:1: a tab stands here", NOW - timedelta(days=1))
NEW = BrokenFile("/p/new.yaml", "/p/new.yaml:1:1: the file is empty", None)


def law(
    *policies: LoadedPolicy, known: Mapping[str, PolicyRun] | None = None, broken: tuple[BrokenFile, ...] = ()
) -> Law:
    return Law.of(InForce(rules(*policies), (), broken), known, SETTLE)


def planned(found: Law, look: Snapshot) -> Plan:
    """Without versions and sizes of pools: `test_versions` and `test_census` are about those."""
    return without_records(found.plan(look))


def held(state: State) -> dict[str, HeldBy]:
    return {key: hold.held_by for key, hold in state.holds.items()}


# --- Broken files -----------------------------------------------------------------------------------------------------


def test_a_broken_file_is_held_once_and_lifted_when_it_is_repaired() -> None:
    broken = law(broken=(HOT, NEW))
    made = planned(broken, snapshot())
    assert told(made) == [("judge", None, "broken-file"), ("judge", None, "broken-file")]
    assert made.decisions[0].reason == (
        "/p/hot.yaml stays in force as it was accepted on 2026-11-28 12:00 UTC: /p/hot.yaml:3:1: a tab stands here"
    )
    assert made.decisions[1].reason == "nothing of /p/new.yaml is in force: /p/new.yaml:1:1: the file is empty"
    state = after(State(), made)
    assert held(state) == {"rules//p/hot.yaml": HeldBy.BROKEN_FILE, "rules//p/new.yaml": HeldBy.BROKEN_FILE}
    assert planned(broken, snapshot(state=state)).decisions == ()
    assert rulefiles.newly_broken(State(), (HOT, NEW)) == (HOT, NEW)
    assert rulefiles.newly_broken(state, (HOT, NEW)) == ()

    repaired = planned(law(broken=(NEW,)), snapshot(state=state))
    assert [d.reason for d in repaired.decisions] == ["/p/hot.yaml is in force as it is, or is no more"]
    assert held(after(state, repaired)) == {"rules//p/new.yaml": HeldBy.BROKEN_FILE}


def test_a_file_that_is_broken_in_another_way_is_said_again_and_is_not_newly_broken() -> None:
    state = after(State(), planned(law(broken=(HOT,)), snapshot()))
    other = replace(HOT, fault="/p/hot.yaml:9:1: a colon stands where none can")
    made = planned(law(broken=(other,)), snapshot(state=state, now=NOW + MINUTE))
    assert told(made) == [("judge", None, "broken-file")]
    assert after(state, made).holds["rules//p/hot.yaml"].reason == other.reason
    assert rulefiles.newly_broken(state, (other,)) == ()


def test_a_broken_file_holds_back_nothing_else() -> None:
    made = planned(law(broken=(HOT,)), snapshot(None, hot("node-3")))
    assert told(made) == [("judge", None, "broken-file"), *TAKEN_OUT]


# --- Policies that are new in their version ---------------------------------------------------------------------------


def cycles(count: int, known: Mapping[str, PolicyRun], *policies: LoadedPolicy, failed: bool = False) -> Law:
    """The law after so many cycles."""
    found = law(*policies, known=known)
    nodes = fleet()
    said = {p.name: answers(nodes, trigger=FAILED if failed else None) for p in found.rules.policies}
    for _ in range(count):
        found = law(*policies, known=rulefiles.ran(found.runs, said, SETTLE))
    return found


def test_with_a_fresh_ledger_nothing_is_new() -> None:
    first = law()
    assert first.new == ()
    assert told(planned(first, snapshot(None, hot("node-3")))) == TAKEN_OUT


def test_after_a_look_without_policies_those_that_come_are_new() -> None:
    nothing = Law.of(InForce(replace(rules(), policies=()), ()), law().runs, SETTLE)
    kept = rulefiles.ran(nothing.runs, {}, SETTLE)
    assert kept == {}
    assert [p.name for p in law(known=kept).new] == ["gpu-hot"]


def test_a_changed_policy_observes_for_its_first_cycles() -> None:
    known = law().runs
    changed = policy(trigger={"above": 50, "for": "5m"})
    for count in range(SETTLE):
        found = cycles(count, known, changed)
        assert [p.name for p in found.new] == ["gpu-hot"]
        assert found.rules.policies[0].spec.mode is Mode.OBSERVE
        assert found.in_force.rules.policies[0].spec.mode is Mode.ENFORCE
    assert cycles(SETTLE, known, changed).new == ()


def test_it_is_said_when_it_begins_and_ends_and_the_node_is_taken_out_then() -> None:
    known = law().runs
    changed = policy(trigger={"above": 50, "for": "5m"})
    made = planned(law(changed, known=known), snapshot(None, hot("node-3")))
    assert told(made) == [("judge", None, "changed-policy"), ("quarantine", "node-3", "observe-mode")]
    assert made.decisions[0].policy_hash == changed.hash
    state = after(State(), made)
    assert planned(law(changed, known=known), snapshot(None, hot("node-3"), state=state)).decisions == ()
    made = planned(cycles(SETTLE, known, changed), snapshot(None, hot("node-3"), state=state))
    assert told(made) == [("judge", None, None), *TAKEN_OUT]
    assert held(after(state, made)) == {}


def test_cycles_without_an_answer_do_not_count() -> None:
    changed = policy(trigger={"above": 50, "for": "5m"})
    assert cycles(9, law().runs, changed, failed=True).new != ()


def test_text_alone_and_the_mode_change_nothing() -> None:
    known = law().runs
    for change in ({"description": "other words"}, {"owner": "others"}):
        assert law(policy(**change), known=known).new == ()
    observed = law(policy(mode="observe")).runs
    assert law(policy(mode="enforce"), known=observed).new == ()


def test_a_changed_signal_makes_its_policies_new_and_no_others() -> None:
    given_rules = rules(policy(), flapping(mode="enforce"))
    known = Law.of(InForce(given_rules, ()), None, SETTLE).runs
    temperature = given_rules.signals["gpu.temperature"].model_copy(update={"interval": timedelta(seconds=10)})
    edited: Rules = replace(given_rules, signals={**given_rules.signals, "gpu.temperature": temperature})
    assert [p.name for p in Law.of(InForce(edited, ()), known, SETTLE).new] == ["gpu-hot"]


UPTIME = GPU_TEMPERATURE.model_copy(update={"device": DeviceKind.NODE, "unit": "s"})
SHIELDED = policy(grace={"boot": "15m"}, correlation={"by": ["rack"], "machines": 3, "within": "15m"})
GONE = policy("gone", signal="gpu.temperature", trigger={"absent": True, "for": "5m"}, recovery=None)


def pools(budget: str = "10%", **expected: int) -> list[dict[str, object]]:
    some = {"quarantined": budget}
    return [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": some, "expected": expected}]


def fleet_law(signals: Mapping[str, SignalSpec] | None = None, **fleet: object) -> Rules:
    topology = {"rack": "dc/rack", "switch": "dc/s"}
    said: dict[str, Any] = {"pools": pools(gpus=8), "uptime": "node.uptime", "topology": topology, **fleet}
    made = rules(SHIELDED, GONE, policy("plain"), **said)
    return replace(made, signals={**made.signals, "node.uptime": UPTIME, "node.up": UPTIME, **(signals or {})})


@pytest.mark.parametrize(
    ("edited", "new"),
    [
        (fleet_law(uptime="node.up"), ["gpu-hot"]),
        (fleet_law({"node.uptime": UPTIME.model_copy(update={"interval": timedelta(minutes=1)})}), ["gpu-hot"]),
        (fleet_law(topology={"rack": "dc/rakc", "switch": "dc/s"}), ["gpu-hot"]),
        (fleet_law(topology={"rack": "dc/rack", "switch": "dc/other"}), []),
        (fleet_law(pools=pools(gpus=80)), ["gone"]),
        (fleet_law(pools=pools("20%", gpus=8)), []),
        (fleet_law(matchers={"cluster": "b"}), ["gpu-hot", "gone", "plain"]),
        (fleet_law(maintenance={"taints": ["x"]}), []),
    ],
)
def test_what_a_policy_needs_of_the_fleet_is_a_part_of_it(edited: Rules, new: list[str]) -> None:
    """An edit of the fleet that takes its shields away makes it new; what the fleet says of machines does not."""
    known = Law.of(InForce(fleet_law(), ()), None, SETTLE).runs
    assert [p.name for p in Law.of(InForce(edited, ()), known, SETTLE).new] == new


def test_a_policy_that_only_observes_is_not_worth_a_word() -> None:
    changed = policy(mode="observe", trigger={"above": 50, "for": "5m"})
    found = law(changed, known=law().runs)
    assert found.new == ()
    assert planned(found, snapshot()).decisions == ()


def test_a_policy_that_left_while_it_was_new_is_lifted() -> None:
    known = law().runs
    state = after(State(), planned(law(policy(), flapping(mode="enforce"), known=known), snapshot()))
    assert held(state) == {"changed/ib-flapping": HeldBy.CHANGED}
    assert held(after(state, planned(law(known=known), snapshot(state=state)))) == {}


def test_a_machine_that_is_out_stays_out_while_its_policy_is_new() -> None:
    state, nodes = quarantined()
    changed = policy(trigger={"above": 50, "for": "5m"})
    made = planned(law(changed, known=law().runs), snapshot(nodes, hot("node-3"), state=state))
    assert told(made) == [("judge", None, "changed-policy")]


def test_no_cycles_at_all_means_at_once() -> None:
    changed = policy(trigger={"above": 50, "for": "5m"})
    assert Law.of(InForce(rules(changed), ()), law().runs, 0).new == ()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "fail", "again"]), max_size=12))
def test_no_version_acts_before_it_has_observed_long_enough(steps: list[str]) -> None:
    """Whatever is edited, reverted and not answered in between."""
    versions = {"a": policy(), "b": policy(trigger={"above": 50, "for": "5m"})}
    known: Mapping[str, PolicyRun] = law(versions["a"]).runs
    current, observed = "a", SETTLE
    nodes = fleet()
    for step in steps:
        if step in versions and step != current:
            current, observed = step, 0
        found = law(versions[current], known=known)
        assert (found.rules.policies[0].spec.mode is Mode.ENFORCE) == (observed >= SETTLE)
        said = {"gpu-hot": answers(nodes, trigger=FAILED if step == "fail" else None)}
        known = rulefiles.ran(found.runs, said, SETTLE)
        observed += step != "fail"
