"""`quarantine run` and `quarantine plan`: the cycle for good, once, or only in words."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
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
from quarantine.core.model import Mode
from quarantine.scheduler import CycleTimer

if TYPE_CHECKING:
    from quarantine.controller import CycleReport
    from quarantine.core.law import Law
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
    with app.parts(given, watch=not once, acts=True) as parts:
        controller = app.controller(parts)
        log = structlog.get_logger()
        count = len(parts.law.rules.policies)
        log.info("running", version=app.AGENT, mode=str(given.mode), cluster=given.cluster, policies=count)
        if once:
            report = controller.cycle()
            if not report.complete:
                raise fail(report.trouble, Exit.DEPENDENCY)
            return
        with ExitStack() as stack:
            metrics = _served(given, parts.law, stack)

            def cycle() -> CycleReport:
                report = controller.cycle()
                metrics.after(report)
                return report

            timer = CycleTimer(cycle, given.cycle.interval, parts.ledger.waiting)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: timer.stop())
            if not timer.run():
                log.error("stopped although a cycle has not ended; what it began is looked up at the next start")
                os._exit(Exit.DEPENDENCY)  # a thread that hangs in a driver would keep the process for good
        log.info("stopped after the running cycle, as asked")


def _served(given: Settings, law: Law, stack: ExitStack) -> OwnMetrics:
    """The controller's own metrics, served until the stack is closed where the settings say so."""
    from quarantine.metrics import OwnMetrics, served
    from quarantine.settings import listen_address

    metrics = OwnMetrics(law)
    if given.metrics.listen:
        stack.enter_context(served(metrics, *listen_address(given.metrics.listen)))
        structlog.get_logger().info("serving metrics", listen=given.metrics.listen)
    return metrics


@friendly
def plan(
    config: Config = None,
    database_url: DatabaseUrl = None,
    mode: ModeOption = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """What the controller would decide now, and why. Changes nothing."""
    from quarantine import app

    given = settings(config, database_url, mode=mode)
    set_up_logging("error", given.log.format)
    with app.parts(given, watch=False, acts=False) as parts:
        view = parts.ledger.load()
        snapshot = parts.observer.snapshot(view, cluster=given.cluster, mode=given.mode, actor=app.ACTOR)
        made = parts.law.plan(snapshot)
        render.plan(made, output)
        blind = blind_spots(snapshot)
        if blind:
            raise fail("; ".join(blind), Exit.DEPENDENCY)
