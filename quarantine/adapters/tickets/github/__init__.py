"""Tickets as issues of a GitHub repository."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from quarantine.adapters.tickets.github.issues import HEADERS, GitHubIssues
from quarantine.adapters.tickets.github.options import GitHubOptions
from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web, secret_of
from quarantine.core.errors import UsageError


def connect(options: Mapping[str, object], context: Context) -> GitHubIssues:
    """The target of these options; nothing is asked of GitHub yet. Raises UsageError where the options are wrong."""
    try:
        chosen = GitHubOptions.model_validate(options)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its options"
        raise UsageError(f"ticket target {context.name}: {place}: {first['msg']}") from None
    token = secret_of(chosen.token, chosen.token_file, f"token of ticket target {context.name}")
    web = Web(chosen.url, lambda: f"Bearer {token()}", name="GitHub", headers=HEADERS, now=context.now)
    return GitHubIssues(web, chosen.repository, context.letter, chosen.states)
