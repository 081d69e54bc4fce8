"""Which GPUs a machine has, by their UUIDs: asked of the nodes under a case alone, and some way into the past.

A GPU that fell off the bus is not seen any more and is there all the same; one that left with its machine is still seen
when one looks too far back. So nobody looks back beyond the moment at which the present machine came, or last booted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from quarantine.core.case import Case
from quarantine.core.identity import Directory, device_of, gpu_of
from quarantine.core.model import Answer, DeviceKind, Failed, Node
from quarantine.core.narrowing import NARROWED_AT_ONCE
from quarantine.core.policy import Rules
from quarantine.core.promql.value import Scope, fresh, mapped, within
from quarantine.core.readings import Reading, readings
from quarantine.core.selectors import grouping

FEWEST = 2  # intervals that must have passed before anything can be known


@dataclass(frozen=True, slots=True)
class Look:
    """What is asked in one cycle: the readings, and by node how far back its present machine may be looked at."""

    readings: tuple[Reading, ...]
    back: Mapping[str, timedelta]
    nodes: Mapping[str, Node]

    @classmethod
    def of(cls, rules: Rules, cases: Iterable[Case], nodes: Mapping[str, Node], now: datetime) -> Self:
        """That of the nodes with an open case that is marked; of none where the fleet has no inventory.

        One whose machine came a moment ago is left out: nothing is known of it yet.
        """
        inventory = rules.fleet.inventory
        signal = rules.signals.get(inventory.signal) if inventory is not None else None
        if inventory is None or signal is None or signal.device is not DeviceKind.GPU:
            return cls((), {}, nodes)
        back = {}
        for case in (c for c in cases if c.marked and c.node in nodes):
            came = (case.swapped_at, case.booted_at, nodes[case.node].created_at)
            longest = min([inventory.memory, *(now - at for at in came if at is not None)])
            if longest >= FEWEST * signal.interval:
                back[case.node] = _stepped(longest, FEWEST * signal.interval, inventory.memory)
        return cls(readings(signal, rules.fleet.matchers), back, nodes)

    @property
    def queries(self) -> Mapping[str, tuple[str, ...]]:
        """By reading key; nothing where no node is asked about."""
        return {r.key: asked for r in self.readings if (asked := _queries(r, self.back, self.nodes))}

    def hardware(self, answers: Mapping[str, Answer], directory: Directory) -> Mapping[str, tuple[str, ...]] | Failed:
        """Node → the UUIDs of its GPUs, sorted, by whichever exporter names them. Half an answer is none.

        `answers`: by reading key. What names no node that was asked about, or names a GPU by something else than its
        UUID, is left out; a node of which nothing is seen is not there.
        """
        found: dict[str, set[str]] = {}
        for reading in self.readings:
            answer = answers.get(reading.key)
            if isinstance(answer, Failed):
                return answer
            for sample in answer.samples if answer is not None else ():
                node = directory.node(reading.source.node, sample.labels)
                device = device_of(reading, sample.labels)
                uuid = gpu_of(device) if device is not None else None
                if isinstance(node, Node) and node.name in self.back and uuid is not None:
                    found.setdefault(node.name, set()).add(uuid)
        return {name: tuple(sorted(uuids)) for name, uuids in sorted(found.items())}


def _queries(reading: Reading, back: Mapping[str, timedelta], nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """So that every node of `back` is looked at as far back as it may be; many at once where they share a time.

    An expression cannot be narrowed, so it is asked what it sees now. Where a part of a label is the name, a selector
    lets others through that contain it: there, nobody is looked at further back than all may be.
    """
    if not back:
        return ()
    if reading.metric is None:
        return (_each(reading, fresh(reading, Scope()), Scope()),)
    if reading.source.node.part is not None:
        back = dict.fromkeys(back, min(back.values()))
    alike: dict[timedelta, list[Node]] = {}
    for name in sorted(back):
        alike.setdefault(back[name], []).append(nodes[name])
    found = []
    for window, members in sorted(alike.items(), key=lambda pair: pair[0]):
        for start in range(0, len(members), NARROWED_AT_ONCE):
            scopes = _scopes(reading, members[start : start + NARROWED_AT_ONCE])
            found += [_each(reading, within(reading, scope, window), scope) for scope in scopes]
    return tuple(found)


def _each(reading: Reading, series: str, scope: Scope) -> str:
    """One for each device. A value that is nonsense is no measurement, and tells all the same what is there."""
    return f"count by ({grouping(reading.group)}) ({mapped(reading, scope, series)})"


def _scopes(reading: Reading, nodes: Sequence[Node]) -> list[Scope]:
    """One for each label that may name the nodes."""
    by_name = reading.source.node.means == "name"
    said = [name for node in nodes for name in ((node.name,) if by_name else node.addresses)]
    return [Scope.of_nodes(reading, label, said) for label in reading.node_key] if said else []


def _stepped(longest: timedelta, least: timedelta, memory: timedelta) -> timedelta:
    """The memory, or the longest of `least` doubled again and again: machines that came lately share few queries."""
    if longest >= memory:
        return memory
    window = least
    while 2 * window <= longest:
        window *= 2
    return window
