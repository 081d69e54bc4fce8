"""Tickets as issues of a GitHub repository."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.adapters.tickets.github.issues import HEADERS, GitHubIssues
from quarantine.adapters.tickets.github.options import GitHubOptions
from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web, secret_of


def connect(options: Mapping[str, object], context: Context) -> GitHubIssues:
    """The target with these options; nothing is asked of GitHub yet. Raises pydantic's ValidationError where wrong."""
    chosen = GitHubOptions.model_validate(options)
    token = secret_of(chosen.token, chosen.token_file, f"token of ticket target {context.name}")
    web = Web(chosen.url, lambda: f"Bearer {token()}", name="GitHub", headers=HEADERS, now=context.now)
    return GitHubIssues(web, chosen.repository, context.letter, chosen.states, chosen.charts)
