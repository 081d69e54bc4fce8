"""Schedules of trouble in simulated time: one is made from a seed, or has a name; each gives a row of the table."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import structlog

from quarantine.core.decision import RequestKind
from quarantine.ledger.migrate import upgrade
from quarantine.observe import observer
from tests.chaos.sim_clockwork import Simulation
from tests.chaos.sim_happen import apply
from tests.chaos.sim_ledger import copied
from tests.chaos.sim_outside import Outside
from tests.chaos.sim_process import OneByOne
from tests.chaos.sim_trouble import STATED, WRONGS, Accident, Dependency, Episode, Failure
from tests.chaos.sim_world import HOT, LINKS, NODES
from tests.chaos.table import Row

ON_SQL = 25  # of so many seeds, one runs on the production ledger
MINUTE = 60.0
SUDDEN = (Accident.KILL, Accident.STOP) * 2  # what may meet any line of a cycle is drawn more often


@dataclass(frozen=True)
class Fault:
    """A machine goes bad, and may be well again later. In seconds since the beginning."""

    node: str
    policy: str
    at: float
    heals: float | None = None


@dataclass(frozen=True)
class Schedule:
    """All that happens to a world before it is left alone."""

    what: str
    seed: int
    episodes: tuple[Episode, ...]
    faults: tuple[Fault, ...]
    lasts: float  # seconds
    services: tuple[str, ...] = ()  # nodes on which something runs
    sql: bool = False
    settles: timedelta = timedelta(0)
    asked_back: tuple[tuple[float, str], ...] = ()  # when a person releases a machine

    @property
    def allowed(self) -> int:
        """Cycles to converge: of the slowest, and one for each further that was under way as well."""
        return max(STATED[one.what] for one in self.episodes) + 2 * (len(self.episodes) - 1)


# --- Schedules --------------------------------------------------------------------------------------------------------


def drawn(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = Random(seed)  # noqa: S311  (a story that can be told again)
    lasts = rng.choice([3, 4, 5, 6]) * MINUTE
    episodes = tuple(_episode(rng, lasts) for _ in range(rng.randint(1, 4)))
    names = rng.sample(NODES, k=rng.randint(1, 4))
    faults = tuple(_fault(rng, name, lasts) for name in names)
    healthy = [name for name in NODES if name not in names]
    back = ((rng.uniform(2 * MINUTE, lasts), rng.choice(names)),) if rng.random() < 0.1 else ()
    services = tuple(rng.choices(names + healthy, k=rng.randint(0, 4)))
    settles = timedelta(seconds=rng.choice([0, 0, 30]))
    return Schedule(f"{seed}", seed, episodes, faults, lasts, services, seed % ON_SQL == 0, settles, back)


def _episode(rng: Random, lasts: float) -> Episode:
    begins = rng.uniform(10, lasts - MINUTE)
    span = rng.uniform(15, lasts - begins)
    if rng.random() < 0.5:
        dependency, failure = rng.choice(list(Dependency)), rng.choice([*Failure, Failure.WRONG])
        wrong = rng.choice(WRONGS[dependency]) if failure is Failure.WRONG else ""
        return Episode(dependency, begins, span, failure, wrong, number=rng.randint(0, 20))
    accident, at_effects = rng.choice([*Accident, *SUDDEN]), rng.random() < 0.6
    number = rng.randint(0, 12 if at_effects else 60)
    return Episode(
        accident, begins, max(span, 40.0), which=int(rng.random() < 0.2), number=number, at_effects=at_effects
    )


def _fault(rng: Random, node: str, lasts: float) -> Fault:
    at = rng.uniform(0, lasts * 0.8)
    heals = at + rng.uniform(20, 90) if rng.random() < 0.4 else None
    return Fault(node, rng.choice([HOT, LINKS]), at, heals)


def _pairs() -> Iterator[tuple[str, tuple[Episode, ...]]]:
    for dependency in Dependency:
        for failure in Failure:
            for wrong in WRONGS[dependency] if failure is Failure.WRONG else ("",):
                one = Episode(dependency, 40, 4 * MINUTE, failure, wrong, number=5)
                yield one.said, (one,)
    for accident in Accident:
        # A clock that was set is believed after ten minutes: what is asked then would be of another time.
        clock = accident in (Accident.CLOCK_FORWARD, Accident.CLOCK_BACK)
        yield str(accident), (Episode(accident, 70, (14 if clock else 5) * MINUTE, which=0, number=12),)


_NAMED = dict(_pairs())
NAMES = tuple(_NAMED)


def named(name: str) -> Schedule:
    """The schedule of a name: one failure alone, while machines go bad, before it and shortly before its end too."""
    episodes = _NAMED[name]
    end = max(one.ends for one in episodes)
    faults = (
        Fault("node-0", HOT, 5, heals=50),
        Fault("node-1", HOT, 10),
        Fault("node-2", LINKS, 60),
        Fault("node-4", LINKS, 150),
        Fault("node-6", HOT, end - 30),
    )
    services = ("node-1", "node-2", "node-4", "node-5")
    return Schedule(name, NAMES.index(name), episodes, faults, end + 20, services, settles=timedelta(seconds=30))


# --- Runs -------------------------------------------------------------------------------------------------------------


def run_schedule(seed: int) -> Row:
    """What becomes of the world of a seed. The same seed is the same story."""
    return run(drawn(seed))


def run_named(name: str) -> Row:
    """The same of a name, one of `NAMES`."""
    return run(named(name))


def run(schedule: Schedule) -> Row:
    """Let it happen, leave the world alone, and look."""
    return carried_out(schedule)[0]


def carried_out(schedule: Schedule) -> tuple[Row, Outside]:
    """The same, with all that was seen from outside."""
    alone = patch.object(observer, "ThreadPoolExecutor", OneByOne)
    with alone, _only_defects() as defects, _simulation(schedule) as sim:
        for fault in schedule.faults:
            sim.at(fault.at, partial(sim.breaks, fault.policy, fault.node))
            if fault.heals is not None:
                sim.at(fault.heals, partial(sim.heals, fault.node))
        for at, node in schedule.asked_back:
            sim.at(at, partial(sim.ask, RequestKind.RELEASE, node))
        for name in schedule.services:
            sim.serves(name)
        for episode in schedule.episodes:
            apply(sim, episode)
        sim.advance(schedule.lasts)
        sim.mended()
        cycles = sim.quiet(schedule.allowed)
        sim.outside.at_the_end(sim.books.state())
        return _row(schedule, sim, cycles, defects), sim.outside


def _row(schedule: Schedule, sim: Simulation, cycles: int | None, defects: list[str]) -> Row:
    found, one = sim.outside, schedule.episodes[0]
    alone = len(schedule.episodes) == 1
    notes = [*defects, *found.broken]
    if cycles is None:
        notes.append(sim.unsettled())
    if found.in_flight:
        notes.append(f"{found.in_flight.total()} in flight ({', '.join(found.in_flight)})")
    if found.forgotten:
        notes.append(f"{found.forgotten} rows lost by the failover")
    return Row(
        world="simulated, SQLite" if schedule.sql else "simulated",
        what=schedule.what if not alone or schedule.what.isdigit() else "alone",
        dependency=str(one.what) if alone else f"{len(schedule.episodes)} at once",
        failure=one.said.removeprefix(str(one.what)).strip() if alone else "; ".join(e.said for e in schedule.episodes),
        cycles_to_converge=cycles,
        allowed=schedule.allowed,
        healthy_quarantined=len(found.healthy),
        released_on_absence=len(found.absent),
        lost=len(found.lost) + len(defects),
        doubled=len(found.doubled),
        over_budget=len(found.over),
        stale=len(found.stale),
        note="; ".join(notes),
    )


@contextmanager
def _simulation(schedule: Schedule) -> Iterator[Simulation]:
    rng = Random(f"{schedule.seed} is carried out")  # noqa: S311  (as above)
    if not schedule.sql:
        yield Simulation(rng, settles=schedule.settles)
        return
    with tempfile.TemporaryDirectory(prefix="quarantine-chaos-") as folder:
        path = copied(_migrated(), Path(folder) / "ledger.db")
        with closing(Simulation(rng, path, settles=schedule.settles)) as sim:
            yield sim


@cache
def _migrated() -> Path:
    """A ledger without decisions, once for this process."""
    path = Path(tempfile.mkdtemp(prefix="quarantine-chaos-")) / "migrated.db"
    upgrade(f"sqlite:///{path}")
    return path


@contextmanager
def _only_defects() -> Iterator[list[str]]:
    """Without a word, except of defects of the product, which are kept."""
    defects: list[str] = []

    def keep(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        error = event.get("exc_info")
        defects.append(f"{event['event']} {error!r}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(40), cache_logger_on_first_use=False
    )
    try:
        yield defects
    finally:
        structlog.configure(**before)
