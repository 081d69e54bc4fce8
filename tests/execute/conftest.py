from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.ledger.migrate import upgrade
from tests.execute.lab import Lab, lab


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("executor") / "migrated.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def quiet(migrated: Path, tmp_path: Path) -> Iterator[Lab]:
    """A lab in which nothing has happened."""
    shutil.copy(migrated, tmp_path / "ledger.db")
    made = lab(tmp_path / "ledger.db")
    with made.ledger:
        yield made


@pytest.fixture
def here(quiet: Lab) -> Lab:
    """A lab in which node-3 is quarantined for heat."""
    quiet.quarantine()
    return quiet
