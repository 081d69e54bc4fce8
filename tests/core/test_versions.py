"""A change of the rules is a decision: said once, with both versions, and never of what stayed as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Kind, State, Version
from quarantine.core.law import Law, without_records
from quarantine.core.policy import LoadedDocument, LoadedPolicy, Rules
from quarantine.core.rulefiles import BrokenFile, InForce
from quarantine.core.state import fold
from quarantine.core.versions import version_decisions
from tests.core.world import MINUTE, NOW, after, flapping, hot, policy, rules, snapshot

HOT, LOWER = policy(), policy(trigger={"above": 50, "for": "5m"})
FLEET = LoadedDocument("fleet/prod", "f" * 64, "kind: Fleet\n", "abc123", "fleet.yaml:1")
DEFAULTS = LoadedDocument("defaults/shared", "d" * 64, "kind: Defaults\n", None, "defaults.yaml:1")
LATER = NOW + timedelta(days=3)


def written(*policies: LoadedPolicy, documents: tuple[LoadedDocument, ...] = ()) -> Rules:
    return replace(rules(), policies=policies, documents=documents)


def said(state: State, found: Rules) -> list[Decision]:
    return list(version_decisions(state, found, LATER, "controller test"))


def in_force(*policies: LoadedPolicy, documents: tuple[LoadedDocument, ...] = ()) -> State:
    """A ledger in which these came into force at NOW."""
    found = version_decisions(State(), written(*policies, documents=documents), NOW, "controller test")
    return fold(State(), found)


def test_on_an_empty_ledger_each_document_comes_into_force_once() -> None:
    found = said(State(), written(HOT, flapping(), documents=(DEFAULTS, FLEET)))
    assert [d.policy for d in found] == ["defaults/shared", "fleet/prod", "gpu-hot", "ib-flapping"]
    assert {(d.kind, d.action, d.at, d.actor) for d in found} == {
        (Kind.DECIDED, Action.POLICY, LATER, "controller test")
    }
    assert [d.policy_hash for d in found] == ["d" * 64, "f" * 64, HOT.hash, flapping().hash]
    assert [d.policy_revision for d in found] == [None, "abc123", "abc123", "abc123"]
    assert [d.reason for d in found[:3]] == [
        f"defaults shared comes into force as text {'d' * 12}",
        f"fleet prod comes into force as text {'f' * 12} of revision abc123",
        f"policy gpu-hot comes into force as text {HOT.hash[:12]} of revision abc123, mode enforce",
    ]
    state = fold(State(), found)
    assert state.versions["fleet/prod"] == Version("f" * 64, "abc123", LATER)
    assert said(state, written(HOT, flapping(), documents=(DEFAULTS, FLEET))) == []


def test_a_changed_text_names_the_version_before_and_the_one_now() -> None:
    changed = replace(LOWER, revision="def456")
    (found,) = said(in_force(HOT), written(changed))
    assert (found.policy, found.policy_hash, found.policy_revision) == ("gpu-hot", changed.hash, "def456")
    assert found.reason == (
        f"policy gpu-hot is changed from text {HOT.hash[:12]} of revision abc123, "
        f"to text {changed.hash[:12]} of revision def456, mode enforce"
    )


def test_what_is_no_more_leaves_the_state_and_may_come_again() -> None:
    state = in_force(HOT, documents=(DEFAULTS,))
    gone = said(state, written())
    assert [(d.policy, d.policy_hash) for d in gone] == [("defaults/shared", None), ("gpu-hot", None)]
    assert gone[1].reason == (
        "policy gpu-hot is no more; it was in force since 2026-11-29 12:00 UTC "
        f"as text {HOT.hash[:12]} of revision abc123"
    )
    state = fold(state, gone)
    assert state.versions == {}
    assert said(state, written()) == []
    assert [d.reason.split(" as ")[0] for d in said(state, written(HOT))] == ["policy gpu-hot comes into force"]


def test_another_revision_of_the_same_text_is_no_other_version() -> None:
    """Most commits touch other files; what decides carries the revision that its policy was read at."""
    for revision in ("def456", "abc123-dirty", None):
        assert said(in_force(HOT), written(replace(HOT, revision=revision))) == []


def test_a_cycle_records_them_before_what_the_policies_decide() -> None:
    law = Law.of(InForce(written(HOT, documents=(FLEET,)), ()), None, 3)
    look = snapshot(None, hot("node-3"))
    made = law.plan(look)
    assert [d.action for d in made.decisions] == [
        Action.POLICY,
        Action.POLICY,
        Action.QUARANTINE,
        Action.TICKET,
        Action.NOTIFY,
        Action.COUNT,
    ]
    assert [d.action for d in without_records(made).decisions] == [Action.QUARANTINE, Action.TICKET, Action.NOTIFY]
    state = after(State(), made)
    assert law.plan(replace(look, state=state)).decisions == ()
    assert law.plan(replace(look, state=state, now=NOW + MINUTE)).decisions == ()


def test_a_policy_that_only_observes_at_first_is_in_force_in_its_own_version() -> None:
    known = Law.of(InForce(written(HOT), ()), None, 3).runs
    law = Law.of(InForce(written(LOWER), ()), known, 3)
    assert [p.name for p in law.new] == ["gpu-hot"]
    changed, held, *_ = law.plan(snapshot(state=in_force(HOT))).decisions
    assert (changed.action, changed.policy_hash) == (Action.POLICY, LOWER.hash)
    assert changed.reason.endswith("mode enforce"), "as it is written"
    assert held.held_by is HeldBy.CHANGED


def test_a_broken_file_takes_nothing_out_of_force() -> None:
    """The rules in force hold its last accepted version, so there is a hold and no change of version."""
    broken = (BrokenFile("/p/hot.yaml", "/p/hot.yaml:3:1: a tab stands here", NOW),)
    law = Law.of(InForce(written(HOT), (), broken), None, 3)
    made = law.plan(snapshot(state=in_force(HOT)))
    assert [(d.action, d.held_by) for d in without_records(made).decisions] == [(Action.JUDGE, HeldBy.BROKEN_FILE)]
    assert not any(d.action is Action.POLICY for d in made.decisions)


names = st.sampled_from(["gpu-hot", "gpu-cold", "link"])
texts = st.dictionaries(names, st.sampled_from(["one", "two"]))


@given(history=st.lists(st.tuples(texts, st.sampled_from(["r1", "r2", None])), max_size=8))
@settings(max_examples=100, deadline=None)
def test_the_trail_always_tells_what_is_in_force(history: list[tuple[dict[str, str], str | None]]) -> None:
    state = State()
    for texts_now, revision in history:
        found = written(
            *(replace(HOT, name=name, hash=text * 20, text=text, revision=revision) for name, text in texts_now.items())
        )
        before = state.versions
        made = said(state, found)
        state = fold(state, made)
        assert {name: known.hash for name, known in state.versions.items()} == {p.name: p.hash for p in found.policies}
        assert said(state, found) == [], "planning twice yields nothing new"
        changed = {
            n
            for n in before.keys() | texts_now.keys()
            if getattr(before.get(n), "hash", 0) != texts_now.get(n, "") * 20
        }
        assert {d.policy for d in made} == {n for n in changed if n in before or n in texts_now}
        assert len(made) == len({d.policy for d in made})
