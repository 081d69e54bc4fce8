"""Trouble that lasts for hours: told at its beginning, ever more rarely, and at its end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from quarantine.trouble import MOST_KINDS, RARELY, Trouble

AWAY = "nothing was done: the ledger postgresql://h/d cannot be reached (attempt {} was refused); start it"


@pytest.fixture(autouse=True)
def every_level() -> Iterator[None]:
    """A command that ran before in this process may have set up the log to tell errors alone."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)


def test_hours_of_the_same_trouble() -> None:
    trouble = Trouble()
    with capture_logs() as logs:
        for number in range(4 * 240):  # four hours, at fifteen seconds
            trouble.failed(AWAY.format(number))
        trouble.ended()
        trouble.ended()
    warned = [line for line in logs if line["log_level"] == "warning"]
    assert [line.get("cycles_in_a_row", 1) for line in warned[:7]] == [1, 2, 4, 8, 16, 32, RARELY]
    assert len(warned) == 7 + 4 * 240 // RARELY - 1
    assert [line["event"] for line in logs if line["log_level"] == "info"] == [
        "it goes on, after 960 times in a row that came to nothing"
    ]
    assert sum(line["log_level"] == "debug" for line in logs) == 960 - len(warned), "none is lost to whoever wants them"


def test_another_trouble_is_told_at_once_and_a_new_one_of_the_same_kind() -> None:
    trouble = Trouble()
    with capture_logs() as logs:
        for number in range(3):
            trouble.failed(AWAY.format(number))
        trouble.failed("nothing was done: the ledger postgresql://h/d is read-only (cannot execute UPDATE); wait")
        trouble.ended()
        trouble.failed(AWAY.format(9))
        trouble.ended()
    told = [line["event"].partition(" (")[0][-10:] for line in logs if line["log_level"] == "warning"]
    assert told == ["be reached", "be reached", " read-only", "be reached"]
    assert sum(line["log_level"] == "info" for line in logs) == 1, "a single one needs no end"


def test_however_many_kinds_there_are_few_are_remembered() -> None:
    trouble = Trouble()
    for first in "abcdefghijklmnopqrstuvwxyz":
        for second in "abcdefghijklmnopqrstuvwxyz":
            trouble.failed(f"{first}{second}")
    assert len(trouble._kinds) <= MOST_KINDS + 1
