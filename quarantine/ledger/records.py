"""What reports are made from, kept beside the state: times of cases, spans of holds, tickets, sizes of pools.

All of it follows from the decisions: `Records` is told each of them once, with what it made of its case, reads the rows
that these change, and writes every table once. A cut text is not made anew from itself, so what did not change of a row
is stored as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from quarantine.core.case import Case, Effect, HeldBy, Phase, Step
from quarantine.core.decision import Decision, Kind, State
from quarantine.core.draft import case_key
from quarantine.core.model import Severity
from quarantine.core.record import milestones as times
from quarantine.core.record import spans
from quarantine.core.record.milestones import Fate, Milestones
from quarantine.core.record.spans import HoldSpan
from quarantine.ledger.schema import hold_spans, milestones, pool_sizes, tickets
from quarantine.ledger.text import SENTENCE, fit, unescape
from quarantine.ledger.upsert import insert_all, upsert

_ASKS = {Effect.TICKET: Step.REPORT, Effect.REPLACE: Step.REPLACE}
_TEXTS = ("node", "machine", "pool", "provider", "policy", "signal", "device")  # of a row of `milestones`


class Records:
    """What a run of decisions does to these tables: gathered decision by decision and written at once."""

    def __init__(self, connection: Connection, cluster: str, taken: Sequence[Decision]) -> None:
        """Read the rows that these decisions may change."""
        named = {decision.case for decision in taken if decision.case is not None}
        held = {decision.hold_key for decision in taken if decision.hold_key}
        self._cluster = cluster
        self._times = _Times(connection, cluster, named)
        self._spans = _Spans(connection, cluster, held | {case_key(case) for case in named})
        self._tickets = _Tickets(connection, cluster, {d.case for d in taken if d.case is not None and _files(d)})
        self._sizes: list[dict[str, Any]] = []

    def follow(self, seq: int, decision: Decision, before: State, after: State) -> None:
        """Decision `seq` made `after` of `before`."""
        was = before.cases.get(decision.case) if decision.case is not None else None
        case = after.cases.get(decision.case) if decision.case is not None else None
        self._spans.follow(seq, decision, was, case)
        if case is not None:
            self._times.follow(decision, case)
            self._tickets.follow(decision, case)
        if decision.census is not None and after.pools is not before.pools:
            census = decision.census
            size = {"pool": fit(decision.pool), "nodes": census.nodes, "gpus": census.gpus, "at": census.at}
            self._sizes.append({"cluster": self._cluster, "seq": seq, **size})

    def save(self, connection: Connection) -> None:
        """Write them."""
        self._times.save(connection)
        self._spans.save(connection)
        self._tickets.save(connection)
        insert_all(connection, pool_sizes, self._sizes)


def milestones_of(row: Row[Any]) -> Milestones:
    """The record of a row of `milestones`."""
    found: dict[str, Any] = {name: unescape(getattr(row, name)) for name in _TEXTS}
    found |= {name: getattr(row, name) for name in _PLAIN}
    return Milestones(
        case=unescape(row.case_id),
        severity=None if row.severity is None else Severity(row.severity),
        phase=Phase(row.phase),
        fate=Fate(row.fate),
        **found,
    )


def span_of(row: Row[Any]) -> HoldSpan:
    """The record of a row of `hold_spans`."""
    return HoldSpan(
        seq=row.seq,
        key=unescape(row.key),
        held_by=HeldBy(row.held_by),
        since=row.since,
        until=row.until,
        policy=unescape(row.policy),
        node=unescape(row.node),
        pool=unescape(row.pool),
        reason=unescape(row.reason),
    )


_PLAIN = tuple(
    field.name
    for field in fields(Milestones)
    if field.name not in ("case", "severity", "phase", "fate", *_TEXTS)  # times and flags, as they are
)


class _Times:
    """The rows of `milestones`."""

    def __init__(self, connection: Connection, cluster: str, cases: set[str]) -> None:
        self._cluster = cluster
        self._stored: dict[str, Row[Any]] = {}
        self._known: dict[str, Milestones] = {}
        self._changed: set[str] = set()
        ids = {fit(case): case for case in cases}
        if not ids:
            return
        chosen = select(milestones).where(milestones.c.cluster == cluster, milestones.c.case_id.in_(list(ids)))
        for row in connection.execute(chosen):
            case = ids[row.case_id]
            self._stored[case], self._known[case] = row, milestones_of(row)

    def follow(self, decision: Decision, case: Case) -> None:
        known = self._known.get(case.id)
        after = times.follow(known, decision, case)
        if after is not known:
            self._known[case.id] = after
            self._changed.add(case.id)

    def save(self, connection: Connection) -> None:
        upsert(connection, milestones, [self._row(case) for case in sorted(self._changed)])

    def _row(self, case: str) -> dict[str, Any]:
        now, stored = self._known[case], self._stored.get(case)
        row = {
            "cluster": self._cluster,
            "case_id": fit(case),
            "severity": None if now.severity is None else now.severity.value,
            "phase": now.phase.value,
            "fate": now.fate.value,
            **{name: fit(getattr(now, name)) for name in _TEXTS},
            **{name: getattr(now, name) for name in _PLAIN},
        }
        if stored is not None:
            before = milestones_of(stored)
            row |= {name: getattr(stored, name) for name in _TEXTS if getattr(now, name) == getattr(before, name)}
        return row


class _Spans:
    """The rows of `hold_spans`: those that stand are read, what ends or begins is written."""

    def __init__(self, connection: Connection, cluster: str, keys: set[str]) -> None:
        self._cluster = cluster
        self._standing: Mapping[str, HoldSpan] = {}
        self._begun: dict[int, HoldSpan] = {}
        self._ended: list[dict[str, Any]] = []
        texts = {fit(key): key for key in keys}
        if not texts:
            return
        chosen = select(hold_spans).where(
            hold_spans.c.cluster == cluster, hold_spans.c.until.is_(None), hold_spans.c.key.in_(list(texts))
        )
        self._standing = {texts[row.key]: span_of(row) for row in connection.execute(chosen)}

    def follow(self, seq: int, decision: Decision, before: Case | None, after: Case | None) -> None:
        changed = spans.follow(self._standing, seq, decision, before, after)
        if not changed:
            return
        self._standing = spans.stand(self._standing, changed)
        for span in changed:
            if span.until is None or span.seq in self._begun:
                self._begun[span.seq] = span
            else:
                self._ended.append({"of": span.seq, "at": span.until})

    def save(self, connection: Connection) -> None:
        if self._ended:
            row = (hold_spans.c.cluster == self._cluster, hold_spans.c.seq == bindparam("of"))
            connection.execute(update(hold_spans).where(*row).values(until=bindparam("at")), self._ended)
        insert_all(connection, hold_spans, [self._row(span) for span in self._begun.values()])

    def _row(self, span: HoldSpan) -> dict[str, Any]:
        return {
            "cluster": self._cluster,
            "seq": span.seq,
            "key": fit(span.key),
            "held_by": span.held_by.value,
            "since": span.since,
            "until": span.until,
            "policy": fit(span.policy),
            "node": fit(span.node),
            "pool": fit(span.pool),
            "reason": fit(span.reason, SENTENCE),
        }


class _Tickets:
    """The rows of `tickets`: filed by an outcome that tells what they are called, and all of a case closed at once."""

    def __init__(self, connection: Connection, cluster: str, cases: set[str]) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, str], dict[str, Any]] = {}  # by case and ref, both as they are stored
        self._changed: set[tuple[str, str]] = set()
        if not cases:
            return
        ids = [fit(case) for case in cases]
        chosen = select(tickets).where(tickets.c.cluster == cluster, tickets.c.case_id.in_(ids))
        for row in connection.execute(chosen).mappings():
            self._known[row["case_id"], row["ref"]] = dict(row)

    def follow(self, decision: Decision, case: Case) -> None:
        if not _files(decision):
            return
        if decision.effect is Effect.CLOSE:
            self._close(fit(case.id), decision.at)
        elif decision.effect in _ASKS:
            self._file(decision, case, _ASKS[decision.effect])

    def save(self, connection: Connection) -> None:
        upsert(connection, tickets, [self._known[key] for key in sorted(self._changed)])

    def _file(self, decision: Decision, case: Case, ask: Step) -> None:
        key = (fit(case.id), fit(decision.ref))
        known = self._known.get(key)
        provider = decision.provider or case.provider
        self._known[key] = {
            "cluster": self._cluster,
            "case_id": key[0],
            "ref": key[1],
            "provider": fit(provider) if provider or known is None else known["provider"],
            "ask": Step.REPLACE.value if known is not None and known["ask"] == Step.REPLACE.value else ask.value,
            "filed_at": decision.at if known is None else known["filed_at"],
            "closed_at": None,
        }
        self._changed.add(key)

    def _close(self, case: str, at: datetime) -> None:
        for key, row in self._known.items():
            if key[0] == case and row["closed_at"] is None:
                row["closed_at"] = at
                self._changed.add(key)


def _files(decision: Decision) -> bool:
    """Whether this is the word that a ticket was filed, under some name, or that a case's tickets are closed."""
    if decision.kind is not Kind.DONE:
        return False
    return decision.effect is Effect.CLOSE or (decision.effect in _ASKS and bool(decision.ref))
