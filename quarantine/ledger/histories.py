"""Everything that was ever decided about a name, found by index and streamed.

Of each cluster it is in the order of its trail. What belongs to it is gathered from several places: the decisions on a
Node object, those of its cases, those that name the node alone, those about a device. Clusters are merged by time; a
clock that went back does not move a decision before one that the trail has before it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, Engine, and_, not_, or_, select

from quarantine.core.identity import gpu_of
from quarantine.core.model import Device, DeviceKind
from quarantine.ledger import revision, trail
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import clusters, decisions
from quarantine.ledger.subjects import ByDevice, ByHardware, ByNode, Filter, Meant, Stay, Subject, resolve, successor
from quarantine.ledger.text import escape, fit
from quarantine.ports import Filed, TrailRow

_START = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Source:
    """Some decisions of a cluster, in the order of one index: all with one node, uid, case or device."""

    cluster: str
    where: tuple[ColumnElement[bool], ...]
    after: int = 0  # the seq before the first one
    upto: int | None = None  # the last one, where there is one

    def rows(self, engine: Engine) -> Iterator[tuple[int, str, str]]:
        """Seq, body and hash, a page at a time, by ascending seq."""
        chosen = [decisions.c.cluster == self.cluster, *self.where]
        columns = (decisions.c.seq, decisions.c.body, decisions.c.hash)
        for row in trail.pages(engine, chosen, *columns, after=self.after, upto=self.upto):
            yield row.seq, row.body, row.hash


@dataclass(frozen=True, slots=True)
class Part:
    """What may be about a name in a cluster, and what tells whether it is."""

    cluster: str
    sources: tuple[Source, ...]
    filter: Filter

    def rows(self, engine: Engine) -> Iterator[TrailRow]:
        """By ascending seq, each once."""
        last = 0
        for seq, body, link in heapq.merge(*(source.rows(engine) for source in self.sources)):
            if seq == last:
                continue
            last = seq
            decision = trail.decoded(self.cluster, seq, body)
            if self.filter.about(seq, decision):
                yield TrailRow(seq, decision, link)


def history(engine: Engine, name: str) -> Iterator[Filed]:
    """Everything that was ever decided about a name, in order of time. Raises LedgerUnavailable, SchemaMismatch."""
    with reading(engine) as connection:
        revision.require(connection)
        parts = _parts(connection, resolve(connection, name))
    found = sorted({part.cluster for part in parts})
    streams = [_of_cluster(engine, one, [part for part in parts if part.cluster == one]) for one in found]
    for _, filed in heapq.merge(*streams, key=lambda entry: entry[0]):
        yield filed


def _of_cluster(engine: Engine, cluster: str, parts: Sequence[Part]) -> Iterator[tuple[tuple[datetime, str], Filed]]:
    """With what it is sorted by among other clusters': the time, which never goes back."""
    latest, last = _START, 0
    for row in heapq.merge(*(part.rows(engine) for part in parts), key=lambda row: row.seq):
        if row.seq != last:
            latest, last = max(latest, row.decision.at), row.seq
            yield (latest, cluster), Filed(cluster, row)


# --- Where they are ---------------------------------------------------------------------------------------------------


def _parts(connection: Connection, meant: Meant) -> list[Part]:
    every = connection.execute(select(clusters.c.cluster).order_by(clusters.c.cluster)).scalars().all()
    parts = [_by_node(cluster, meant.name) for cluster in every]
    parts += _by_device(connection, meant.gpu)
    for subject in meant.hardware:
        for cluster in sorted({stay.cluster for stay in subject.stays}):
            stays = [stay for stay in subject.stays if stay.cluster == cluster]
            parts.append(_by_hardware(connection, cluster, subject, stays))
    return parts


def _by_node(cluster: str, name: str) -> Part:
    return Part(cluster, (Source(cluster, (decisions.c.node == fit(name),)),), ByNode(name))


def _by_device(connection: Connection, gpu: str) -> list[Part]:
    """Of a GPU and its links, under whatever node, and of those that no node was found for as well."""
    if gpu_of(Device(DeviceKind.GPU, gpu)) is None:
        return []
    links = _begins(connection, escape(f"{DeviceKind.NVLINK}:{gpu}/"))
    about = or_(decisions.c.device == fit(f"{DeviceKind.GPU}:{gpu}"), links)
    known = select(decisions.c.cluster, decisions.c.device).where(about).distinct()
    found: dict[str, list[Source]] = {}
    for cluster, device in connection.execute(known.order_by(decisions.c.cluster, decisions.c.device)):
        found.setdefault(cluster, []).append(Source(cluster, (decisions.c.device == device,)))
    return [Part(cluster, tuple(sources), ByDevice(gpu)) for cluster, sources in found.items()]


def _begins(connection: Connection, start: str) -> ColumnElement[bool]:
    """That a device's name begins so, in the way that each dialect answers from the index."""
    if connection.dialect.name == "sqlite":  # its LIKE does not mind case; its order is that of the bytes
        return and_(decisions.c.device >= start, decisions.c.device < f"{start[:-1]}{chr(ord(start[-1]) + 1)}")
    return decisions.c.device.startswith(start, autoescape=True)


def _by_hardware(connection: Connection, cluster: str, subject: Subject, stays: Iterable[Stay]) -> Part:
    sources = [source for stay in stays for source in _of_stay(connection, stay)]
    return Part(cluster, tuple(sources), ByHardware(subject, cluster))


def _of_stay(connection: Connection, stay: Stay) -> Iterator[Source]:
    """What was decided on the Node object meanwhile; what else in the cases that it had; and what else on its name,
    until that is another Node object's. Which of the rest is about the subject, the filter tells.
    """
    of, before = decisions.c, stay.first - 1
    here = and_(of.node_uid == stay.node_uid, of.seq >= stay.first, of.seq <= stay.last)
    elsewhere = or_(of.node_uid.is_(None), not_(here))  # so that nothing is read twice
    yield Source(stay.cluster, (of.node_uid == stay.node_uid,), before, stay.last)
    cases = select(of.case_id).where(of.cluster == stay.cluster, here, of.case_id.is_not(None)).distinct()
    for case in connection.execute(cases.order_by(of.case_id)).scalars().all():
        yield Source(stay.cluster, (of.case_id == case, elsewhere), before)
    until = successor(connection, stay)
    alone = (of.node == stay.node, of.case_id.is_(None), elsewhere)
    yield Source(stay.cluster, alone, before, None if until is None else until - 1)
