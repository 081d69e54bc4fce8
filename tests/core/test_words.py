"""People's words: waivers, pauses, planned work, repairs. Each is recorded, stands as long as it says, and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from quarantine.core.case import Effect, EffectStatus, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, Request, RequestKind, State
from quarantine.core.model import Mode, Node, Sample
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
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
    policy,
    quarantined,
    rules,
    snapshot,
    suspected,
    told,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
OPEN, RELEASE, WAIVE, PAUSE = RequestKind.OPEN, RequestKind.RELEASE, RequestKind.WAIVE, RequestKind.PAUSE
RESUME, MAINTAIN, REPAIRED = RequestKind.RESUME, RequestKind.MAINTAIN, RequestKind.REPAIRED
FATAL = policy(severity="fatal")
NEW_WORK = (Effect.MARK, Effect.EVICT, Effect.RUN, Effect.TICKET, Effect.REPLACE, Effect.NOTIFY)


def say(
    kind: RequestKind, about: str = "", until: datetime | None = NOW + 4 * HOUR, number: int = 1, **changes: object
) -> Request:
    """`about`: a node for what is about one; a scope for everything else."""
    of_node = kind in (WAIVE, REPAIRED, OPEN, RELEASE)
    base = ask(kind, about if of_node else "", number)
    return replace(base, scope="" if of_node else about, until=until, **changes)  # type: ignore[arg-type]


def decided(look: Snapshot, law: Rules | None = None) -> tuple[Plan, State]:
    """A plan and what it adds up to; planning again gives nothing new."""
    known = law or rules()
    made = plan(look, known)
    state = after(look.state, made)
    again = plan(replace(look, state=state), known)
    assert again.decisions == (), [d.reason for d in again.decisions]
    return made, state


def of(state: State, nodes: Mapping[str, Node] | None, *bad: Sample, at: datetime = NOW, **more: object) -> Snapshot:
    """The next look."""
    known = fleet() if nodes is None else nodes
    return snapshot(known, *bad, state=state, now=at, **more)  # type: ignore[arg-type]


def annotated(nodes: dict[str, Node], name: str = "node-3", **annotations: str) -> dict[str, Node]:
    """`waived_until="…"`: with this annotation of ours."""
    own = {f"quarantine.gpu/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {**nodes, name: replace(nodes[name], annotations={**nodes[name].annotations, **own})}


def unannotated(nodes: dict[str, Node], name: str = "node-3") -> dict[str, Node]:
    return {**nodes, name: replace(nodes[name], annotations={})}


def reasons(made: Plan) -> str:
    return " | ".join(d.reason for d in made.decisions)


# --- Waivers ----------------------------------------------------------------------------------------------------------


def test_a_waiver_releases_a_machine_that_is_out_and_keeps_it_in_service() -> None:
    state, nodes = quarantined()
    made, state = decided(of(state, nodes, hot("node-3"), requests=[say(WAIVE, "node-3")]))
    assert told(made) == [("waive", "node-3", None), ("quarantine", "node-3", "waived")]
    assert "an engineer keeps node-3 in service until 2026-11-29 16:00 UTC: the provider says so" in reasons(made)
    (case,) = state.cases.values()
    assert case.phase is Phase.RELEASED
    assert {e for e, s in case.effects.items() if s.status is EffectStatus.PENDING} >= {Effect.UNMARK, Effect.CONDITION}
    assert state.dismissals[0].waiver
    assert state.dismissals[0].until == NOW + 4 * HOUR
    clean = fleet()
    for minutes in (1, 100, 239):
        made, state = decided(of(state, clean, hot("node-3"), at=NOW + minutes * MINUTE))
        assert [d for d in made.decisions if d.action is not Action.WITHDRAW] == [], "its ticket was not closed here"


def test_what_a_waiver_was_given_for_is_covered_though_fatal() -> None:
    nodes = fleet()
    law = rules(FATAL)
    state, marked = carried_out(after(State(), plan(snapshot(nodes, hot("node-3")), law)), nodes)
    _, state = decided(of(state, marked, hot("node-3"), requests=[say(WAIVE, "node-3")]), law)
    made, _ = decided(of(state, nodes, hot("node-3"), at=NOW + MINUTE), law)
    assert made.decisions == ()


def test_a_new_fatal_finding_breaks_a_waiver_and_says_so() -> None:
    nodes, law = fleet(), rules(FATAL)
    _, state = decided(of(State(), nodes, requests=[say(WAIVE, "node-3")]), law)
    made, state = decided(of(state, nodes, hot("node-3"), at=NOW + MINUTE), law)
    assert told(made)[0] == ("quarantine", "node-3", None)
    assert (
        "despite the waiver by an engineer (cli) until 2026-11-29 16:00 UTC, since this is new and fatal"
        in made.decisions[0].reason
    )
    state, marked = carried_out(state, nodes)
    made, _ = decided(of(state, marked, hot("node-3"), at=NOW + 2 * MINUTE), law)
    assert made.decisions == (), "and it is not ended by the waiver that it broke"


def test_a_new_finding_that_is_not_fatal_does_not_break_it_but_joins_once_the_machine_is_out() -> None:
    nodes = fleet()
    cool = policy("gpu-warm", severity="warning")
    law = rules(FATAL, cool)
    _, state = decided(of(State(), nodes, requests=[say(WAIVE, "node-3")]), law)
    warm = {"gpu-hot": answers(nodes), "gpu-warm": answers(nodes, hot("node-3", gpu=1))}
    made, state = decided(of(state, nodes, given=warm, at=NOW + MINUTE), law)
    assert told(made) == [("quarantine", "node-3", "waived")]
    both = {**warm, "gpu-hot": answers(nodes, hot("node-3", gpu=5))}
    made, state = decided(of(state, nodes, given=both, at=NOW + 2 * MINUTE), law)
    assert ("join", "node-3", None) in told(made)
    case = state.open_case_of("node-3")
    assert case is not None
    assert {f.policy for f in case.findings} == {"gpu-hot", "gpu-warm"}


def test_a_suspicion_about_something_else_does_not_undo_a_persons_word() -> None:
    """A policy that only observes opens a case; what the person let pass must not act through it."""
    nodes = fleet()
    watched = policy("gpu-watched", mode="observe", severity="fatal")
    law = rules(policy(), watched)
    _, state = decided(of(State(), nodes, requests=[say(WAIVE, "node-3")]), law)
    both = {"gpu-hot": answers(nodes, hot("node-3")), "gpu-watched": answers(nodes, hot("node-3", gpu=5))}
    for minute in (1, 2, 3):
        made, state = decided(of(state, nodes, given=both, at=NOW + minute * MINUTE), law)
        assert all(d.kind is not Kind.DECIDED for d in made.decisions), reasons(made)
    case = state.open_case_of("node-3")
    assert case is not None
    assert case.phase is Phase.SUSPECTED


def test_a_waiver_expires_and_the_machine_is_judged_afresh() -> None:
    _, state = decided(of(State(), None, hot("node-3"), requests=[say(WAIVE, "node-3")]))
    made, state = decided(of(state, None, hot("node-3"), at=NOW + 4 * HOUR))
    assert told(made)[:2] == [("judge", "node-3", None), ("quarantine", "node-3", None)]


def test_of_two_waivers_the_later_counts_and_covers_what_the_earlier_did() -> None:
    nodes, law = fleet(), rules(FATAL)
    state, marked = carried_out(after(State(), plan(snapshot(nodes, hot("node-3")), law)), nodes)
    _, state = decided(of(state, marked, hot("node-3"), requests=[say(WAIVE, "node-3")]), law)
    _, state = decided(of(state, nodes, hot("node-3"), requests=[say(WAIVE, "node-3", NOW + HOUR, 2)]), law)
    assert [(d.until, len(d.findings)) for d in state.dismissals] == [(NOW + HOUR, 1)]
    made, state = decided(of(state, nodes, hot("node-3"), at=NOW + 59 * MINUTE), law)
    assert made.decisions == ()
    made, _ = decided(of(state, nodes, hot("node-3"), at=NOW + HOUR), law)
    assert ("quarantine", "node-3", None) in told(made)


def test_a_waiver_of_a_suspicion_dismisses_it() -> None:
    state = suspected()
    made, state = decided(of(state, None, requests=[say(WAIVE, "node-3")], mode=Mode.OBSERVE))
    (case,) = state.cases.values()
    assert case.phase is Phase.DISMISSED
    assert made.decisions[0].effects == ()


def test_a_waiver_is_of_the_machine_and_not_of_the_name() -> None:
    _, state = decided(of(State(), None, requests=[say(WAIVE, "node-3")]))
    nodes = fleet()
    other = replace(nodes["node-3"].machine, node_uid="new", system_uuid="another", provider_id="acme://another")
    nodes["node-3"] = replace(nodes["node-3"], machine=other)
    made, _ = decided(of(state, nodes, hot("node-3"), at=NOW + MINUTE))
    assert told(made)[0] == ("quarantine", "node-3", None)


def test_a_person_outranks_a_waiver() -> None:
    _, state = decided(of(State(), None, requests=[say(WAIVE, "node-3")]))
    made, state = decided(of(state, None, requests=[say(OPEN, "node-3", None, 2)], at=NOW + MINUTE))
    assert told(made)[0] == ("quarantine", "node-3", None)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (say(WAIVE, "node-99"), "no node of this cluster is called node-99"),
        (say(WAIVE, "node-3", None), "a waiver needs an end"),
        (say(WAIVE, "node-3", NOW), "its end, 2026-11-29 12:00 UTC, has passed"),
        (say(WAIVE, "node-3", NOW + 367 * DAY), "is more than 366 days away"),
        (say(PAUSE, "gpu-cold"), "no policy or pool is called gpu-cold (policies: gpu-hot; pools: gpu)"),
        (say(PAUSE, "policy/gpu"), "no policy or pool is called policy/gpu"),
        (say(PAUSE, "all", NOW - MINUTE), "has passed"),
        (say(RESUME, "all"), "nothing that stands is called all (what stands: none)"),
        (say(MAINTAIN, "rack=r99"), "rack=r99 means no node of this cluster"),
        (say(MAINTAIN, "node-99"), "node-99 means no node of this cluster"),
        (say(MAINTAIN, ""), "'' is no selector: it means no node"),
        (say(MAINTAIN, "gpu=yes,"), "'' is no label=value"),
        (say(MAINTAIN, "gpu=yes,gpu=no"), "no node has two values of gpu"),
        (say(MAINTAIN, "gpu=yes", None), "planned work needs an end"),
        (say(REPAIRED, "node-3"), "node-3 is not out of service by any case"),
    ],
)
def test_what_cannot_be_done_is_answered_with_why(asked: Request, said: str) -> None:
    made, state = decided(of(State(), None, requests=[asked]))
    assert [d.action for d in made.decisions] == [Action.ANSWER]
    assert said in made.decisions[0].reason
    assert state.answered == {"r1"}
    assert state.words == {}
    assert state.dismissals == ()


# --- Waivers by annotation --------------------------------------------------------------------------------------------


def test_an_annotation_releases_a_machine_that_is_out_as_long_as_it_stands() -> None:
    state, nodes = quarantined()
    nodes = annotated(nodes, waived_until="2026-11-29T16:00:00Z", waived_reason="the run ends tonight")
    made, state = decided(of(state, nodes, hot("node-3")))
    assert told(made) == [
        ("waive", "node-3", "waived"),
        ("release", "node-3", None),
        ("quarantine", "node-3", "waived"),
    ]
    assert "by its annotation: the run ends tonight" in reasons(made)
    assert {d.actor for d in made.decisions[:2]} == {"annotation on the node"}
    clean = annotated(fleet(), waived_until="2026-11-29T16:00:00Z", waived_reason="the run ends tonight")
    made, state = decided(of(state, clean, hot("node-3"), at=NOW + HOUR))
    assert [d for d in made.decisions if d.action is not Action.WITHDRAW] == [], "its ticket was not closed here"
    # Taken away early: as if it had never been there.
    made, state = decided(of(state, fleet(), hot("node-3"), at=NOW + 2 * HOUR))
    assert told(made)[:3] == [("judge", "node-3", None), ("judge", "node-3", None), ("quarantine", "node-3", None)]


def test_an_annotation_ends_by_itself() -> None:
    nodes = annotated(fleet(), waived_until="2026-11-29T18:00:00+02:00")
    made, state = decided(of(State(), nodes, hot("node-3")))
    assert told(made) == [("waive", "node-3", "waived"), ("quarantine", "node-3", "waived")]
    made, _ = decided(of(state, nodes, hot("node-3"), at=NOW + 4 * HOUR))
    assert ("quarantine", "node-3", None) in told(made)


def test_a_case_that_broke_an_annotation_is_not_ended_by_it_and_is_by_a_new_one() -> None:
    law = rules(FATAL)
    nodes = annotated(fleet(), waived_until="2026-11-29T16:00:00Z")
    _, state = decided(of(State(), nodes), law)
    made, state = decided(of(state, nodes, hot("node-3"), at=NOW + MINUTE), law)
    assert "despite the waiver by annotation on the node" in reasons(made)
    state, nodes = carried_out(state, nodes)
    made, state = decided(of(state, nodes, hot("node-3"), at=NOW + 2 * MINUTE), law)
    assert made.decisions == ()
    away = {name: node for name, node in nodes.items() if name != "node-3"}
    _, state = decided(of(state, away, at=NOW + 3 * MINUTE), law)
    made, state = decided(of(state, nodes, hot("node-3"), at=NOW + 4 * MINUTE), law)
    assert all(d.action is not Action.RELEASE for d in made.decisions), "out of sight for a moment is no new word"
    nodes = annotated(nodes, waived_until="2026-11-29T17:00:00Z")
    made, _ = decided(of(state, nodes, hot("node-3"), at=NOW + 5 * MINUTE), law)
    assert ("release", "node-3", None) in told(made)


@pytest.mark.parametrize(
    "value", ["tomorrow", "", "2026-11-29", "2026-11-29T16:00:00", "4h", "0001-01-01T00:00:00+14:00"]
)
def test_an_annotation_that_says_no_time_is_told_and_ignored(value: str) -> None:
    nodes = annotated(annotated(fleet(), waived_until=value), maintenance_until=value)
    made, state = decided(of(State(), nodes, hot("node-3")))
    held = [d for d in made.decisions if d.held_by is HeldBy.BROKEN_ANNOTATION]
    assert len(held) == 2
    assert all("write for instance 2026-11-29T18:00:00Z" in d.reason for d in held)
    assert ("quarantine", "node-3", None) in told(made)
    made, state = decided(of(state, unannotated(nodes), hot("node-3")))
    assert not any(hold.held_by is HeldBy.BROKEN_ANNOTATION for hold in state.holds.values())


# --- Pauses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("", "pause/all"),
        ("all", "pause/all"),
        ("gpu-hot", "pause/policy/gpu-hot"),
        ("policy/gpu-hot", "pause/policy/gpu-hot"),
        ("gpu", "pause/pool/gpu"),
        ("pool/gpu", "pause/pool/gpu"),
    ],
)
def test_under_a_pause_what_is_found_is_held_and_acted_on_when_it_is_over(scope: str, key: str) -> None:
    made, state = decided(of(State(), None, hot("node-3"), requests=[say(PAUSE, scope, None)]))
    assert told(made) == [("pause", None, None), ("quarantine", "node-3", "paused")]
    assert "paused by an engineer (cli): the provider says so" in made.decisions[1].reason
    assert set(state.words) == {key}
    made, state = decided(of(state, None, hot("node-3"), at=NOW + 5 * HOUR))
    assert made.decisions == ()
    resumed = say(RESUME, scope, None, 2)
    made, state = decided(of(state, None, hot("node-3"), at=NOW + 6 * HOUR, requests=[resumed]))
    assert told(made)[:2] == [("resume", None, None), ("quarantine", "node-3", None)]
    assert state.words == {}


def test_a_pause_ends_at_its_time_and_the_trail_tells_of_it() -> None:
    _, state = decided(of(State(), None, hot("node-3"), requests=[say(PAUSE, "gpu")]))
    made, state = decided(of(state, None, hot("node-3"), at=NOW + 4 * HOUR - MINUTE))
    assert made.decisions == ()
    made, state = decided(of(state, None, hot("node-3"), at=NOW + 4 * HOUR))
    assert told(made)[:2] == [("resume", None, None), ("quarantine", "node-3", None)]
    assert (
        made.decisions[0].reason == "the pause of pool gpu ended at 2026-11-29 16:00 UTC, as an engineer (cli) had said"
    )
    assert state.words == {}


def test_a_pause_of_another_policy_or_pool_is_in_nobodys_way() -> None:
    pools = [
        {"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": {"quarantined": 9, "unavailable": 9, "perHour": 9}},
        {"name": "other", "nodeSelector": {"gpu": "no"}},
    ]
    law = rules(policy(), policy("gpu-warm"), pools=pools)
    asked = [say(PAUSE, "other", None, 1), say(PAUSE, "gpu-warm", None, 2)]
    made, _ = decided(of(State(), None, hot("node-3"), requests=asked), law)
    assert ("quarantine", "node-3", None) in told(made)


def test_a_name_that_is_a_policys_and_a_pools_must_be_told_apart() -> None:
    law = rules(policy(), policy("gpu"))
    made, state = decided(of(State(), None, requests=[say(PAUSE, "gpu", None)]), law)
    assert "gpu is the name of a policy and of a pool: say policy/gpu or pool/gpu" in made.decisions[0].reason
    made, state = decided(
        of(state, None, requests=[say(PAUSE, "pool/gpu", None, 2), say(PAUSE, "policy/gpu", None, 3)]), law
    )
    assert set(state.words) == {"pause/pool/gpu", "pause/policy/gpu"}
    made, state = decided(of(state, None, requests=[say(RESUME, "gpu", None, 4)]), law)
    assert "gpu may mean several (what stands: pause/policy/gpu, pause/pool/gpu)" in made.decisions[0].reason
    made, state = decided(of(state, None, requests=[say(RESUME, "pool/gpu", None, 5)]), law)
    assert set(state.words) == {"pause/policy/gpu"}


def test_the_pause_of_a_policy_that_is_no_more_can_be_ended() -> None:
    _, state = decided(of(State(), None, requests=[say(PAUSE, "gpu-hot", None)]))
    law = rules(policy("gpu-warm"))
    _, state = decided(of(state, None, given={}, requests=[say(RESUME, "gpu-hot", None, 2)]), law)
    assert state.words == {}


def test_under_a_pause_releases_go_on_and_nothing_new_is_asked() -> None:
    nodes = fleet()
    state, marked = carried_out(after(State(), plan(snapshot(nodes, hot("node-3"), hot("node-4")), rules())), nodes)
    _, state = decided(of(state, marked, requests=[say(PAUSE, "", None)]))
    look = of(state, marked, hot("node-4"), hot("node-5"), requests=[say(RELEASE, "node-3", None, 2)], at=NOW + MINUTE)
    made, state = decided(look)
    assert told(made) == [("release", "node-3", None), ("quarantine", "node-5", "paused")]
    made, state = decided(of(state, marked, hot("node-4"), requests=[say(WAIVE, "node-4", number=3)], at=NOW + MINUTE))
    assert ("waive", "node-4", None) in told(made)


def test_a_pause_keeps_the_ticket_of_a_machine_that_is_out_from_being_filed() -> None:
    nodes = fleet()
    slow = rules(policy(response={"ticket": "report"}))
    _, state = decided(
        of(State(), nodes, hot("node-3"), given=None), rules(policy(response={"ticket": "none", "notify": False}))
    )
    state, marked = carried_out(state, nodes)
    for scope in ("all", "gpu", "gpu-hot"):
        _, paused = decided(of(state, marked, requests=[say(PAUSE, scope, None)]), slow)
        made, _ = decided(of(paused, marked, hot("node-3"), at=NOW + MINUTE), slow)
        assert not any(set(d.effects) & set(NEW_WORK) for d in made.decisions), (scope, reasons(made))
    made, _ = decided(of(state, marked, hot("node-3"), at=NOW + MINUTE), slow)
    assert ("ticket", "node-3", None) in told(made), "it would have been"


def test_what_a_person_asks_under_a_pause_waits_for_its_end() -> None:
    _, state = decided(of(State(), None, requests=[say(PAUSE, "gpu", None)]))
    made, state = decided(of(state, None, requests=[say(OPEN, "node-6", None, 2)], at=NOW + MINUTE))
    assert told(made) == [("quarantine", "node-6", "paused")]
    made, state = decided(of(state, None, at=NOW + HOUR))
    assert made.decisions == ()
    made, state = decided(of(state, None, requests=[say(RESUME, "gpu", None, 3)], at=NOW + 2 * HOUR))
    assert told(made)[:2] == [("resume", None, None), ("quarantine", "node-6", None)]


# --- Planned work -----------------------------------------------------------------------------------------------------


def racked() -> dict[str, Node]:
    return {name: replace(n, labels={**n.labels, "rack": f"r{i // 4}"}) for i, (name, n) in enumerate(fleet().items())}


def test_planned_work_suspends_judgement_on_what_its_selector_means() -> None:
    nodes = racked()
    asked = say(MAINTAIN, " gpu=yes , rack=r0 ")
    made, state = decided(of(State(), nodes, hot("node-1"), hot("node-9"), requests=[asked]))
    assert ("maintain", None, None) in told(made)
    assert ("quarantine", "node-1", "maintenance") in told(made)
    assert ("quarantine", "node-9", None) in told(made)
    assert "nothing is judged on 4 of 20 nodes (node-0, node-1, node-2, node-3) meanwhile" in made.decisions[0].reason
    assert set(state.words) == {"maintenance/gpu=yes,rack=r0"}
    made, _ = decided(of(state, nodes, hot("node-1"), hot("node-9"), at=NOW + 4 * HOUR))
    assert ("quarantine", "node-1", None) in told(made), "it is over"


def test_planned_work_on_one_node_may_end_early() -> None:
    _, state = decided(of(State(), None, requests=[say(MAINTAIN, "node-3")]))
    made, state = decided(of(state, None, hot("node-3"), at=NOW + MINUTE))
    assert told(made) == [("quarantine", "node-3", "maintenance")]
    asked = say(RESUME, "node-3", None, 2)
    made, state = decided(of(state, None, hot("node-3"), requests=[asked], at=NOW + 2 * MINUTE))
    assert ("quarantine", "node-3", None) in told(made)
    assert "ends the planned work on node-3" in made.decisions[0].reason


def test_planned_work_by_annotation_stands_as_long_as_it_says() -> None:
    nodes = annotated(fleet(), maintenance_until="2026-11-29T13:00:00Z")
    made, state = decided(of(State(), nodes, hot("node-3")))
    assert told(made) == [("quarantine", "node-3", "maintenance")]
    assert "its annotation quarantine.gpu/maintenance-until says until 2026-11-29 13:00 UTC" in made.decisions[0].reason
    made, _ = decided(of(state, nodes, hot("node-3"), at=NOW + HOUR))
    assert ("quarantine", "node-3", None) in told(made)


# --- What was done ----------------------------------------------------------------------------------------------------


def test_a_machine_that_a_person_says_is_repaired_goes_on_probation() -> None:
    state, nodes = quarantined()
    made, state = decided(of(state, nodes, requests=[say(REPAIRED, "node-3", None)]))
    assert told(made)[0] == ("prove", "node-3", None)
    assert made.decisions[0].effects == (Effect.PHASE,)
    case = state.open_case_of("node-3")
    assert case is not None
    assert case.phase is Phase.PROBATION
    later = NOW + 10 * MINUTE
    made, state = decided(replace(of(state, nodes, requests=[say(REPAIRED, "node-3", None, 2)]), now=later))
    case = state.open_case_of("node-3")
    assert case is not None
    assert case.renewed_at == later, "said again, it proves itself anew: so ends a burn-in that is lost"


def test_a_suspicion_is_not_repaired() -> None:
    made, _ = decided(of(suspected(), None, requests=[say(REPAIRED, "node-3", None)], mode=Mode.OBSERVE))
    assert "is not out of service by any case" in reasons(made)


def test_every_word_is_the_persons_and_says_which_way_it_came() -> None:
    asked = [say(WAIVE, "node-1", number=1), say(PAUSE, "gpu-hot", number=2), say(MAINTAIN, "node-2", number=3)]
    made, _ = decided(of(State(), None, requests=[replace(r, channel="slack") for r in asked]))
    said: list[Decision] = [d for d in made.decisions if d.request is not None]
    assert [d.actor for d in said] == ["an engineer (slack)"] * 3
    assert all("the provider says so" in d.reason for d in said)
