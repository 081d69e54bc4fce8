"""Every line of the log, whoever said it: one object in JSON, one line for people, and no secret in either."""

from __future__ import annotations

import io
import json
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
import typer

from quarantine import logs
from quarantine.cli.options import ending_in_the_log
from quarantine.core.case import Effect
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.errors import LedgerUnavailable, Superseded, UsageError
from quarantine.loglines import decisions
from quarantine.redaction import HIDDEN, Redactor

HUSH = "hush-hush-4711"
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """What is on stderr by now. The root logger is as before in the end."""
    before, text = list(logging.getLogger().handlers), [""]

    def read() -> str:
        text[0] += capsys.readouterr().err
        return text[0]

    yield read
    logging.getLogger().handlers[:] = before


@pytest.fixture
def lines(said: Callable[[], str]) -> Lines:
    """The JSON log that is set up here, line by line."""
    logs.set_up("info", "json", Redactor([HUSH]), {"cluster": "lab"})
    return lambda: [json.loads(line) for line in said().splitlines()]


def fails() -> None:
    raise ValueError(f"could not log in with {HUSH}")


def test_a_line_says_when_how_bad_where_and_what(lines: Lines) -> None:
    structlog.get_logger().bind(case="q-1").warning("it is\nhot", policy="gpu-hot")
    [line] = lines()
    at = datetime.fromisoformat(line.pop("ts"))
    assert at.utcoffset() == UTC.utcoffset(at)
    assert line == {"level": "warning", "event": "it is hot", "cluster": "lab", "case": "q-1", "policy": "gpu-hot"}


def test_a_traceback_is_a_field_of_one_line_and_has_no_secret(lines: Lines) -> None:
    try:
        fails()
    except ValueError:
        structlog.get_logger().exception("a defect", answer={"headers": [f"x {HUSH}"]}, token="abc")
    [line] = lines()
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert line["exception"][0]["exc_value"] == f"could not log in with {HIDDEN}"
    assert (line["answer"], line["token"]) == ({"headers": [f"x {HIDDEN}"]}, HIDDEN)
    assert HUSH not in json.dumps(line)


def test_libraries_speak_in_the_same_lines(lines: Lines) -> None:
    for name in ("urllib3.connectionpool", "kubernetes", "sqlalchemy.pool", "apscheduler", "alembic"):
        logging.getLogger(name).warning("of %s: %s", name, HUSH)
    logging.getLogger("urllib3").debug("GET %s", HUSH)
    wrong = logging.LogRecord("kubernetes", logging.ERROR, "x.py", 1, "two %s", ("too", "many"), None)
    logs._Libraries().emit(wrong)
    assert [line["logger"] for line in lines()][1:3] == ["kubernetes", "sqlalchemy.pool"]
    assert [line["event"] for line in lines()][-2:] == [f"of alembic: {HIDDEN}", "two %s"]


def test_what_python_would_print_is_said_in_the_log(lines: Lines) -> None:
    class Broken:
        def __del__(self) -> None:
            fails()

    with logs.of_a_process():
        warnings.showwarning(DeprecationWarning(f"old {HUSH}"), DeprecationWarning, "x.py", 7)
        thread = threading.Thread(target=fails, name="asker")
        thread.start()
        thread.join()
        Broken()
    old, thread_s, unraised = lines()
    assert (old["event"], old["logger"]) == (f"old {HIDDEN}", "py.warnings")
    assert (thread_s["thread"], thread_s["exception"][0]["exc_type"]) == ("asker", "ValueError")
    assert unraised["exception"][0]["exc_value"] == f"could not log in with {HIDDEN}"
    assert threading.excepthook is not logs._ended, "it is as before"


def test_a_line_is_written_at_once_so_that_no_other_thread_comes_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    monkeypatch.setattr("sys.stderr", Stream())
    logs.set_up("info", "json")
    structlog.get_logger().info("one")
    structlog.get_logger().info("two")
    assert [json.loads(text)["event"] for text in written] == ["one", "two"]
    assert all(text.endswith("}\n") for text in written)


@pytest.mark.parametrize("style", ["json", "console"])
def test_what_is_cut_or_put_on_one_line_shows_no_part_of_a_secret(said: Callable[[], str], style: str) -> None:
    logs.set_up("info", style, Redactor([HUSH, "a key\nof two lines"]))
    structlog.get_logger().info("x" * (logs.LONGEST_FIELD - 10) + HUSH, why="a key\nof two lines")
    assert "hush" not in said()
    assert "of two lines" not in said()
    assert HIDDEN in said()


def test_for_people_it_is_a_sentence_and_whom_it_is_about(said: Callable[[], str]) -> None:
    logs.set_up("info", "console", Redactor([HUSH]), {"cluster": "lab"})
    structlog.get_logger().info("nothing to do", about="cycle", cycle=7, term=1, decisions=0, seconds=0.2, node="gpu-1")
    try:
        fails()
    except ValueError:
        structlog.get_logger().exception("a defect")
    text = said()
    assert "nothing to do" in text.splitlines()[0]
    assert "node=gpu-1" in text.splitlines()[0]
    assert not any(word in text.splitlines()[0] for word in ("cluster", "cycle=", "term", "decisions", "seconds"))
    assert f"ValueError: could not log in with {HIDDEN}" in text
    assert HUSH not in text


def test_decisions_are_named_by_their_rows_in_the_trail(lines: Lines) -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    held = Decision(at, Kind.HELD, Action.QUARANTINE, "it waits", "controller", node="gpu-1", policy="gpu-hot")
    done = Decision(at, Kind.DONE, Action.TICKET, "filed", "controller", node="gpu-1", case="q-1", effect=Effect.TICKET)
    decisions([held, done], 42)
    first, second = lines()
    assert (first["about"], first["decision"], first["level"], first["action"]) == (
        "decision",
        41,
        "warning",
        "quarantine",
    )
    assert (second["about"], second["decision"], second["case"], second["effect"]) == (
        "effect",
        42,
        "q-1",
        "q-1/ticket",
    )


@pytest.mark.parametrize(
    ("error", "code", "event"),
    [
        (UsageError("there is no cluster of that name"), 2, "there is no cluster of that name"),
        (LedgerUnavailable(f"the ledger is away, says {HUSH}"), 3, f"the ledger is away, says {HIDDEN}"),
        (Superseded("another one writes: this process must stop"), 1, "another one writes: this process must stop"),
        (ValueError(HUSH), 1, "a defect ended the controller; please report it with this traceback"),
    ],
)
def test_what_ends_a_controller_is_a_line_of_its_log(lines: Lines, error: Exception, code: int, event: str) -> None:
    with pytest.raises(typer.Exit) as ended, ending_in_the_log():
        raise error
    [line] = lines()
    assert (ended.value.exit_code, line["level"], line["event"]) == (code, "error", event)
    assert ("exception" in line) == isinstance(error, ValueError)


def test_in_a_terminal_it_ends_as_any_command_does(said: Callable[[], str]) -> None:
    logs.set_up("info", "console")
    with pytest.raises(UsageError), ending_in_the_log():
        raise UsageError("there is no cluster of that name")
    assert said() == ""
