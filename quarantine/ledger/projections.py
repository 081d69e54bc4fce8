"""The state as tables: loaded, and written back where a fold changed it. Rebuildable from the decisions.

What is loaded is what a cycle can still need: open cases, those that ended lately, those with a pending effect, holds,
dismissals that stand, people's words until a decision ends them, the pace, which requests were answered lately, and
when the newest decision was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, bindparam, delete, insert, or_, select

from quarantine.core.case import Case
from quarantine.core.decision import Action, Dismissal, Hold, Kind, State, Word
from quarantine.core.errors import SchemaMismatch
from quarantine.core.state import FINDING_MEMORY, PACE_MEMORY
from quarantine.ledger.codec import decode_as, encode
from quarantine.ledger.schema import actions, cases, decisions, dismissals, holds, pending_only, requests, words
from quarantine.ledger.text import fit, unescape
from quarantine.ledger.upsert import upsert

ENDED_MEMORY = FINDING_MEMORY  # how long an ended case stays in the state: an escalation counts its findings
ANSWERED_MEMORY = timedelta(days=1)  # how long an answered request does
Record = TypeVar("Record")


class Decoded:
    """The cases that were read last, by their text: most have ended, and would be decoded again in each cycle."""

    def __init__(self) -> None:
        """None yet."""
        self._known: Mapping[str, Case] = {}

    def cases(self, bodies: Iterable[str]) -> list[Case]:
        """In the same order; what is not among them is forgotten. Raises SchemaMismatch."""
        known = self._known
        found = {body: known[body] if body in known else _decoded(Case, body) for body in bodies}
        self._known = found
        return list(found.values())


def load(
    connection: Connection,
    cluster: str,
    now: datetime,
    *,
    also: Collection[str] = (),
    decoded: Decoded | None = None,
) -> State:
    """The state at `now`, with the cases named in `also` however long ago they ended. Raises SchemaMismatch.

    `decoded` spares the decoding of what was read with it before.
    """
    bodies = _cases(connection, cluster, now, also)
    return State(
        cases={case.id: case for case in (decoded or Decoded()).cases(bodies)},
        holds={hold.key: hold for hold in _holds(connection, cluster)},
        dismissals=tuple(_dismissals(connection, cluster, now)),
        quarantined_at=_pace(connection, cluster, now),
        answered=_answered(connection, cluster, now),
        ended=_ended(connection, cluster),
        words={word.key: word for word in _words(connection, cluster)},
        recorded_until=_recorded_until(connection, cluster),
    )


def save(connection: Connection, cluster: str, before: State, after: State) -> None:
    """Write what differs. Folding keeps what it does not change, so identity tells."""
    upsert(
        connection,
        cases,
        [_case_row(cluster, case) for key, case in after.cases.items() if before.cases.get(key) is not case],
    )
    _save_keyed(connection, cluster, holds, before.holds, after.holds, _hold_row)
    _save_keyed(connection, cluster, words, before.words, after.words, _word_row)
    if after.dismissals is not before.dismissals:
        connection.execute(delete(dismissals).where(dismissals.c.cluster == cluster))
        if after.dismissals:
            connection.execute(insert(dismissals), list(_dismissal_rows(cluster, after.dismissals)))


def _save_keyed(
    connection: Connection,
    cluster: str,
    table: Table,
    before: Mapping[str, Record],
    after: Mapping[str, Record],
    row: Callable[[str, Record], dict[str, Any]],
) -> None:
    """What stands by a key: written where it is new or another, and deleted where it stands no more."""
    upsert(connection, table, [row(cluster, one) for key, one in after.items() if before.get(key) is not one])
    if gone := [{"gone": fit(key)} for key in before.keys() - after.keys()]:
        connection.execute(delete(table).where(table.c.cluster == cluster, table.c.key == bindparam("gone")), gone)


def _cases(connection: Connection, cluster: str, now: datetime, also: Collection[str]) -> Iterable[str]:
    unfinished = select(actions.c.case_id).where(actions.c.cluster == cluster, pending_only)
    needed = or_(
        cases.c.ended_at.is_(None),
        cases.c.ended_at > now - ENDED_MEMORY,
        cases.c.id.in_(unfinished),
        cases.c.id.in_([fit(key) for key in also]),
    )
    chosen = select(cases.c.body).where(cases.c.cluster == cluster, needed).order_by(cases.c.opened_at, cases.c.id)
    return connection.execute(chosen).scalars()


def _holds(connection: Connection, cluster: str) -> Iterable[Hold]:
    chosen = select(holds.c.body).where(holds.c.cluster == cluster).order_by(holds.c.since, holds.c.key)
    return [_decoded(Hold, body) for body in connection.execute(chosen).scalars()]


def _dismissals(connection: Connection, cluster: str, now: datetime) -> Iterable[Dismissal]:
    chosen = select(dismissals.c.body).where(dismissals.c.cluster == cluster, dismissals.c.until > now)
    return [_decoded(Dismissal, body) for body in connection.execute(chosen.order_by(dismissals.c.position)).scalars()]


def _words(connection: Connection, cluster: str) -> Iterable[Word]:
    """Those that are over as well: a decision ends them, so that the trail tells of it."""
    chosen = select(words.c.body).where(words.c.cluster == cluster).order_by(words.c.key)
    return [_decoded(Word, body) for body in connection.execute(chosen).scalars()]


def _recorded_until(connection: Connection, cluster: str) -> datetime | None:
    chosen = select(decisions.c.at).where(decisions.c.cluster == cluster).order_by(decisions.c.seq.desc()).limit(1)
    return connection.execute(chosen).scalar_one_or_none()


def _pace(connection: Connection, cluster: str, now: datetime) -> tuple[tuple[datetime, str], ...]:
    """From the trail itself, so that a restart grants nothing (invariant 5)."""
    chosen = select(decisions.c.at, decisions.c.pool).where(
        decisions.c.cluster == cluster,
        decisions.c.at > now - PACE_MEMORY,
        decisions.c.action == Action.QUARANTINE.value,
        decisions.c.kind == Kind.DECIDED.value,
    )
    rows = connection.execute(chosen.order_by(decisions.c.seq)).all()
    return tuple((at, unescape(pool or "")) for at, pool in rows)


def _answered(connection: Connection, cluster: str, now: datetime) -> frozenset[str]:
    chosen = select(requests.c.id).where(
        requests.c.cluster == cluster, requests.c.answered_seq.is_not(None), requests.c.at > now - ANSWERED_MEMORY
    )
    return frozenset(unescape(key) for key in connection.execute(chosen).scalars())


def _ended(connection: Connection, cluster: str) -> frozenset[str]:
    """All of them, by id alone: an old mark on a node must not open an old case again."""
    chosen = select(cases.c.id).where(cases.c.cluster == cluster, cases.c.ended_at.is_not(None))
    return frozenset(unescape(key) for key in connection.execute(chosen).scalars())


def _case_row(cluster: str, case: Case) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "id": fit(case.id),
        "node": fit(case.node),
        "phase": case.phase.value,
        "opened_at": case.opened_at,
        "ended_at": None if case.open else case.phase_since,
        "body": encode(case),
    }


def _hold_row(cluster: str, hold: Hold) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "key": fit(hold.key),
        "held_by": hold.held_by.value,
        "since": hold.since,
        "body": encode(hold),
    }


def _word_row(cluster: str, word: Word) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "key": fit(word.key),
        "kind": word.kind.value,
        "until": word.until,
        "body": encode(word),
    }


def _dismissal_rows(cluster: str, standing: Iterable[Dismissal]) -> Iterable[dict[str, Any]]:
    for position, dismissal in enumerate(standing):
        yield {
            "cluster": cluster,
            "position": position,
            "node": fit(dismissal.node),
            "until": dismissal.until,
            "body": encode(dismissal),
        }


def _decoded(kind: type[Record], body: str) -> Record:
    try:
        return decode_as(kind, body)
    except ValueError as error:
        raise SchemaMismatch(
            f"a {kind.__name__.lower()} in the ledger cannot be read ({error}); it was written by a newer version or "
            "by hand: upgrade the program, or restore the database"
        ) from error
