"""The outbox: side effects decided, tried, done. It follows the cases: what is pending in a case is pending here.

An effect that is asked for again after its outcome is a row of its own, so the table is also the effects' history.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, String, and_, cast, literal, select, update

from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import PendingEffect
from quarantine.core.errors import Conflict
from quarantine.ledger.schema import actions, decisions, pending_only
from quarantine.ledger.text import SENTENCE, fit, unescape
from quarantine.ledger.upsert import Writes

# Put before the error where it is certain that the attempt of this number left nothing done. What an earlier version
# wrote has none, and stays in doubt.
_ENDED = re.compile(r"\(attempt (\d{1,9}) ended\) ")
_ORDER = {effect.value: place for place, effect in enumerate(Effect)}


def key_of(case: str, effect: Effect) -> str:
    """The idempotency key."""
    return f"{case}/{effect.value}"


class Changes:
    """What a fold does to the outbox, gathered decision by decision and written at once."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._settled: list[dict[str, Any]] = []  # rows that are in the table
        self._new: list[dict[str, Any]] = []
        self._fresh: dict[str, dict[str, Any]] = {}  # those of `_new` that are pending, by key

    def follow(self, seq: int, before: Case | None, after: Case) -> None:
        """Decision `seq` made `after` of `before`."""
        held = {} if before is None else before.effects
        for effect, state in after.effects.items():
            was = held[effect].status if effect in held else None
            if state.status is EffectStatus.PENDING and was is not EffectStatus.PENDING:
                self._ask(seq, after.id, effect)
            elif state.status is not EffectStatus.PENDING and was is EffectStatus.PENDING:
                self._settle(seq, key_of(after.id, effect), state.status)

    def save(self, writes: Writes) -> None:
        """Have them written: outcomes first, since an effect may be asked for again in the same breath."""
        writes.update(actions, self._settled, key=("cluster", "key"), only=pending_only)
        writes.insert(actions, self._new)
        if {row["key"] for row in self._settled} & {row["key"] for row in self._new}:
            writes.in_order()

    def _ask(self, seq: int, case: str, effect: Effect) -> None:
        key = key_of(case, effect)
        row = {
            "cluster": self._cluster,
            "key": fit(key),
            "decided_seq": seq,
            "case_id": fit(case),
            "effect": effect.value,
            "status": EffectStatus.PENDING.value,
            "attempts": 0,
            "last_attempt_at": None,
            "last_error": "",
            "outcome_seq": None,
        }
        self._new.append(row)
        self._fresh[key] = row

    def _settle(self, seq: int, key: str, status: EffectStatus) -> None:
        if (row := self._fresh.pop(key, None)) is not None:
            row |= {"status": status.value, "outcome_seq": seq}
        else:
            row = {"cluster": self._cluster, "key": fit(key), "status": status.value, "outcome_seq": seq}
            self._settled.append(row)


def pending(connection: Connection, cluster: str) -> tuple[PendingEffect, ...]:
    """What has no outcome yet: in the order of the decisions, and of a case's effects."""
    decided = and_(decisions.c.cluster == actions.c.cluster, decisions.c.seq == actions.c.decided_seq)
    chosen = (
        select(actions, decisions.c.at)
        .join(decisions, decided)
        .where(actions.c.cluster == cluster, pending_only)
        .order_by(actions.c.decided_seq)
    )
    rows = sorted(connection.execute(chosen).all(), key=lambda row: (row.decided_seq, _ORDER[row.effect]))
    return tuple(_effect(row) for row in rows)


def _effect(row: Any) -> PendingEffect:
    error = unescape(row.last_error)
    ended = _ENDED.match(error)
    return PendingEffect(
        key=unescape(row.key),
        case=unescape(row.case_id),
        effect=Effect(row.effect),
        decided_at=row.at,
        attempts=row.attempts,
        last_attempt_at=row.last_attempt_at,
        last_error=error[ended.end() :] if ended is not None else error,
        ended=int(ended[1]) if ended is not None else 0,
    )


def attempt(connection: Connection, cluster: str, key: str, at: datetime) -> None:
    """Count an attempt that is about to be made. Raises Conflict where the effect is not pending."""
    _change(connection, cluster, key, attempts=actions.c.attempts + 1, last_attempt_at=at)


def postpone(connection: Connection, cluster: str, key: str, error: str, *, ended: bool) -> None:
    """Note why an attempt failed, and whether it `ended`. Raises Conflict where the effect is not pending."""
    said = fit(error, SENTENCE)
    if not ended:
        # Somebody else's words must not pass for the mark.
        _change(connection, cluster, key, last_error=f" {said}" if _ENDED.match(error) else said)
        return
    number = cast(actions.c.attempts, String)
    _change(connection, cluster, key, last_error=literal("(attempt ") + number + literal(f" ended) {said}"))


def require_pending(connection: Connection, cluster: str, key: str) -> None:
    """Raise Conflict unless the effect is pending."""
    if connection.execute(select(actions.c.key).where(_row(cluster, key))).first() is None:
        raise _gone(cluster, key)


def _change(connection: Connection, cluster: str, key: str, **values: Any) -> None:
    if connection.execute(update(actions).where(_row(cluster, key)).values(**values)).rowcount == 0:
        raise _gone(cluster, key)


def _row(cluster: str, key: str) -> Any:
    return and_(actions.c.cluster == cluster, actions.c.key == fit(key), pending_only)


def _gone(cluster: str, key: str) -> Conflict:
    return Conflict(
        f"the effect {key} of cluster {cluster!r} is not in the outbox: it has its outcome, or was never asked for; "
        "read the ledger again"
    )
