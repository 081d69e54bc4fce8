"""An episode as it begins and ends in a world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from tests.chaos.sim_clockwork import Simulation
from tests.chaos.sim_trouble import Accident, Dependency, Episode
from tests.chaos.sim_world import NODES, fleet

JUMPS = (2, 11, 60, 60 * 26, 60 * 24 * 3)  # minutes, by which a clock is set
ZERO = timedelta(0)
BACKUP_BEFORE = 25.0  # seconds before a failover: what was committed later is lost


def apply(sim: Simulation, episode: Episode) -> None:
    """Put it on the agenda."""
    if episode.what is Accident.FAILOVER or episode.wrong == "failover":
        sim.at(max(0.0, episode.begins + episode.number - BACKUP_BEFORE), sim.books.back_up)
        sim.at(episode.begins + episode.number + 1, sim.fail_over)
        return
    begins, ends = _of_a_dependency(sim, episode) if isinstance(episode.what, Dependency) else _accident(sim, episode)
    sim.at(episode.begins, begins)
    sim.at(episode.ends, ends)


Happens = Callable[[], None]


def _of_a_dependency(sim: Simulation, episode: Episode) -> tuple[Happens, Happens]:
    if episode.what is Dependency.LEASE and episode.wrong:
        return partial(_tamper, sim, episode.wrong), _nothing
    return partial(sim.standing.append, episode), partial(_over, sim, episode)


def _over(sim: Simulation, episode: Episode) -> None:
    if episode in sim.standing:
        sim.standing.remove(episode)


def _nothing() -> None: ...


def _tamper(sim: Simulation, how: str) -> None:
    """Somebody writes to the Lease by hand."""
    server = sim.leases
    match how:
        case "deleted":
            server.held = None
        case "emptied":
            server.change(holder="")
        case "given away":
            server.change(holder="somebody")
        case _:
            server.change(at=sim.true_now - timedelta(hours=1), transitions=0)


def _accident(sim: Simulation, episode: Episode) -> tuple[Happens, Happens]:
    what = episode.what
    assert isinstance(what, Accident)
    names = [NODES[(episode.number + n) % len(NODES)] for n in range(1 + episode.number % 3)]
    span, put = timedelta(minutes=JUMPS[episode.number % len(JUMPS)]), partial(setattr, sim)
    pairs: dict[Accident, tuple[Happens, Happens]] = {
        Accident.KILL: (partial(_kill, sim, episode), _nothing),
        Accident.STOP: (partial(_stop, sim, episode), _nothing),
        Accident.CLOCK_FORWARD: (partial(_set, sim, episode.which, span), partial(_set, sim, episode.which, ZERO)),
        Accident.CLOCK_BACK: (partial(_set, sim, episode.which, -span), partial(_set, sim, episode.which, ZERO)),
        Accident.DISK_FULL: (partial(put, "disk_full", True), partial(put, "disk_full", False)),
        Accident.CUT: (partial(put, "cut", True), partial(put, "cut", False)),
        Accident.CHURN: (partial(_leave, sim, names), partial(_join, sim, names)),
        Accident.BROKEN_POLICY: (sim.rulebook.tear, sim.rulebook.mend),
        Accident.EXPORTERS_HEALTHY: (partial(_dark, sim, bad=False), partial(sim.darken, ())),
        Accident.EXPORTERS_BAD: (partial(_dark, sim, bad=True), partial(sim.darken, ())),
    }
    return pairs[what]


def _kill(sim: Simulation, episode: Episode) -> None:
    process = sim.processes[episode.which]
    process.kill_in, process.at_effects = episode.number, episode.at_effects


def _stop(sim: Simulation, episode: Episode) -> None:
    process = sim.processes[episode.which]
    process.stop_in, process.stop_for, process.at_effects = episode.number, episode.lasts, episode.at_effects


def _set(sim: Simulation, which: int, to: timedelta) -> None:
    sim.skew[which] = to


def _dark(sim: Simulation, *, bad: bool) -> None:
    sim.darken([name for name in NODES if sim.is_bad(name) is bad])


def _leave(sim: Simulation, names: list[str]) -> None:
    for name in names:
        sim.kube.held.pop(name, None)


def _join(sim: Simulation, names: list[str]) -> None:
    """The same machines, as new objects."""
    for name in names:
        if name not in sim.kube.held:
            made = fleet()[name]
            uid = f"{made.machine.node_uid}-{sim.seconds:.0f}"
            sim.kube.create(replace(made, machine=replace(made.machine, node_uid=uid), created_at=sim.true_now))
