"""What is heard from outside while the controller runs: people on Slack, and receivers whose tickets have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime
from functools import partial

import structlog
from pydantic import ValidationError

from quarantine.adapters import door
from quarantine.adapters.slack import telling
from quarantine.adapters.slack.inbound import Inbound, connect_inbound
from quarantine.adapters.tickets import webhook
from quarantine.adapters.web import secret_of
from quarantine.core.errors import NotifierRefused, UsageError
from quarantine.core.policy import Rules
from quarantine.observe.tickets import Follower
from quarantine.ports import LedgerReader
from quarantine.serving import opened
from quarantine.settings import Settings, listen_address

SLACK = "/slack"  # of the door: buttons, forms and commands
TICKETS = "/tickets/"  # and a webhook target's name


@contextmanager
def listening(
    settings: Settings,
    ledger: LedgerReader,
    rules: Callable[[], Rules],
    follower: Follower | None,
    now: Callable[[], datetime],
    *,
    wake: Callable[[], None],
) -> Iterator[None]:
    """Hear while the block runs. `rules`: those in force at the moment; `wake`: run a cycle soon.

    Raises UsageError where the settings cannot be listened by, NotifierRefused for what is no token.
    """
    with ExitStack() as stack:
        inbound = _slack(settings, ledger, rules, now)
        answers = dict(_receivers(settings, follower, now, wake))
        if inbound is not None:
            inbound.start()
            stack.callback(inbound.stop)
            if inbound.door is not None:
                answers[SLACK] = inbound.door
        if settings.door.listen:
            stack.enter_context(opened(door.app(answers), *listen_address(settings.door.listen), "door"))
            heard = ", ".join(sorted(answers)) or "nothing"
            structlog.get_logger().info("the door is open", listen=settings.door.listen, for_=heard)
        yield


def _slack(
    settings: Settings, ledger: LedgerReader, rules: Callable[[], Rules], now: Callable[[], datetime]
) -> Inbound | None:
    slack = settings.slack
    if slack.token is None or not slack.listens:
        return None
    secret = None
    if slack.signing_secret is not None:
        file = slack.signing_secret_file
        secret = secret_of(slack.signing_secret, file, "signing secret of Slack", refused=NotifierRefused)
    return connect_inbound(
        slack.token.get_secret_value(),
        telling.answers(lambda: nullcontext(ledger), rules),
        app_token=slack.app_token.get_secret_value() if slack.app_token is not None else "",
        signing_secret=secret,
        groups=lambda: approvers(rules()),
        now=now,
        base_url=slack.base_url,
    )


def approvers(rules: Rules) -> frozenset[str]:
    """The Slack user groups that any policy in force wants an approval of."""
    asked = (policy.spec.response.approval for policy in rules.policies)
    return frozenset(one.by for one in asked if one is not None and one.by is not None)


def _receivers(
    settings: Settings, follower: Follower | None, now: Callable[[], datetime], wake: Callable[[], None]
) -> Iterator[tuple[str, door.Answer]]:
    """For each webhook target, what its receiver calls."""
    if follower is None or not settings.door.listen:
        return
    for name, target in settings.tickets.chosen.items():
        if target.kind == "webhook":
            yield f"{TICKETS}{name}", _receiver(name, target.options, partial(_nudge, follower, wake, name), now)


def _receiver(
    name: str, options: Mapping[str, object], heard: Callable[[str], None], now: Callable[[], datetime]
) -> door.Answer:
    common = ("templates", "categories")  # of every kind, and judged where the target is made
    own = {option: value for option, value in options.items() if option not in common}
    try:
        return webhook.calls(own, name, now, heard)
    except ValidationError:
        raise UsageError(f"ticket target {name}: its options are wrong; quarantine doctor says how") from None


def _nudge(follower: Follower, wake: Callable[[], None], target: str, ref: str) -> None:
    follower.nudge(target, ref)
    wake()
