"""What is written on a Node: by the case as it stands, and never against a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action, Word, WordKind
from quarantine.core.errors import ClusterUnavailable
from quarantine.core.model import Machine, Taint
from tests.execute.lab import NODE, Lab

PHASE = "quarantine.gpu/phase"


def test_what_kubectl_shows_follows_the_case(here: Lab) -> None:
    node = here.kube.held[NODE]
    assert node.labels[PHASE] == "quarantined"
    assert [c.status for c in here.kube.conditions] == [True]
    here.decide(Action.DRAIN, phase=Phase.DRAINING, effects=(Effect.PHASE,))
    here.decide(Action.DRAIN, phase=Phase.DRAINED, effects=(Effect.PHASE,))
    here.act()
    assert here.kube.held[NODE].labels[PHASE] == "drained", "the phase as it is, not as it was when it was asked for"
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CONDITION))
    here.act()
    node = here.kube.held[NODE]
    assert (node.taints, node.unschedulable, node.suspect) == ((), False, "False")
    assert not any(key.startswith("quarantine.gpu/") for key in (*node.labels, *node.annotations))


def test_a_condition_that_was_never_shown_is_not_taken_back(here: Lab) -> None:
    here.kube.held[NODE] = replace(here.kube.held[NODE], suspect="")
    here.kube.conditions.clear()
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CONDITION))
    here.act()
    assert here.kube.conditions == []
    assert here.status(Effect.CONDITION) == "done"


def test_an_ended_case_says_nothing_on_a_node_that_another_case_has_marked(here: Lab) -> None:
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CONDITION))
    here.kube.change(taints=(Taint("quarantine.gpu/suspect", "q-another"),), annotations={})
    here.kube.conditions.clear()
    here.act()
    assert here.kube.conditions == []
    assert here.kube.held[NODE].taints[0].value == "q-another"


def test_a_taint_is_put_back_after_a_program_and_not_after_a_person(here: Lab) -> None:
    here.kube.change(taints=(), tainted_by="driver-manager")
    here.decide(Action.REMARK, effects=(Effect.MARK,))
    here.kube.change(taints=(), tainted_by="kubectl-taint")
    assert any("a person removed our taint" in said for said in here.act().postponed)
    assert here.kube.held[NODE].taints == ()
    here.kube.change(taints=(), tainted_by="driver-manager")
    here.later(seconds=1)
    here.act()
    assert [t.value for t in here.kube.held[NODE].taints] == [here.case.id]


def test_a_cordon_that_was_there_stays(quiet: Lab) -> None:
    quiet.kube.change(unschedulable=True)
    quiet.quarantine()
    assert quiet.case.cordoned_by_us is False
    quiet.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK,))
    assert any("left as cordoned by others" in said for said in quiet.act().done)
    assert quiet.kube.held[NODE].unschedulable


def test_guards_are_put_on_and_taken_off_again(here: Lab) -> None:
    guard = "karpenter.sh/do-not-disrupt"
    assert here.kube.held[NODE].annotations[guard] == "true"
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK,))
    here.act()
    assert guard not in here.kube.held[NODE].annotations


def test_a_newcomer_is_marked_however_late_and_without_evidence(here: Lab) -> None:
    """Its mark is on nothing that was found, so old evidence is no reason to leave it."""
    name, newcomer = "node-5", "q-newcomer"
    machine = here.kube.held[name].machine
    gate: dict[str, Any] = {"node": name, "machine": machine, "case": newcomer, "phase": Phase.PROBATION, "gate": True}
    here.decide(Action.PROVE, effects=(Effect.MARK,), **gate)
    here.later(minutes=30)
    here.act(bad_nodes=frozenset())
    assert [t.value for t in here.kube.held[name].taints] == [newcomer]


def test_a_pause_lets_no_machine_slip_back_that_is_out(here: Lab) -> None:
    word = Word("pause/all", WordKind.PAUSE, "all", "an engineer", "a quiet week", here.clock.at)
    here.decide(Action.PAUSE, word=word)
    here.kube.change(taints=(), tainted_by="driver-manager")
    here.decide(Action.REMARK, effects=(Effect.MARK,))
    here.act()
    assert [t.value for t in here.kube.held[NODE].taints] == [here.case.id]


def test_a_pause_takes_no_machine_out_that_was_decided_on_before(quiet: Lab) -> None:
    quiet.kube.trouble = ClusterUnavailable("the API server is away")
    quiet.quarantine()
    quiet.kube.trouble = None
    word = Word("pause/all", WordKind.PAUSE, "all", "an engineer", "a quiet week", quiet.clock.at)
    quiet.decide(Action.PAUSE, word=word)
    quiet.later(minutes=1)
    quiet.act()
    assert quiet.kube.held[NODE].taints == ()
    quiet.decide(Action.RESUME, unword=word.key)
    quiet.act()
    assert quiet.kube.held[NODE].taints != ()


def test_what_takes_the_place_of_a_machine_is_marked_however_late(here: Lab) -> None:
    here.decide(Action.STEP, phase=Phase.SWAP_REQUESTED)
    came = Machine("uid-new", "acme://new", "sys-new", "boot-new")
    here.decide(Action.SWAP, phase=Phase.SWAPPED, machine=came, effects=(Effect.MARK, Effect.PHASE))
    here.kube.change(machine=came, taints=(), annotations={}, labels={}, unschedulable=False, tainted_by="")
    here.later(minutes=30)
    here.act(bad_nodes=frozenset())
    assert here.kube.held[NODE].labels[PHASE] == "swapped"
    assert here.case.cordoned_by_us is True


def test_a_machine_that_is_not_seen_for_a_moment_is_marked_once_it_is(quiet: Lab) -> None:
    away = quiet.kube.held[NODE]
    quiet.kube.trouble = ClusterUnavailable("the API server is away")
    quiet.quarantine()
    quiet.kube.trouble = None
    del quiet.kube.held[NODE]
    quiet.later(minutes=1)
    assert any("is not seen there" in said for said in quiet.act().postponed)
    assert quiet.status(Effect.MARK) == "pending"
    quiet.kube.held[NODE] = away
    quiet.later(minutes=1)
    quiet.act()
    assert [t.value for t in quiet.kube.held[NODE].taints] == [quiet.case.id]
