"""A child process that never outlives its parent, even one that is killed with -9.

The kernel is asked for it (PR_SET_PDEATHSIG) by a tiny wrapper that then becomes the program: code run between fork and
exec (`preexec_fn`) may deadlock in a process with threads. The signal comes when the *thread* that forked ends, so a
thread of our own forks and then waits for the child.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_WRAPPER = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, ctypes.c_ulong(signal.SIGKILL), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
if os.getppid() != int(sys.argv[1]):
    os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class BoundChild:
    """A program started with its output in a file. `exited` is set once it has ended and was reaped."""

    def __init__(self, argv: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        """Start it; `argv[0]` is an absolute path, `env` is its whole environment (None: ours).

        Raises OSError or ValueError where it cannot be started.
        """
        self.exited = threading.Event()
        self._started = threading.Event()
        self._failure: OSError | ValueError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, args=(list(argv), log, cwd, env), name=argv[0], daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def _run(self, argv: list[str], log: Path, cwd: Path, env: Mapping[str, str] | None) -> None:
        wrapped = [sys.executable, "-I", "-S", "-c", _WRAPPER, str(os.getpid()), *argv]
        try:
            with log.open("ab") as out:
                self._process = subprocess.Popen(  # noqa: S603  (no shell; the caller names the program)
                    wrapped, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=cwd, env=env
                )
        except (OSError, ValueError) as error:
            self._failure = error
            self.exited.set()
            return
        finally:
            self._started.set()
        self._process.wait()
        self.exited.set()

    @property
    def pid(self) -> int:
        """Its process id; the wrapper's and the program's are the same."""
        assert self._process is not None  # noqa: S101  (the constructor saw to it)
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative where a signal ended it."""
        return self._process.returncode if self._process is not None else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where it has ended already."""
        if self._process is not None and not self.exited.is_set():
            self._process.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP, and wait until all of its threads stand still: one that runs may answer for a moment more."""
        self.signal(signal.SIGSTOP)
        if hasattr(os, "waitid") and not self.exited.is_set():
            with suppress(ChildProcessError):  # it has ended, and was reaped
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def stop(self, *, grace_s: float) -> None:
        """Ask it to end (it is woken if it was stopped), and kill it where it has not within `grace_s` seconds."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if not self.exited.wait(grace_s):
            self.kill()

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.exited.wait()
        self._thread.join()
