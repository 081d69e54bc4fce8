"""Whether the tables say what the decisions add up to, and making them so: `quarantine db rebuild`.

The decisions are folded from the first one on into empty tables, by the writer's own code and a page at a time, and
what comes of it is compared where the rows are: memory does not grow with the ledger. What the decisions do not tell
(attempts of effects, texts of policies, what people ask) is left as it is, but for which decision answered a request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, Table, func, select

from quarantine.core.case import Case
from quarantine.core.decision import Decision, State
from quarantine.core.errors import SchemaMismatch
from quarantine.ledger import projections, revision, trail, writer
from quarantine.ledger.answers import Answers
from quarantine.ledger.engine import reading, unhurried, writing
from quarantine.ledger.fold import fold
from quarantine.ledger.schema import clusters, decisions
from quarantine.ledger.staging import DERIVED, RECORDS, Staging
from quarantine.ledger.text import unescape
from quarantine.ledger.upsert import Writes

SHOWN = 20  # differences of a cluster that are told one by one; all are counted
_PAGE = 1000  # decisions that are folded together
_KEPT = 2000  # cases that are kept in memory from one page to the next

Progress = Callable[[int, int], None]  # decisions folded so far, and how many there are


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not what the decisions add up to: of each column, or field of a record, what it is and should be.

    `stored` None: the row is missing. `should_be` None: there should be none.
    """

    table: str
    key: str
    stored: Mapping[str, object] | None
    should_be: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What came of folding a cluster's decisions."""

    cluster: str
    decisions: int
    counted: Mapping[str, int]  # by table: rows that differ; tables without any are not there
    differences: tuple[Difference, ...]  # the first of them
    unfit: tuple[tuple[int, str], ...]  # decisions that cannot be folded, by number, and why: the first of them
    unfit_count: int
    written: bool

    @property
    def sound(self) -> bool:
        """Whether every table says what the decisions add up to."""
        return not self.counted and not self.unfit_count


def rebuild(
    engine: Engine,
    cluster: str,
    *,
    now: datetime,
    write: bool = False,
    shown: int = SHOWN,
    progress: Progress | None = None,
) -> Rebuilt:
    """Compare the tables of a cluster with its decisions; `write`: and make them equal, in one transaction.

    Writing locks the cluster's row for as long as it takes, and takes a new term where anything is written: a
    controller that runs waits, finds that it has been succeeded, and begins anew with what the tables say then. Nothing
    is written where a decision cannot be folded: what it did is known to the version that took it alone.

    Raises LedgerUnavailable, SchemaMismatch.
    """
    with (writing if write else reading)(engine) as connection:
        revision.require(connection)
        unhurried(connection)  # a hundred thousand rows are compared in one statement
        if write:
            _lock(connection, cluster)
            revision.require(connection)  # again: somebody may have migrated while this waited
        with _folded(connection, cluster, progress) as made:
            found = _compared(made, shown)
            if write and found.counted and not found.unfit_count:
                writer.succeed(connection, cluster, "quarantine db rebuild", now)
                made.copy(DERIVED)
                made.answers.copy(cluster)
                found = replace(found, written=True)
        return found


def backfill(connection: Connection) -> None:
    """Fill the tables that revision 0005 made from the decisions of every cluster that were there before it.

    For a migration, which has taken every term: what a writer of an earlier version added were not in them.
    """
    for cluster in connection.execute(select(clusters.c.cluster).order_by(clusters.c.cluster)).scalars().all():
        with _folded(connection, cluster, None) as made:
            made.copy(RECORDS)


@dataclass(slots=True)
class _Folded:
    """A cluster's decisions, folded into twins of the tables."""

    connection: Connection
    cluster: str
    staging: Staging
    answers: Answers
    state: State = field(default_factory=State)
    cases: dict[str, Case] = field(default_factory=dict)  # those named lately, the latest last
    count: int = 0
    unfit: list[tuple[int, str]] = field(default_factory=list)
    unfit_count: int = 0

    def fold(self, rows: Sequence[Row[int, str]]) -> None:
        """A page of them. Of the cases only those that it names are in the state: folding copies what is there."""
        numbered = list(self._decoded(rows))
        self.answers.note(self.cluster, numbered)
        named = {decision.case for _, decision in numbered if decision.case is not None}
        with self.staging.entered():
            read = projections.cases_of(self.connection, self.cluster, named - self.cases.keys())
            known = {**{key: self.cases[key] for key in named & self.cases.keys()}, **read}
            # Nothing is folded by the pace, nor by what was answered or has ended.
            before = replace(self.state, cases=known, quarantined_at=(), answered=frozenset(), ended=frozenset())
            writes = Writes()
            self.state = fold(self.connection, writes, self.cluster, before, numbered, unfit=self.refuse)
            writes.save(self.connection)
        self._keep(self.state.cases)
        self.count += len(rows)

    def miss(self, last: int, rows: Sequence[Row[int, str]]) -> None:
        """Refuse what is not there between row `last` and these, and among them: what it did is not known."""
        for row in rows:
            if row.seq != last + 1:
                self.refuse(last + 1, f"is missing: row {row.seq} comes next")
            last = row.seq

    def copy(self, tables: Sequence[Table]) -> None:
        """Make these tables so."""
        for table in tables:
            self.staging.copy(table, self.cluster)

    def _decoded(self, rows: Sequence[Row[int, str]]) -> Iterator[tuple[int, Decision]]:
        for row in rows:
            try:
                yield row.seq, trail.decoded(self.cluster, row.seq, row.body)
            except SchemaMismatch as error:
                self.refuse(row.seq, error)

    def refuse(self, seq: int, error: Exception | str) -> None:
        """A decision that cannot be folded, and why."""
        self.unfit_count += 1
        if len(self.unfit) < SHOWN:
            self.unfit.append((seq, str(error)))

    def _keep(self, named: Mapping[str, Case]) -> None:
        for key in named:
            self.cases.pop(key, None)
        self.cases.update(named)
        for key in list(self.cases)[: max(0, len(self.cases) - _KEPT)]:
            del self.cases[key]


