"""What decisions that are in the trail do to every other table: one way, for the writer and for a rebuild."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from quarantine.core.decision import Decision, State
from quarantine.core.state import evolve
from quarantine.ledger import projections
from quarantine.ledger.outbox import Changes
from quarantine.ledger.records import Records
from quarantine.ledger.remembered import Remembered
from quarantine.ledger.sightings import Machines
from quarantine.ledger.upsert import Writes


def fold(
    connection: Connection,
    writes: Writes,
    cluster: str,
    before: State,
    numbered: Sequence[tuple[int, Decision]],
    *,
    remembered: Remembered | None = None,
    unfit: Callable[[int, ValueError], None] | None = None,
) -> State:
    """Fold decisions with their numbers in the trail; what changed goes into `writes`. Returns the state after them.

    `before` must hold the cases that they name, as far as they are known, and all that is not of a case. What was
    `remembered` is then what will be there once `writes` are saved. Raises ValueError for a decision that could not
    have been taken; where `unfit` is given it is told, and the decision changes nothing but where its machine was seen.
    """
    taken = [decision for _, decision in numbered]
    named = {decision.case for decision in taken if decision.case is not None}
    remembered = remembered or Remembered()
    outbox, records = Changes(cluster), Records(connection, cluster, before.cases, taken, remembered)
    machines = Machines(connection, cluster, before.cases, taken, remembered)
    state = before
    for seq, decision in numbered:
        try:
            after = evolve(state, decision)
        except ValueError as error:
            if unfit is None:
                raise
            unfit(seq, error)
            after = state
        was = state.cases.get(decision.case) if decision.case is not None else None
        case = after.cases.get(decision.case) if decision.case is not None else None
        machines.follow(seq, decision, was, case)
        if after is not state:
            records.follow(seq, decision, state, after)
            if case is not None:
                outbox.follow(seq, was, case)
        state = after
    outbox.save(writes)
    projections.save(writes, cluster, before, state, named)
    records.save(writes)
    machines.save(writes)
    return state
