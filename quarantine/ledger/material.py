"""What a report is made from, out of the tables that follow the trail. No body is read.

The database puts the rows into groups that are alike in words, with an array of numbers for each column: a tenth of
what the rows would cost to fetch one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    Row,
    Select,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    text,
)

from quarantine.core.decision import Census
from quarantine.core.draft import NODE, case_key
from quarantine.core.record.milestones import Fate
from quarantine.core.record.report import CaseGroup, Counted, HoldGroup, MachineSum, Material, Part
from quarantine.core.record.report.material import CASE_TIMES, CASE_WORDS, OF_CASE, OF_ELSE, OF_NODE
from quarantine.ledger import revision
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import UtcDateTime, clusters, hold_spans, milestones, pool_sizes

_PAGE = 20  # groups that are fetched at once; one may be of thousands of rows
_MANY = 2000  # rows that are numbers alone
_CASE = case_key("")
_JULIAN_EPOCH = 2440587.5  # 1970-01-01, in the days that SQLite counts
_M = milestones.c
Made = TypeVar("Made")
Value = ColumnElement[Any]


def material(engine: Engine, since: datetime, until: datetime, cluster: str | None = None) -> Material:
    """Of one cluster, which need not have a trail, or of all of them. Raises as the port `Archive`.

    Rows are read when its parts are gone through, each kind in a transaction of its own: what is recorded meanwhile
    happened after `until`, unless that is in the future.
    """
    with reading(engine) as connection:
        revision.require(connection)
        names = [cluster] if cluster is not None else _clusters(connection)
        sizes = {name: _sizes(connection, name, since, until) for name in names}
    return Material(since, until, _parts([_Reach(engine, name, since, until) for name in names], sizes))


def _parts(reaches: Sequence[_Reach], sizes: Mapping[str, Sequence[Counted]]) -> Iterator[Part]:
    """One after the other. While its cases are summed up, the database looks for the rest: that takes as long."""
    for reach in reaches:
        with ThreadPoolExecutor(1, thread_name_prefix="report") as beside:
            machines = beside.submit(list, reach.machines())
            holds = beside.submit(list, reach.holds())
            yield Part(reach.cluster, reach.cases(), _Later(machines), _Later(holds), sizes[reach.cluster])


@dataclass(frozen=True, slots=True)
class _Later(Generic[Made]):
    """What another thread collects; to go through it is to wait for it, and raises what it raised."""

    found: Future[list[Made]]

    def __iter__(self) -> Iterator[Made]:
        return iter(self.found.result())


@dataclass(frozen=True, slots=True)
class _Reach:
    """The questions about one cluster and a stretch of time. Answers are fetched a page at a time."""

    engine: Engine
    cluster: str
    since: datetime
    until: datetime

    @property
    def sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    def cases(self) -> Iterator[CaseGroup]:
        return map(CaseGroup._make, self._answer(self._cases(), _PAGE))

    def machines(self) -> Iterator[MachineSum]:
        return map(MachineSum._make, self._answer(self._machines(), _MANY))

    def holds(self) -> Iterator[HoldGroup]:
        return map(HoldGroup._make, self._answer(self._holds(), _PAGE))

    def _answer(self, statement: Select[Any], page: int) -> Iterator[Row[Any]]:
        with reading(self.engine) as connection:
            if not self.sqlite:
                # The planner takes every row for a group of its own, and would sort them by ten columns of text.
                connection.execute(text("SET LOCAL enable_sort = off"))
                connection.execute(text("SET LOCAL work_mem = '64MB'"))
            streaming = connection.execution_options(stream_results=True)
            with streaming.execute(statement) as found:
                for rows in found.yield_per(page).partitions():
                    yield from rows

    def _cases(self) -> Select[Any]:
        """In the order of `CaseGroup`."""
        words = [_M[name] for name in CASE_WORDS]
        arrays = (self._array(self._ms(_M[f"{name}_at"])) for name in CASE_TIMES)
        return select(*words, *arrays).where(*self._lasting()).group_by(*words)

    def _machines(self) -> Select[Any]:
        """In the order of `MachineSum`."""
        refuted = (_M.fate == Fate.REFUTED.value).label("refuted")
        words = (_M.machine, _M.node, _M.pool, _M.provider, refuted)
        counts = (self._count(column) for column in (_M.opened_at, _M.out_at, _M.ticket_at))
        since, until = literal(self.since, UtcDateTime), literal(self.until, UtcDateTime)
        came_back = and_(_M.back_at > since, _M.back_at > _M.marked_at)
        was_out = and_(_M.marked_at < until, or_(_M.back_at.is_(None), came_back))
        begun = case((_M.marked_at < since, since), else_=_M.marked_at)
        over = case((_M.back_at < until, _M.back_at), else_=until)
        out_ms = cast(func.sum(case((was_out, self._ms(over) - self._ms(begun)), else_=0)), BigInteger)
        return (
            select(*words, *counts, out_ms, self._ms(func.max(_M.opened_at))).where(*self._lasting()).group_by(*words)
        )

    def _holds(self) -> Select[Any]:
        """In the order of `HoldGroup`."""
        h, m = hold_spans.c, _M
        about = case((h.key.startswith(_CASE), OF_CASE), (h.key.startswith(NODE), OF_NODE), else_=OF_ELSE)
        its_case = and_(m.cluster == h.cluster, m.case_id == func.substr(h.key, len(_CASE) + 1))
        arrays = (self._array(column) for column in (h.node, *map(self._ms, (h.since, h.until, m.out_at))))
        stood = or_(h.until.is_(None), h.until >= self.since)
        words = (about.label("about"), h.held_by, h.policy)
        return (
            select(*words, *arrays)
            .select_from(hold_spans.outerjoin(milestones, and_(h.key.startswith(_CASE), its_case)))
            .where(h.cluster == self.cluster, h.since < self.until, stood)
            .group_by(*words)
        )

    def _lasting(self) -> tuple[Value, ...]:
        """Which cases overlap the time. A machine may be out for longer than its case was open."""
        still_out = and_(_M.marked_at.is_not(None), _M.back_at.is_(None))
        lasts = or_(_M.ended_at.is_(None), _M.ended_at >= self.since, _M.back_at >= self.since, still_out)
        return _M.cluster == self.cluster, _M.opened_at < self.until, lasts

    def _count(self, column: Value) -> Value:
        """How many of these times are in it."""
        return func.sum(case((and_(column >= self.since, column < self.until), 1), else_=0))

    def _ms(self, column: Value) -> Value:
        """A time as whole milliseconds since the epoch."""
        if self.sqlite:
            return cast(func.round((func.julianday(column) - _JULIAN_EPOCH) * 86_400_000), Integer)
        return cast(func.date_part("epoch", column) * 1000, BigInteger)

    def _array(self, column: Value) -> Value:
        """A group's values, nulls included. All arrays of one group are in the order in which its rows were met."""
        return func.json_group_array(column, type_=JSON) if self.sqlite else func.json_agg(column, type_=JSON)


def _clusters(connection: Connection) -> Sequence[str]:
    return sorted(connection.execute(select(clusters.c.cluster)).scalars())


def _sizes(connection: Connection, cluster: str, since: datetime, until: datetime) -> tuple[Counted, ...]:
    """Those within the time, and of each pool the last one before it."""
    s = pool_sizes.c
    before = select(func.max(s.seq)).where(s.cluster == cluster, s.at <= since).group_by(s.pool)
    chosen = select(s.pool, s.nodes, s.gpus, s.at).where(
        s.cluster == cluster, or_(and_(s.at > since, s.at < until), s.seq.in_(before))
    )
    rows = connection.execute(chosen.order_by(s.seq)).all()
    return tuple(Counted(row.pool, Census(row.nodes, row.gpus, row.at)) for row in rows)
