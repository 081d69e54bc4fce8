"""Tickets by e-mail (SMTP)."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.adapters.tickets.email.mail import EmailTickets
from quarantine.adapters.tickets.email.options import EmailOptions
from quarantine.adapters.tickets.targets import Context


def connect(options: Mapping[str, object], context: Context) -> EmailTickets:
    """The target with these options. Raises pydantic's ValidationError where they are wrong; sends nothing."""
    return EmailTickets(EmailOptions.model_validate(options), context.now, context.letter)
