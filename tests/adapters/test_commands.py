"""Commands, with real programs: what they are given, what is kept of what they say, and how they are ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quarantine.adapters.commands import Commands
from quarantine.adapters.procedures import EachItsOwn
from quarantine.core.case import Purpose, Run, RunOutcome
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.procedure import JobTemplate, ProcedureSpec
from quarantine.core.workload import RunStatus
from quarantine.ports import Order
from tests.adapters.kube.support import eventually

AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
RUN = Run("q-1-reset-1", Purpose.RESET, "reset", AT, AT + timedelta(minutes=5))
OVER = {RunOutcome.SUCCEEDED, RunOutcome.FAILED, RunOutcome.LATE}


def order(*command: str, run: Run = RUN, **fields: str) -> Order:
    told = {"case": "q-1", "node": "gpu-1", "provider_id": "aws:///z/i-1", "system_uuid": "ec2-1"} | fields
    return Order(run=run, spec=ProcedureSpec(description="d", command=command), taint="quarantine.gpu/suspect", **told)


def python(text: str, *args: str, run: Run = RUN) -> Order:
    return order(sys.executable, "-S", "-c", text, *args, run=run)


def until(**span: float) -> Run:
    return replace(RUN, until=AT + timedelta(**span))


@pytest.fixture
def commands() -> Iterator[Commands]:
    environ = {"PATH": os.environ["PATH"], "SECRET": "s3cret"}
    made = Commands(now=lambda: AT, environ=environ, grace=timedelta(milliseconds=300))
    yield made
    made.close()


def status(commands: Commands, wanted: Order) -> RunStatus | None:
    return commands.look([(wanted.run, wanted.spec)]).get(wanted.run.name)


def ended(commands: Commands, wanted: Order) -> RunStatus:
    def over() -> RunStatus | None:
        found = status(commands, wanted)
        return found if found is not None and found.outcome in OVER else None

    found = eventually(over, within=30)
    assert isinstance(found, RunStatus)
    return found


def test_success_is_exit_code_zero_and_what_it_said_is_kept(commands: Commands) -> None:
    wanted = order("echo", "{node} {case} {run} {provider_id} {system_uuid} {other} {}")

    commands.start(wanted)

    said = "gpu-1 q-1 q-1-reset-1 aws:///z/i-1 ec2-1 {other} {}"
    assert ended(commands, wanted) == RunStatus(RunOutcome.SUCCEEDED, AT, said)


def test_a_failure_says_how_and_what_it_said_on_both_streams(commands: Commands) -> None:
    wanted = python("import sys; print('out', flush=True); sys.stderr.write('err'); sys.exit(3)")
    commands.start(wanted)
    assert ended(commands, wanted) == RunStatus(RunOutcome.FAILED, AT, "Exit code 3.\nout\nerr")


def test_one_that_kills_itself_says_by_which_signal(commands: Commands) -> None:
    wanted = python("import os; os.kill(os.getpid(), 9)")
    commands.start(wanted)
    assert ended(commands, wanted).message == "Ended by signal 9."


def test_it_gets_nothing_of_our_environment_but_the_path(commands: Commands) -> None:
    wanted = order("env")

    commands.start(wanted)

    lines = dict(line.split("=", 1) for line in ended(commands, wanted).message.splitlines())
    names = {"QUARANTINE_NODE": "gpu-1", "QUARANTINE_CASE": "q-1", "QUARANTINE_RUN": "q-1-reset-1"}
    assert lines == {"PATH": os.environ["PATH"], **names}


def test_it_has_no_input_no_shell_and_a_session_of_its_own(commands: Commands) -> None:
    text = "import os, sys; print(sys.stdin.read() == '', os.getsid(0) == os.getpid(), sys.argv[1])"
    wanted = python(text, "$HOME; `id` {node}")
    commands.start(wanted)
    assert ended(commands, wanted).message == "True True $HOME; `id` gpu-1"


def test_only_the_end_of_a_flood_is_kept(commands: Commands) -> None:
    wanted = python("for i in range(200_000): print(i, 'x' * 20)")

    commands.start(wanted)

    lines = ended(commands, wanted).message.splitlines()
    assert lines == [f"{i} {'x' * 20}" for i in range(199_980, 200_000)]


def test_a_line_without_an_end_is_cut_and_bytes_are_no_error(commands: Commands) -> None:
    wanted = python("import sys; sys.stdout.buffer.write(b'a' * 5000 + bytes([255, 27]) + b'[31mred')")
    commands.start(wanted)
    message = ended(commands, wanted).message
    assert len(message) == 2000
    assert message.endswith("a��[31mred")


def test_when_its_time_is_up_it_is_asked_and_then_ended(commands: Commands) -> None:
    text = "import signal, time; signal.signal(signal.SIGTERM, lambda *a: print('no', flush=True))"
    wanted = python(text + "\nprint('up', flush=True)\nwhile True: time.sleep(1)")
    commands.start(wanted)
    child = commands._children[RUN.name]
    eventually(lambda: b"up" in child.output, within=30)

    child.until = 0.0

    assert ended(commands, wanted) == RunStatus(RunOutcome.LATE, AT, "Its time was up.\nup\nno")


def test_its_time_ends_with_the_run_s(commands: Commands) -> None:
    wanted = order("sleep", "60", run=until(seconds=0.2))
    commands.start(wanted)
    assert ended(commands, wanted).outcome is RunOutcome.LATE


def test_what_it_leaves_behind_is_ended_too_and_holds_nothing_up(commands: Commands, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = "import time; time.sleep(60)"
    text = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-S', '-c', {child!r}]); "
    wanted = python(text + f"open({str(pid)!r}, 'w').write(str(p.pid))")
    begun = time.monotonic()

    commands.start(wanted)

    assert ended(commands, wanted).outcome is RunOutcome.SUCCEEDED
    assert time.monotonic() - begun < 20
    eventually(lambda: _gone(int(pid.read_text())), within=30)


def _gone(pid: int) -> bool:
    """Not there, or dead and waiting for whoever took it over."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_one_that_closed_its_output_is_still_seen_to(commands: Commands) -> None:
    wanted = python("import os, time; os.close(1); os.close(2); time.sleep(60)", run=until(seconds=0.5))
    commands.start(wanted)
    assert ended(commands, wanted).outcome is RunOutcome.LATE


