"""A target whose reports are in the provider's own words: its categories, its names of machines, its letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from quarantine.adapters.tickets.letter import Letters
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Attachment, Ticket, Update
from quarantine.ports import Tickets

Named = tuple[tuple[str, str], ...]


class AssetMap(Protocol):
    """What providers call their machines."""

    @property
    def fault(self) -> str:
        """What is wrong with it, where an earlier version of it is used; empty: nothing."""
        ...

    def of(self, report: CaseReport) -> Named:
        """What is known of the report's machine and of its suspect GPUs; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """Implements `ports.Tickets` over another. What could not be used is in the ticket's note."""

    tickets: Tickets
    categories: Mapping[str, str]  # ours to the provider's
    letters: Letters | None  # those that `tickets` writes with; None: the shipped ones
    assets: AssetMap | None

    @property
    def answerable(self) -> Answerable:
        """The target's."""
        return self.tickets.answerable

    @property
    def settles(self) -> timedelta:
        """The target's."""
        return self.tickets.settles

    def find(self, key: str) -> tuple[Ticket, ...]:
        """As the target does."""
        return self.tickets.find(key)

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """File it in the provider's words."""
        if self.letters is not None:
            self.letters.fault = ""
        ticket = self.tickets.open(self._told(report), attachments)
        notes = [ticket.note, *self._faults()]
        return replace(ticket, note="; ".join(note for note in notes if note))

    def read(self, ref: str) -> Ticket | None:
        """As the target does."""
        return self.tickets.read(ref)

    def update(self, ref: str, update: Update) -> None:
        """As the target does."""
        self.tickets.update(ref, update)

    def _told(self, report: CaseReport) -> CaseReport:
        faults = tuple(replace(f, category=self.categories.get(f.category, f.category)) for f in report.faults)
        known = () if self.assets is None else self.assets.of(report)
        ours = {name for name, _ in known}
        earlier = tuple((name, value) for name, value in report.assets if name not in ours)
        return replace(report, faults=faults, assets=(*earlier, *known))

    def _faults(self) -> list[str]:
        said = []
        if self.letters is not None and self.letters.fault:
            said.append(f"the shipped template was used, since {self.letters.fault}")
        if self.assets is not None and self.assets.fault:
            said.append(f"an earlier asset map was used, since {self.assets.fault}")
        return said
