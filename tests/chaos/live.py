"""Live rows: the real program, two of it, through one trouble after another; a group of them has a world of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from quarantine.ledger.migrate import upgrade
from quarantine.sandbox.postgres import PostgresServer
from quarantine.sandbox.prometheus import PrometheusServer
from tests.chaos import live_troubles as troubles
from tests.chaos.live_database import SPELLS, full_disk
from tests.chaos.live_eye import Eye
from tests.chaos.live_stand import KUBERNETES, POSTGRES, PROMETHEUS, SLACK, TICKETS, Stand, stand
from tests.chaos.live_troubles import Trouble
from tests.chaos.table import Row
from tests.chaos.toxic import Kind
from tests.ledger.mishaps import small_disk

DISK_MB = 300
PODS = 3  # on a machine that is drained
CONVERGES_S = 120.0  # at the latest, on a machine that is busy

MARK = troubles.killed("killed at its mark", troubles.marks)
DRAIN = troubles.killed("killed in the middle of a drain", troubles.evicts, pods=PODS)


@dataclass(frozen=True)
class Group:
    """Troubles that one pair goes through, one after the other."""

    name: str
    troubles: tuple[Trouble, ...]
    drain: bool = False
    clocked: bool = False


def _every(dependency: str) -> tuple[Trouble, ...]:
    limits = () if dependency == POSTGRES else (troubles.limited(dependency),)
    return (*(troubles.of(dependency, kind) for kind in Kind), *limits)


AHEAD = troubles.clock(1, "two hours ahead, and back")
LEADING = (MARK, DRAIN, troubles.stopped(), troubles.cut_off(), troubles.both_killed())
FULL = (
    Group("seeing", (*_every(PROMETHEUS), *_every(KUBERNETES))),
    Group("recording", (*_every(POSTGRES), *SPELLS, full_disk())),
    Group("telling", (*_every(TICKETS), *_every(SLACK))),
    Group("leading", (AHEAD, troubles.clock(-1, "two hours behind, and back"), *LEADING), drain=True, clocked=True),
)
SHORT = Group(
    "short",
    (
        troubles.of(PROMETHEUS, Kind.WRONG),
        troubles.of(KUBERNETES, Kind.WRONG),
        troubles.of(KUBERNETES, Kind.LOSSY),
        troubles.of(POSTGRES, Kind.LOSSY),
        troubles.of(SLACK, Kind.LOSSY),
        troubles.limited(TICKETS),
        DRAIN,
        AHEAD,
        troubles.stopped(),
    ),
    drain=True,
    clocked=True,
)


def chosen(groups: Sequence[Group], names: Sequence[str]) -> list[Group]:
    """Those whose troubles' names begin so, without the others; all where there are none."""
    if not names:
        return list(groups)
    kept = (replace(one, troubles=tuple(t for t in one.troubles if t.name.startswith(tuple(names)))) for one in groups)
    return [one for one in kept if one.troubles]


@contextmanager
def servers() -> Iterator[tuple[PrometheusServer, PostgresServer, Path | None]]:
    """What all groups share; and the small disk that the database is on, where one may be made."""
    with ExitStack() as stack:
        disk = Path(gettempdir()) / f"quarantine-chaos-disk-{os.getpid()}"
        room = stack.enter_context(small_disk(disk, DISK_MB))
        prometheus = stack.enter_context(PrometheusServer())
        postgres = stack.enter_context(
            PostgresServer(
                parent=room, wal_level="replica", max_wal_senders="2", max_wal_size="64MB", min_wal_size="32MB"
            )
        )
        upgrade(postgres.database("migrated"))
        yield prometheus, postgres, room


def play(group: Group, made: Stand, eye: Eye) -> Iterator[Row]:
    """One trouble after the other, with a new hot node in each; in the last one two, of which one has to stay."""
    for number, trouble in enumerate(group.troubles, 1):
        yield _row(trouble, made, eye, hot=2 if number == len(group.troubles) else 1)


def _row(trouble: Trouble, made: Stand, eye: Eye, *, hot: int) -> Row:
    note = troubles.passes(trouble, made, eye, hot)
    before, cycles, rests = made.cycles, None, made.rests
    try:
        made.until(lambda: not eye.missing(), "all is done", CONVERGES_S)
    except AssertionError:
        note = "; ".join(one for one in (note, f"not in {CONVERGES_S:.0f} s: {eye.missing()}") if one)
    else:
        cycles = None if note else max(0, made.cycles - before)
    return eye.row(made.seed, trouble.dependency, trouble.failure, cycles, trouble.allowed + rests, note)


def run_live(groups: Sequence[Group], seed: str) -> Iterator[Row]:
    """All of them; each row as it ends. Raises QuarantineError where a server cannot be had."""
    with TemporaryDirectory(prefix="quarantine-chaos-") as folder, ExitStack() as stack:
        home = Path(folder)
        prometheus, postgres, room = stack.enter_context(servers())
        for group in groups:
            own = home / group.name
            own.mkdir()
            with begin(own, group, prometheus, postgres, room, seed) as made:
                yield from play(group, made, Eye(made))


@contextmanager
def begin(
    folder: Path, group: Group, prometheus: PrometheusServer, postgres: PostgresServer, room: Path | None, seed: str
) -> Iterator[Stand]:
    """The world of a group."""
    with stand(
        folder,
        f"chaos-{group.name}",
        prometheus,
        postgres,
        budget=len(group.troubles),
        seed=seed,
        drain=group.drain,
        clocked=group.clocked,
        room=room,
    ) as made:
        yield made
