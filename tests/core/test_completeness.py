"""Every kind of decision, as real plans make it, has what its record needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, Request, RequestKind, State
from quarantine.core.law import Law
from quarantine.core.model import Mode
from quarantine.core.planner import plan
from quarantine.core.policy import LoadedDocument
from quarantine.core.rulefiles import InForce
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.core.trigger import Recovery, Trigger, recovery_text
from tests.core.completeness import missing
from tests.core.treatment.life import REPLACE, REPORT, RESET, Life, law
from tests.core.world import (
    MINUTE,
    NOW,
    after,
    answers,
    ask,
    fleet,
    hot,
    node,
    policy,
    quarantined,
    rules,
    snapshot,
    suspected,
)

HOUR = timedelta(hours=1)


def whole(decisions: tuple[Decision, ...] | list[Decision]) -> list[Decision]:
    """The same, each of which lacks nothing."""
    lacks = {f"{d.kind} {d.action}: {d.reason}": missing(d) for d in decisions if missing(d)}
    assert lacks == {}
    return list(decisions)


def made(look: Snapshot, **ruled: object) -> list[Decision]:
    return whole(plan(look, rules(**ruled)).decisions)  # type: ignore[arg-type]


def test_what_takes_a_machine_out_names_everything() -> None:
    taken, *_ = made(snapshot(None, hot("node-3")))
    assert (taken.kind, taken.action, taken.node, taken.pool) == (Kind.DECIDED, Action.QUARANTINE, "node-3", "gpu")
    assert taken.machine == node("node-3").machine
    assert taken.provider == "acme"
    assert taken.policy_hash == policy().hash
    assert taken.policy_revision == "abc123"
    assert taken.actor == "controller test"
    assert taken.budget is not None
    assert (taken.budget.size, taken.budget.ours) == (20, 0), "as it stood before"
    assert taken.evidence is not None
    assert taken.evidence.labels == {"Hostname": "node-3", "UUID": "GPU-node-3-3", "gpu": "3"}
    assert (taken.evidence.covered, taken.evidence.value, taken.evidence.unit) == (160, 84.0, "°C")


@pytest.mark.parametrize(
    ("look", "ruled", "held_by"),
    [
        (snapshot(None, hot("node-3"), mode=Mode.OBSERVE), {}, HeldBy.OBSERVE_MODE),
        (snapshot(None, *(hot(f"node-{n}", gpu) for n in range(20) for gpu in range(4))), {}, HeldBy.BREAKER),
        (snapshot(None, hot("nowhere")), {}, HeldBy.NO_SUCH_NODE),
        (
            snapshot(
                fleet() | {"node-3": node("node-3", labels={"gpu": "yes", "quarantine.gpu/ignore": "true"})},
                hot("node-3"),
            ),
            {},
            HeldBy.IGNORED,
        ),
        (snapshot(fleet() | {"node-3": node("node-3", labels={})}, hot("node-3")), {}, HeldBy.NOT_IN_POOL),
        (
            snapshot(None, hot("node-3"), hot("node-4"), hot("node-5")),
            {"pools": [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": {"quarantined": 1}}]},
            HeldBy.BUDGET,
        ),
    ],
)
def test_what_is_held_back_says_by_what(look: Snapshot, ruled: dict[str, object], held_by: HeldBy) -> None:
    found = [d for d in made(look, **ruled) if d.held_by is held_by]
    assert found
    for held in (d for d in found if d.action is Action.QUARANTINE and d.node in look.nodes):
        assert held.machine is not None
        assert (held.budget is None) == (not held.pool)


def test_a_recovery_has_the_bound_that_it_met_and_not_the_triggers() -> None:
    state = suspected()
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    recovered, *_ = made(snapshot(nodes, state=state, given=given, now=NOW + MINUTE, mode=Mode.OBSERVE))
    assert recovered.action is Action.RECOVER
    assert recovered.evidence is not None
    assert recovered.evidence.threshold == "below 72 °C for 30m, under load (gpu.tensor above 0.1)"


LOAD = {"signal": "gpu.tensor", "above": 0.1}


@pytest.mark.parametrize(
    ("trigger", "recovery", "text"),
    [
        ({"events": 2, "within": "10m"}, {}, "no new K for 30m"),
        ({"absent": True, "for": "5m"}, {}, "there for 30m"),
        ({"below": 5, "for": "5m"}, {"above": 7}, "above 7 K for 30m"),
        ({"outside": {"min": 1, "max": 9}, "for": "5m"}, {"above": 2, "below": 8}, "below 8 K and above 2 K for 30m"),
        ({"aboveSiblings": 9, "for": "5m"}, {"below": 5}, "less than 5 K above the median of its siblings for 30m"),
        ({"above": 9, "for": "5m"}, {"below": 5, "models": [{"model": "H1*", "below": 6}]}, "below 6 K for 30m"),
    ],
)
def test_what_is_good_again_is_told_in_words(trigger: object, recovery: dict[str, object], text: str) -> None:
    bad = Trigger.model_validate(trigger)
    good = Recovery.model_validate({"for": "30m", "load": LOAD, **recovery})
    assert recovery_text(bad, good, "K", "H100") == f"{text}, under load (gpu.tensor above 0.1)"


# --- People -----------------------------------------------------------------------------------------------------------


def person(kind: RequestKind, name: str = "", **more: object) -> Request:
    return replace(ask(kind, name), channel="slack", **more)  # type: ignore[arg-type]


UNTIL: dict[str, Any] = {"until": NOW + 4 * HOUR}
WORDS = [
    (person(RequestKind.OPEN, "node-3"), Action.QUARANTINE),
    (person(RequestKind.OPEN, "nowhere"), Action.ANSWER),
    (person(RequestKind.RELEASE, "node-5"), Action.ANSWER),
    (person(RequestKind.WAIVE, "node-3", **UNTIL), Action.WAIVE),
    (person(RequestKind.PAUSE, scope="all"), Action.PAUSE),
    (person(RequestKind.PAUSE, scope="pool/gpu", **UNTIL), Action.PAUSE),
    (person(RequestKind.RESUME, scope="all"), Action.ANSWER),
    (person(RequestKind.MAINTAIN, scope="gpu=yes", **UNTIL), Action.MAINTAIN),
    (person(RequestKind.REPAIRED, "node-3"), Action.ANSWER),
    (person(RequestKind.ADOPT), Action.ANSWER),
    (person(RequestKind.UNKNOWN, "node-3"), Action.ANSWER),
]


@pytest.mark.parametrize(("request_", "action"), WORDS)
def test_a_persons_word_has_the_person_the_channel_and_the_request(request_: Request, action: Action) -> None:
    found = made(snapshot(requests=[request_]))[0]
    assert (found.action, found.actor, found.request) == (action, "an engineer (slack)", "r1")
    assert request_.reason in found.reason or action is Action.ANSWER
    assert found.until == request_.until
    if request_.node in fleet():
        assert (found.node, found.machine, found.pool, found.provider) == (
            request_.node,
            node(request_.node).machine,
            "gpu",
            "acme",
        )


@pytest.mark.parametrize(
    ("kind", "action"),
    [(RequestKind.RELEASE, Action.RELEASE), (RequestKind.WAIVE, Action.WAIVE), (RequestKind.REPAIRED, Action.PROVE)],
)
def test_a_persons_word_about_a_machine_that_is_out(kind: RequestKind, action: Action) -> None:
    state, nodes = quarantined()
    word = person(kind, "node-3", at=NOW + MINUTE, **(UNTIL if kind is RequestKind.WAIVE else {}))
    found = made(snapshot(nodes, hot("node-3"), state=state, now=NOW + 2 * MINUTE, requests=[word]))[0]
    assert (found.action, found.actor, found.request) == (action, "an engineer (slack)", "r1")
    assert found.case in state.cases
    assert (found.until is None) == (kind is RequestKind.REPAIRED), "until when its findings are left alone"


def test_a_suspicion_that_a_person_dismisses() -> None:
    found = made(snapshot(state=suspected(), requests=[person(RequestKind.RELEASE, "node-3", at=NOW + MINUTE)]))[0]
    assert (found.action, found.phase, found.actor) == (Action.DISMISS, Phase.DISMISSED, "an engineer (slack)")


def test_a_word_that_is_taken_back_or_over_says_whose_it_was() -> None:
    look = snapshot(requests=[person(RequestKind.PAUSE, scope="all", **UNTIL)])
    state = fold(State(), made(look))
    taken_back = made(snapshot(state=state, requests=[replace(person(RequestKind.RESUME, scope="all"), id="r2")]))[0]
    assert (taken_back.action, taken_back.unword, taken_back.request) == (Action.RESUME, "pause/all", "r2")
    over = made(snapshot(state=state, now=NOW + 5 * HOUR))[0]
    assert (over.action, over.unword, over.actor) == (Action.RESUME, "pause/all", "controller test")
    assert "as an engineer (slack) had said" in over.reason


def test_what_was_asked_while_the_installation_observed_has_the_budget_once_it_is_done() -> None:
    observing = snapshot(mode=Mode.OBSERVE, requests=[person(RequestKind.OPEN, "node-3")])
    state = fold(State(), made(observing))
    taken = made(snapshot(state=state))[0]
    assert (taken.action, taken.kind) == (Action.QUARANTINE, Kind.DECIDED)
    assert taken.budget is not None
    assert taken.budget.pool == "gpu"


# --- What follows -----------------------------------------------------------------------------------------------------


def test_a_case_from_its_evidence_to_its_replacement_says_by_which_policy() -> None:
    life = Life(law(ladder=[RESET, REPLACE], evidence="bug-report", drain="now", notify=True))
    whole(life.cycles(70))
    said = {d.action: d for d in reversed(life.trail) if d.kind is Kind.DECIDED}  # the first of each
    for action in (Action.QUARANTINE, Action.RUN, Action.NOTIFY):
        assert said[action].policy == "gpu-hot", action
        assert said[action].policy_hash == life.law.policies[0].hash
    assert {Action.QUARANTINE, Action.RUN, Action.NOTIFY, Action.DRAIN} <= said.keys()
    assert life.case.provider == "acme"
    reported = Life(law(ladder=[REPORT]))
    whole(reported.cycles(2))
    (ticket,) = [d for d in reported.trail if d.action is Action.TICKET and d.kind is Kind.DECIDED]
    assert (ticket.policy, ticket.policy_hash) == ("gpu-hot", reported.law.policies[0].hash)
    assert ticket.rung is not None


def test_a_case_that_a_person_opened_names_no_policy() -> None:
    made_ = made(snapshot(requests=[person(RequestKind.OPEN, "node-3")]))
    assert {d.policy for d in made_} == {None}


def test_what_lifts_a_hold_is_about_what_it_was_about() -> None:
    ignored = node("node-3", labels={"gpu": "yes", "quarantine.gpu/ignore": "true"})
    state = fold(State(), made(snapshot(fleet() | {"node-3": ignored}, hot("node-3"))))
    lifted = next(d for d in made(snapshot(state=state, now=NOW + HOUR)) if d.hold_key == "node/node-3")
    assert (lifted.node, lifted.machine, lifted.pool) == ("node-3", node("node-3").machine, "gpu")
    assert (lifted.policy, lifted.policy_hash) == ("gpu-hot", policy().hash)


def test_a_lift_does_not_take_the_next_case_of_a_node_for_the_one_that_ended() -> None:
    """The hold of an ended case is lifted while another is open on its node, which goes on."""
    state, nodes = quarantined()
    (old,) = state.cases.values()
    ended = replace(old, id="q-ended", phase=Phase.RELEASED)
    hold = Decision(NOW, Kind.HELD, Action.RUN, "r", "t", held_by=HeldBy.PROCEDURE, hold_key="procedure/q-ended")
    state = fold(replace(state, cases={"q-ended": ended, **state.cases}, ended=frozenset({"q-ended"})), [hold])
    look = snapshot(nodes, hot("node-3"), state=state, now=NOW + MINUTE)
    found = plan(look, rules()).decisions
    (lifted,) = [d for d in whole(found) if d.hold_key == "procedure/q-ended"]
    assert (lifted.case, lifted.node, lifted.machine) == (None, "node-3", old.machine)
    assert not any(d.action is Action.QUARANTINE for d in found), "its case is open all the same"


def test_of_rules_and_pools() -> None:
    written = replace(rules(), documents=(LoadedDocument("fleet/prod", "f" * 64, "x", None, "fleet.yaml:1"),))
    found = whole(Law.of(InForce(written, ()), None, 3).plan(snapshot()).decisions)
    assert [d.action for d in found] == [Action.POLICY, Action.POLICY, Action.COUNT]


def test_the_provider_goes_with_the_case_and_is_corrected_with_the_fleet() -> None:
    state, nodes = quarantined()
    (case,) = state.cases.values()
    assert case.provider == "acme"
    corrected = rules(pools=[{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "provider": "other"}])
    word = person(RequestKind.REPAIRED, "node-3", at=NOW + MINUTE)
    look = snapshot(nodes, hot("node-3"), state=state, now=NOW + 2 * MINUTE, requests=[word])
    state = after(state, plan(look, corrected))
    assert state.cases[case.id].provider == "other"
    gone = rules(pools=[{"name": "elsewhere", "nodeSelector": {"x": "y"}, "provider": "third"}])
    look = snapshot(nodes, state=state, now=NOW + HOUR, requests=[replace(word, id="r2", kind=RequestKind.RELEASE)])
    state = after(state, plan(look, gone))
    assert state.cases[case.id].provider == "other", "what is known is kept"
