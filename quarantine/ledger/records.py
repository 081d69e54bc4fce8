"""What reports are made from, kept beside the state: times of cases, spans of holds, tickets, sizes of pools.

All of it follows from the decisions: `Records` is told each of them once, with what it made of its case, reads the rows
that these change, and writes every table once. A cut text is not made anew from itself, so what did not change of a row
is stored as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from quarantine.core.case import Case, Effect, HeldBy, Phase, Step
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.draft import case_key
from quarantine.core.model import Severity
from quarantine.core.record import milestones as times
from quarantine.core.record import spans
from quarantine.core.record.milestones import Fate, Milestones
from quarantine.core.record.spans import HoldSpan
from quarantine.core.tickets import Filing
from quarantine.ledger.remembered import Recent, Remembered
from quarantine.ledger.schema import hold_spans, milestones, pool_sizes, tickets
from quarantine.ledger.text import SENTENCE, fit, unescape
from quarantine.ledger.upsert import Writes

_ASKS = {Effect.TICKET: Step.REPORT, Effect.REPLACE: Step.REPLACE}
_TEXTS = ("node", "machine", "pool", "provider", "policy", "signal", "device")  # of a row of `milestones`


class Records:
    """What a run of decisions does to these tables: gathered decision by decision and written at once."""

    def __init__(
        self,
        connection: Connection,
        cluster: str,
        known: Mapping[str, Case],
        taken: Sequence[Decision],
        remembered: Remembered,
    ) -> None:
        """Read the rows that these decisions may change. Of a case that is not in `known` there is none yet."""
        cases = {decision.case for decision in taken if decision.case is not None}
        named = cases & known.keys()
        remembered.spans.keep({case_key(case): None for case in cases - named})
        remembered.tickets.keep({fit(case): None for case in cases - named})
        held = {decision.hold_key for decision in taken if decision.hold_key}
        filed = {decision.case for decision in taken if decision.case in named and _files(decision)}
        self._cluster = cluster
        self._times = _Times(connection, cluster, named, remembered.times)
        self._spans = _Spans(connection, cluster, held | {case_key(case) for case in named}, remembered.spans)
        self._tickets = _Tickets(connection, cluster, {case for case in filed if case is not None}, remembered.tickets)
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

    def save(self, writes: Writes) -> None:
        """Have them written."""
        self._times.save(writes)
        self._spans.save(writes)
        self._tickets.save(writes)
        writes.insert(pool_sizes, self._sizes)


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


@dataclass(frozen=True, slots=True)
class _Stored:
    """A row of `milestones`: its texts as they are stored, and what it says."""

    texts: Mapping[str, str]
    told: Milestones


class _Times:
    """The rows of `milestones`."""

    def __init__(self, connection: Connection, cluster: str, cases: set[str], remembered: Recent[str, _Stored]) -> None:
        self._cluster = cluster
        self._remembered = remembered
        self._stored = remembered.of(cases, lambda unknown: self._read(connection, unknown))
        self._known = {case: stored.told for case, stored in self._stored.items()}
        self._changed: set[str] = set()

    def follow(self, decision: Decision, case: Case) -> None:
        known = self._known.get(case.id)
        after = times.follow(known, decision, case)
        if after is not known:
            self._known[case.id] = after
            self._changed.add(case.id)

    def save(self, writes: Writes) -> None:
        rows = {case: self._row(case) for case in sorted(self._changed)}
        writes.upsert(milestones, list(rows.values()))
        self._remembered.keep(
            {case: _Stored({name: row[name] for name in _TEXTS}, self._known[case]) for case, row in rows.items()}
        )

    def _read(self, connection: Connection, cases: set[str]) -> dict[str, _Stored]:
        ids = {fit(case): case for case in cases}
        chosen = select(milestones).where(milestones.c.cluster == self._cluster, milestones.c.case_id.in_(list(ids)))
        return {
            ids[row.case_id]: _Stored({name: getattr(row, name) for name in _TEXTS}, milestones_of(row))
            for row in connection.execute(chosen)
        }

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
            same = [name for name in _TEXTS if getattr(now, name) == getattr(stored.told, name)]
            row |= {name: stored.texts[name] for name in same}
        return row


class _Spans:
    """The rows of `hold_spans`: those that stand are read, what ends or begins is written."""

    def __init__(self, connection: Connection, cluster: str, keys: set[str], remembered: Recent[str, HoldSpan]) -> None:
        self._cluster = cluster
        self._remembered = remembered
        self._standing: Mapping[str, HoldSpan] = remembered.of(keys, lambda unknown: self._read(connection, unknown))
        self._changed: set[str] = set()
        self._begun: dict[int, HoldSpan] = {}
        self._ended: list[dict[str, Any]] = []

    def follow(self, seq: int, decision: Decision, before: Case | None, after: Case | None) -> None:
        changed = spans.follow(self._standing, seq, decision, before, after)
        if not changed:
            return
        self._standing = spans.stand(self._standing, changed)
        for span in changed:
            self._changed.add(span.key)
            if span.until is None or span.seq in self._begun:
                self._begun[span.seq] = span
            else:
                self._ended.append({"cluster": self._cluster, "seq": span.seq, "until": span.until})

    def save(self, writes: Writes) -> None:
        writes.update(hold_spans, self._ended, key=("cluster", "seq"))
        writes.insert(hold_spans, [self._row(span) for span in self._begun.values()])
        self._remembered.keep({key: self._standing.get(key) for key in self._changed})

    def _read(self, connection: Connection, keys: set[str]) -> dict[str, HoldSpan]:
        texts = {fit(key): key for key in keys}
        chosen = select(hold_spans).where(
            hold_spans.c.cluster == self._cluster, hold_spans.c.until.is_(None), hold_spans.c.key.in_(list(texts))
        )
        return {texts[row.key]: span_of(row) for row in connection.execute(chosen)}

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


_Ticket = dict[str, Any]


class _Tickets:
    """The rows of `tickets`: filed by an outcome that tells what they are called, ended there or with the case."""

    def __init__(
        self, connection: Connection, cluster: str, cases: set[str], remembered: Recent[str, Sequence[_Ticket]]
    ) -> None:
        self._cluster = cluster
        self._remembered = remembered
        found = remembered.of({fit(case) for case in cases}, lambda unknown: self._read(connection, unknown))
        # By case and ref, both as they are stored.
        self._known = {(case, row["ref"]): dict(row) for case, rows in found.items() for row in rows}
        self._changed: set[tuple[str, str]] = set()

    def follow(self, decision: Decision, case: Case) -> None:
        if not _files(decision):
            return
        if decision.action is Action.HEAR and decision.ticket is not None:
            self._hear(decision, case, decision.ticket)
        elif decision.effect is Effect.CLOSE:
            self._close(fit(case.id), decision.at)
        elif decision.effect in _ASKS:
            self._file(decision, case, _ASKS[decision.effect])

    def save(self, writes: Writes) -> None:
        writes.upsert(tickets, [self._known[key] for key in sorted(self._changed)])
        told = {case for case, _ in self._changed}
        self._remembered.keep({case: [row for key, row in self._known.items() if key[0] == case] for case in told})

    def _read(self, connection: Connection, cases: set[str]) -> dict[str, Sequence[_Ticket]]:
        chosen = select(tickets).where(tickets.c.cluster == self._cluster, tickets.c.case_id.in_(list(cases)))
        found: dict[str, list[_Ticket]] = {}
        for row in connection.execute(chosen).mappings():
            found.setdefault(row["case_id"], []).append(dict(row))
        return {**found}

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

    def _hear(self, decision: Decision, case: Case, ticket: Filing) -> None:
        """The far side has ended it, or opened it again; or it is one that turned up there."""
        key = (fit(case.id), fit(ticket.ref))
        known = self._known.get(key)
        over = None if known is None else known["closed_at"]
        self._known[key] = {
            "cluster": self._cluster,
            "case_id": key[0],
            "ref": key[1],
            "provider": fit(decision.provider or case.provider) if known is None else known["provider"],
            "ask": ticket.ask if known is None else known["ask"],
            "filed_at": ticket.at if known is None else known["filed_at"],
            "closed_at": (over or decision.at) if ticket.open is False else None,
        }
        if known != self._known[key]:
            self._changed.add(key)

    def _close(self, case: str, at: datetime) -> None:
        for key, row in self._known.items():
            if key[0] == case and row["closed_at"] is None:
                row["closed_at"] = at
                self._changed.add(key)


def _files(decision: Decision) -> bool:
    """Whether this is the word that a ticket was filed, under some name, or heard of, or that a case's are closed."""
    if decision.action is Action.HEAR and decision.kind is Kind.DECIDED:
        return decision.ticket is not None
    if decision.kind is not Kind.DONE:
        return False
    return decision.effect is Effect.CLOSE or (decision.effect in _ASKS and bool(decision.ref))
