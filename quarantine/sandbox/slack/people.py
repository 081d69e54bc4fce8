"""The people of the stand-in's workspace: who they are, in which groups, and what one of them alone is shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from quarantine.sandbox.slack.arguments import Refusal, Reply
from quarantine.sandbox.slack.blockkit import pings_of
from quarantine.sandbox.slack.workspace import OUR_BOT, OUR_TEAM, Ephemeral, Method, Workspace, content_of


@dataclass(frozen=True, slots=True)
class Person:
    """A user as the workspace sees them. Of another `team`: met in a channel shared by Slack Connect."""

    id: str
    name: str = ""
    team: str = OUR_TEAM
    guest: bool = False  # of several channels
    single_channel_guest: bool = False
    deleted: bool = False
    bot: bool = False
    enterprise: str = ""  # the organization's id, on Enterprise Grid
    teams: tuple[str, ...] = ()  # of the organization, that they are in besides `team`

    @property
    def shown_name(self) -> str:
        """The name, or one made of the id."""
        return self.name or self.id.lower()

    def as_user(self) -> Reply:
        """As `users.info` tells it."""
        user: Reply = {
            "id": self.id,
            "team_id": self.team,
            "name": self.shown_name,
            "real_name": self.shown_name.title(),
            "deleted": self.deleted,
            "profile": {"display_name": self.shown_name, "real_name": self.shown_name.title()},
            "is_bot": self.bot,
            "is_app_user": False,
        }
        if self.team != OUR_TEAM and not self.enterprise:
            user["is_stranger"] = True
        else:
            user |= {
                "is_restricted": self.guest or self.single_channel_guest,
                "is_ultra_restricted": self.single_channel_guest,
            }
        if self.enterprise:
            user["enterprise_user"] = {
                "enterprise_id": self.enterprise,
                "id": self.id,
                "teams": [self.team, *self.teams],
            }
        return user


class Directory:
    """`users.info`, `usergroups.users.list`, `conversations.members` and `chat.postEphemeral`."""

    def __init__(self, workspace: Workspace, people: Collection[Person], groups: Mapping[str, Collection[str]]) -> None:
        self._workspace = workspace
        self.people = {person.id: person for person in (*people, Person(OUR_BOT, "quarantine", bot=True))}
        self.groups = {group: list(members) for group, members in groups.items()}

    def methods(self) -> Mapping[str, tuple[str | None, Method]]:
        """What it offers, and the scope that each needs."""
        return {
            "users.info": ("users:read", self._info),
            "usergroups.users.list": ("usergroups:read", self._members_of_group),
            "conversations.members": ("channels:read", self._members_of_channel),
            "chat.postEphemeral": ("chat:write", self._ephemeral),
        }

    def person(self, user: str) -> Person:
        """Raises KeyError for somebody who is not there."""
        return self.people[user]

    def _info(self, args: Mapping[str, Any]) -> Reply:
        person = self.people.get(str(args.get("user", "")))
        if person is None:
            raise Refusal("user_not_found")
        return {"user": person.as_user()}

    def _members_of_group(self, args: Mapping[str, Any]) -> Reply:
        members = self.groups.get(str(args.get("usergroup", "")))
        if members is None:
            raise Refusal("no_such_subteam")
        return {"users": list(members)}

    def _members_of_channel(self, args: Mapping[str, Any]) -> Reply:
        channel = self._workspace.known(args)
        members = [user for user in self.people if user != OUR_BOT or channel not in self._workspace.not_in]
        return {"members": members, "response_metadata": {"next_cursor": ""}}

    def _ephemeral(self, args: Mapping[str, Any]) -> Reply:
        channel = self._workspace.writable(args)
        user = str(args.get("user", ""))
        if user not in self.people:
            raise Refusal("user_not_in_channel")
        text, blocks, _ = content_of(args)
        if not text.strip() and not blocks:
            raise Refusal("no_text")
        thread = str(args.get("thread_ts") or "")
        self._workspace.show(Ephemeral(channel, user, text, blocks, pings_of(text, blocks), thread))
        return {"message_ts": self._workspace.next_ts()}
