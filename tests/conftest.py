"""What holds for every test."""

from __future__ import annotations

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logging_as_it_comes(request: pytest.FixtureRequest) -> None:
    """A command that was run in this process has set up its logging: the next test would hear no warnings.

    The scenarios silence it on purpose, for all of them.
    """
    if "scenarios" not in request.path.parts:
        structlog.reset_defaults()
