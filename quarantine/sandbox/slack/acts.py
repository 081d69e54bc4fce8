"""What people do in Slack's client, as the stand-in has them do it: click a button, run a command, answer a modal."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from quarantine.sandbox.slack.arguments import Refusal, Reply, from_json, invalid_arguments
from quarantine.sandbox.slack.blockkit import pings_of, problems_of, view_problems
from quarantine.sandbox.slack.people import Directory, Person
from quarantine.sandbox.slack.sockets import Delivery, SocketMode
from quarantine.sandbox.slack.workspace import OUR_APP, OUR_TEAM, Ephemeral, Message, Method, Workspace

TRIGGER_LASTS = timedelta(seconds=3)
RESPONSE_LASTS = timedelta(minutes=30)
MOST_RESPONSES = 5


@dataclass
class View:
    """A modal that somebody has before them."""

    id: str
    user: str
    content: Reply
    open: bool = True


@dataclass
class _Pass:
    """A trigger id, or a response URL: made for one person, good for a while."""

    user: str
    channel: str
    made: datetime
    used: int = 0


class Acts:
    """The clients of all people. Each act comes to the app as an envelope over Socket Mode."""

    def __init__(self, workspace: Workspace, directory: Directory, sockets: SocketMode) -> None:
        self._workspace = workspace
        self._directory = directory
        self._sockets = sockets
        self.base_url = ""  # of response URLs
        self.views: list[View] = []
        self._triggers: dict[str, _Pass] = {}
        self._responses: dict[str, _Pass] = {}

    def clear(self) -> None:
        """Forget views, triggers and response URLs."""
        self.views.clear()
        self._triggers.clear()
        self._responses.clear()

    def methods(self) -> Mapping[str, tuple[str | None, Method]]:
        """What it offers; opening a view needs a trigger, and no scope."""
        return {"views.open": (None, self._open)}

    # --- What people do -----------------------------------------------------------------------------------------------

    def click(self, user: str, message: Message, action_id: str, about: str = "") -> Delivery:
        """Click a button of a message: the first of that id whose value contains `about`. Raises LookupError."""
        return self._sockets.deliver("interactive", self.click_payload(user, message, action_id, about))

    def run(self, user: str, channel: str, text: str, command: str = "/quarantine") -> Delivery:
        """Type a slash command."""
        return self._sockets.deliver("slash_commands", self.command_payload(user, channel, text, command))

    def submit(self, view: View, values: Mapping[str, str]) -> Delivery:
        """Answer a modal: action ids, and what is chosen or written there; a client takes nothing else."""
        return self._sockets.deliver("interactive", self.submit_payload(view, values))

    def click_payload(self, user: str, message: Message, action_id: str, about: str = "") -> Reply:
        """As `click` sends it."""
        person = self._directory.person(user)
        block_id, button = _button(message, action_id, about)
        return {
            "type": "block_actions",
            **self._who(person),
            "container": {
                "type": "message",
                "message_ts": message.ts,
                "channel_id": message.channel,
                "is_ephemeral": False,
            },
            "trigger_id": self._trigger(user, message.channel),
            "channel": {"id": message.channel, "name": message.channel.lower()},
            "message": {"type": "message", "ts": message.ts, "text": message.text, "blocks": message.blocks},
            "state": {"values": {}},
            "response_url": self._response_url(user, message.channel),
            "actions": [
                {**button, "block_id": block_id, "action_ts": self._workspace.next_ts()},
            ],
        }

    def command_payload(self, user: str, channel: str, text: str, command: str = "/quarantine") -> Reply:
        """As `run` sends it."""
        person = self._directory.person(user)
        return {
            "token": "legacy",
            "team_id": person.team,
            "team_domain": "sandbox",
            "channel_id": channel,
            "channel_name": channel.lower(),
            "user_id": person.id,
            "user_name": person.shown_name,
            "command": command,
            "text": text,
            "api_app_id": OUR_APP,
            "is_enterprise_install": "false",
            "response_url": self._response_url(user, channel),
            "trigger_id": self._trigger(user, channel),
        }

    def submit_payload(self, view: View, values: Mapping[str, str]) -> Reply:
        """As `submit` sends it. Raises ValueError for what a client would not send off."""
        if not view.open:
            raise ValueError("the view is closed")
        state = _filled(view.content["blocks"], values)
        view.open = False
        shown = {**view.content, "id": view.id, "team_id": OUR_TEAM, "app_id": OUR_APP, "hash": "1.a"}
        return {
            "type": "view_submission",
            **self._who(self._directory.person(view.user)),
            "trigger_id": self._trigger(view.user, ""),
            "view": {**shown, "state": {"values": state}},
            "response_urls": [],
        }

    # --- What the app does in answer ----------------------------------------------------------------------------------

    def respond(self, ticket: str, body: bytes) -> tuple[int, str]:
        """What is sent to a response URL: status and answer. It shows something to the one who acted, or to all."""
        made = self._responses.get(ticket)
        if made is None:
            return 404, "no_service"
        if made.used >= MOST_RESPONSES or self._workspace.now() - made.made > RESPONSE_LASTS:
            return 404, "used_url" if made.used >= MOST_RESPONSES else "expired_url"
        try:
            said = json.loads(body)
        except ValueError:
            return 400, "invalid_payload"
        text, blocks = said.get("text", ""), said.get("blocks", [])
        if not text and not blocks:
            return 400, "no_text"
        if problems_of(blocks):
            return 400, "invalid_blocks"
        made.used += 1
        if said.get("response_type", "ephemeral") == "in_channel":
            self._workspace.share(made.channel, text, None, ())
        else:
            self._workspace.show(Ephemeral(made.channel, made.user, text, blocks, pings_of(text, blocks)))
        return 200, "ok"

    def _open(self, args: Mapping[str, Any]) -> Reply:
        trigger = self._triggers.get(str(args.get("trigger_id", "")))
        if trigger is None:
            raise Refusal("invalid_trigger_id")
        if trigger.used:
            raise Refusal("exchanged_trigger_id")
        if self._workspace.now() - trigger.made > TRIGGER_LASTS:
            raise Refusal("expired_trigger_id")
        content = from_json(args.get("view"), "invalid_arguments")
        if problems := view_problems(content):
            raise invalid_arguments(*problems)
        trigger.used += 1
        view = View(f"V{len(self.views) + 1:08d}", trigger.user, content)
        self.views.append(view)
        return {"view": {**content, "id": view.id, "team_id": OUR_TEAM, "hash": "1.a", "state": {"values": {}}}}

    # --- Pieces -------------------------------------------------------------------------------------------------------

    def _who(self, person: Person) -> Reply:
        """The team is the one where the app is; the user's own may be another."""
        return {
            "user": {
                "id": person.id,
                "username": person.shown_name,
                "name": person.shown_name,
                "team_id": person.enterprise or person.team,
            },
            "api_app_id": OUR_APP,
            "token": "legacy",
            "team": {"id": OUR_TEAM, "domain": "sandbox"},
            "enterprise": {"id": person.enterprise, "name": "sandbox"} if person.enterprise else None,
            "is_enterprise_install": False,
        }

    def _trigger(self, user: str, channel: str) -> str:
        trigger = f"{len(self._triggers) + 1}.1.{secrets.token_hex(8)}"
        self._triggers[trigger] = _Pass(user, channel, self._workspace.now())
        return trigger

    def _response_url(self, user: str, channel: str) -> str:
        ticket = secrets.token_hex(16)
        self._responses[ticket] = _Pass(user, channel, self._workspace.now())
        return f"{self.base_url}{ticket}"


