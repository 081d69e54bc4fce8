"""Machines that jobs can use only together: an NVLink domain with too few trays is out of use as a whole."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from quarantine.core.fleet import FleetSpec, Pool
from quarantine.core.model import Node


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of one pool, and how many machines of one a job needs."""

    machines: int
    members: Mapping[str, frozenset[str]]  # by the label's value
    of: Mapping[str, str]  # node name → label's value

    @classmethod
    def among(cls, pool: Pool, members: Iterable[Node], fleet: FleetSpec) -> Domains | None:
        """None where the pool has none. A node without the label is in no domain: it counts for itself."""
        label = fleet.topology.get(pool.domain.by) if pool.domain is not None else None
        if pool.domain is None or label is None:
            return None
        of = {node.name: node.labels[label] for node in members if node.labels.get(label)}
        found: dict[str, set[str]] = {}
        for name, domain in of.items():
            found.setdefault(domain, set()).add(name)
        return cls(pool.domain.machines, {key: frozenset(names) for key, names in found.items()}, of)

    def stranded(self, out: Container[str]) -> frozenset[str]:
        """Machines that are sound and of no use, since too few of their domain are."""
        found: set[str] = set()
        for names in self.members.values():
            usable = {name for name in names if name not in out}
            if len(usable) < self.machines:
                found |= usable
        return frozenset(found)

    def cost(self, name: str, out: Container[str]) -> int:
        """How many machines more are out of use once this one is. One that is out of use already costs nothing."""
        domain = self.of.get(name)
        if domain is None:
            return 0 if name in out else 1
        usable = sum(1 for member in self.members[domain] if member not in out)
        if usable < self.machines or name in out:
            return 0
        return usable if usable == self.machines else 1
