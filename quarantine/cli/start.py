"""The console script. Ctrl-C ends it quietly with 130 at any moment: while it loads, while it works, while it ends.

Nothing of size is imported before that is so. While a command works, the first Ctrl-C unwinds it, so that drafts and
temporary folders are removed; what unwinding meets on its way (a library may turn it into another error, a database
may say that its statement was cancelled) is not told. The second one does not wait for that.

SIGTERM ends it at once, in a container as well; a command that has more to do then (`run`) says so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn, TextIO

INTERRUPTED = 130  # what a shell says of a process that SIGINT ended
TERMINATED = 143  # and of one that SIGTERM did


def main() -> None:
    """What the shell runs."""
    if os.getpid() == 1:  # as in a container: the kernel keeps from the first process what it does not ask for
        signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, as under nohup: it stays so
        _run()
        return
    interrupts = _Interrupts()
    signal.signal(signal.SIGINT, interrupts)
    sys.unraisablehook = interrupts.unraisable
    try:
        _run(interrupts)
    except BaseException as error:
        quietly = interrupts.came and not (isinstance(error, SystemExit) and error.code in (0, None))
        if quietly or isinstance(error, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        raise
    finally:
        interrupts.unwinds = False


class _Interrupts:
    """What SIGINT does."""

    def __init__(self) -> None:
        self.came = False
        self.unwinds = False  # whether there is work to be unwound

    def __call__(self, _: int, __: FrameType | None) -> None:
        if self.came or not self.unwinds:
            _end()
        self.came = True
        raise KeyboardInterrupt

    def unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        """It came where nothing can be raised, as in a destructor: there Python would tell of it, and go on."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _end()
        sys.__unraisablehook__(unraisable)


def _run(interrupts: _Interrupts | None = None) -> None:
    from quarantine.cli.main import app

    if interrupts is not None:
        interrupts.unwinds = True
    try:
        app()
    finally:
        _let_go(sys.stdout, sys.stderr)


def _end() -> NoReturn:
    os._exit(INTERRUPTED)


def _let_go(*streams: TextIO) -> None:
    """What cannot be written any more must not turn the exit code into the interpreter's own (120)."""
    for stream in streams:
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
