"""Plays scenarios: the real controller, cycle after cycle in simulated time, on a real Prometheus and the emulator."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from time import monotonic

import structlog

from quarantine.core.case import HeldBy, Phase
from quarantine.core.units import format_duration
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import write
from tests.scenarios.format import Scenario, load
from tests.scenarios.proxy import Proxy
from tests.scenarios.shown import shown
from tests.scenarios.stage import Stage, stage

FIRST = datetime(2024, 1, 1, tzinfo=UTC)
WORKERS = 2
KEPT = {"PATH", "HOME", "TMPDIR", "LANG", "QUARANTINE_SANDBOX_PROMETHEUS"}
APART = timedelta(days=3)  # between two scenarios: no policy looks back so far

# The whole simulated time stays in the head: compacting it would cost more than all the scenarios.
HEAD_ONLY = ("--storage.tsdb.min-block-duration=36500d", "--storage.tsdb.max-block-duration=36500d")


@dataclass
class Played:
    """What became of a scenario."""

    scenario: Scenario
    file: str
    problems: list[str] = field(default_factory=list)  # empty: as it should be
    healthy_out: dict[str, timedelta] = field(default_factory=dict)  # machine → when it was taken out, and is sound
    missed: list[str] = field(default_factory=list)  # faulty machines that were not out in time
    delays: dict[str, timedelta] = field(default_factory=dict)  # of those that were: from the fault to the taint
    seconds: float = 0.0
    told: list[str] = field(default_factory=list)  # the trail, for a failure


def play_all(files: Sequence[Path], *, workers: int = WORKERS) -> list[Played]:
    """All of them, in the order of `files`: each worker plays its share on a Prometheus of its own."""
    shares = [share for n in range(workers) if (share := files[n::workers])]
    # A fresh process each: they set the clock of the composition root, which there is one of.
    with ProcessPoolExecutor(len(shares), mp_context=get_context("spawn")) as pool:
        played = [one for share in pool.map(_share, shares) for one in share]
    by_name = {one.file: one for one in played}
    return [by_name[file.stem] for file in files]


def _share(files: Sequence[Path]) -> list[Played]:
    """Each in a stretch of time that no query of another reaches. In a process that does nothing else."""
    for name in os.environ.keys() - KEPT:  # requests looks through all of them for a proxy, at every question
        del os.environ[name]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with PrometheusServer(flags=HEAD_ONLY) as server:
        return [play(file, server.url, FIRST + number * APART) for number, file in enumerate(files)]


def play(file: Path, prometheus: str, start: datetime) -> Played:
    """One scenario."""
    scenario = load(file)
    began = monotonic()
    played = Played(scenario, file.stem)
    write(prometheus, shown(scenario, start))
    with (
        tempfile.TemporaryDirectory(prefix="scenario-") as folder,
        Proxy(prometheus, needed=any(event.prometheus for event in scenario.events)) as proxy,
        stage(scenario, Path(folder), proxy.url, start) as made,
    ):
        _cycles(made, played, proxy)
        _compare(made, played)
        if played.problems:
            played.told = [
                f"{format_duration(d.at - start)} {d.kind} {d.action} {d.node or ''} {d.policy or ''} "
                f"{d.phase or ''} {d.held_by or ''}: {d.reason}"
                for d in made.trail()
            ]
    played.seconds = monotonic() - began
    return played


def _cycles(made: Stage, played: Played, proxy: Proxy) -> None:
    scenario, waiting = made.scenario, sorted(made.scenario.events, key=lambda event: event.at)
    seen: dict[str, timedelta] = {}
    for when in scenario.cycles:
        made.time.at = made.start + when
        while waiting and waiting[0].at <= when:
            event = waiting.pop(0)
            proxy.mood = event.prometheus or proxy.mood
            made.happens(event)
        made.live()
        report = made.controller.cycle()
        if report.error is not None:
            played.problems.append(f"at {format_duration(when)} {report.error}")
        made.count()
        for node in made.out():
            seen.setdefault(node, when)
        _phases(made, played, when)
    guilty = scenario.guilty
    for node, when in seen.items():
        if node not in guilty or when < guilty[node]:
            played.healthy_out[node] = when
            played.problems.append(f"{node} was taken out at {format_duration(when)}, and is sound")
    for fault in scenario.faults:
        if fault.out_by == "never":
            continue
        out = seen.get(fault.machine)
        if out is None or out > fault.out_by:
            late = "never" if out is None else f"only at {format_duration(out)}"
            played.missed.append(fault.machine)
            played.problems.append(
                f"{fault.machine} was out {late}, and {fault.what} by {format_duration(fault.out_by)}"
            )
        elif fault.machine not in played.delays and out >= fault.begins:
            played.delays[fault.machine] = out - guilty[fault.machine]


def _phases(made: Stage, played: Played, when: timedelta) -> None:
    for node, phases in made.scenario.outcome.phases.items():
        if when not in phases:
            continue
        case = made.open_cases().get(node)
        found: Phase | None = case.phase if case is not None else None
        if found is not phases[when]:
            played.problems.append(
                f"at {format_duration(when)} the case of {node} was {found or 'none'}, not {phases[when] or 'none'}"
            )


def _compare(made: Stage, played: Played) -> None:
    """What must be at the end."""
    wanted = made.scenario.outcome
    held = {decision.held_by for decision in made.trail()}
    played.problems += [f"nothing was held by {by}" for by in wanted.held if HeldBy(by) not in held]
    if wanted.tickets is not None and len(made.tickets()) != wanted.tickets:
        played.problems.append(f"{len(made.tickets())} tickets were filed, not {wanted.tickets}")
    if wanted.evictions is not None and made.evicted != wanted.evictions:
        played.problems.append(f"{made.evicted} pods left, not {wanted.evictions}")
    for node in wanted.clean:
        if found := made.leftovers(node):
            played.problems.append(f"{node} still bears {', '.join(found)}")
