"""Ctrl-C ends a command with 130 and without a word, wherever it comes; each case sends itself the signal."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

# A command that interrupts itself, in the program as the shell runs it.
PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests were begun to ignore it
from quarantine.cli import start

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

{}
sys.argv = ["quarantine", "itself"]
start.main()
"""
COMMAND = """
from quarantine.cli.main import app

@app.command("itself")
def itself():
{}
"""


def run(body: str, *, command: bool = True) -> subprocess.CompletedProcess[str]:
    body = dedent(body).strip()
    if command:
        body = COMMAND.format("\n".join(f"    {line}" for line in body.splitlines()))
    arguments = [sys.executable, "-W", "error", "-c", PROGRAM.format(body)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


LOADING = """
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "quarantine.cli.audit":
            interrupt()

sys.meta_path.insert(0, Interrupting())
"""


def test_while_it_loads() -> None:
    done = run(LOADING, command=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


UNWOUND = {
    "at work": """
        try:
            interrupt()
        finally:
            print("unwound")
    """,
    "a library makes another error of it": """
        try:
            interrupt()
        except KeyboardInterrupt as error:
            print("unwound")
            raise RuntimeError("Error calling __set_name__") from error
    """,
    "the database says that it was cancelled": """
        from quarantine.cli.options import friendly
        from quarantine.core.errors import LedgerUnavailable

        @friendly
        def asks():
            try:
                interrupt()
            except KeyboardInterrupt as error:
                print("unwound")
                raise LedgerUnavailable("took too long") from error

        asks()
    """,
}


@pytest.mark.parametrize("how", UNWOUND)
def test_work_is_unwound(how: str) -> None:
    done = run(UNWOUND[how])
    assert (done.returncode, done.stdout) == (130, "unwound\n")
    assert "Traceback" not in done.stderr


def test_the_second_does_not_wait() -> None:
    done = run("""
        try:
            interrupt()
        finally:
            interrupt()
            print("unwound", flush=True)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_where_nothing_can_be_raised() -> None:
    done = run("""
        class Heavy:
            def __del__(self):
                interrupt()

        Heavy()
        print("went on", flush=True)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_when_it_ends() -> None:
    done = run("""
        import atexit
        atexit.register(interrupt)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_what_ignores_it_goes_on_ignoring_it() -> None:
    """As under nohup, or behind `&` in a script."""
    done = run("signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + COMMAND.format("    interrupt()\n"), command=False)
    assert (done.returncode, done.stderr) == (0, "")


TERMINATED = """
os.getpid = lambda: {}
os.kill = lambda _, number, kill=os.kill: kill(own, signal.SIGTERM)
"""


@pytest.mark.parametrize(("pid", "code"), [("1", 143), ("own", -15)])
@pytest.mark.parametrize("when", ["while it loads", "at work"])
def test_sigterm_ends_it_also_as_the_first_process_of_a_container(when: str, pid: str, code: int) -> None:
    """Which a signal that it does not ask for does not reach. As any other it ends as the kernel ends it."""
    body = LOADING if when == "while it loads" else COMMAND.format("    interrupt()\n    os._exit(0)\n")
    done = run(f"own = os.getpid()\n{TERMINATED.format(pid)}{body}", command=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_other_errors_are_told() -> None:
    done = run('raise ValueError("a defect")')
    assert done.returncode == 1
    assert "ValueError: a defect" in done.stderr
