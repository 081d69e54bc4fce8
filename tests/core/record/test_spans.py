"""How long something was held back: from the decision that says so to the one that ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Effect, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State
from quarantine.core.draft import case_key
from quarantine.core.model import Machine, Mode
from quarantine.core.state import evolve
from tests.core.record.recorded import Record, record, spans_are_sound
from tests.core.treatment.life import REPORT, Life, asked, law
from tests.core.world import MINUTE, NOW, policy

HOUR = timedelta(hours=1)


def told(found: Record) -> list[tuple[str, HeldBy, float, float | None]]:
    """Of each span: its key up to the slash, by what, and its beginning and end in minutes since NOW."""
    return [
        (
            s.key.split("/")[0],
            s.held_by,
            (s.since - NOW) / MINUTE,
            None if s.until is None else (s.until - NOW) / MINUTE,
        )
        for s in found.spans.values()
    ]


# --- Cases ------------------------------------------------------------------------------------------------------------


def test_a_case_is_held_from_its_suspicion_until_its_machine_is_taken_out() -> None:
    life = Life(law(ladder=[REPORT]), mode=Mode.OBSERVE)
    life.cycle()
    life.cycle()
    key = case_key(life.case.id)
    (span,) = record(life.trail).spans.values()
    assert (span.seq, span.key, span.held_by, span.since) == (1, key, HeldBy.OBSERVE_MODE, NOW)
    assert (span.until, span.policy, span.node, span.pool) == (None, "gpu-hot", "node-3", "gpu")
    assert span.reason == life.trail[0].reason
    life.mode = Mode.ENFORCE
    life.at = NOW + HOUR
    life.cycle()
    assert told(record(life.trail)) == [("case", HeldBy.OBSERVE_MODE, 0, 60)]


def test_another_reason_is_another_span() -> None:
    life = Life(law(ladder=[REPORT]), mode=Mode.OBSERVE)
    life.cycle()
    life.mode = Mode.ENFORCE
    life.cycle(replace(asked(RequestKind.PAUSE), node="", scope="all"))
    life.cycle(replace(asked(RequestKind.RESUME, 2), node="", scope="all"))
    assert told(record(life.trail)) == [("case", HeldBy.OBSERVE_MODE, 0, 1), ("case", HeldBy.PAUSED, 1, 2)]


def test_a_case_that_ends_is_held_no_more() -> None:
    life = Life(law(ladder=[REPORT]), mode=Mode.OBSERVE)
    life.cycle()
    life.hot, life.cool = False, True
    life.cycle()
    assert told(record(life.trail)) == [("case", HeldBy.OBSERVE_MODE, 0, 1)]


def test_a_move_of_a_case_ends_its_hold_though_nothing_is_said_of_it() -> None:
    held = hold("case/q-1", case="q-1", phase=Phase.SUSPECTED)
    moved = Decision(NOW + HOUR, Kind.DECIDED, Action.RETIRE, "r", "t", case="q-1", phase=Phase.RETIRED)
    assert told(record([held, moved])) == [("case", HeldBy.BUDGET, 0, 60)]
    lifted = Decision(NOW + 2 * HOUR, Kind.DECIDED, Action.JUDGE, "r", "t", hold_key="case/q-1")
    assert told(record([held, moved, lifted])) == [("case", HeldBy.BUDGET, 0, 60)]


def test_what_else_happens_in_a_case_leaves_its_hold_alone() -> None:
    held = hold("case/q-1", case="q-1", phase=Phase.SUSPECTED)
    joined = replace(held, kind=Kind.DECIDED, action=Action.JOIN, at=NOW + HOUR, held_by=None, hold_key="", phase=None)
    assert told(record([held, joined])) == [("case", HeldBy.BUDGET, 0, None)]


def test_a_case_that_is_held_is_one_span_whatever_its_hold_is_called() -> None:
    """An older record names no hold."""
    held = hold("", case="q-1", phase=Phase.SUSPECTED)
    assert [span.key for span in record([held]).spans.values()] == ["case/q-1"]
    again = replace(held, at=NOW + HOUR, held_by=HeldBy.SETTLING)
    out = replace(held, at=NOW + 2 * HOUR, kind=Kind.DECIDED, held_by=None, phase=Phase.QUARANTINED)
    expected = [("case", HeldBy.BUDGET, 0, 60), ("case", HeldBy.SETTLING, 60, 120)]
    assert told(record([held, again, out])) == expected


# --- Anything else ----------------------------------------------------------------------------------------------------


def hold(key: str, by: HeldBy = HeldBy.BUDGET, **fields: object) -> Decision:
    base = Decision(NOW, Kind.HELD, Action.QUARANTINE, "r", "t", node="node-1", machine=Machine("u"))
    return replace(base, held_by=by, hold_key=key, **fields)  # type: ignore[arg-type]


def test_what_stands_goes_on_where_the_same_is_said_again() -> None:
    first = hold("judge/p", HeldBy.BREAKER, node=None, policy="p")
    again = replace(first, at=NOW + HOUR, reason="for more machines")
    found = record([first, again])
    assert told(found) == [("judge", HeldBy.BREAKER, 0, None)]
    assert found.spans[1].reason == "r"


def test_a_hold_about_a_case_lasts_until_it_is_lifted() -> None:
    life = Life(law(ladder=[REPORT]))
    life.plan()
    life.gave_up(Effect.TICKET)
    gave_up = Decision(NOW, Kind.FAILED, Action.TICKET, "r", "t", case=life.case.id, effect=Effect.TICKET)
    life.trail.append(gave_up)
    life.at = NOW + MINUTE
    life.cycle()
    assert told(record(life.trail)) == [("given-up", HeldBy.GIVEN_UP, 1, None)]
    (span,) = record(life.trail).spans.values()
    assert (span.node, span.pool) == ("node-3", "gpu")
    life.hot = False
    life.cycle(asked(RequestKind.RELEASE))
    assert told(record(life.trail)) == [("given-up", HeldBy.GIVEN_UP, 1, 2)]


def test_no_span_is_negative_where_a_leaders_clock_is_behind() -> None:
    lifted = Decision(NOW - HOUR, Kind.DECIDED, Action.JUDGE, "r", "t", hold_key="judge/p")
    found = record([hold("judge/p", node=None), lifted])
    assert told(found) == [("judge", HeldBy.BUDGET, 0, 0)]


def test_a_hold_of_a_policy_that_opens_no_case_is_the_nodes() -> None:
    life = Life(law(policy(response={"ticket": "report"})))
    life.nodes["node-3"] = replace(life.nodes["node-3"], labels={"gpu": "yes", "quarantine.gpu/ignore": "true"})
    life.cycle()
    assert told(record(life.trail)) == [("node", HeldBy.IGNORED, 0, None)]


# --- Any history ------------------------------------------------------------------------------------------------------

CASES = ["q-1", "q-2"]
keys = st.sampled_from(["", "judge/p", "same/q-1", "its case"])
moves = st.tuples(
    keys,
    st.sampled_from([None, HeldBy.BUDGET, HeldBy.SETTLING]),
    st.sampled_from([None, *CASES]),
    st.sampled_from([Action.QUARANTINE, Action.PROVE, Action.JOIN]),
    st.sampled_from([None, Phase.SUSPECTED, Phase.QUARANTINED, Phase.RELEASED]),
    st.integers(-5, 60),
)


@given(history=st.lists(moves, max_size=30))
@settings(deadline=None)
def test_spans_of_one_key_never_overlap_and_the_last_is_what_stands(
    history: list[tuple[str, HeldBy | None, str | None, Action, Phase | None, int]],
) -> None:
    trail, at, state = list[Decision](), NOW, State()
    for key, by, case, action, phase, minutes in history:
        at += minutes * MINUTE
        made = hold(key, at=at, case=case, action=action, phase=phase)
        if key == "its case":  # only what is to be taken out is held so
            made = replace(made, hold_key=case_key(case) if case else "", action=Action.QUARANTINE)
        made = replace(made, held_by=by, kind=Kind.DECIDED if by is None else Kind.HELD)
        try:
            state = evolve(state, made)
        except ValueError:
            continue  # a move that the table does not have, or a case that begins without a phase
        trail.append(made)
    found = record(trail)
    spans_are_sound(found)
    by_key = {span.key for span in found.spans.values() if span.until is None}
    assert by_key == found.standing.keys()
    for waiting in found.state.cases.values():
        span = found.standing.get(case_key(waiting.id))
        if waiting.held_by is not None:
            assert span is not None, "a case that is held has a span that stands"
            assert span.held_by is waiting.held_by
    for key in by_key - {case_key(case) for case in CASES}:
        assert found.state.holds[key].held_by is found.standing[key].held_by
