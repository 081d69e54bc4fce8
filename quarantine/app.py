"""The composition root: it knows the adapters, and wires them to the ports by the settings.

Whom the controller tells is wired in `outward`.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import structlog

from quarantine import __version__, outward
from quarantine.adapters.clock import SteadyClock
from quarantine.adapters.commands import Commands
from quarantine.adapters.elsewhere import Elsewhere
from quarantine.adapters.heartbeat import Heartbeat
from quarantine.adapters.kube import KubeCluster, KubeSettings
from quarantine.adapters.kube import Pace as KubePace
from quarantine.adapters.kube import connect as connect_kube
from quarantine.adapters.kube.config import own_namespace
from quarantine.adapters.procedures import EachItsOwn
from quarantine.adapters.prometheus import PrometheusMetrics
from quarantine.charts import Format, render, require
from quarantine.controller import Controller
from quarantine.core.errors import UsageError
from quarantine.core.law import Law
from quarantine.core.model import Mode
from quarantine.core.policy import Rules
from quarantine.execute import Executor
from quarantine.execute.pictures import Draw
from quarantine.leadership import Leadership, Terms
from quarantine.ledger import migrate
from quarantine.ledger.absent import AbsentArchive, AbsentLedger, missing_file
from quarantine.ledger.archive import SqlArchive, open_archive
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.url import is_sqlite, parse_url
from quarantine.notices import Teller
from quarantine.observe import Observer, Pace
from quarantine.observe.tickets import Follower
from quarantine.ports import Procedures
from quarantine.rulebook import PolicyFiles
from quarantine.settings import Settings

AGENT = f"quarantine/{__version__}"
ACTOR = f"controller {__version__}"


CLOCK = SteadyClock()


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a command may need, connected lazily enough that nothing is asked before it is used."""

    settings: Settings
    rulebook: PolicyFiles
    law: Law  # as of now
    cluster: KubeCluster
    metrics: PrometheusMetrics
    ledger: SqlLedger | AbsentLedger
    observer: Observer
    procedures: Procedures

    @property
    def rules(self) -> Rules:
        """Of `law`."""
        return self.law.rules


def rulebook(settings: Settings, book: SqlLedger | AbsentLedger) -> PolicyFiles:
    """The policies, signals and fleet: of each file what is on disk, or what was accepted last."""
    prefix = settings.kubernetes.prefix
    return PolicyFiles(settings.policies, prefix=prefix, now=CLOCK.now, accepted=book.rule_files)


def ledger(settings: Settings) -> SqlLedger:
    """The ledger, to write. The embedded SQLite default is made or migrated; any other must have been."""
    url = settings.database_url.get_secret_value()
    if is_sqlite(parse_url(url)):
        migrate.upgrade(url)
    else:
        migrate.check(url)
    return open_ledger(url, settings.cluster, now=CLOCK.now)


def reader(settings: Settings) -> SqlLedger | AbsentLedger:
    """The ledger, to look at: nothing is made or migrated by it."""
    url = settings.database_url.get_secret_value()
    missing = missing_file(url)
    if missing is not None:
        return AbsentLedger(missing)
    migrate.check(url)
    return open_ledger(url, settings.cluster, now=CLOCK.now)


def archive(settings: Settings) -> SqlArchive | AbsentArchive:
    """All clusters of the ledger, to look at; as `reader`."""
    url = settings.database_url.get_secret_value()
    missing = missing_file(url)
    if missing is not None:
        return AbsentArchive(missing)
    migrate.check(url)
    return open_archive(url)


