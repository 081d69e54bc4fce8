"""Whom the controller tells, as the settings name them: the part of the composition root that knows desks, Slack,
pagers and Grafana.

What says when it is comes from `app`, at each call: nothing here keeps a clock of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, time

from pydantic import ValidationError

from quarantine.adapters.assets import Assets
from quarantine.adapters.grafana import Grafana
from quarantine.adapters.grafana import connect as connect_grafana
from quarantine.adapters.pager import connect as connect_pager
from quarantine.adapters.slack.notice import SlackNotices, connect_notices
from quarantine.adapters.slack.notifier import connect as connect_slack
from quarantine.adapters.tickets.targets import Context, ManyDesks, target
from quarantine.annotating import Annotating
from quarantine.board import Board
from quarantine.controller import Saying
from quarantine.core import alarms
from quarantine.core.alarms import Alarm
from quarantine.core.errors import UsageError
from quarantine.digest import Digest
from quarantine.execute.pictures import Draw
from quarantine.ledger.store import SqlLedger
from quarantine.paging import Paging
from quarantine.ports import Clock, Desks, Notifier, Pager
from quarantine.settings import Settings


def sayings(
    settings: Settings,
    book: SqlLedger,
    chat: Notifier | None,
    draw: Draw | None,
    clock: Clock,
    may: Callable[[], bool] = lambda: True,
    tenure: Callable[[], int] = lambda: 0,
) -> Iterator[Saying]:
    """Whom each cycle tells how things stand: Slack's messages, its digest, the pagers, the charts.

    `may`: whether this process may still tell anything. `tenure`: another number once others may have told meanwhile.
    """
    cluster = settings.cluster
    yield Board(chat, book, clock, cluster, draw, may, tenure).tell
    if settings.slack.digest is not None:
        at = time.fromisoformat(settings.slack.digest)
        yield Digest(notices(settings, clock), clock, cluster, at, may).tell
    found = pagers(settings, clock)
    if found:
        yield _paging(cluster, book, found, clock, may, tenure)
    charts = annotator(settings, clock)
    if charts is not None:
        yield Annotating(charts, clock, cluster, may, tenure).tell


def _paging(
    cluster: str,
    book: SqlLedger,
    found: Sequence[Pager],
    clock: Clock,
    may: Callable[[], bool],
    tenure: Callable[[], int],
) -> Saying:
    """The pagers, kept in step with what stands."""

    def ended(since: datetime) -> Iterable[Alarm]:
        holds = ((hold.key, hold.held_by, hold.pool) for hold in book.ended_holds(since))
        return alarms.over(cluster, holds, clock.now())

    kept = Paging(found, clock, ended, may, tenure)
    return lambda snapshot, state, _: kept.reconcile(alarms.alarms(state, cluster, snapshot.now))


def pagers(settings: Settings, clock: Clock) -> list[Pager]:
    """What wakes people. Raises UsageError for options that cannot be used."""
    found: list[Pager] = []
    for kind, options in (("pagerduty", settings.pagerduty.options), ("alertmanager", settings.alertmanager.options)):
        if options is not None:
            with _usable(kind):
                found.append(connect_pager(kind, options, clock.now))
    return found


def annotator(settings: Settings, clock: Clock) -> Grafana | None:
    """What shows on charts when machines were out; None where nothing is to. Raises as `pagers`."""
    options = settings.grafana.options
    if options is None:
        return None
    with _usable("grafana"):
        return connect_grafana(options, clock.now)


@contextmanager
def _usable(group: str) -> Iterator[None]:
    """Raises UsageError for options of this group of settings that cannot be used."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join([group, *(str(part) for part in first["loc"])])
        raise UsageError(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None


def desks(settings: Settings, clock: Clock) -> Desks | None:
    """Where machines are reported; None where nothing is configured. Raises UsageError for a target's options."""
    tickets = settings.tickets
    if not tickets.chosen:
        return None
    assets = None if tickets.assets is None else Assets(tickets.assets)
    targets = {
        name: target(each.kind, each.options, Context(settings.cluster, clock.now, None, name), assets)
        for name, each in tickets.chosen.items()
    }
    return ManyDesks(targets, tickets.providers, tickets.usual)


def notifier(settings: Settings, clock: Clock) -> Notifier | None:
    """Slack; None where no token or channel is given."""
    slack = settings.slack
    if slack.token is None or slack.channel is None:
        return None
    token = slack.token.get_secret_value()
    return connect_slack(
        token,
        slack.channel,
        cluster=settings.cluster,
        now=clock.now,
        base_url=slack.base_url,
        buttons=slack.listens,
    )


def notices(settings: Settings, clock: Clock) -> SlackNotices | None:
    """Slack, for what concerns no single machine; None as `notifier`."""
    slack = settings.slack
    if slack.token is None or slack.channel is None:
        return None
    token = slack.token.get_secret_value()
    return connect_notices(token, slack.channel, cluster=settings.cluster, now=clock.now, base_url=slack.base_url)
