"""What the cases that are remembered say of one policy's findings, by machine: gathered once in a plan."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import Case
from quarantine.core.decision import State
from quarantine.core.model import Device


@dataclass(frozen=True, slots=True)
class Spell:
    """One time that a device was found bad."""

    case: Case
    device: Device
    began: datetime
    good: datetime | None  # since when it was good again; None: it never was
    shared: bool  # it was held since machines that share something failed together

    @property
    def left(self) -> datetime | None:
        """When it was over, or its machine was taken out; None: it stands, and may still recover."""
        if self.good is not None:
            return self.good
        if self.case.open and not self.case.marked:
            return None
        return max(self.began, self.case.taken_out_at if self.case.open else self.case.phase_since)


History = Mapping[str, tuple[Spell, ...]]  # by node name


def histories(state: State, policies: Iterable[str], nodes: Container[str] | None = None) -> Mapping[str, History]:
    """By policy name: each of `policies`, in one walk through the cases; `nodes`: of no others."""
    found: dict[str, dict[str, list[Spell]]] = {name: {} for name in policies}
    if not found:
        return {}
    for case in state.cases.values():
        if nodes is not None and case.node not in nodes:
            continue
        for finding in case.findings:
            if (known := found.get(finding.policy)) is not None:
                known.setdefault(case.node, []).extend(
                    Spell(case, finding.device, began, good, began in finding.shared) for began, good in finding.spells
                )
    return {name: {node: tuple(spells) for node, spells in known.items()} for name, known in found.items()}
