"""SIGTERM at the worst of moments, in a process of its own: it is heard, and waits for nothing that may hang."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quarantine.cli.options import Exit

BEGIN = """
import hashlib, os, signal, threading
from quarantine.cli import run
run.LEAVE_S = {leave}
stop, timer = threading.Event(), threading.Event()
stops = [stop.set]
run._asked_to_stop(stops)
stops.append(timer.set)
"""
# `Event.wait` holds this lock as it begins and as it ends: a handler that calls `set` then waits for ever.
IN_THE_WAIT = """
with stop._cond, timer._cond:
    signal.raise_signal(signal.{name})
    signal.raise_signal(signal.{name})
os._exit(0 if stop.wait(30) and timer.wait(30) else 1)
"""
# Python runs no handler while the main thread is in C.
IN_C = """
threading.Timer(0.1, os.kill, (os.getpid(), signal.{name})).start()
hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)
"""


def ends(script: str, *, leave: float, name: str = "SIGTERM") -> subprocess.CompletedProcess[bytes]:
    program = BEGIN.format(leave=leave) + script.format(name=name)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_in_the_very_wait_for_it(name: str) -> None:
    done = ends(IN_THE_WAIT, leave=600.0, name=name)
    assert (done.returncode, done.stderr) == (0, b"")


def test_while_a_driver_hangs_the_process_is_left() -> None:
    done = ends(IN_C, leave=0.2)
    assert done.returncode == Exit.DEPENDENCY
    assert b"not all was put in order" in done.stdout + done.stderr
