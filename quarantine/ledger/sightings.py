"""Machines, and the names under which they were known: where `history` begins to look.

A row of `sightings` says from which decision on a Node object (`node_uid`) to which one a name was that machine's: each
decision about the machine moves the rows of all its names. What a Node object does not tell (GPUs) goes with the
machine from one decision to the next, until a decision says otherwise. A GPU that evidence names has a row too, moved
by such decisions where the machine's record does not tell of it. A node's name without a machine has an empty
`node_uid`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from quarantine.core.case import Case
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.identity import gpu_of
from quarantine.core.model import Machine
from quarantine.core.record.subjects import SubjectKind, machine_key, names
from quarantine.ledger.codec import encode
from quarantine.ledger.projections import record_of
from quarantine.ledger.remembered import Recent, Remembered
from quarantine.ledger.schema import machines, sightings
from quarantine.ledger.text import fit, unescape
from quarantine.ledger.upsert import Writes


@dataclass(frozen=True, slots=True)
class _Known:
    """A row of `machines`."""

    machine: Machine
    node: str
    pool: str
    provider: str
    first_at: datetime
    last_at: datetime


class Machines:
    """What a run of decisions says of machines: gathered decision by decision and written at once."""

    def __init__(
        self,
        connection: Connection,
        cluster: str,
        known: Mapping[str, Case],
        taken: Sequence[Decision],
        remembered: Remembered,
    ) -> None:
        """Read what is known of the machines of these decisions and, in `known`, of their cases."""
        self._cluster = cluster
        self._told: set[str] = set()  # keys of machines that were decided on
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}
        self._names: dict[Machine, Mapping[str, str]] = {}
        keys = {machine_key(machine) for machine in _named(known, taken)} - {""}
        self._remembered: Recent[str, _Known] = remembered.machines
        self._known = self._remembered.of(keys, lambda unknown: _read(connection, cluster, unknown))

    def follow(self, seq: int, decision: Decision, before: Case | None, after: Case | None) -> None:
        """Decision `seq` made `after` of `before`; None where it is about no case, or opens it."""
        swapped = decision.action is Action.SWAP and decision.kind is Kind.DECIDED
        if swapped and before is not None and before.machine != decision.machine:
            self._see(seq, decision, before, before.machine)  # it is about the machine that is gone as well
        machine = decision.machine or (after.machine if after is not None else None) or Machine("")
        self._see(seq, decision, after, machine)

    def save(self, writes: Writes) -> None:
        """Have them written."""
        writes.upsert(sightings, list(self._rows.values()), keep=("first_seq", "first_at"))
        told = {key: self._known[key] for key in self._told}
        writes.upsert(machines, [_row(self._cluster, key, one) for key, one in told.items()], keep=("first_at",))
        self._remembered.keep(told)

    def _see(self, seq: int, decision: Decision, case: Case | None, machine: Machine) -> None:
        key, node = machine_key(machine), decision.node or (case.node if case is not None else "")
        if key:
            machine = self._meet(key, decision, case, machine, node)
        gpu = (gpu_of(decision.device) if decision.device is not None else None) or ""
        uid = machine.node_uid
        now = {"node": fit(node), "machine": fit(key), "last_seq": seq, "last_at": decision.at}
        for value, kind in self._names_of(machine, node, gpu).items():
            at = (fit(value), fit(uid))  # two names that are alike once they are cut are one row
            row = self._rows.get(at)
            if row is None:
                first = {"cluster": self._cluster, "value": at[0], "node_uid": at[1]}
                row = self._rows[at] = {**first, "first_seq": seq, "first_at": decision.at}
            row.update(now, kind=kind)

    def _names_of(self, machine: Machine, node: str, gpu: str) -> Mapping[str, str]:
        """What is seen, and what sort of name each is: two sorts of one name are one row."""
        known = self._names.get(machine)
        if known is None:
            known = self._names[machine] = {value: kind.value for kind, value in names(machine)}
        found = {gpu: SubjectKind.GPU.value, **known, node: SubjectKind.NODE.value}
        found.pop("", None)
        return found

    def _meet(self, key: str, decision: Decision, case: Case | None, machine: Machine, node: str) -> Machine:
        """Take note of the machine, and return it with what was known of it before."""
        known = self._known.get(key)
        pool = decision.pool or (case.pool if case is not None else "")
        provider = decision.provider or (case.provider if case is not None else "")
        if known is None:
            now = _Known(machine, node, pool, provider, decision.at, decision.at)
        else:
            now = _Known(
                machine=_completed(machine, known.machine),
                node=node or known.node,
                pool=pool or known.pool,
                provider=provider or known.provider,
                first_at=known.first_at,
                last_at=decision.at,
            )
        self._known[key] = now
        self._told.add(key)
        return now.machine


def _named(known: Mapping[str, Case], taken: Sequence[Decision]) -> Iterator[Machine]:
    """Every machine that these decisions may be about."""
    for decision in taken:
        if decision.machine is not None:
            yield decision.machine
        if decision.case is not None and (case := known.get(decision.case)) is not None:
            yield case.machine


def _completed(now: Machine, known: Machine) -> Machine:
    """A Node object tells neither GPUs nor place, and an older record less: what is known goes with the machine."""
    if now == known:
        return known
    return replace(
        now,
        provider_id=now.provider_id or known.provider_id,
        system_uuid=now.system_uuid or known.system_uuid,
        boot_id=now.boot_id or known.boot_id,
        gpus=now.gpus or known.gpus,
        place=now.place or known.place,
    )


def _read(connection: Connection, cluster: str, keys: set[str]) -> dict[str, _Known]:
    stored = {fit(key): key for key in keys}
    if not stored:
        return {}
    chosen = select(machines).where(machines.c.cluster == cluster, machines.c.key.in_(list(stored)))
    return {
        stored[row.key]: _Known(
            machine=record_of(Machine, row.body),
            node=unescape(row.node),
            pool=unescape(row.pool),
            provider=unescape(row.provider),
            first_at=row.first_at,
            last_at=row.last_at,
        )
        for row in connection.execute(chosen)
    }


def _row(cluster: str, key: str, known: _Known) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "key": fit(key),
        "node": fit(known.node),
        "pool": fit(known.pool),
        "provider": fit(known.provider),
        "first_at": known.first_at,
        "last_at": known.last_at,
        "body": encode(known.machine),
    }
