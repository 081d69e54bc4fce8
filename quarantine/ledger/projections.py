"""The state as tables: loaded, and written back where a fold changed it. Rebuildable from the decisions.

What is loaded is what a cycle can still need: open cases, those that ended lately, those with a pending effect, holds,
dismissals that stand, people's words until a decision ends them, the versions in force, the sizes of the pools, the
pace, which requests were answered lately, and when the newest decision was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, func, or_, select

from quarantine.core.case import Case
from quarantine.core.decision import RECORDS, Action, Census, Dismissal, Hold, Kind, State, Version, Word
from quarantine.core.errors import SchemaMismatch
from quarantine.core.state import FINDING_MEMORY, PACE_MEMORY
from quarantine.ledger.codec import decode_as, encode
from quarantine.ledger.schema import (
    actions,
    cases,
    decisions,
    dismissals,
    holds,
    pending_only,
    pool_sizes,
    requests,
    versions,
    words,
)
from quarantine.ledger.text import fit, original, unescape
from quarantine.ledger.upsert import Writes

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
        found = {body: known[body] if body in known else record_of(Case, body) for body in bodies}
        self._known = found
        return list(found.values())


def load(
    connection: Connection,
    cluster: str,
    now: datetime,
    *,
    also: Collection[str] = (),
    decoded: Decoded | None = None,
    ended: Set[str] | None = None,
) -> State:
    """The state at `now`, with the cases named in `also` however long ago they ended. Raises SchemaMismatch.

    `decoded` spares the decoding of what was read with it before. `ended`: the ids of all cases that have ended, where
    they are known: after years they are many, and a cycle adds few.
    """
    bodies = _cases(connection, cluster, now, also)
    return State(
        cases={case.id: case for case in (decoded or Decoded()).cases(bodies)},
        holds={hold.key: hold for hold in _holds(connection, cluster)},
        dismissals=tuple(_dismissals(connection, cluster, now)),
        quarantined_at=_pace(connection, cluster, now),
        answered=_answered(connection, cluster, now),
        ended=_ended(connection, cluster) if ended is None else ended,
        words={word.key: word for word in _words(connection, cluster)},
        recorded_until=_recorded_until(connection, cluster),
        versions=_versions(connection, cluster),
        pools=_pools(connection, cluster),
    )


def cases_of(connection: Connection, cluster: str, ids: Collection[str]) -> dict[str, Case]:
    """These cases, as far as they are there. Raises SchemaMismatch."""
    if not ids:
        return {}
    chosen = select(cases.c.body).where(cases.c.cluster == cluster, cases.c.id.in_([fit(key) for key in ids]))
    return {case.id: case for case in (record_of(Case, body) for body in connection.execute(chosen).scalars())}


def with_all_dismissals(connection: Connection, cluster: str, state: State) -> State:
    """The same with those dismissals that are over: they stay in the table until a decision replaces the lot, so that
    the table depends on the decisions alone, and not on when it was loaded.
    """
    return replace(state, dismissals=tuple(_dismissals(connection, cluster, None)))


def save(writes: Writes, cluster: str, before: State, after: State, named: Collection[str]) -> None:
    """Have what differs written. Folding keeps what it does not change, so identity tells.

    `named` are the cases that may have changed.
    """
    changed = [after.cases[key] for key in sorted(named) if key in after.cases]
    writes.upsert(cases, [_case_row(cluster, case) for case in changed if before.cases.get(case.id) is not case])
    _save_keyed(writes, cluster, holds.c.key, before.holds, after.holds, _hold_row)
    _save_keyed(writes, cluster, words.c.key, before.words, after.words, _word_row)
    _save_keyed(writes, cluster, versions.c.name, before.versions, after.versions, _version_row)
    if after.dismissals is not before.dismissals:
        writes.delete(dismissals, [{"cluster": cluster}])
        writes.insert(dismissals, list(_dismissal_rows(cluster, after.dismissals)))
        writes.in_order()  # by their positions, the same rows again


def _save_keyed(
    writes: Writes,
    cluster: str,
    key: Column[str],
    before: Mapping[str, Record],
    after: Mapping[str, Record],
    row: Callable[[str, str, Record], dict[str, Any]],
) -> None:
    """What stands by a key: written where it is new or another, and deleted where it stands no more."""
    if before is after:
        return
    table = key.table
    changed = [row(cluster, name, one) for name, one in after.items() if before.get(name) is not one]
    writes.upsert(table, changed)
    writes.delete(table, [{"cluster": cluster, key.name: fit(name)} for name in before.keys() - after.keys()])


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
    return [record_of(Hold, body) for body in connection.execute(chosen).scalars()]


def _dismissals(connection: Connection, cluster: str, now: datetime | None) -> Iterable[Dismissal]:
    """Those that stand at `now`; all that are there, where it is None."""
    chosen = select(dismissals.c.body).where(dismissals.c.cluster == cluster)
    if now is not None:
        chosen = chosen.where(dismissals.c.until > now)
    return [record_of(Dismissal, body) for body in connection.execute(chosen.order_by(dismissals.c.position)).scalars()]


def _words(connection: Connection, cluster: str) -> Iterable[Word]:
    """Those that are over as well: a decision ends them, so that the trail tells of it."""
    chosen = select(words.c.body).where(words.c.cluster == cluster).order_by(words.c.key)
    return [record_of(Word, body) for body in connection.execute(chosen).scalars()]


def _versions(connection: Connection, cluster: str) -> dict[str, Version]:
    chosen = select(versions.c.name, versions.c.body).where(versions.c.cluster == cluster).order_by(versions.c.name)
    return {unescape(row.name): record_of(Version, row.body) for row in connection.execute(chosen)}


def _pools(connection: Connection, cluster: str) -> dict[str, Census]:
    """Of each pool as it was counted last."""
    of_cluster = pool_sizes.c.cluster == cluster
    last = select(func.max(pool_sizes.c.seq)).where(of_cluster).group_by(pool_sizes.c.pool)
    chosen = select(pool_sizes).where(of_cluster, pool_sizes.c.seq.in_(last)).order_by(pool_sizes.c.pool)
    return {unescape(row.pool): Census(row.nodes, row.gpus, row.at) for row in connection.execute(chosen)}


def _recorded_until(connection: Connection, cluster: str) -> datetime | None:
    of_machines = decisions.c.action.not_in([action.value for action in RECORDS])
    chosen = select(decisions.c.at).where(decisions.c.cluster == cluster, of_machines)
    return connection.execute(chosen.order_by(decisions.c.seq.desc()).limit(1)).scalar_one_or_none()


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
    return frozenset(original(key) for key in connection.execute(chosen).scalars())


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


def _hold_row(cluster: str, key: str, hold: Hold) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "key": fit(key),
        "held_by": hold.held_by.value,
        "since": hold.since,
        "body": encode(hold),
    }


def _word_row(cluster: str, key: str, word: Word) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "key": fit(key),
        "kind": word.kind.value,
        "until": word.until,
        "body": encode(word),
    }


def _version_row(cluster: str, name: str, version: Version) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "name": fit(name),
        "hash": fit(version.hash),
        "since": version.since,
        "body": encode(version),
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


def record_of(kind: type[Record], body: str) -> Record:
    """The record of a row. Raises SchemaMismatch."""
    try:
        return decode_as(kind, body)
    except ValueError as error:
        raise SchemaMismatch(
            f"a {kind.__name__.lower()} in the ledger cannot be read ({error}); it was written by a newer version or "
            "by hand: upgrade the program, or restore the database"
        ) from error
