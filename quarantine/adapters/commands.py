"""Procedures as commands: programs of the user's that run where the controller runs.

They get no shell, no input and no secret of ours: of the environment only PATH, and the names of the node, the case and
the run. Each has a session of its own, which is ended as a whole, with whatever it left behind. What a command did is
known to the process that started it and to nobody else: after a restart of the controller a run is unknown, and one of
a controller that was killed goes on.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from quarantine.adapters.placeholders import IN_COMMANDS, fill
from quarantine.core.case import Run, RunOutcome
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.workload import RunStatus
from quarantine.ports import Order

_LINES: Final = 20
_CHARACTERS: Final = 2000
_TAIL: Final = 8 * _CHARACTERS  # bytes of output that are held
_REMEMBERED: Final = 500  # runs, those that have ended first to go
_LOOK: Final = 0.1  # seconds between two looks at a child that says nothing
_GRACE: Final = timedelta(seconds=5)  # between asking it to end and ending it
_TRANSIENT: Final = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETXTBSY}
_LAST: Final = 2.0  # seconds for what was killed to be gone

log = structlog.get_logger()


class Commands:
    """The `Procedures` port over subprocesses of this one. Thread-safe; nothing here waits for a command. To be closed.

    `now` (aware) is the time by which a run's is up; `environ` is where PATH is taken from.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        environ: Mapping[str, str] = os.environ,
        grace: timedelta = _GRACE,
    ) -> None:
        self._now = now
        self._path = environ.get("PATH", os.defpath)
        self._grace = grace
        self._lock = threading.Lock()
        self._children: OrderedDict[str, _Child] = OrderedDict()
        self._closed = False

    def start(self, order: Order) -> None:
        """Begin it; one of this name that this process has begun is success. Raises Unavailable, Refused."""
        run = order.run
        if order.spec.command is None:
            raise Refused(f"The procedure {run.procedure} is no command.")
        words = [fill(word, order, IN_COMMANDS) for word in order.spec.command]
        left = run.until - self._now()
        with self._lock:
            if self._closed:
                raise Unavailable(f"{run.name} was not begun: this process is stopping.")
            if run.name in self._children:
                return
            if left <= timedelta():
                raise Refused(f"The time of {run.name} was up before it could begin.")
            child = _Child(
                _begun(order, words, self._path), self._now, self._grace, time.monotonic() + left.total_seconds()
            )
            self._children[run.name] = child
            child.thread.start()
            self._forget()

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        """How far they have come, by run name; what an earlier process began is not known."""
        with self._lock:
            return {run.name: child.status for run, _ in runs if (child := self._children.get(run.name))}

    def stop(self, run: Run, spec: ProcedureSpec) -> None:  # noqa: ARG002 - the port's
        """Ask it to end, where it still runs; it is ended a moment later."""
        with self._lock:
            child = self._children.get(run.name)
        if child is not None:
            child.stopped.set()

    def close(self) -> None:
        """End all that run, and wait until they have: little longer than the grace of one. May be called twice."""
        with self._lock:
            self._closed = True
            children = list(self._children.values())
        for child in children:
            child.stopped.set()
        patience = time.monotonic() + self._grace.total_seconds() + _LAST
        for child in children:
            child.thread.join(max(0.0, patience - time.monotonic()))
            if child.thread.is_alive():  # it hangs in the kernel: nothing ends it
                log.warning("command does not end", pid=child.process.pid)

    def _forget(self) -> None:
        over = [name for name, child in self._children.items() if child.status.outcome is not RunOutcome.RUNNING]
        for name in over[: max(0, len(self._children) - _REMEMBERED)]:
            del self._children[name]


