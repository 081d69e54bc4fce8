"""Who somebody on Slack is to us: a full member of our own team, and in which user groups. Everybody else is refused.

A channel that is shared with a provider has people of theirs in it, and guests of ours: they read what is posted there,
and their clicks count for nothing. What Slack does not tell is no yes.

The app's bot needs the scopes `users:read` and `usergroups:read`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from slack_sdk import WebClient

from quarantine.adapters.slack.api import asked, garbled
from quarantine.core.errors import NotifierRefused, NotifierUnavailable

KEPT = timedelta(minutes=5)  # an answer; as long may somebody who left a group still approve
_MOST_KEPT = 1000  # people
_NOT_OURS = "only members of the workspace that runs this fleet may do this"
_HANDLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


@dataclass(frozen=True, slots=True)
class Member:
    """A full member of our team. `unsure`: why it is not known of some groups whether they are in them."""

    id: str
    handle: str = ""  # a name that only an administrator or its owner changes; letters, digits, dots and dashes
    groups: tuple[str, ...] = ()
    unsure: str = ""

    @property
    def actor(self) -> str:
        """As the trail names them: `ann (U0123ABCD)`."""
        return f"{self.handle} ({self.id})" if self.handle else self.id


@dataclass(frozen=True, slots=True)
class Outsider:
    """Somebody whose word does not count, and why: a sentence for them."""

    why: str


class Members:
    """Asks Slack who people are, and keeps what it said for `KEPT`.

    For any thread: no answer waits for another, so two that ask at once may both ask Slack.
    """

    def __init__(
        self,
        client: WebClient,
        *,
        groups: Callable[[], Collection[str]],
        now: Callable[[], datetime],
    ) -> None:
        """`groups`: the ids of the user groups that anything asks for now; of others nothing is looked up."""
        self._client = client
        self._groups = groups
        self._now = now
        self._kept: dict[str, tuple[datetime, Mapping[str, Any]]] = {}

    def who(self, user: str, team: str) -> Member | Outsider:
        """Who they are. `team` is what came with their word: their team's id, or their organization's."""
        try:
            ours = self._auth()
            # On Enterprise Grid it is the organization's id that comes with a word, for whichever workspace of it.
            if team not in (ours["team_id"], ours.get("enterprise_id")) and not _for_all(ours):
                return Outsider(_NOT_OURS)
            profile = self._profile(user)
        except (NotifierUnavailable, NotifierRefused) as error:
            structlog.get_logger().warning("cannot tell who acts on Slack", user=user, error=str(error))
            return Outsider("Slack does not tell now who you are, so this was not taken: try again in a minute")
        if (why := _stranger(profile, ours)) is not None:
            return Outsider(why)
        name = profile.get("name")
        handle = name if isinstance(name, str) and _HANDLE.fullmatch(name) else ""
        groups, unsure = self._in_groups(user)
        return Member(user, handle, groups, unsure)

    def check(self) -> None:
        """Whether Slack tells what must be known of people: for start-up. Raises NotifierRefused, NotifierUnavailable.

        It names a scope that is missing, or a group that there is not.
        """
        ours = self._auth()
        self._profile(str(ours.get("user_id", "")))  # the bot's own
        for group in sorted(set(self._groups())):
            self._members(group)

    def _in_groups(self, user: str) -> tuple[tuple[str, ...], str]:
        found, unknown = [], []
        for group in sorted(set(self._groups())):
            try:
                members = self._members(group)
            except (NotifierUnavailable, NotifierRefused) as error:
                structlog.get_logger().warning("cannot tell who is in a Slack group", group=group, error=str(error))
                unknown.append(group)
            else:
                found += [group] if user in members else []
        unsure = f"Slack does not tell now who is in the user group {', '.join(unknown)}" if unknown else ""
        return tuple(found), unsure

    def _auth(self) -> Mapping[str, Any]:
        """Whose workspace this is."""
        answer = self._keeping("auth.test", "auth.test", self._client.auth_test)
        if not isinstance(answer.get("team_id"), str):
            raise garbled(self._client, "auth.test", "the team's id")
        return answer

    def _profile(self, user: str) -> Mapping[str, Any]:
        answer = self._keeping(f"user/{user}", "users.info", lambda: self._client.users_info(user=user))
        profile = answer.get("user")
        if not isinstance(profile, Mapping) or profile.get("id") != user:
            raise garbled(self._client, "users.info", "the user")
        return profile

    def _members(self, group: str) -> list[Any]:
        answer = self._keeping(
            f"group/{group}",
            "usergroups.users.list",
            lambda: self._client.usergroups_users_list(usergroup=group),
        )
        members = answer.get("users")
        if not isinstance(members, list):
            raise garbled(self._client, "usergroups.users.list", "the users")
        return members

    def _keeping(self, key: str, method: str, call: Callable[[], Any]) -> Mapping[str, Any]:
        """The answer, from Slack or as it was within `KEPT`. Failures are not kept."""
        now = self._now()
        kept = self._kept.get(key)
        if kept is not None and timedelta(0) <= now - kept[0] < KEPT:
            return kept[1]
        answer = asked(self._client, method, call)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[key] = (now, answer)
        return answer


def _stranger(profile: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """Why they are none of us; None for a full member. A field that is there must say so plainly."""
    if profile.get("deleted") or profile.get("is_bot") or profile.get("is_app_user"):
        return "this account is deactivated, or is no person's"
    if profile.get("is_stranger") or not _ours(profile, ours):
        return _NOT_OURS
    if profile.get("is_restricted") is not False or profile.get("is_ultra_restricted") is not False:
        return "guests of the workspace may not do this: ask a full member"
    return None


def _ours(profile: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Of our team, at home in it or not; or of our organization, where the app is installed for all of it."""
    if profile.get("team_id") == ours["team_id"]:
        return True
    belongs, organization = profile.get("enterprise_user"), ours.get("enterprise_id")
    if not organization or not isinstance(belongs, Mapping) or belongs.get("enterprise_id") != organization:
        return False
    teams = belongs.get("teams")
    return _for_all(ours) or (isinstance(teams, list) and ours["team_id"] in teams)


def _for_all(ours: Mapping[str, Any]) -> bool:
    """Whether the app is installed for a whole organization (Enterprise Grid)."""
    return ours.get("is_enterprise_install") is True and bool(ours.get("enterprise_id"))
