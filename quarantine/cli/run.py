"""`quarantine run` and `quarantine plan`: the cycle for good, once, or only in words."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from quarantine.cli import render
from quarantine.cli.options import (
    Config,
    DatabaseUrl,
    Exit,
    Output,
    OutputFormat,
    fail,
    friendly,
    set_up_logging,
    settings,
)
from quarantine.controller import blind_spots
from quarantine.core.errors import LedgerUnavailable, Refused, Superseded, Unavailable
from quarantine.core.model import Mode
from quarantine.scheduler import CycleTimer
from quarantine.trouble import Trouble

if TYPE_CHECKING:
    from quarantine.app import Parts
    from quarantine.controller import Controller, CycleReport
    from quarantine.health import Health
    from quarantine.metrics import OwnMetrics
    from quarantine.settings import Settings

ModeOption = Annotated[
    Mode | None, typer.Option("--mode", help="observe or enforce; overrides the settings' mode.", show_default=False)
]


@friendly
def run(
    config: Config = None,
    database_url: DatabaseUrl = None,
    mode: ModeOption = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="One cycle, then exit: 0 if every dependency answered. Takes over: a controller that runs stops.",
        ),
    ] = False,
) -> None:
    """Run the controller: observe, judge, plan and act, every cycle, until stopped."""
    from quarantine import app

    given = settings(config, database_url, mode=mode)
    set_up_logging(given.log.level, given.log.format)
    log = structlog.get_logger()
    if once:
        with app.parts(given, watch=False, acts=True) as parts:
            report = _controller(parts).cycle()
        if not report.complete:
            raise fail(report.trouble, Exit.DEPENDENCY)
        return
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        metrics, health = _served(given, stack)
        found = _connected(given, metrics, health, stack, stop)
        if found is None:
            log.info("stopped before it could begin, as asked")
            return
        timer = _timer(found, metrics, health, stack)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: timer.stop())
        if stop.is_set():
            timer.stop()
        if not timer.run():
            log.error("stopped although a cycle has not ended; what it began is looked up at the next start")
            os._exit(Exit.DEPENDENCY)  # a thread that hangs in a driver would keep the process for good
    log.info("stopped after the running cycle, as asked")


def _timer(found: Parts, metrics: OwnMetrics, health: Health, stack: ExitStack) -> CycleTimer:
    """The cycle on its timer, with whoever wakes it and whom it tells, until the stack is closed. It is not begun."""
    from quarantine import app
    from quarantine.listening import listening

    given, controller = found.settings, _controller(found)
    metrics.begun(found.law)
    heart, leadership = app.heart(given), app.leadership(found, controller.holder)
    if heart is not None:
        stack.enter_context(heart)
    won = 0
    if leadership is not None:
        controller.executor.leads = leadership.leads

    def cycle() -> CycleReport | None:
        nonlocal won
        if leadership is not None and leadership.won != won:
            controller.step_down()  # it may have been another's since the last cycle
            try:
                found.cluster.refresh()
            except (Unavailable, Refused) as error:
                health.waiting(f"this process leads, and cannot see the nodes yet: {error}")
                return None
            won = leadership.won
        try:
            report = controller.cycle() if leadership is None or leadership.leads() else None
        except Superseded:
            if leadership is None or leadership.leads():
                raise
            report = None  # paused in the middle, for longer than the Lease lasts: the term is its successor's by now
        if report is not None and not (report.ceded and report.at is None):
            health.after(report)
            metrics.after(report)
        if leadership is not None and (report is None or report.ceded):
            controller.step_down()
            controller.keep_up()
            health.standby(leadership.leader)
            metrics.standby()
            return report
        if heart is not None and health.ready().good:
            heart.beat()
        return report

    timer = CycleTimer(cycle, given.cycle.interval, found.ledger.waiting)
    if leadership is not None:
        leadership.on_lead = timer.wake
        stack.enter_context(leadership)
    rules = partial(getattr, controller.executor, "rules")
    follower = controller.observer.follower
    stack.enter_context(listening(given, found.ledger, rules, follower, app.CLOCK.now, wake=timer.wake))
    return timer


def _controller(parts: Parts) -> Controller:
    from quarantine import app

    made, given = app.controller(parts), parts.settings
    count = len(parts.law.rules.policies)
    log = structlog.get_logger()
    log.info("running", version=app.AGENT, mode=str(given.mode), cluster=given.cluster, policies=count)
    return made


def _connected(
    given: Settings, metrics: OwnMetrics, health: Health, stack: ExitStack, stop: threading.Event
) -> Parts | None:
    """All parts. A database server that is not there yet is waited for; None where that was stopped.

    A file is not: it is there at once or there is a mistake.
    """
    from quarantine import app
    from quarantine.ledger.url import is_sqlite, parse_url

    trouble = Trouble()
    while not stop.is_set():
        try:
            parts = stack.enter_context(app.parts(given, watch=True, acts=True))
        except LedgerUnavailable as error:
            if is_sqlite(parse_url(given.database_url.get_secret_value())):
                raise
            metrics.without_ledger()
            health.waiting(str(error))
            trouble.failed(f"nothing is begun yet: {error}")
            stop.wait(given.cycle.interval.total_seconds())
        else:
            trouble.ended()
            return parts
    return None


def _served(given: Settings, stack: ExitStack) -> tuple[OwnMetrics, Health]:
    """The controller's own metrics and health, served until the stack is closed where the settings say so."""
    from prometheus_client import CollectorRegistry, ProcessCollector

    from quarantine.health import Health
    from quarantine.metrics import OwnMetrics
    from quarantine.serving import served
    from quarantine.settings import listen_address

    registry = CollectorRegistry()
    metrics = OwnMetrics(interval=given.cycle.interval)
    health = Health(given.cycle.interval, given.cycle.deadline)
    registry.register(metrics)
    ProcessCollector(registry=registry)  # memory, descriptors, processor time, and since when
    if given.metrics.listen:
        stack.enter_context(served(registry, health, *listen_address(given.metrics.listen)))
        structlog.get_logger().info("serving metrics", listen=given.metrics.listen)
    return metrics, health


@friendly
def plan(
    config: Config = None,
    database_url: DatabaseUrl = None,
    mode: ModeOption = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """What the controller would decide now, and why. Changes nothing."""
    from quarantine import app
    from quarantine.core.law import without_records

    given = settings(config, database_url, mode=mode)
    set_up_logging("error", given.log.format)
    with app.parts(given, watch=False, acts=False) as parts:
        view = parts.ledger.load()
        snapshot = parts.observer.snapshot(view, cluster=given.cluster, mode=given.mode, actor=app.ACTOR)
        render.plan(without_records(parts.law.plan(snapshot)), output)
        blind = blind_spots(snapshot)
        if blind:
            raise fail("; ".join(blind), Exit.DEPENDENCY)
