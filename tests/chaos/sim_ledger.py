"""The ledger of a simulation: in memory, or the production one on SQLite; and failovers that lose the last commits."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from quarantine.core.decision import Decision, Request, State
from quarantine.ledger.store import SqlLedger, open_ledger
from tests.chaos.sim_world import WholeBook
from tests.core.invariants.kube import Trouble

CLUSTER = "test"


@dataclass
class Now:
    """A clock that is right."""

    now: Callable[[], datetime]


@dataclass(eq=False)
class Books:
    """`path`: of a migrated SQLite file; None: in memory. `now`: a clock that is right."""

    now: Callable[[], datetime]
    path: Path | None
    _opened: list[SqlLedger] = field(default_factory=list)
    _rows: int = 0  # when it was backed up

    def __post_init__(self) -> None:
        self.book = WholeBook(Now(self.now), Trouble()) if self.path is None else None
        self._own: Any = self.opened(self.now)

    def opened(self, now: Callable[[], datetime]) -> Any:
        """The ledger, for one process."""
        if self.path is None:
            return self.book
        made = open_ledger(f"sqlite:///{self.path}", CLUSTER, now=now)
        self._opened.append(made)
        return made

    def close(self) -> None:
        """All that was opened."""
        for one in self._opened:
            one.close()

    def waits(self) -> bool:
        """Whether anything is in the outbox."""
        return bool(self._own.load().pending)

    def pending(self) -> list[str]:
        """What is in the outbox, for people."""
        left = self._own.load().pending
        return [f"{one.effect} of {one.case} ({one.attempts} attempts: {one.last_error})" for one in left]

    def state(self) -> State:
        """As it is kept."""
        found: State = self._own.load().state
        return found

    def trail(self) -> Iterator[Decision]:
        """The whole of it."""
        if self.book is not None:
            return iter(self.book.trail)
        return (row.decision for row in self._own.decisions())

    def ask(self, request: Request) -> None:
        """A person asks for something."""
        if self.book is not None:
            self.book.asked.append(request)
        else:
            self._own.ask(request)

    def back_up(self) -> None:
        """Remember what is committed."""
        if self.book is not None:
            self._rows = len(self.book.trail)
            return
        with closing(sqlite3.connect(self._file)) as live, closing(sqlite3.connect(self._backup)) as copy:
            live.backup(copy)

    def fail_over(self) -> None:
        """Another server takes over, which has what was committed when it was backed up."""
        if self.book is not None:
            self.book.restore(self._rows)
            return
        with closing(sqlite3.connect(self._backup)) as copy, closing(sqlite3.connect(self._file)) as live:
            copy.backup(live)

    @property
    def _file(self) -> Path:
        assert self.path is not None
        return self.path

    @property
    def _backup(self) -> Path:
        return self._file.with_suffix(".backup")


def copied(migrated: Path, to: Path) -> Path:
    """A migrated ledger of its own for one simulation."""
    shutil.copy(migrated, to)
    return to
