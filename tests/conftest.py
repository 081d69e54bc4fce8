"""What holds for every test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logging_as_it_comes(request: pytest.FixtureRequest) -> None:
    """A command that was run in this process has set up its logging: the next test would hear no warnings.

    The scenarios silence it on purpose, for all of them.
    """
    if "scenarios" not in request.path.parts:
        structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _the_clock_is_put_back() -> Iterator[None]:
    """A test that leaves its own clock behind would have all that come after it live at one moment, or in another year.

    Whoever sets it for several tests does so before the first of them, and puts it back after the last.
    """
    before = _clock()
    yield
    after = _clock()
    if before is not None and after is not before:
        vars(sys.modules["quarantine.app"])["CLOCK"] = before
        pytest.fail(f"this test left {after!r} as the clock of quarantine.app: put back what was there")


def _clock() -> object:
    """The program's clock; None where nothing has loaded it yet."""
    return getattr(sys.modules.get("quarantine.app"), "CLOCK", None)
