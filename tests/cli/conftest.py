"""An empty ledger of each test's own, and a clock that stands."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import pytest

from quarantine import app
from quarantine.ledger.migrate import upgrade
from tests.ledger.samples import NOW


class Clock:
    def now(self) -> datetime:
        return NOW


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The clock stands, and no settings of the machine's are read."""
    monkeypatch.setattr(app, "CLOCK", Clock())
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty ledger, made once."""
    made = tmp_path_factory.mktemp("migrated") / "ledger.db"
    upgrade(f"sqlite:///{made}")
    return made


@pytest.fixture
def url(tmp_path: Path, migrated: Path) -> str:
    shutil.copy(migrated, tmp_path / "ledger.db")
    return f"sqlite:///{tmp_path / 'ledger.db'}"