def _begun(order: Order, words: list[str], path: str) -> subprocess.Popen[bytes]:
    environment = {
        "PATH": path,
        "QUARANTINE_NODE": order.node,
        "QUARANTINE_CASE": order.case,
        "QUARANTINE_RUN": order.run.name,
    }
    what = f"The command of procedure {order.run.procedure}, {words[0]},"
    try:
        return subprocess.Popen(  # noqa: S603 - no shell; who writes the rules says what runs
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except ValueError as error:  # a NUL in an argument
        raise Refused(f"{what} cannot be run ({error}); correct the procedure.") from error
    except OSError as error:
        if error.errno in _TRANSIENT:
            raise Unavailable(f"{what} could not be begun ({error.strerror}); it will be tried again.") from error
        raise Refused(f"{what} cannot be run here ({error.strerror}); correct the path or its mode.") from error


@dataclass(slots=True, eq=False)
class _Child:
    """A command that was begun, with the thread that sees to its end. `until` is on the monotonic clock, in seconds."""

    process: subprocess.Popen[bytes]
    now: Callable[[], datetime]
    grace: timedelta
    until: float
    stopped: threading.Event = field(default_factory=threading.Event)
    status: RunStatus = field(default_factory=lambda: RunStatus(RunOutcome.RUNNING))
    output: bytearray = field(default_factory=bytearray)
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._see_to_it, name=f"command-{self.process.pid}", daemon=True)

    def _see_to_it(self) -> None:
        ended_by = RunOutcome.RUNNING  # by nobody: it ended by itself
        kill_at: float | None = None
        stdout = self.process.stdout
        assert stdout is not None  # noqa: S101 - it was asked for
        os.set_blocking(stdout.fileno(), False)
        with selectors.DefaultSelector() as selector, stdout:
            selector.register(stdout, selectors.EVENT_READ)
            while not self._exited():
                self._read(selector)
                if kill_at is None and (self.stopped.is_set() or time.monotonic() >= self.until):
                    ended_by = RunOutcome.FAILED if self.stopped.is_set() else RunOutcome.LATE
                    kill_at = time.monotonic() + self.grace.total_seconds()
                    self._signal(signal.SIGTERM)
                elif kill_at is not None and time.monotonic() >= kill_at:
                    self._signal(signal.SIGKILL)
            self._signal(signal.SIGKILL)  # what it left behind; its own pid is not reaped yet, so the group is its own
            self._read(selector)
        self.process.wait()
        self.status = self._verdict(ended_by)

    def _exited(self) -> bool:
        """Whether it has ended, without reaping it."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _read(self, selector: selectors.BaseSelector) -> None:
        """What it says, for a moment. Of a child that has closed its output, only the moment is left."""
        stdout = self.process.stdout
        assert stdout is not None  # noqa: S101
        if not selector.get_map():
            time.sleep(_LOOK)
            return
        if not selector.select(_LOOK):
            return
        for _ in range(64):  # a child that floods must not keep us from looking at the clock
            try:
                data = os.read(stdout.fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not data:
                selector.unregister(stdout)
                return
            self.output += data
            del self.output[:-_TAIL]

    def _verdict(self, ended_by: RunOutcome) -> RunStatus:
        code = self.process.returncode
        said = _tail(self.output)
        status = RunStatus(RunOutcome.FAILED, self.now())
        match ended_by:
            case RunOutcome.LATE:
                return replace(status, outcome=RunOutcome.LATE, message=_joined("Its time was up.", said))
            case RunOutcome.FAILED:
                return replace(status, message=_joined("It was stopped.", said))
        if code == 0:
            return replace(status, outcome=RunOutcome.SUCCEEDED, message=said)
        how = f"Exit code {code}." if code > 0 else f"Ended by signal {-code}."
        return replace(status, message=_joined(how, said))


def _joined(how: str, said: str) -> str:
    return f"{how}\n{said}" if said else how


def _tail(output: bytes | bytearray) -> str:
    """The last lines, without what no terminal should be handed."""
    text = output.decode("utf-8", "replace").replace("\r\n", "\n")
    clean = "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
    return "\n".join(clean.strip("\n").split("\n")[-_LINES:])[-_CHARACTERS:]
