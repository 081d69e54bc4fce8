"""What holds of people's words over any history of findings, requests, annotations and time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core import pauses
from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import Action, Decision, Kind, Request, RequestKind, State
from quarantine.core.model import Mode, Node, Severity
from quarantine.core.planner import plan
from quarantine.core.snapshot import Plan
from quarantine.core.state import fold
from tests.core.world import MINUTE, NOW, after, answers, carried_out, fleet, hot, policy, rules, snapshot

NODES = 6
NAMES = [f"node-{n}" for n in range(NODES)]
LIMITS = {"quarantined": 3, "unavailable": 4, "perHour": 3}
POOLS = [
    {"name": "one", "nodeSelector": {"pool": "one"}, "budget": LIMITS},
    {"name": "two", "nodeSelector": {"pool": "two"}, "budget": LIMITS},
]
LAW = rules(
    policy(breaker={"maxShare": "100%"}),
    policy("gpu-dying", severity="fatal", breaker={"maxShare": "100%"}, response={"ticket": "replace"}),
    policy("gpu-watched", mode="observe", severity="fatal", breaker={"maxShare": "100%"}),
    pools=POOLS,
)
NEW_WORK = frozenset({Effect.MARK, Effect.EVICT, Effect.RUN, Effect.TICKET, Effect.REPLACE, Effect.NOTIFY})
SCOPES = ["", "all", "one", "pool/two", "gpu-hot", "policy/gpu-dying", "nothing"]
KINDS = [k for k in RequestKind if k is not RequestKind.UNKNOWN]

names = st.sampled_from(NAMES)
found = st.sets(st.tuples(st.sampled_from([p.name for p in LAW.policies]), names), max_size=5)
asked = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        names,
        st.sampled_from([*SCOPES, "node-1", "pool=one", "pool=two,gpu=yes", "=", "pool=none"]),
        st.sampled_from([None, -5, 3, 45, 400]),
    ),
    max_size=3,
)
annotated = st.dictionaries(names, st.sampled_from([10, 90, 600, None]), max_size=1)
steps = st.lists(
    st.tuples(found, asked, annotated, st.sampled_from(Mode), st.booleans(), st.integers(0, 120)),
    min_size=1,
    max_size=6,
)
Step = tuple[
    set[tuple[str, str]],
    list[tuple[RequestKind, str, str, int | None]],
    dict[str, int | None],
    Mode,
    bool,
    int,
]


def pooled() -> dict[str, Node]:
    half = NODES // 2
    return {
        name: replace(node, labels={**node.labels, "pool": "one" if n < half else "two"})
        for n, (name, node) in enumerate(fleet(NODES).items())
    }


def requested(step: Step, number: int, now: datetime) -> list[Request]:
    return [
        Request(
            f"r{number}-{place}",
            kind,
            node if kind not in (RequestKind.PAUSE, RequestKind.RESUME, RequestKind.MAINTAIN) else "",
            "as it is",
            "somebody",
            "cli",
            now,
            until=None if minutes is None else now + minutes * MINUTE,
            scope=scope if kind in (RequestKind.PAUSE, RequestKind.RESUME, RequestKind.MAINTAIN) else "",
        )
        for place, (kind, node, scope, minutes) in enumerate(step[1])
    ]


def shown(nodes: dict[str, Node], said: dict[str, int | None]) -> dict[str, Node]:
    """With waivers by annotation, so many minutes past noon; None: one that says nothing."""
    changed = dict(nodes)
    for name, minutes in said.items():
        text = "soon" if minutes is None else (NOW + minutes * MINUTE).isoformat()
        own = {**changed[name].annotations, "quarantine.gpu/waived-until": text}
        changed[name] = replace(changed[name], annotations=own)
    return changed


@given(history=steps)
@settings(max_examples=150, deadline=None)
def test_over_any_history_a_persons_word_holds(history: list[Step]) -> None:
    nodes, state, now = pooled(), State(), NOW
    for number, step in enumerate(history):
        bad, _, said, mode, done, minutes = step
        now += timedelta(minutes=minutes)
        seen = shown(nodes, said)
        given_answers = {
            p.name: answers(seen, *(hot(name) for policy_name, name in sorted(bad) if policy_name == p.name))
            for p in LAW.policies
        }
        requests = requested(step, number, now)
        look = snapshot(seen, state=state, mode=mode, now=now, requests=requests, given=given_answers)
        made = plan(look, LAW)
        after_all = after(state, made)
        again = plan(replace(look, state=after_all), LAW)
        assert again.decisions == (), [d.reason for d in again.decisions]
        every_request_has_one_answer(made, requests)
        nothing_new_under_a_pause(state, made, now)
        a_waiver_is_broken_by_what_is_fatal_alone(state, made, now)
        a_release_is_always_possible(state, made, requests)
        assert all(pauses.stands(word, now) for word in after_all.words.values())
        state = after_all
        if done and mode is Mode.ENFORCE:
            state, nodes = carried_out(state, nodes, now)
            nodes = unmarked(state, nodes)


def unmarked(state: State, nodes: dict[str, Node]) -> dict[str, Node]:
    """Without the marks of cases that ended."""
    ended = {case.node for case in state.cases.values() if not case.open} - {
        case.node for case in state.cases.values() if case.marked
    }
    clean = pooled()
    return {name: clean[name] if name in ended else node for name, node in nodes.items()}


def every_request_has_one_answer(made: Plan, requests: list[Request]) -> None:
    told = [d.request for d in made.decisions if d.request is not None]
    assert sorted(told) == sorted(r.id for r in requests)


def nothing_new_under_a_pause(state: State, made: Plan, now: datetime) -> None:
    """By the words as they stand when each decision is taken: people's requests come first in a plan."""
    for decision in made.decisions:
        wanted = NEW_WORK & set(decision.effects)
        if wanted and decision.action not in (Action.RELEASE, Action.DISMISS, Action.WAIVE):
            assert pauses.pause(state.words, now, pool=decision.pool) is None, decision
            if decision.policy is not None:
                assert pauses.pause(state.words, now, policy=decision.policy) is None, decision
        state = fold(state, [decision])


def a_waiver_is_broken_by_what_is_fatal_alone(state: State, made: Plan, now: datetime) -> None:
    for decision in made.decisions:
        taken = decision.action is Action.QUARANTINE and decision.kind is Kind.DECIDED
        if taken and decision.policy is not None and not by_person(state, decision):
            waivers = [w for w in state.dismissals if w.waiver and w.node == decision.node and w.until > now]
            assert not waivers or decision.severity is Severity.FATAL, decision
            assert not waivers or "despite the waiver" in decision.reason
        state = fold(state, [decision])


def by_person(state: State, decision: Decision) -> bool:
    case = state.cases.get(decision.case or "")
    return case is not None and case.by_person


def a_release_is_always_possible(state: State, made: Plan, requests: list[Request]) -> None:
    """Whatever is paused, spent or tripped: what was asked first of a case that is open is done."""
    cases: dict[str, Case] = {case.node: case for case in state.cases.values() if case.open}
    after_all = fold(state, made.decisions)
    for request in requests[:1]:
        case = cases.get(request.node)
        if request.kind is RequestKind.RELEASE and case is not None:
            ended = after_all.cases[case.id]
            assert not ended.open
            if case.marked:
                assert ended.effects[Effect.UNMARK].status is EffectStatus.PENDING
