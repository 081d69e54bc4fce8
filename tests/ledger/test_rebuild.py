"""The tables are what the decisions add up to: any history, in any batches, through any restarts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.model import Verdict
from quarantine.core.state import evolve, fold
from quarantine.ledger.engine import make_engine
from quarantine.ledger.outbox import key_of
from quarantine.ledger.store import SqlLedger
from quarantine.ledger.verify import Sound
from tests.ledger.samples import (
    NOW,
    device,
    dismissed,
    ended,
    held,
    now,
    outcome,
    paused,
    quarantined,
    resumed,
    waived,
)

OPERATIONS = (
    *("open", "adopt", "join", "again", "recover", "settle", "fail", "release", "dismiss", "hold", "lift"),
    *("waive", "pause", "resume"),
)
Step = tuple[str, int, int]
STEP = st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 2), st.integers(0, 4))
HISTORY = st.lists(st.lists(STEP, min_size=1, max_size=8), min_size=1, max_size=5)
_number = itertools.count()


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """One for all examples: each has a cluster of its own."""
    made = make_engine(url)
    yield made
    made.dispose()


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=HISTORY)
def test_the_tables_are_the_fold_of_the_decisions(engine: Engine, steps: list[list[Step]]) -> None:
    cluster = f"cluster-{next(_number)}"
    taken: list[Decision] = []
    lasting = SqlLedger(engine, cluster, now=now)
    for round_, batch in enumerate(history(steps)):
        leader = lasting if round_ % 3 else SqlLedger(engine, cluster, now=now)  # one that remembers, one restarted
        leader.record(leader.take_term("pod"), batch)
        taken += batch
        whole = fold(State(), taken)
        view = SqlLedger(engine, cluster, now=now).load()
        assert view.state == still_needed(whole)
        assert {effect.key for effect in view.pending} == set(pending(whole))
    reader = SqlLedger(engine, cluster, now=now)
    assert [row.decision for row in reader.decisions()] == taken
    found = reader.verify()
    assert isinstance(found, Sound)
    assert found.count == len(taken)


def still_needed(state: State) -> State:
    """What a cycle at `NOW` can need of a fold from the beginning. (Its requests are in nobody's inbox here.)"""
    return replace(
        state,
        dismissals=tuple(d for d in state.dismissals if d.until > NOW),
        quarantined_at=tuple(entry for entry in state.quarantined_at if entry[0] > NOW - timedelta(hours=24)),
        answered=frozenset(),
    )


def pending(state: State) -> Iterator[str]:
    """What the cases say is to be done."""
    for case in state.cases.values():
        for effect, held_ in case.effects.items():
            if held_.status is EffectStatus.PENDING:
                yield key_of(case.id, effect)


def history(steps: Sequence[Sequence[Step]]) -> Iterator[list[Decision]]:
    """The steps as batches of decisions that could have been taken one after the other, over thirty hours and more."""
    state = State()
    clock = itertools.count()
    for batch in steps:
        taken = []
        for step in batch:
            decision = decided(state, step, NOW - timedelta(hours=30) + next(clock) * timedelta(minutes=47))
            if decision is not None:
                state = evolve(state, decision)
                taken.append(decision)
        yield taken


def decided(state: State, step: Step, at: datetime) -> Decision | None:
    """The decision of a step, where the state allows one."""
    operation, node, detail = step
    case = state.open_case_of(f"node-{node}")
    made: Decision | None
    if operation == "hold":
        made = held(f"hold-{detail}", list(HeldBy)[node])
    elif operation == "lift":
        made = held(f"hold-{detail}", None)
    elif operation in ("pause", "resume"):
        until = NOW + timedelta(days=detail - 2) if detail else None  # some are over, and stand until that is decided
        made = paused(f"pool/{node}", at=at, until=until) if operation == "pause" else resumed(f"pool/{node}")
    elif operation == "waive":
        marked = case.id if case is not None and case.marked else None
        made = waived(node, case=marked, until=NOW + timedelta(days=detail - 1, minutes=1))
    elif case is not None:
        made = about(case, operation, node, detail)
    elif operation in ("open", "adopt"):
        action = Action.QUARANTINE if operation == "open" else Action.ADOPT
        made = replace(quarantined(node, effects=tuple(Effect)[:detail]), action=action, case=f"c-{at:%d%H%M}")
    else:
        made = None
    return None if made is None else replace(made, at=at)


def about(case: Case, operation: str, node: int, detail: int) -> Decision | None:
    """A decision about an open case."""
    waiting = [effect for effect, held_ in case.effects.items() if held_.status is EffectStatus.PENDING]
    made: Decision | None = None
    if operation == "join":
        made = replace(quarantined(node, effects=()), action=Action.JOIN, device=device(detail))
    elif operation == "again":
        made = replace(quarantined(node, effects=tuple(Effect)[:detail]), action=Action.JOIN)
    elif operation == "recover":
        made = replace(quarantined(node, effects=()), action=Action.RECOVER, verdict=Verdict.GOOD)
    elif operation in ("settle", "fail") and waiting:
        kind = Kind.DONE if operation == "settle" else Kind.FAILED
        made = outcome(waiting[detail % len(waiting)], node, ref=f"R-{detail}", kind=kind)
    elif operation == "release":
        made = ended(node)
    elif operation == "dismiss":
        made = dismissed(node, until=NOW + timedelta(days=detail - 1, minutes=1))
    return None if made is None else replace(made, case=case.id)
