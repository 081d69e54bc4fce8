"""What a name means in the ledger: a node, hardware, or both; and which decisions are about it.

A decision tells which machine it is about. One that does not is about the machine that was last told of its case, or
else of its node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlalchemy import Column, Connection, Row, select

from quarantine.core.decision import Action, Decision
from quarantine.core.identity import gpu_of
from quarantine.core.model import DeviceKind, Machine
from quarantine.core.record.subjects import SubjectKind
from quarantine.core.selectors import same_name
from quarantine.ledger.schema import sightings
from quarantine.ledger.text import fit, unescape
from quarantine.ports import Sighting

_HARDWARE = (SubjectKind.PROVIDER_ID, SubjectKind.SYSTEM_UUID, SubjectKind.NODE_UID)
CHUNK = 100  # names in one statement


@dataclass(frozen=True, slots=True)
class Stay:
    """That hardware was behind a Node object, from one decision of the cluster to another, both included.

    Names are as they are stored: see `text.fit`.
    """

    cluster: str
    node: str
    node_uid: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Subject:
    """Hardware as the ledger knows it. `uuids`, `providers`: names of its machine, as stored, where that tells any."""

    stays: tuple[Stay, ...]
    gpu: str = ""  # the subject is this GPU, in whatever machine it was; else a machine
    uuids: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()

    def tells(self, cluster: str, seq: int, decision: Decision) -> bool | None:
        """Whether a decision is about the subject, by what it says of a machine; None where it does not say."""
        machine = decision.machine
        if self.gpu and decision.device is not None and gpu_of(decision.device) == self.gpu:
            return True
        if machine is None:
            return None
        if self.gpu and machine.gpus:
            return self.gpu in machine.gpus
        stays = [stay for stay in self.stays if stay.cluster == cluster and stay.node_uid == fit(machine.node_uid)]
        if not stays or self._other(machine):
            return False
        if any(stay.first <= seq <= stay.last for stay in stays):
            return True
        return None if self.gpu else False  # most decisions do not say what GPUs a machine has

    def _other(self, machine: Machine) -> bool:
        """Whether this is other hardware, as `marks.same_machine` tells; but a Node object may outlive its machine."""
        if machine.system_uuid and self.uuids:
            return fit(machine.system_uuid) not in self.uuids
        return bool(machine.provider_id and self.providers) and fit(machine.provider_id) not in self.providers


class Filter(Protocol):
    """Told every decision that may be about a subject, of one cluster and in order; says which are."""

    def about(self, seq: int, decision: Decision) -> bool:
        """Whether this one is."""
        ...


@dataclass(frozen=True, slots=True)
class ByNode:
    """Of a node's name: a column is cut where a name is very long, the decision has the last word."""

    node: str

    def about(self, _: int, decision: Decision) -> bool:
        """Whether the decision names it."""
        return decision.node == self.node


@dataclass(frozen=True, slots=True)
class ByDevice:
    """Of a GPU and of its links, whatever machine the decision is about."""

    gpu: str

    def about(self, _: int, decision: Decision) -> bool:
        """Whether the decision is about it."""
        return decision.device is not None and gpu_of(decision.device) == self.gpu


@dataclass(frozen=True, slots=True)
class ByHardware:
    """Of a machine, or of the machines that a GPU was in."""

    subject: Subject
    cluster: str
    _cases: dict[str, bool] = field(default_factory=dict)  # whether it was the subject that was told of last
    _nodes: dict[str, bool] = field(default_factory=dict)

    def about(self, seq: int, decision: Decision) -> bool:
        """Whether it is, or was exchanged by this decision for something else."""
        before, now = self._before(decision), self.subject.tells(self.cluster, seq, decision)
        if now is None:
            return before
        if decision.case is not None:
            self._cases[decision.case] = now
        if decision.node is not None:
            self._nodes[decision.node] = now
        return now or (before and decision.action is Action.SWAP)

    def _before(self, decision: Decision) -> bool:
        known = self._cases.get(decision.case) if decision.case is not None else None
        return known if known is not None else self._nodes.get(decision.node or "", False)


