"""Tickets in Jira Cloud: as issues of a project, or as requests of Jira Service Management."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from quarantine.adapters.tickets.jira.issues import JiraIssues
from quarantine.adapters.tickets.jira.options import JiraOptions
from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web, secret_of


def connect(options: Mapping[str, object], context: Context) -> JiraIssues:
    """The target with these options; nothing is asked of Jira yet. Raises pydantic's ValidationError where wrong."""
    chosen = JiraOptions.model_validate(options)
    token = secret_of(chosen.token, chosen.token_file, f"token of ticket target {context.name}")

    def authorization() -> str:
        if not chosen.user:
            return f"Bearer {token()}"
        return "Basic " + base64.b64encode(f"{chosen.user}:{token()}".encode()).decode()

    web = Web(chosen.url, authorization, name="Jira", now=context.now)
    return JiraIssues(web, chosen, context.letter)