def test_a_name_is_begun_once(commands: Commands, tmp_path: Path) -> None:
    wanted = python("import sys; open(sys.argv[1], 'a').write('x')", str(tmp_path / "count"))

    for _ in range(3):
        commands.start(wanted)
    ended(commands, wanted)
    commands.start(wanted)

    assert (tmp_path / "count").read_text() == "x"
    assert threading.active_count() < 20


def test_starting_and_looking_wait_for_nothing(commands: Commands) -> None:
    wanted = python("import time; time.sleep(60)")
    begun = time.monotonic()
    commands.start(wanted)
    assert status(commands, wanted) == RunStatus(RunOutcome.RUNNING)
    assert time.monotonic() - begun < 5


def test_one_that_is_stopped_failed(commands: Commands) -> None:
    wanted = python("import time; print('busy', flush=True); time.sleep(60)")
    commands.start(wanted)
    commands.stop(wanted.run, wanted.spec)
    assert ended(commands, wanted).message.startswith("It was stopped.")
    commands.stop(wanted.run, wanted.spec)
    commands.stop(replace(RUN, name="never"), wanted.spec)


def test_closing_ends_all_and_begins_none(commands: Commands) -> None:
    wanted = python("import time; time.sleep(60)")
    commands.start(wanted)

    commands.close()
    commands.close()

    assert ended(commands, wanted).outcome is RunOutcome.FAILED
    with pytest.raises(Unavailable, match="stopping"):
        commands.start(order("true", run=replace(RUN, name="later")))


def test_what_an_earlier_process_began_is_not_known(commands: Commands) -> None:
    assert status(commands, order("true")) is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (order("/no/such/program"), "No such file"),
        (order("/"), "Permission denied"),
        (order("echo", "a\0b"), "null byte"),
        (order("echo", "{provider_id}", provider_id=""), r"needs \{provider_id\}, which node gpu-1 does not tell"),
        (order("sh", "-c", "reboot {provider_id}", provider_id="x; rm -rf /"), "not handed to programs"),
        (order("echo", run=until(seconds=0)), "time of q-1-reset-1 was up"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(commands: Commands, wanted: Order, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        commands.start(wanted)
    assert str(caught.value).endswith(".")
    assert "rm -rf" not in str(caught.value)
    assert status(commands, wanted) is None


def test_those_that_ended_long_ago_are_forgotten(commands: Commands) -> None:
    first = order("true", run=replace(RUN, name="first"))
    commands.start(first)
    ended(commands, first)
    for number in range(500):
        commands._children[f"other-{number}"] = commands._children["first"]

    commands.start(order("true"))

    assert status(commands, first) is None
    assert status(commands, order("true")) is not None


class Recorded:
    """A runner that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def start(self, wanted: Order) -> None:
        self.asked.append(f"start {wanted.run.name}")

    def look(self, runs: object) -> dict[str, RunStatus]:
        found = [run.name for run, _ in runs]  # type: ignore[attr-defined]
        self.asked.append(f"look {found}")
        return {name: RunStatus(RunOutcome.RUNNING) for name in found}

    def stop(self, run: Run, _: ProcedureSpec) -> None:
        self.asked.append(f"stop {run.name}")


class TestEachItsOwn:
    JOB = ProcedureSpec(description="d", job=JobTemplate(pod={"containers": [{"name": "c"}]}))
    COMMAND = ProcedureSpec(description="d", command=("true",))

    def of(self, spec: ProcedureSpec) -> Order:
        return replace(order("true"), spec=spec, run=replace(RUN, name="job" if spec.job else "command"))

    def test_each_goes_to_its_runner(self) -> None:
        jobs, commands = Recorded(), Recorded()
        both = EachItsOwn(jobs, commands)
        orders = [self.of(self.JOB), self.of(self.COMMAND)]
        for wanted in orders:
            both.start(wanted)
            both.stop(wanted.run, wanted.spec)

        assert set(both.look([(o.run, o.spec) for o in orders])) == {"job", "command"}
        assert both.look([]) == {}
        assert jobs.asked == ["start job", "stop job", "look ['job']"]
        assert commands.asked == ["start command", "stop command", "look ['command']", "look []"]

    def test_commands_run_only_where_the_settings_say_so(self) -> None:
        both = EachItsOwn(Recorded())
        wanted = self.of(self.COMMAND)
        with pytest.raises(Refused, match=r"procedures\.commands"):
            both.start(wanted)
        assert both.look([(wanted.run, wanted.spec)]) == {}
        both.stop(wanted.run, wanted.spec)
