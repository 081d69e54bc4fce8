"""Tickets as signed JSON over HTTPS, for a receiver of one's own: `docs/tickets/webhook.md` has the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web, secret_of
from quarantine.adapters.tickets.webhook.calls import Calls
from quarantine.adapters.tickets.webhook.options import WebhookOptions
from quarantine.adapters.tickets.webhook.receiver import WebhookTickets
from quarantine.adapters.tickets.webhook.signature import Signed


def calls(options: Mapping[str, object], name: str, now: Callable[[], datetime], heard: Callable[[str], None]) -> Calls:
    """What listens for this target's receiver. Raises pydantic's ValidationError where the options are wrong."""
    chosen = WebhookOptions.model_validate(options)
    return Calls(secret_of(chosen.secret, chosen.secret_file, f"secret of ticket target {name}"), now, heard)


def connect(options: Mapping[str, object], context: Context) -> WebhookTickets:
    """The target with these options; nothing is asked yet. Raises pydantic's ValidationError where they are wrong."""
    chosen = WebhookOptions.model_validate(options)
    secret = secret_of(chosen.secret, chosen.secret_file, f"secret of ticket target {context.name}")
    web = Web(
        chosen.url, secret, name="the webhook", now=context.now, authorize=lambda secret: Signed(secret, context.now)
    )
    return WebhookTickets(web, context.letter, chosen.states)
