"""What people ask comes first, is answered once, and no metric overrules it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Phase
from quarantine.core.decision import Request, RequestKind, State
from quarantine.core.model import Machine, Mode, PolicyAnswers
from quarantine.core.planner import plan
from tests.core.test_planner import flap
from tests.core.world import (
    MINUTE,
    NOW,
    after,
    answers,
    ask,
    carried_out,
    flapping,
    fleet,
    hot,
    nvlink,
    policy,
    quarantined,
    rules,
    seen,
    snapshot,
    suspected,
    told,
)

OPEN, RELEASE = RequestKind.OPEN, RequestKind.RELEASE


def test_several_requests_for_one_node_in_one_cycle_are_all_answered() -> None:
    look = snapshot(None, requests=[ask(OPEN, "node-3", 1), ask(RELEASE, "node-3", 2), ask(OPEN, "node-3", 3)])
    made = plan(look, rules())
    state = after(State(), made)
    assert state.answered == {"r1", "r2", "r3"}
    case = state.open_case_of("node-3")
    assert case is not None
    assert case.phase is Phase.QUARANTINED
    assert plan(replace(look, state=state), rules()).decisions == ()


def test_open_and_release_in_one_cycle_on_a_hot_node() -> None:
    look = snapshot(None, hot("node-3"), requests=[ask(OPEN, "node-3", 1), ask(RELEASE, "node-3", 2)])
    state = after(State(), plan(look, rules()))
    assert plan(replace(look, state=state), rules()).decisions == ()


def test_a_persons_suspicion_is_acted_on_when_the_installation_enforces() -> None:
    state = after(State(), plan(snapshot(None, requests=[ask(OPEN, "node-6")], mode=Mode.OBSERVE), rules()))
    assert plan(snapshot(None, state=state, mode=Mode.OBSERVE), rules()).decisions == ()
    made = plan(snapshot(None, state=state), rules())
    assert told(made) == [("quarantine", "node-6", None), ("ticket", "node-6", None), ("notify", "node-6", None)]


@pytest.mark.parametrize("there", ["away", "another"])
def test_a_persons_suspicion_of_a_node_that_is_not_there_waits(there: str) -> None:
    nodes = fleet()
    state = after(State(), plan(snapshot(nodes, requests=[ask(OPEN, "node-6")], mode=Mode.OBSERVE), rules()))
    away = nodes.pop("node-6")
    if there == "another":
        nodes["node-6"] = replace(away, machine=Machine("another"))
    made = plan(snapshot(nodes, state=state), rules())
    assert all(d.action.value != "quarantine" for d in made.decisions)


def test_a_person_who_asks_for_what_is_suspected_already_is_heeded() -> None:
    look = snapshot(None, requests=[ask(OPEN, "node-3")], state=suspected(), mode=Mode.OBSERVE)
    state = after(look.state, plan(look, rules()))
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    state = after(state, plan(snapshot(nodes, state=state, given=given, mode=Mode.OBSERVE), rules()))
    made = plan(snapshot(nodes, state=state), rules())
    assert told(made)[0] == ("quarantine", "node-3", None)
    assert made.decisions[0].reason == "node-3 is taken out as an engineer (cli) asked"


def test_no_metric_ends_a_persons_suspicion() -> None:
    nodes = fleet()
    state = after(State(), plan(snapshot(nodes, requests=[ask(OPEN, "node-6")], mode=Mode.OBSERVE), rules()))
    state = after(state, plan(snapshot(nodes, hot("node-6"), state=state, mode=Mode.OBSERVE), rules()))
    given = {"gpu-hot": answers(nodes, good=[hot("node-6", value=60)])}
    made = plan(snapshot(nodes, state=state, given=given, mode=Mode.OBSERVE), rules())
    assert told(made) == [("recover", "node-6", None)]
    late = plan(snapshot(nodes, state=state, now=NOW + timedelta(days=20), mode=Mode.OBSERVE), rules())
    assert all(d.action.value != "dismiss" for d in late.decisions)


def test_a_node_never_to_be_touched_is_not_opened_either() -> None:
    made = plan(snapshot(None, requests=[ask(OPEN, "node-6")]), rules(never_touch=["node-6"]))
    assert told(made) == [("answer", "node-6", None)]
    assert "never to touch" in made.decisions[0].reason


def test_a_request_of_a_newer_version_is_answered_and_not_done() -> None:
    strange = Request("r1", RequestKind.UNKNOWN, "node-6", "", "an engineer", "cli", NOW)
    made = plan(snapshot(None, requests=[strange]), rules())
    assert told(made) == [("answer", "node-6", None)]


def test_renaming_a_policy_does_not_override_a_person() -> None:
    state, nodes = quarantined()
    state = after(state, plan(snapshot(nodes, hot("node-3"), state=state, requests=[ask(RELEASE, "node-3")]), rules()))
    nodes = fleet()
    renamed = rules(policy("gpu-hot-2"))
    given = {"gpu-hot-2": answers(nodes, hot("node-3"))}
    made = plan(snapshot(nodes, state=state, given=given, now=NOW + MINUTE), renamed)
    assert ("quarantine", "node-3", None) not in told(made)


def test_another_counter_of_the_same_signal_does_not_override_a_person() -> None:
    nodes = fleet()
    law = rules(nvlink())

    def replays(metric: str) -> PolicyAnswers:
        return answers(nodes, hot("node-3", value=40), key=f"dcgm-exporter/{metric}", coverage=seen(nodes))

    first = snapshot(nodes, given={"nvlink": replays("NVLINK_REPLAY")}, requests=[])
    state, marked = carried_out(after(State(), plan(first, law)), nodes)
    asked = snapshot(marked, state=state, given={"nvlink": replays("NVLINK_REPLAY")}, requests=[ask(RELEASE, "node-3")])
    state = after(state, plan(asked, law))
    made = plan(snapshot(nodes, state=state, given={"nvlink": replays("NVLINK_CRC")}, now=NOW + MINUTE), law)
    assert told(made) == [], "the hold of the cycle before stands"


def test_a_dismissed_node_that_opts_out_later_is_not_told_at_every_cycle() -> None:
    state, nodes = quarantined()
    state = after(state, plan(snapshot(nodes, state=state, requests=[ask(RELEASE, "node-3")]), rules()))
    nodes = fleet()
    nodes["node-3"] = replace(nodes["node-3"], labels={"gpu": "yes", "quarantine.gpu/ignore": "true"})
    look = snapshot(nodes, hot("node-3"), hot("node-3", gpu=5), state=state, now=NOW + MINUTE)
    state = after(state, plan(look, rules()))
    assert plan(replace(look, state=state), rules()).decisions == ()


def test_a_word_that_is_older_than_the_case_ends_none() -> None:
    state, nodes = quarantined()
    case = state.open_case_of("node-3")
    assert case is not None
    for kind in (RELEASE, RequestKind.REPAIRED):
        old = replace(ask(kind, "node-3"), at=case.opened_at - timedelta(days=3))
        look = snapshot(nodes, hot("node-3"), state=state, requests=[old], now=NOW + MINUTE)
        (answer,) = plan(look, rules()).decisions
        assert f"case {case.id} on node-3 was opened at" in answer.reason
        assert answer.request == old.id


def test_a_word_about_a_case_that_is_named_means_that_one_alone() -> None:
    state, nodes = quarantined()
    case = state.open_case_of("node-3")
    assert case is not None
    for meant, at, ends in (("q-earlier", NOW + MINUTE, False), (case.id, NOW - timedelta(days=3), True)):
        word = replace(ask(RELEASE, "node-3"), case=meant, at=at)
        made = plan(snapshot(nodes, state=state, requests=[word], now=NOW + MINUTE), rules())
        assert (after(state, made).open_case_of("node-3") is None) is ends


def test_an_observing_policy_neither_reports_nor_tells() -> None:
    nodes = fleet()
    quiet = policy(response={"cordon": False, "ticket": "none", "notify": False}, severity="fatal")
    given = {"gpu-hot": answers(nodes, hot("node-3")), "ib-flapping": flap(nodes)}
    made = plan(snapshot(nodes, given=given), rules(quiet, flapping(mode="observe")))
    assert [t[0] for t in told(made)] == ["quarantine", "join"]


def test_what_was_held_reads_as_it_was_decided_in_the_end() -> None:
    state = after(State(), plan(snapshot(None, hot("node-3"), mode=Mode.OBSERVE), rules()))
    assert "held because" in state.open_case_of("node-3").reason  # type: ignore[union-attr]
    state = after(state, plan(snapshot(None, hot("node-3"), state=state), rules()))
    assert "held" not in state.open_case_of("node-3").reason  # type: ignore[union-attr]
