"""One ticket system for every provider: the port `Desks` where nothing has to be chosen."""

from __future__ import annotations

from dataclasses import dataclass

from quarantine.core.errors import TicketsRefused
from quarantine.ports import Tickets


@dataclass(frozen=True, slots=True)
class OneDesk:
    """Implements `ports.Desks`."""

    target: str
    tickets: Tickets

    def of(self, provider: str) -> tuple[str, Tickets] | None:  # noqa: ARG002  (the port's)
        """This one, whoever the provider is."""
        return self.target, self.tickets

    def named(self, target: str) -> Tickets:
        """This one. Raises TicketsRefused where another one is meant."""
        if target != self.target:
            raise TicketsRefused(
                f"there is no ticket target {target!r}, only {self.target!r}: write it back into the "
                "settings' tickets, or follow its tickets by hand"
            )
        return self.tickets
