"""What comes of judging: devices that are bad, those that are good again, and why nothing can be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quarantine.core.case import Evidence
from quarantine.core.identity import Unmatched
from quarantine.core.model import Device, Failed, Node
from quarantine.core.policy import LoadedPolicy

Found = tuple[str, Device]  # node name, device


@dataclass(frozen=True, slots=True)
class Offence:
    """One device that a policy finds bad, on a node of this cluster."""

    policy: LoadedPolicy
    node: Node
    device: Device
    evidence: Evidence
    uptime_told: bool = True  # of its node, where the policy grants a grace after boot


@dataclass(frozen=True, slots=True)
class Stray:
    """Something bad that belongs to no node here."""

    policy: LoadedPolicy
    said: str  # what the labels say of the node
    why: Unmatched
    device: Device
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one policy says of the fleet in this cycle."""

    policy: LoadedPolicy
    bad: tuple[Offence, ...]
    strays: tuple[Stray, ...]
    good: Mapping[Found, Evidence]  # by (node name, device); never one that is also bad
    contradictory: tuple[Offence, ...]  # bad and good at once: bad, and reported
    failed: Failed | None  # not everything was answered that a verdict needs: everything not bad is unknown
    covered: int | None  # devices seen on this cluster's nodes; None: not known
    crowded: tuple[str, ...] = ()  # nodes with more GPUs than they have: another cluster's are among them
    in_grace: tuple[Offence, ...] = ()  # on nodes that have booted too lately for it to count, or may have
    seen_by: Mapping[str, frozenset[str]] = field(default_factory=dict)  # the nodes that each reading sees, by its key
    emerging: frozenset[str] = frozenset()  # nodes with a device that is beyond the bound, and not for long enough yet
    covered_by: Mapping[str, int] = field(default_factory=dict)  # devices seen, by node name
