"""A world that obeys: what is decided is carried out, and then there is nothing left to decide."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Effect, EffectStatus, Phase
from quarantine.core.decision import Action
from quarantine.core.marks import case_on
from quarantine.core.model import Mode, Taint
from quarantine.core.planner import plan
from quarantine.core.rehearsal import MEMORY, Rehearsal, as_enforced
from tests.core.world import MINUTE, NOW, answers, fleet, hot, node, policy, rules, told

PREFIX = "quarantine.gpu"


def test_a_quarantine_is_carried_out_at_once() -> None:
    rehearsal = Rehearsal(rules(), fleet())
    made = rehearsal.step(NOW, {"gpu-hot": answers(fleet(), hot("node-3"))})
    assert {name for name, _, _ in told(made)} >= {"quarantine", "ticket", "notify"}
    case = rehearsal.state.open_case_of("node-3")
    assert case is not None
    assert case.phase is Phase.QUARANTINED
    assert {effect: state.status for effect, state in case.effects.items()} == dict.fromkeys(
        (Effect.MARK, Effect.EVENT, Effect.CONDITION, Effect.TICKET, Effect.NOTIFY), EffectStatus.DONE
    )
    after = rehearsal.nodes["node-3"]
    assert case_on(after, PREFIX) == case.id
    assert after.unschedulable
    assert case.cordoned_by_us is True
    assert after.labels[f"{PREFIX}/phase"] == "quarantined"
    assert after.annotations[f"{PREFIX}/case"] == case.id
    assert rehearsal.nodes["node-4"] == fleet()["node-4"]


def test_what_others_put_on_a_node_stays() -> None:
    known = {**fleet(), "node-3": node("node-3", unschedulable=True, taints=(Taint("theirs", "x", "NoExecute"),))}
    rehearsal = Rehearsal(rules(), known)
    rehearsal.step(NOW, {"gpu-hot": answers(known, hot("node-3"))})
    case = rehearsal.state.open_case_of("node-3")
    assert case is not None
    assert case.cordoned_by_us is False
    assert {taint.key for taint in rehearsal.nodes["node-3"].taints} == {"theirs", f"{PREFIX}/suspect"}


def test_without_a_cordon_the_taint_is_set_alone() -> None:
    known = rules(policy(response={"cordon": False}))
    rehearsal = Rehearsal(known, fleet())
    rehearsal.step(NOW, {"gpu-hot": answers(fleet(), hot("node-3"))})
    assert not rehearsal.nodes["node-3"].unschedulable
    assert case_on(rehearsal.nodes["node-3"], PREFIX) is not None


def test_a_node_made_again_for_the_same_machine_is_marked_again() -> None:
    rehearsal = Rehearsal(rules(), fleet())
    said = {"gpu-hot": answers(fleet(), hot("node-3"))}
    rehearsal.step(NOW, said)
    fresh = node("node-3")
    fresh = replace(fresh, machine=replace(fresh.machine, node_uid="another"))
    rehearsal.nodes = {**rehearsal.nodes, "node-3": fresh}
    made = rehearsal.step(NOW + MINUTE, said)
    assert Action.FOLLOW in {decision.action for decision in made.decisions}
    assert case_on(rehearsal.nodes["node-3"], PREFIX) is not None


def test_policies_that_observe_are_let_act() -> None:
    observing = rules(policy(mode="observe"))
    assert as_enforced(observing).policies[0].spec.mode is Mode.ENFORCE
    assert as_enforced(observing).policies[0].hash == observing.policies[0].hash
    said = {"gpu-hot": answers(fleet(), hot("node-3"))}
    watched = Rehearsal(observing, fleet())
    watched.step(NOW, said)
    assert case_on(watched.nodes["node-3"], PREFIX) is None
    let = Rehearsal(as_enforced(observing), fleet())
    let.step(NOW, said)
    assert case_on(let.nodes["node-3"], PREFIX) is not None


@given(st.lists(st.frozensets(st.integers(0, 5), max_size=4), min_size=1, max_size=8), st.booleans())
@settings(deadline=None)  # a shared machine is slow at times
def test_planning_again_yields_nothing(bad: list[frozenset[int]], observes: bool) -> None:
    mode = Mode.OBSERVE if observes else Mode.ENFORCE
    rehearsal = Rehearsal(rules(), fleet(6), mode=mode)
    for minute, nodes in enumerate(bad):
        now = NOW + minute * MINUTE
        said = {"gpu-hot": answers(fleet(6), *(hot(f"node-{n}") for n in sorted(nodes)))}
        rehearsal.step(now, said)
        again = plan(rehearsal.snapshot(now, said), rehearsal.rules)
        assert again.decisions == ()
        assert not [
            c for c in rehearsal.state.cases.values() if EffectStatus.PENDING in {s.status for s in c.effects.values()}
        ]


def test_what_ended_long_ago_is_forgotten() -> None:
    rehearsal = Rehearsal(rules(), fleet(), mode=Mode.OBSERVE)
    rehearsal.step(NOW, {"gpu-hot": answers(fleet(), hot("node-3"))})
    quiet = {"gpu-hot": answers(fleet())}
    made = rehearsal.step(NOW + timedelta(days=15), quiet)
    assert [d.action for d in made.decisions if d.phase is Phase.DISMISSED] == [Action.DISMISS]
    ended = set(rehearsal.state.cases)
    assert len(ended) == 1
    later = NOW + timedelta(days=15) + MEMORY + MINUTE
    rehearsal.step(later, {"gpu-hot": answers(fleet(), hot("node-5"))})
    assert not ended & set(rehearsal.state.cases)
    assert ended <= rehearsal.state.ended
