"""Whether the trail is what was written: every row against its hash, its predecessor, its columns and the head.

What the database says is read, and nothing is asked of it: it computes no hash for us, since its owner may be whom we
ask about. An owner can still write a whole chain anew; that is what checkpoints find, which are kept elsewhere.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Engine, func, select

from quarantine.ledger import revision
from quarantine.ledger.chain import GENESIS
from quarantine.ledger.checkpoint import Checkpoint, contradiction
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import clusters, decisions
from quarantine.ledger.trail import Head, head_of
from quarantine.ledger.walk import Broken, Named, Stretch, Walked, walk

__all__ = ["Broken", "Sound", "known_clusters", "usable_cpus", "verify"]

STRETCH = 20_000  # rows that one process takes at a time
WORTH_IT = 40_000  # rows from which on several processes are worth their start
MOST = 4  # processes: each holds a page of rows, and the database has other work

Progress = Callable[[int, int], object]  # rows that are sound so far, and of how many


@dataclass(frozen=True, slots=True)
class Sound:
    """Every row is what was written. `hash` is the head's: kept elsewhere, it shows later that none was rewritten."""

    count: int
    hash: str
    versions: tuple[Named, ...] = field(default=(), compare=False, repr=False)  # that came into force, in that order


def verify(
    engine: Engine,
    cluster: str,
    *,
    checkpoints: Sequence[Checkpoint] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Sound | Broken:
    """Walk the trail of a cluster as it stands now, in bounded memory.

    `checkpoints` are this cluster's: the trail must begin with what they saw. `workers`: processes to share a long
    trail between. Raises LedgerUnavailable, SchemaMismatch.
    """
    head, first, newest = _ends(engine, cluster)
    if first is not None and first < 1:
        return Broken(first, "stands before the first row")
    versions: list[Named] = []
    last = _follow(engine, cluster, head, versions, workers=workers, progress=progress)
    if isinstance(last, Broken):
        return last
    if last.hash != head.hash:
        return Broken(last.seq, "is not the row that the head of the chain names")
    if newest is not None and newest > head.seq:
        return Broken(head.seq + 1, f"stands behind the head of the chain, which is row {head.seq}")
    return contradiction(engine, head, checkpoints) or Sound(last.seq, last.hash, tuple(versions))


def known_clusters(engine: Engine) -> list[str]:
    """Those that have a trail or a head, by name. Raises LedgerUnavailable, SchemaMismatch."""
    with reading(engine) as connection:
        revision.require(connection)
        named = connection.execute(select(clusters.c.cluster)).scalars().all()
        return sorted({*named, *connection.execute(select(decisions.c.cluster).distinct()).scalars()})


def usable_cpus() -> int:
    """How many processes are worth having here."""
    return min(len(os.sched_getaffinity(0)), MOST)


def _ends(engine: Engine, cluster: str) -> tuple[Head, int | None, int | None]:
    """The head, the lowest and the highest seq, as of one moment; rows that are appended later do not matter."""
    ends = select(func.min(decisions.c.seq), func.max(decisions.c.seq)).where(decisions.c.cluster == cluster)
    with reading(engine) as connection:
        revision.require(connection)
        head = head_of(connection, cluster)
        first, newest = connection.execute(ends).one()
    return head, first, newest


def _follow(
    engine: Engine, cluster: str, head: Head, versions: list[Named], *, workers: int, progress: Progress | None
) -> Head | Broken:
    """From the first row to that of the head's number; the last row, or the first bad one. Collects `versions`."""
    last = Head(0, GENESIS)
    for stretch, walked in _walks(engine, cluster, head.seq, workers):
        if walked.fault is not None:
            return walked.fault
        if walked.before != last.hash:
            return Broken(stretch.first, "does not follow the row before it, which has changed meanwhile")
        last = Head(walked.seq, walked.hash)
        versions += walked.versions
        if last.seq != stretch.last:
            return Broken(last.seq + 1, _gap(engine, cluster, last.seq, head.seq))
        if progress is not None:
            progress(last.seq, head.seq)
    return last


def _gap(engine: Engine, cluster: str, after: int, head: int) -> str:
    behind = (decisions.c.cluster == cluster, decisions.c.seq.between(after + 1, head))
    with reading(engine) as connection:
        following = connection.execute(select(func.min(decisions.c.seq)).where(*behind)).scalar_one()
    if following is None:
        return f"is missing: the head of the chain is row {head}"
    return f"is missing: row {following} comes next"


def _walks(engine: Engine, cluster: str, upto: int, workers: int) -> Iterator[tuple[Stretch, Walked]]:
    """The walks over the whole trail, in its order."""
    todo = list(Stretch(1, upto).cut(STRETCH))
    done = 0
    if workers > 1 and upto >= WORTH_IT:
        for done, walked in enumerate(_shared(engine, cluster, todo, workers), start=1):
            yield todo[done - 1], walked
    for stretch in todo[done:]:
        yield stretch, walk(engine, cluster, stretch)


def _shared(engine: Engine, cluster: str, todo: Sequence[Stretch], workers: int) -> Iterator[Walked]:
    """By several processes, as far as they come: where they cannot be had, or die, the rest is for this one."""
    if threading.active_count() > 1:
        return  # a forked child has the locks of threads that it does not have
    engine.dispose()  # so that no child holds an end of this process' connections
    try:
        forking = multiprocessing.get_context("fork")  # which costs nothing: all that is needed is loaded
        pool = ProcessPoolExecutor(workers, forking, initializer=_begin, initargs=(engine,))
    except (OSError, ImportError):  # a container without semaphores
        return
    try:
        with _uninterrupted():
            walks = pool.map(_walk_here, [cluster] * len(todo), todo)  # which makes the processes
        yield from walks
    except (BrokenExecutor, OSError):
        return
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: a child that was just made would tell of it as well, before it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_here: list[Engine] = []  # of a process that was made to walk


def _begin(engine: Engine) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever made it ends it
    engine.dispose(close=False)
    _here[:] = [engine]


def _walk_here(cluster: str, stretch: Stretch) -> Walked:
    return walk(_here[0], cluster, stretch)