@dataclass(frozen=True, slots=True)
class Meant:
    """What a name stands for. It may be a node's name whether it is known or not."""

    name: str
    seen: tuple[Sighting, ...]  # of everything that it stands for, in order of time
    hardware: tuple[Subject, ...]
    gpu: str  # how a GPU of this name would be spelt


def resolve(connection: Connection, name: str) -> Meant:
    """What a name stands for: a few rows, by index."""
    gpu = same_name(DeviceKind.GPU, name)
    called = _rows(connection, sightings.c.value, {fit(name), fit(gpu)})
    chosen = {row.machine for row in called if row.kind in _HARDWARE}
    known = _rows(connection, sightings.c.machine, ({row.machine for row in called} | {fit(name)}) - {""})
    chosen |= {row.machine for row in known if row.machine == fit(name)}
    behind = {row.machine for row in called if row.kind == SubjectKind.NODE}
    subjects = [_machine([row for row in known if row.machine == key]) for key in sorted(chosen)]
    # A Node object by its uid, and a place by its provider's id, whatever machines were there; and a GPU, in whatever
    # machines it was.
    if objects := [row for row in called if row.kind == SubjectKind.NODE_UID]:
        subjects.append(Subject(_stays(objects)))
    if places := [row for row in called if row.kind == SubjectKind.PROVIDER_ID]:
        subjects.append(Subject(_stays(places), providers=frozenset({fit(name)})))
    if slots := [row for row in called if row.kind == SubjectKind.GPU]:
        around = {row.machine for row in slots}
        machine = _machine([row for row in known if row.machine in around])
        subjects.append(replace(machine, stays=_stays(slots), gpu=gpu))
    told = [*called, *(row for row in known if row.machine in chosen | behind)]
    seen = {(row.cluster, row.value, row.node_uid): _sighting(row) for row in told}
    order = sorted(seen.values(), key=lambda one: (one.first_at, one.cluster, one.first_seq, one.kind, one.value))
    return Meant(name, tuple(order), tuple(subjects), gpu)


def successor(connection: Connection, stay: Stay) -> int | None:
    """From which decision on another Node object has this one's name; None where none has."""
    chosen = select(sightings.c.first_seq).where(
        sightings.c.value == stay.node,
        sightings.c.kind == SubjectKind.NODE.value,
        sightings.c.cluster == stay.cluster,
        sightings.c.first_seq > stay.last,
        sightings.c.node_uid != "",  # there the name is told without a machine
    )
    return connection.execute(chosen.order_by(sightings.c.first_seq).limit(1)).scalar_one_or_none()


def _machine(rows: Sequence[Row[Any]]) -> Subject:
    of = {kind: frozenset(row.value for row in rows if row.kind == kind) for kind in _HARDWARE}
    stays = _stays([row for row in rows if row.kind != SubjectKind.GPU])
    return Subject(stays, uuids=of[SubjectKind.SYSTEM_UUID], providers=of[SubjectKind.PROVIDER_ID])


def _stays(rows: Iterable[Row[Any]]) -> tuple[Stay, ...]:
    """One for each Node object: of what its hardware is called, some is told sooner than the rest."""
    found: dict[tuple[str, str], Stay] = {}
    for row in (row for row in rows if row.node_uid):
        was = found.get((row.cluster, row.node_uid))
        first = row.first_seq if was is None else min(was.first, row.first_seq)
        last = row.last_seq if was is None else max(was.last, row.last_seq)
        found[row.cluster, row.node_uid] = Stay(row.cluster, row.node, row.node_uid, first, last)
    return tuple(found.values())


def _rows(connection: Connection, column: Column[str], texts: Collection[str]) -> list[Row[Any]]:
    wanted, found = sorted(texts), list[Row[Any]]()
    for start in range(0, len(wanted), CHUNK):
        found += connection.execute(select(sightings).where(column.in_(wanted[start : start + CHUNK]))).all()
    return found


def _sighting(row: Row[Any]) -> Sighting:
    return Sighting(
        cluster=row.cluster,
        kind=SubjectKind(row.kind),
        value=unescape(row.value),
        node=unescape(row.node),
        node_uid=unescape(row.node_uid),
        machine=unescape(row.machine),
        first_seq=row.first_seq,
        last_seq=row.last_seq,
        first_at=row.first_at,
        last_at=row.last_at,
    )
