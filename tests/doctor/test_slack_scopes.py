"""What Slack's header says that the token may, which the stand-in does not have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from quarantine.doctor import Finding, Level, Patient, slack
from quarantine.settings import Settings
from quarantine.settings import Slack as SlackSettings
from tests.adapters.prometheus.standin import Peer, Request, Standin

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ALL = "chat:write,channels:history,files:write,users:read,usergroups:read,commands"


def check(scopes: str | None, *, listens: bool = False) -> list[Finding]:
    """What is found where Slack's header says this."""

    def answers(peer: Peer, request: Request) -> None:
        headers = {} if scopes is None else {"x_oauth_scopes": scopes}
        known = {"ok": True, "user": "quarantine", "team": "lab", "team_id": "T1", "user_id": "U1"}
        if request.path.endswith("conversations.history"):
            peer.reply({"ok": True, "messages": [], "has_more": False}, **headers)
        elif request.path.endswith("users.info"):
            peer.reply({"ok": True, "user": {"id": "U1", "team_id": "T1", "name": "quarantine"}}, **headers)
        elif request.path.endswith("apps.connections.open"):
            peer.reply({"ok": True, "url": "wss://127.0.0.1/link"}, **headers)
        else:
            peer.reply(known, **headers)

    with Standin(answers) as server:
        settings = Settings(
            policies=(Path("there-are-none"),),
            slack=SlackSettings(
                token=SecretStr("xoxb-hush"),
                channel="C0TEST",
                base_url=f"{server.url}/api/",
                app_token=SecretStr("xapp-hush") if listens else None,
            ),
        )
        with Patient(settings, lambda: NOW) as patient:
            return list(slack.check(patient))


def lacking(found: list[Finding]) -> Iterator[tuple[str, Level]]:
    for finding in found:
        if "lacks the scope" in finding.sentence:
            yield finding.sentence.rpartition("scope ")[2], finding.level


@pytest.mark.parametrize("scopes", [ALL, "chat:write,groups:history,files:write"])
def test_a_token_with_all_that_telling_takes_is_good(scopes: str) -> None:
    found = check(scopes)
    assert "bot quarantine of workspace lab" in found[0].sentence
    assert any("has all scopes" in f.sentence for f in found)
    assert {f.level for f in found} == {Level.GOOD}


@pytest.mark.parametrize("missing", ALL.split(","))
def test_each_scope_that_is_used_is_looked_for(missing: str) -> None:
    found = check(ALL.replace(missing, "other"), listens=True)
    ((scope, level),) = lacking(found)
    assert missing in scope
    assert level is (Level.WARNING if missing == "files:write" else Level.FAULT)


def test_scopes_to_hear_by_are_not_needed_to_tell() -> None:
    assert not list(lacking(check("chat:write,channels:history,files:write")))


def test_without_the_header_nothing_is_said_of_scopes() -> None:
    assert not any("scope" in f.sentence for f in check(None))


def test_they_are_those_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "slack-app.md").read_text(encoding="utf-8")
    manifest = page.partition("    bot:\n")[2].partition("settings:")[0]
    told = {line.strip(" -") for line in manifest.splitlines() if line.strip().startswith("- ")}
    assert told == {*slack.TO_TELL, *slack.TO_HEAR, *slack.HISTORY}
