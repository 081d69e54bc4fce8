"""What people's pauses and planned work were at a moment of the past: folded from the trail, as all that stands is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Engine

from quarantine.core.decision import Action, State, Word
from quarantine.core.state import evolve
from quarantine.ledger.schema import decisions
from quarantine.ledger.trail import decoded, pages

_ABOUT_WORDS = (Action.PAUSE, Action.MAINTAIN, Action.RESUME)


def words(engine: Engine, cluster: str, until: datetime) -> Mapping[str, Word]:
    """By key, those that stood at `until`. They name no node, so the whole trail is looked through, by its columns.

    Raises as the port.
    """
    about = [action.value for action in _ABOUT_WORDS]
    chosen = [decisions.c.cluster == cluster, decisions.c.action.in_(about), decisions.c.at <= until]
    state = State()
    for row in pages(engine, chosen, decisions.c.seq, decisions.c.body):
        decision = decoded(cluster, row.seq, row.body)
        if decision.word is not None or decision.unword:
            state = evolve(state, decision)
    return state.words