def signed(payload: Mapping[str, Any], secret: str, at: datetime) -> tuple[dict[str, str], bytes]:
    """Headers and body as Slack sends a payload to an app's own URL: its other way than Socket Mode."""
    fields = payload if "command" in payload else {"payload": json.dumps(payload)}
    body = urlencode(fields).encode()
    stamp = str(int(at.timestamp()))
    made = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": f"v0={made}",
    }
    return headers, body


def _button(message: Message, action_id: str, about: str) -> tuple[str, Reply]:
    """The id of its block, and the button."""
    for n, block in enumerate(message.blocks):
        for element in (*block.get("elements", ()), block.get("accessory") or {}):
            if element.get("action_id") == action_id and about in element.get("value", ""):
                return str(block.get("block_id", f"b{n}")), element
    raise LookupError(f"the message has no button {action_id} about {about!r}")


def _filled(blocks: list[Reply], values: Mapping[str, str]) -> Reply:
    """The state of a modal's inputs, once the client has looked at what is required, too short or too long."""
    state: Reply = {}
    left = dict(values)
    for n, block in enumerate(b for b in blocks if b["type"] == "input"):
        element = block["element"]
        action_id = element["action_id"]
        value = left.pop(action_id, element.get("initial_value"))
        block_id = block.get("block_id", f"b{n}")
        if element["type"] == "plain_text_input":
            _fits(element, value, optional=block.get("optional", False))
            state[block_id] = {action_id: {"type": "plain_text_input", "value": value or None}}
        else:
            chosen = next((o for o in element["options"] if o["value"] == value), element.get("initial_option"))
            if chosen is None and not block.get("optional", False):
                raise ValueError(f"{action_id}: nothing is chosen")
            state[block_id] = {action_id: {"type": element["type"], "selected_option": chosen}}
    if left:
        raise ValueError(f"the view has no input {', '.join(left)}")
    return state


def _fits(element: Reply, value: str | None, *, optional: bool) -> None:
    if not value:
        if not optional:
            raise ValueError(f"{element['action_id']}: please complete this required field")
        return
    if not element.get("min_length", 0) <= len(value) <= element.get("max_length", 3000):
        raise ValueError(f"{element['action_id']}: too short or too long")
