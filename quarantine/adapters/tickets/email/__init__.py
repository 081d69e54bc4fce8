"""Tickets by e-mail (SMTP)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from quarantine.adapters.tickets.email.mail import EmailTickets, Letter
from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.core.letters import CaseReport


class Context(Protocol):
    """What this adapter needs to know of where it is used."""

    @property
    def now(self) -> Callable[[], datetime]:
        """The clock, aware."""
        ...

    @property
    def letter(self) -> Callable[[CaseReport], Letter]:
        """Writes what a report says."""
        ...


def connect(options: Mapping[str, object], context: Context) -> EmailTickets:
    """The target with these options. Raises pydantic's ValidationError where they are wrong; sends nothing."""
    return EmailTickets(EmailOptions.model_validate(options), context.now, context.letter)
