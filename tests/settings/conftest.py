"""Each test runs in an empty directory, with an environment that must not matter."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("QUARANTINE_MODE", "enforce")
    monkeypatch.setenv("QUARANTINE_NONSENSE", "1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conf" / "q.yaml"
