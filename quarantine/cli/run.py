"""`quarantine run` and `quarantine plan`: the cycle for good, once, or only in words."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, NoReturn

import structlog
import typer

from quarantine.blindspots import blind_spots
from quarantine.cli import render
from quarantine.cli.options import (
    Config,
    DatabaseUrl,
    Exit,
    Output,
    OutputFormat,
    ending_in_the_log,
    fail,
    friendly,
    set_up_logging,
    settings,
)
from quarantine.core.errors import LedgerUnavailable, QuarantineError
from quarantine.core.model import Mode
from quarantine.scheduler import LEAVE_S, CycleTimer
from quarantine.trouble import Trouble

if TYPE_CHECKING:
    from quarantine.app import Parts
    from quarantine.controller import Controller
    from quarantine.health import Health
    from quarantine.metrics import OwnMetrics
    from quarantine.settings import Settings

ModeOption = Annotated[
    Mode | None, typer.Option("--mode", help="observe or enforce; overrides the settings' mode.", show_default=False)
]

_STOPS = (signal.SIGTERM, signal.SIGINT)


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
    given = settings(config, database_url, mode=mode)
    set_up_logging(given.log.level, given.log.format, given)
    with ending_in_the_log():
        _run(given, once=once)


def _run(given: Settings, *, once: bool) -> None:
    """Once, or until it is asked to stop. Raises typer.Exit, and what ends it."""
    from quarantine import app, logs

    log = structlog.get_logger()
    if once:
        with app.parts(given, watch=False, acts=True) as parts:
            report = _controller(parts).cycle()
        if not report.complete:
            raise QuarantineError(report.trouble)
        return
    stop = threading.Event()
    stops = [stop.set]
    _asked_to_stop(stops)
    with ExitStack() as stack:
        stack.callback(_deaf, stop)
        stack.enter_context(logs.of_a_process())
        metrics, health = _served(given, stack)
        found = _connected(given, metrics, health, stack, stop)
        if found is None:
            log.info("stopped before it could begin, as asked")
            return
        controller = _controller(found)
        timer = _timer(found, controller, metrics, health, stack)
        stops.append(timer.stop)
        if stop.is_set():
            timer.stop()
        ended = timer.run()
        if not ended and controller.acts:  # whether it was done is not known: the Lease is kept until it runs out
            log.error("stopped although an action has not ended; what became of it is looked up at the next start")
            os._exit(Exit.DEPENDENCY)  # a thread that hangs in a driver would keep the process for good
    if not ended:
        log.warning("stopped while the running cycle waited for an answer; it had begun nothing")
        os._exit(Exit.DONE)  # as above
    log.info("stopped after the running step, as asked")


def _asked_to_stop(stops: Sequence[Callable[[], None]]) -> None:
    """Call all of `stops` at SIGTERM or SIGINT. Whatever hangs then, the process ends before Kubernetes kills it.

    The handlers do nothing: they interrupt the main thread wherever it is, and it may hold the lock that they need.
    Python writes the signal's number to a pipe, even while the main thread is in C, and a thread of its own reads it.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_see_off, args=(reading, stops), name="leave", daemon=True).start()
    for number in _STOPS:
        signal.signal(number, lambda *_: None)


def _deaf(stop: threading.Event) -> None:
    """Once it was asked to stop and all is closed: Python's handlers go before the process does, and one more signal
    would kill it. Not sooner, or a program that is begun would be deaf as well.
    """
    if stop.is_set():
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)


def _see_off(signals: int, stops: Sequence[Callable[[], None]]) -> None:
    """Wait for a signal, read from that descriptor, and then for the process to end."""
    while os.read(signals, 1)[0] not in _STOPS:
        pass
    for stop in stops:
        stop()
    time.sleep(LEAVE_S)
    _leave()


def _leave() -> NoReturn:
    said = "stopped although not all was put in order: something does not answer"
    last_word = threading.Thread(target=structlog.get_logger().error, args=(said,), daemon=True)
    last_word.start()
    last_word.join(1.0)  # whoever reads the log may be what does not answer
    os._exit(Exit.DEPENDENCY)


def _timer(found: Parts, controller: Controller, metrics: OwnMetrics, health: Health, stack: ExitStack) -> CycleTimer:
    """The cycle on its timer, with whoever wakes it and whom it tells, until the stack is closed. It is not begun."""
    from quarantine import app
    from quarantine.listening import listening
    from quarantine.turns import Turns

    given = found.settings
    metrics.begun(found.law)
    heart, leadership = app.heart(given), app.leadership(found, controller.holder)
    if heart is not None:
        stack.enter_context(heart)
    if leadership is not None:
        controller.executor.leads = leadership.leads
    turns = Turns(controller, found.cluster.refresh, metrics, health, leadership, heart)
    timer = CycleTimer(turns.cycle, given.cycle.interval, found.ledger.waiting)
    controller.executor.stopping = timer.is_stopping
    timer.on_stop = found.metrics.close  # nothing is decided any more on what it would answer
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
    from quarantine import app, whose
    from quarantine.core.law import without_records

    given = settings(config, database_url, mode=mode)
    set_up_logging("error", given.log.format, given)
    with app.parts(given, watch=False, acts=False) as parts:
        whose.require_same(parts.cluster, parts.ledger)
        view = parts.ledger.load()
        snapshot = parts.observer.snapshot(view, cluster=given.cluster, mode=given.mode, actor=app.ACTOR)
        render.plan(without_records(parts.law.plan(snapshot)), output)
        blind = blind_spots(snapshot)
        if blind:
            raise fail("; ".join(blind), Exit.DEPENDENCY)
