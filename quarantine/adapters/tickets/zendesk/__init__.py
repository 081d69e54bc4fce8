"""Tickets in Zendesk Support."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web, secret_of
from quarantine.adapters.tickets.zendesk.options import ZendeskOptions
from quarantine.adapters.tickets.zendesk.support import ZendeskTickets


def connect(options: Mapping[str, object], context: Context) -> ZendeskTickets:
    """The target with these options; nothing is asked yet. Raises pydantic's ValidationError where they are wrong."""
    chosen = ZendeskOptions.model_validate(options)
    token = secret_of(chosen.token, chosen.token_file, f"token of ticket target {context.name}")

    def authorization() -> str:
        if not chosen.email:
            return f"Bearer {token()}"
        return "Basic " + base64.b64encode(f"{chosen.email}/token:{token()}".encode()).decode("ascii")

    web = Web(chosen.url, authorization, name="Zendesk", now=context.now)
    return ZendeskTickets(web, chosen, context.letter)
