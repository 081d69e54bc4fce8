"""A ledger restored from a backup that is older than the marks on the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from quarantine.core.case import Effect, EffectStatus, Phase
from quarantine.core.decision import Action, Kind, RequestKind, State
from quarantine.core.law import Law
from quarantine.core.model import Mode, Node, Taint
from quarantine.core.planner import plan
from quarantine.core.rulefiles import InForce
from quarantine.core.snapshot import Plan
from tests.core.world import (
    FAILED,
    MINUTE,
    NOW,
    after,
    answers,
    ask,
    carried_out,
    fleet,
    hot,
    node,
    quarantined,
    rules,
    snapshot,
    suspected,
    told,
)

LATER = NOW + timedelta(hours=2)
ADOPT = ask(RequestKind.ADOPT, "")


def dated(name: str, case_id: str, since: datetime | str, **annotations: str) -> Node:
    """A node as a mark of this version leaves it."""
    said = since if isinstance(since, str) else since.isoformat()
    known = {"case": case_id, "since": said, "cordoned-by": "quarantine", **annotations}
    return node(
        name,
        taints=(Taint("quarantine.gpu/suspect", case_id),),
        unschedulable=True,
        annotations={f"quarantine.gpu/{key}": value for key, value in known.items()},
        tainted_by="quarantine",
    )


def old_ledger() -> tuple[State, dict[str, Node]]:
    """A ledger of NOW, and the cluster an hour later: node-9 was quarantined meanwhile."""
    state, nodes = quarantined()
    nodes["node-9"] = dated("node-9", "q-later", NOW + timedelta(hours=1))
    return state, nodes


def test_marks_younger_than_the_ledger_are_told_once_and_nothing_is_done() -> None:
    state, nodes = old_ledger()
    look = snapshot(nodes, hot("node-5"), state=state, now=LATER)
    made = plan(look, rules())
    assert told(made)[0] == ("adopt", None, "restored-ledger")
    assert made.decisions[0].reason == (
        "the ledger is older than the marks on node-9, as after a restore from a backup, so nothing is done to any "
        "machine: look at them, then take the marks over (quarantine adopt)"
    )
    assert made.observe_only
    assert all(not d.effects for d in made.decisions)
    assert state.open_case_of("node-9") is None
    state = after(state, made)
    again = replace(look, state=state, now=LATER + MINUTE)
    assert plan(again, rules()).decisions == ()
    assert plan(again, rules()).observe_only, "though the ledger has a decision of now"


def test_a_ledger_without_any_decision_is_older_than_every_dated_mark() -> None:
    nodes = {**fleet(), "node-9": dated("node-9", "q-later", NOW - timedelta(days=30))}
    assert told(plan(snapshot(nodes), rules())) == [("adopt", None, "restored-ledger")]


def test_that_rules_were_read_a_moment_ago_makes_no_ledger_younger() -> None:
    state, nodes = old_ledger()
    law = Law.of(InForce(rules(), ()), {}, 3)
    made = law.plan(snapshot(nodes, state=state, now=LATER))
    assert any(d.action is Action.JUDGE for d in made.decisions), "a policy that is new is said to observe"
    assert made.observe_only


@pytest.mark.parametrize("since", ["", "soon", (NOW - timedelta(days=1)).isoformat()])
def test_a_mark_without_a_date_or_an_older_one_is_adopted(since: str) -> None:
    state, nodes = quarantined()
    nodes["node-9"] = dated("node-9", "q-older", since)
    made = plan(snapshot(nodes, state=state, now=LATER), rules())
    assert told(made) == [("adopt", "node-9", None)]
    assert not made.observe_only


def test_once_told_every_dated_mark_that_is_not_known_waits() -> None:
    state, nodes = old_ledger()
    nodes["node-8"] = dated("node-8", "q-older", NOW - timedelta(days=1))
    made = plan(snapshot(nodes, state=state, now=LATER), rules())
    assert told(made) == [("adopt", None, "restored-ledger")]


def test_it_is_lifted_when_the_marks_are_gone_but_not_while_nothing_is_seen() -> None:
    state, nodes = old_ledger()
    state = after(state, plan(snapshot(nodes, state=state, now=LATER), rules()))
    blind = plan(snapshot({}, state=state, now=LATER + MINUTE), rules())
    assert blind.observe_only
    assert "restored" in after(state, blind).holds
    nodes["node-9"] = node("node-9")
    made = plan(snapshot(nodes, state=state, now=LATER + MINUTE), rules())
    assert not made.observe_only
    assert after(state, made).holds == {}


def meanwhile() -> dict[str, Node]:
    """The cluster of a ledger that knows node-3 as quarantined: it was released since, and node-9 taken out."""
    return {**fleet(), "node-9": dated("node-9", "q-later", NOW + timedelta(hours=1))}


@pytest.mark.parametrize("by", ["quarantine", "", "driver-manager"])
def test_nobody_is_dismissed_or_marked_again_for_a_mark_that_is_missing(by: str) -> None:
    state, _ = quarantined()
    nodes = meanwhile()
    nodes["node-3"] = node("node-3", tainted_by=by)
    made = plan(snapshot(nodes, state=state, now=LATER), rules())
    assert told(made) == [("adopt", None, "restored-ledger")]


def test_nor_released_nor_dismissed_by_what_is_measured_or_by_a_deadline() -> None:
    nodes = {**meanwhile(), "node-3": dated("node-3", "q-of-then", NOW + MINUTE)}
    good = answers(nodes, good=[hot("node-3", value=60.0)])
    for state in (suspected(), after(State(), plan(snapshot(None, hot("node-3")), rules()))):
        look = snapshot(nodes, state=state, now=NOW + timedelta(days=20), given={"gpu-hot": good})
        made = plan(look, rules())
        assert {d.action for d in made.decisions} == {Action.ADOPT, Action.RECOVER}
        assert after(state, made).open_case_of("node-3") is not None


def adopted(state: State, nodes: Mapping[str, Node]) -> tuple[State, Plan]:
    look = snapshot(nodes, state=state, now=LATER)
    state = after(state, plan(look, rules()))
    look = replace(look, state=state, now=LATER + MINUTE, requests=(ADOPT,))
    made = plan(look, rules())
    assert plan(replace(look, state=after(state, made)), rules()).decisions == (), "planning twice yields nothing new"
    return after(state, made), made


def test_a_person_has_them_adopted_and_it_acts_again() -> None:
    state, nodes = old_ledger()
    state, made = adopted(state, nodes)
    assert told(made) == [("adopt", "node-9", None), ("answer", None, None)]
    assert [d.actor for d in made.decisions] == ["an engineer (cli)"] * 2
    assert not made.observe_only
    case = state.cases["q-later"]
    assert (case.phase, case.by_person, case.cordoned_by_us) == (Phase.QUARANTINED, False, True)
    assert case.effects[Effect.MARK].status is EffectStatus.DONE
    assert case.effects[Effect.CONDITION].status is EffectStatus.PENDING
    assert state.holds == {}
    hot_again = plan(snapshot(nodes, hot("node-5"), state=state, now=LATER + timedelta(hours=1)), rules())
    assert ("quarantine", "node-5", None) in told(hot_again)


def test_an_adopted_machine_whose_mark_is_put_back_or_made_again_stays_out() -> None:
    state, nodes = old_ledger()
    state, _ = adopted(state, nodes)
    state, nodes = carried_out(state, nodes)
    was = nodes["node-9"]
    nodes["node-9"] = replace(was, taints=(Taint("a.io/x"),), tainted_by="driver-manager")
    made = plan(snapshot(nodes, state=state, now=LATER + timedelta(hours=1)), rules())
    assert told(made) == [("remark", "node-9", None)]
    state = after(state, made)
    assert plan(snapshot(nodes, state=state, now=LATER + timedelta(hours=3)), rules()).decisions == ()


def test_cases_that_ended_after_the_backup_end_without_a_word_about_their_findings() -> None:
    state, _ = quarantined()
    state, made = adopted(state, meanwhile())
    assert told(made)[0] == ("dismiss", "node-3", None)
    assert made.decisions[0].reason.endswith(
        "ended after the ledger's backup was made: node-3 carries no mark of it any more"
    )
    assert made.decisions[0].effects == (Effect.UNMARK, Effect.CONDITION)
    assert state.dismissals == ()
    bad_again = plan(snapshot(meanwhile(), hot("node-3"), state=state, now=LATER + timedelta(hours=1)), rules())
    assert ("quarantine", "node-3", None) in told(bad_again)


def test_a_later_case_of_the_same_machine_takes_the_place_of_the_one_that_is_known() -> None:
    state, _ = quarantined()
    nodes = {**fleet(), "node-3": dated("node-3", "q-later", NOW + timedelta(hours=1))}
    state, made = adopted(state, nodes)
    assert told(made) == [("dismiss", "node-3", None), ("adopt", "node-3", None), ("answer", None, None)]
    assert made.decisions[0].effects == (), "nothing of it is there, and the condition is the later case's"
    case = state.open_case_of("node-3")
    assert case is not None
    assert case.id == "q-later"


def test_a_suspicion_whose_machine_was_taken_out_since_goes_on_as_that() -> None:
    state = suspected()
    case = state.open_case_of("node-3")
    assert case is not None
    nodes = {**fleet(), "node-3": dated("node-3", case.id, NOW + timedelta(hours=1))}
    held = plan(snapshot(nodes, state=state, now=LATER), rules())
    assert told(held) == [("adopt", None, "restored-ledger")]
    state, _ = adopted(state, nodes)
    now = state.open_case_of("node-3")
    assert now is not None
    assert (now.id, now.phase, now.cordoned_by_us) == (case.id, Phase.QUARANTINED, True)
    assert now.effects[Effect.MARK].status is EffectStatus.DONE
    assert now.findings == case.findings


def test_where_there_is_nothing_to_adopt_that_is_the_answer() -> None:
    state, nodes = quarantined()
    made = plan(snapshot(nodes, state=state, requests=[ADOPT]), rules())
    assert told(made) == [("answer", None, None)]
    assert made.decisions[0].reason == (
        "an engineer asked to adopt; not done, since the ledger knows every mark on the cluster that it can take over"
    )


def test_an_installation_that_observes_is_told_the_same() -> None:
    state, nodes = old_ledger()
    given = {"gpu-hot": answers(nodes, trigger=FAILED)}
    made = plan(snapshot(nodes, state=state, now=LATER, mode=Mode.OBSERVE, given=given), rules())
    assert ("adopt", None, "restored-ledger") in told(made)
    assert all(d.kind is Kind.HELD for d in made.decisions)
    state = after(state, made)
    look = snapshot(nodes, state=state, now=LATER, mode=Mode.OBSERVE, requests=[ADOPT], given=given)
    adopted_so = plan(look, rules())
    assert adopted_so.observe_only
    assert all(not d.effects for d in adopted_so.decisions), "an installation that observes writes nothing"
