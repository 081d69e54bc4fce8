"""All that listens to people on Slack, put together: connections or signed requests, a backlog, and the desk."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarantine.adapters.slack.backlog import Backlog
from quarantine.adapters.slack.desk import Answers, Desk
from quarantine.adapters.slack.notifier import SLACK, client_of
from quarantine.adapters.slack.people import Members
from quarantine.adapters.slack.signature import Door
from quarantine.adapters.slack.socketmode import Link, Listener
from quarantine.adapters.slack.tally import Tally


@dataclass(frozen=True, slots=True)
class Inbound:
    """`start` it once, `stop` it once. `door` answers requests over HTTPS; None where there is no signing secret."""

    desk: Desk
    backlog: Backlog
    listener: Listener | None
    door: Door | None

    @property
    def tally(self) -> Tally:
        """What became of what people did."""
        return self.desk.tally

    @property
    def link(self) -> Link | None:
        """How the connections stand; None without Socket Mode."""
        return self.listener.link if self.listener is not None else None

    def check(self) -> None:
        """Whether the tokens are taken and have their scopes: for start-up.

        Raises NotifierRefused, NotifierUnavailable.
        """
        self.desk.check()
        if self.listener is not None:
            self.listener.check()

    def start(self) -> None:
        """Returns at once: connections are made, and made again, beside."""
        self.backlog.start()
        if self.listener is not None:
            self.listener.start()

    def stop(self) -> bool:
        """Take nothing more, and work off what was taken: whether all of it was done in time (seconds)."""
        stopped = self.listener is None or self.listener.stop()
        return self.backlog.stop() and stopped


def connect_inbound(
    token: str,
    answers: Answers,
    *,
    app_token: str = "",
    signing_secret: Callable[[], str] | None = None,
    groups: Callable[[], Collection[str]],
    now: Callable[[], datetime],
    base_url: str = SLACK,
    timeout: timedelta = timedelta(seconds=10),
) -> Inbound:
    """Nothing is asked yet. `token`: the bot's; `app_token`: for Socket Mode; `signing_secret`: for HTTPS.

    `groups`: the ids of the user groups that any policy in force wants an approval of. Raises NotifierRefused on what
    cannot be a token, UsageError on what is no URL.
    """
    client = client_of(token, base_url, timeout)
    desk = Desk(client, Members(client, groups=groups, now=now), answers, now=now)
    backlog = Backlog(desk.take)
    listener = Listener(app_token, backlog.offer, base_url=base_url, timeout=timeout) if app_token else None
    door = Door(signing_secret, backlog.offer, now=now) if signing_secret is not None else None
    return Inbound(desk, backlog, listener, door)
