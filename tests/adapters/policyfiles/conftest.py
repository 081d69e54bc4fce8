"""A small set of policies, copied to where a test may break them. It does not change when the shipped ones do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

SHIPPED = Path(__file__).parents[3] / "policies"
SAMPLE = Path(__file__).parent / "sample"

Edit = Callable[[str, str, str], int]


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A directory with a copy of the sample's files."""
    directory = tmp_path / "policies"
    directory.mkdir()
    for file in SAMPLE.glob("*.yaml"):
        shutil.copy(file, directory)
    return directory


@pytest.fixture
def edit(policies: Path) -> Edit:
    """Replace what stands exactly once in a file; the line (from 1) where it begins."""

    def replace(file: str, old: str, new: str) -> int:
        path = policies / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")
        return text[: text.index(old)].count("\n") + 1

    return replace