@contextmanager
def _folded(connection: Connection, cluster: str, progress: Progress | None) -> Iterator[_Folded]:
    """The cluster's decisions up to its head, folded."""
    head = trail.head_of(connection, cluster)
    made = _Folded(connection, cluster, Staging(connection), Answers(connection))
    last = 0
    while True:
        page = (
            select(decisions.c.seq, decisions.c.body)
            .where(decisions.c.cluster == cluster, decisions.c.seq > last, decisions.c.seq <= head.seq)
            .order_by(decisions.c.seq)
            .limit(_PAGE)
        )
        rows = connection.execute(page).all()
        if not rows:
            break
        made.miss(last, rows)
        made.fold(rows)
        last = rows[-1].seq
        if progress is not None:
            progress(made.count, head.seq)
    if last < head.seq:
        made.refuse(last + 1, f"is missing: the head of the chain is row {head.seq}")
    yield made
    made.staging.close()
    made.answers.close()


# --- What differs -----------------------------------------------------------------------------------------------------


def _compared(made: _Folded, shown: int) -> Rebuilt:
    counted: dict[str, int] = {}
    told: list[Difference] = []
    for name, keys, query in _questions(made):
        count = made.connection.execute(select(func.count()).select_from(query.order_by(None).subquery())).scalar_one()
        if count:
            counted[name] = counted.get(name, 0) + count
            rows = made.connection.execute(query.limit(max(0, shown - len(told)))).mappings()
            told += [_difference(name, keys, row) for row in rows]
    return Rebuilt(made.cluster, made.count, counted, tuple(told), tuple(made.unfit), made.unfit_count, written=False)


def _questions(made: _Folded) -> Iterator[tuple[str, Sequence[str], Select[Any]]]:
    """By table: what its key is, beside the cluster, and a query for the rows that differ."""
    for table in DERIVED:
        keys = [column.name for column in table.primary_key if column.name != "cluster"]
        yield table.name, keys, made.staging.wrong(table)
        yield table.name, keys, made.staging.surplus(table, made.cluster)
    yield "requests", ["id"], made.answers.wrong(made.cluster)


def _difference(table: str, keys: Sequence[str], row: Mapping[Any, Any]) -> Difference:
    stored = {name.removeprefix("is_"): value for name, value in row.items() if name.startswith("is_")}
    should = {name.removeprefix("be_"): value for name, value in row.items() if name.startswith("be_")}
    there, wanted = stored["cluster"] is not None, bool(should)
    key = ", ".join(f"{name}={_readable((stored if there else should)[name])}" for name in keys)
    stored = {name: value for name, value in stored.items() if name not in (*keys, "cluster")}
    should = {name: value for name, value in should.items() if name not in (*keys, "cluster")}
    if not there or not wanted:
        return Difference(table, key, stored if there else None, should if wanted else None)
    is_, be = dict(_flat(stored)), dict(_flat(should))
    names = [name for name in {**is_, **be} if is_.get(name) != be.get(name)]
    names = names or ["body"]  # the same record, and not its text
    is_, be = {**stored, **is_}, {**should, **be}
    return Difference(table, key, {name: is_.get(name) for name in names}, {name: be.get(name) for name in names})


def _flat(row: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """A body by its fields, so that what differs is told and not the whole of it."""
    for name, value in row.items():
        record = _record(value) if name == "body" else None
        if record is None:
            yield name, value
        else:
            yield from ((f"body.{part}", held) for part, held in record.items())


def _record(body: object) -> dict[str, object] | None:
    try:
        found = json.loads(body) if isinstance(body, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _readable(value: object) -> str:
    return unescape(value) if isinstance(value, str) else str(value)


# --- The database -----------------------------------------------------------------------------------------------------


def _lock(connection: Connection, cluster: str) -> None:
    """Let nobody else write to this cluster until the end of the transaction."""
    row = clusters.update().where(clusters.c.cluster == cluster)
    connection.execute(row.values(term=clusters.c.term))
