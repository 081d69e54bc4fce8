"""The soak itself: the controller as `quarantine run` builds it, cycle after cycle in simulated time, and measured."""

from __future__ import annotations

import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import patch

from quarantine import app
from quarantine.cli import run as production
from quarantine.cli.options import set_up_logging
from quarantine.controller import CycleReport
from quarantine.core.state import FINDING_MEMORY
from quarantine.sandbox.ports_free import free_port
from quarantine.settings import load
from tests.soak.measure import Reading, Readings, held
from tests.soak.process import live
from tests.soak.world import Size

START = datetime(2026, 1, 5, tzinfo=UTC)
SETTLED_S = 3.0  # within which threads that have done their work are gone
TICK = "100ms"  # of the real timer: shorter than a cycle, so that one follows the other
MOST_LINES = 30  # of code, that a trace tells of
PER_QUESTION = "prometheus-query"  # the name of the threads that put one question, and end


@dataclass(frozen=True)
class Plan:
    """How long a soak is, and how large."""

    cycles: int
    size: Size
    step: timedelta  # of simulated time, from cycle to cycle
    period: int  # cycles between two leaps of the clock
    warm: int  # cycles of the warm-up
    every: int = 20  # cycles between two readings
    trace: bool = False


@dataclass
class Soaked:
    """What came of it."""

    plan: Plan
    readings: list[Reading] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # that each cycle took
    troubles: dict[str, int] = field(default_factory=dict)  # outcome of a cycle → how many
    errors: list[str] = field(default_factory=list)  # what ended a cycle early
    unforeseen: list[str] = field(default_factory=list)
    grown: list[str] = field(default_factory=list)  # with `trace`: where memory was taken meanwhile


@dataclass
class _Clock:
    at: datetime

    def now(self) -> datetime:
        return self.at


class _Outside:
    """The world's process, as this one talks to it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def ask(self, word: str, given: object = None) -> Any:
        """One word, and its answer."""
        self._pipe.send((word, given))
        return self._pipe.recv()


@contextmanager
def _world(folder: Path, size: Size) -> Iterator[tuple[_Outside, dict[str, Any], dict[str, str]]]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=live, args=(theirs, folder, size, START), name="soak-world")
    process.start()
    theirs.close()
    try:
        settings, secrets = ours.recv()
        yield _Outside(ours), settings, secrets
    finally:
        ours.close()
        process.join(30)
        if process.is_alive():
            process.kill()
            process.join()


def soak(
    plan: Plan, folder: Path, said: Callable[[Reading], None] = lambda _: None, readings: Path | None = None
) -> Soaked:
    """Run it. `said` hears of each reading, and `readings` is where they are written down.

    Raises QuarantineError where a server cannot be had.
    """
    done = Soaked(plan)
    clock = _Clock(START)
    with ExitStack() as stack:
        outside, settings, secrets = stack.enter_context(_world(folder, plan.size))
        settings["cycle"] |= {"interval": TICK}
        listen = settings["metrics"] = {"listen": f"127.0.0.1:{free_port()}"}
        (folder / "quarantine.yaml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        given = load(folder / "quarantine.yaml", {}, secrets)
        set_up_logging("error", "json")
        stack.enter_context(patch.object(app, "CLOCK", clock))
        metrics, health = production._served(given, stack)
        parts = production._connected(given, metrics, health, stack, threading.Event())
        assert parts is not None
        controller = production._controller(parts)
        timer = production._timer(parts, controller, metrics, health, stack)
        kept, metrics_url = Readings(readings or folder / "readings.jsonl"), f"http://{listen['listen']}/metrics"
        cycle, turn = timer._cycle, _Turn(plan, done, kept, clock, outside, metrics_url, said)

        def next_cycle() -> None:
            if turn.over:
                timer.stop()
                return
            if turn.begun or cycle() is not None:  # who has no Lease yet waits for it
                turn.take(cycle)

        timer._cycle = next_cycle
        if not timer.run():
            raise RuntimeError("the last cycle did not end")
        done.unforeseen = outside.ask("unforeseen")
        done.readings = kept.all()
    return done


class _Turn:
    """One cycle after the other, each at its moment, and a reading now and then."""

    def __init__(
        self,
        plan: Plan,
        done: Soaked,
        kept: Readings,
        clock: _Clock,
        outside: _Outside,
        metrics: str,
        said: Callable[[Reading], None],
    ) -> None:
        self._plan, self._done, self._kept, self._clock, self._outside = plan, done, kept, clock, outside
        self._metrics, self._said = metrics, said
        self._number = 0
        self._report: CycleReport | None = None
        self._before: tracemalloc.Snapshot | None = None

    @property
    def begun(self) -> bool:
        return self._number > 0

    @property
    def over(self) -> bool:
        return self._number >= self._plan.cycles

    def take(self, cycle: Callable[[], Any]) -> None:
        """Move the clock, let the world move, and run the production's cycle."""
        plan = self._plan
        self._number += 1
        if self._number % plan.period == 0:
            # What ended within one period is forgotten within the next, as fast as more comes: after the first one as
            # much is remembered at any time.
            self._clock.at += FINDING_MEMORY - plan.period * plan.step
        self._clock.at += plan.step
        self._outside.ask("tick", self._clock.at)
        began = monotonic()
        report = cycle()
        self._done.seconds.append(monotonic() - began)
        self._count(report)
        if self._number % plan.every == 0:
            self._read()

    def _count(self, report: CycleReport | None) -> None:
        outcome = "waited" if report is None else "failed" if report.error is not None else "ended"
        self._done.troubles[outcome] = self._done.troubles.get(outcome, 0) + 1
        if report is not None and report.error is not None:
            self._done.errors.append(f"cycle {self._number}: {report.error}")
        self._report = report if report is not None and report.state is not None else self._report

    def _read(self) -> None:
        state = self._report.state if self._report is not None else None
        cases = list(state.cases.values()) if state is not None else []
        more = self._outside.ask("count", self._metrics)
        opened, known = sum(case.open for case in cases), len(cases)
        del state, cases
        self._report = None
        _settle()
        took = tuple(self._done.seconds[-self._plan.every :])
        reading = held(self._number, open_cases=opened, remembered=known, seconds=took, **more)
        self._kept.add(reading)
        self._said(reading)
        if self._plan.trace:
            self._trace()

    def _trace(self) -> None:
        """What is held since the first reading after the warm-up, and was not before."""
        if self._number < self._plan.warm:
            return
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        else:
            now = tracemalloc.take_snapshot()
            self._before = self._before or now
            self._done.grown = [str(one) for one in now.compare_to(self._before, "lineno")[:MOST_LINES]]


def _settle() -> None:
    """Threads that put a question are told to end before they have."""
    until = monotonic() + SETTLED_S
    while monotonic() < until:
        mine = [thread for thread in threading.enumerate() if thread.name == PER_QUESTION]
        if not mine:
            return
        for thread in mine:
            thread.join(max(0.0, until - monotonic()))