@contextmanager
def parts(settings: Settings, *, watch: bool, acts: bool) -> Iterator[Parts]:
    """All parts but those that act; closed at the end.

    `watch`: keep nodes by a watch, or list them at each look. `acts`: the ledger is there to be written. Raises
    PolicyFaults where no sound Fleet was ever seen; any other fault of the files is in `law`.
    """
    with ExitStack() as stack:
        book: SqlLedger | AbsentLedger = ledger(settings) if acts else reader(settings)
        stack.enter_context(book)
        files = rulebook(settings, book)
        law = Law.of(files.read(), book.policy_runs(), settings.cycle.settle)
        kube = settings.kubernetes
        cluster = stack.enter_context(
            connect_kube(
                kubeconfig=kube.kubeconfig,
                context=kube.context,
                api_timeout=kube.timeout,
                prefix=kube.prefix,
                user_agent=AGENT,
                settings=KubeSettings(
                    watch=watch,
                    stale_after=kube.stale_after,
                    annotations=frozenset({*law.rules.fleet.maintenance.annotations, *law.rules.fleet.guards}),
                    pace=KubePace(relist_every=kube.relist),
                ),
                now=CLOCK.now,
            )
        )
        metrics = stack.enter_context(PrometheusMetrics(settings.prometheus.connection(CLOCK.now)))
        pace = Pace(
            deadline=settings.cycle.deadline,
            query_timeout=settings.prometheus.timeout,
            coverage_interval=settings.cycle.coverage_interval,
            delay=settings.prometheus.delay,
        )
        runners = EachItsOwn(cluster.jobs, stack.enter_context(commands(settings, acts=acts and watch)))
        observer = Observer(cluster, metrics, CLOCK, law.rules, pace, runners, metrics)
        yield Parts(settings, files, law, cluster, metrics, book, observer, runners)


def controller(made: Parts) -> Controller:
    """The cycle over these parts, which act. Raises UsageError where enforcing would be unsafe."""
    settings, book = made.settings, made.ledger
    if isinstance(book, AbsentLedger):
        raise UsageError(f"there is no ledger at {book.path}, and without its record nothing is done")
    if settings.mode is Mode.ENFORCE and made.ledger.embedded and made.cluster.in_cluster:
        raise UsageError(
            "mode enforce on SQLite inside a cluster is refused, since a lost pod would lose the record of what was "
            "taken out: set database_url to a Postgres, or mode to observe"
        )
    told, chat, draw = outward.desks(settings, CLOCK), outward.notifier(settings, CLOCK), drawing()
    made.observer.follower = None if told is None else Follower(told, CLOCK)
    executor = Executor(made.cluster, book, told, chat, CLOCK, made.rules, made.procedures, draw)

    def may() -> bool:
        return not executor.barred()

    def tenure() -> int:
        return executor.tenure

    return Controller(
        observer=made.observer,
        executor=executor,
        ledger=book,
        rulebook=made.rulebook,
        teller=Teller(outward.notices(settings, CLOCK), CLOCK, settings.cluster, may, tenure),
        cluster=settings.cluster,
        mode=settings.mode,
        actor=ACTOR,
        # A container that starts again has the same name and number; a term has one holder.
        holder=f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}",
        settle=settings.cycle.settle,
        outward=tuple(outward.sayings(settings, book, chat, draw, CLOCK, may, tenure)),
    )


def heart(settings: Settings) -> Heartbeat | None:
    """Who hears that the controller lives; to be closed. None where nobody is to."""
    url = settings.heartbeat.url
    return None if url is None else Heartbeat(url.get_secret_value(), CLOCK.now, every=settings.heartbeat.every)


def leadership(made: Parts, holder: str) -> Leadership | None:
    """Which replica acts; to be started and stopped. None where this process needs nobody's leave."""
    leader = made.settings.leader
    if not (made.cluster.in_cluster if leader.elect is None else leader.elect):
        return None
    lease = made.cluster.lease(leader.namespace or own_namespace(), leader.name)
    terms = Terms(leader.lasts, leader.renew_within, leader.every)
    return Leadership(lease, holder, CLOCK.now, terms=terms)


def drawing() -> Draw | None:
    """What draws charts for tickets and Slack; None where matplotlib is not installed."""
    try:
        require()
    except UsageError as error:
        structlog.get_logger().info(f"tickets and messages go without charts: {error}")
        return None
    return lambda data: render(data, Format.PNG)


@contextmanager
def commands(settings: Settings, *, acts: bool) -> Iterator[Procedures | None]:
    """What runs procedures that are commands; None where the settings let none run. Those that run end with it.

    `acts`: this process stays to see them end.
    """
    if not acts:
        yield Elsewhere()
    elif not settings.procedures.commands:
        yield None
    else:
        with closing(Commands(now=CLOCK.now)) as runner:
            yield runner
