"""docs/slack-app.md: a manifest with the scopes that are needed, and the buttons and commands that there are."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarantine.adapters.slack import backlog, buttons, people, signature
from quarantine.adapters.slack.commands import USAGE, WAIVED
from quarantine.adapters.slack.interactions import WAITS
from quarantine.adapters.slack.socketmode import LONGEST_WAIT
from quarantine.sandbox.slack import ALL_SCOPES

TEXT = (Path(__file__).parents[2] / "docs/slack-app.md").read_text(encoding="utf-8")
PROSE = " ".join(TEXT.split())
ADAPTER = Path(buttons.__file__).parent
# What a method needs, as Slack documents it; `None`: no scope of the bot's.
NEEDS = {
    "auth_test": None,
    "views_open": None,
    "apps_connections_open": None,  # the app's own token
    "chat_postMessage": "chat:write",
    "chat_postEphemeral": "chat:write",
    "chat_update": "chat:write",
    "conversations_history": "channels:history",
    "conversations_replies": "channels:history",
    "users_info": "users:read",
    "usergroups_users_list": "usergroups:read",
    "files_getUploadURLExternal": "files:write",
    "files_completeUploadExternal": "files:write",
    "files_upload_v2": "files:write",
}


def manifest() -> dict[str, Any]:
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    made: dict[str, Any] = yaml.safe_load(text)
    return made


def scopes() -> set[str]:
    return set(manifest()["oauth_config"]["scopes"]["bot"])


def test_the_manifest_has_the_scopes_of_each_method_that_is_called() -> None:
    called = {
        name
        for module in ADAPTER.glob("*.py")
        for name in re.findall(r"_client\.([a-z]+_\w+)\(?", module.read_text(encoding="utf-8"))
    } - {"base_url", "retry_handlers"}
    assert called <= NEEDS.keys()
    needed = {NEEDS[name] for name in called} - {None}
    assert scopes() == needed | {"groups:history", "commands"}
    assert scopes() <= ALL_SCOPES


def test_each_scope_is_told() -> None:
    table = TEXT[TEXT.index("| Scope |") : TEXT.index("**Tokens.**")]
    assert set(re.findall(r"`([a-z]+:[a-z]+|commands)`", table)) == scopes()


def test_the_manifest_switches_on_what_is_used() -> None:
    made = manifest()
    assert made["settings"] == {"interactivity": {"is_enabled": True}, "socket_mode_enabled": True}
    (command,) = made["features"]["slash_commands"]
    assert command["command"] == "/quarantine"
    assert command["should_escape"] is False


@pytest.mark.parametrize("line", USAGE)
def test_each_command_is_told(line: str) -> None:
    assert f"| `{line.partition(' – ')[0]}` |" in TEXT


def test_each_button_is_told() -> None:
    source = Path(buttons.__file__).read_text(encoding="utf-8")
    table = TEXT[TEXT.index("| Button |") : TEXT.index("Each button carries")]
    for label in re.findall(r"^\| ([A-Z][^|]*?) \|", table, re.MULTILINE)[1:]:
        assert label in source
    assert len(table.splitlines()) == 2 + 4 + 1


def test_the_figures_are_those_of_the_code() -> None:
    assert f"a queue of {backlog.SIZE}" in PROSE
    assert f"take it within {backlog.PATIENCE:g} seconds" in PROSE
    assert timedelta(minutes=5) == people.KEPT
    assert timedelta(minutes=5) == signature._LASTS
    assert {"4h": timedelta(hours=4), "24h": timedelta(hours=24)} == WAITS
    assert timedelta(hours=4) == WAIVED
    assert LONGEST_WAIT == 60.0
