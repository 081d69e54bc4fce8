"""The tables are what the decisions add up to: any history, in any batches, through any restarts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, Row, select

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase
from quarantine.core.decision import ACTION_OF, Action, Census, Decision, Kind, State
from quarantine.core.model import Machine, Verdict
from quarantine.core.record import milestones, spans, subjects
from quarantine.core.record.milestones import Milestones
from quarantine.core.record.spans import HoldSpan
from quarantine.core.state import evolve, fold
from quarantine.ledger import schema
from quarantine.ledger.engine import reading
from quarantine.ledger.outbox import key_of
from quarantine.ledger.rebuild import rebuild
from quarantine.ledger.records import milestones_of, span_of
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
    *("waive", "pause", "resume", "identify", "swap", "close", "version", "count", "answer"),
)
Step = tuple[str, int, int]
STEP = st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 2), st.integers(0, 4))
HISTORY = st.lists(st.lists(STEP, min_size=1, max_size=8), min_size=1, max_size=5)
_number = itertools.count()


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
    times, held_spans = told(taken)
    with reading(engine) as connection:
        rows = connection.execute(select(schema.milestones).where(schema.milestones.c.cluster == cluster))
        assert {row.case_id: milestones_of(row) for row in rows} == times
        rows = connection.execute(select(schema.hold_spans).where(schema.hold_spans.c.cluster == cluster))
        assert {row.seq: span_of(row) for row in rows} == held_spans
        rows = connection.execute(select(schema.sightings).where(schema.sightings.c.cluster == cluster))
        names = {(row.value, row.node_uid): row for row in rows}
        rows = connection.execute(select(schema.tickets).where(schema.tickets.c.cluster == cluster))
        assert {(row.case_id, row.ref): (row.filed_at, row.closed_at) for row in rows} == filed(taken)
    assert_seen(taken, names)
    made = rebuild(engine, cluster, now=NOW)
    assert made.sound
    assert made.decisions == len(taken)
    reader = SqlLedger(engine, cluster, now=now)
    assert [row.decision for row in reader.decisions()] == taken
    found = reader.verify()
    assert isinstance(found, Sound)
    assert found.count == len(taken)


def told(taken: Sequence[Decision]) -> tuple[dict[str, Milestones], dict[int, HoldSpan]]:
    """The times of cases and the spans of holds, folded in memory and one decision at a time."""
    state = State()
    times: dict[str, Milestones] = {}
    standing: Mapping[str, HoldSpan] = {}
    known: dict[int, HoldSpan] = {}
    for seq, decision in enumerate(taken, start=1):
        key = decision.case or ""
        before, state = state.cases.get(key), evolve(state, decision)
        changed = spans.follow(standing, seq, decision, before, state.cases.get(key))
        standing = spans.stand(standing, changed)
        known |= {span.seq: span for span in changed}
        if key:
            times[key] = milestones.follow(times.get(key), decision, state.cases[key])
    return times, known


def assert_seen(taken: Sequence[Decision], names: Mapping[tuple[str, str], Row[Any]]) -> None:
    """Every decision about a machine is between the first and the last sighting of each of its names."""
    state = State()
    ends: dict[tuple[str, str], list[int]] = {}
    for seq, decision in enumerate(taken, start=1):
        state = evolve(state, decision)
        case = state.cases.get(decision.case or "")
        machine = decision.machine or (case.machine if case is not None else Machine(""))
        told_of = [value for _, value in subjects.names(machine)]
        for value in (*told_of, *([decision.node] if decision.node else [])):
            ends.setdefault((value, machine.node_uid), []).append(seq)
            row = names[value, machine.node_uid]
            assert row.first_seq <= seq <= row.last_seq
            assert row.first_at <= decision.at or row.first_seq == seq
            assert row.machine == subjects.machine_key(machine)
    for key, seqs in ends.items():
        assert names[key].first_seq == min(seqs)


def filed(taken: Sequence[Decision]) -> dict[tuple[str, str], tuple[datetime, datetime | None]]:
    """When each ticket was filed first, and when its case's were closed."""
    found: dict[tuple[str, str], tuple[datetime, datetime | None]] = {}
    for decision in (one for one in taken if one.kind is Kind.DONE and one.case is not None):
        case = decision.case or ""
        if decision.effect in (Effect.TICKET, Effect.REPLACE):
            key = (case, decision.ref)
            found[key] = (found[key][0] if key in found else decision.at, None)
        if decision.effect is Effect.CLOSE:
            open_ones = {key: value for key, value in found.items() if key[0] == case and value[1] is None}
            found |= {key: (at, decision.at) for key, (at, _) in open_ones.items()}
    return found


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
    elif operation in ("version", "count", "answer"):
        made = of_no_machine(operation, node, detail, at)
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


def of_no_machine(operation: str, number: int, detail: int, at: datetime) -> Decision:
    """A version that came into force or is no more, a pool that was counted, an answer."""
    made = Decision(at, Kind.DECIDED, Action.ANSWER, "it is so", "controller 0.1.0")
    if operation == "version":
        hash_ = f"{detail:064x}" if detail else None
        return replace(made, action=Action.POLICY, policy=f"policy-{number}", policy_hash=hash_, policy_revision="12ab")
    if operation == "count":
        census = Census(detail * 100, detail * 800, at)
        return replace(made, action=Action.COUNT, pool=f"pool-{number}", census=census)
    return replace(made, request=f"r-{detail}", node=f"node-{number}")


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
        effect = waiting[detail % len(waiting)]
        made = replace(outcome(effect, node, ref=f"R-{detail}", kind=kind), action=ACTION_OF[effect], provider="acme")
    elif operation in ("identify", "swap"):
        made = renewed(case, operation, detail)
    elif operation == "close" and not waiting:
        made = replace(ended(node), action=Action.WITHDRAW, phase=None, effects=(Effect.CLOSE,))
    elif operation == "release":
        made = ended(node)
    elif operation == "dismiss":
        made = dismissed(node, until=NOW + timedelta(days=detail - 1, minutes=1))
    return None if made is None else replace(made, case=case.id)


def renewed(case: Case, operation: str, detail: int) -> Decision:
    """More is known of the machine, or another one is in its place."""
    made = replace(quarantined(0, effects=()), policy=None, device=None, evidence=None, phase=None)
    if operation == "identify":
        gpus = tuple(f"GPU-{case.node}-{number}" for number in range(detail))
        return replace(made, action=Action.IDENTIFY, node=case.node, machine=replace(case.machine, gpus=gpus))
    other = Machine(f"uid-{case.node}-{detail}", f"provider://{detail}", f"system-{case.node}-{detail}")
    phase = Phase.SWAPPED if case.phase is Phase.SWAP_REQUESTED else None
    return replace(made, action=Action.SWAP, node=case.node, machine=other, phase=phase)
