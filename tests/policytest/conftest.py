"""A small set of policies with their tests, copied to where a test may break them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parent / "sample"
Write = Callable[[str], Path]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A directory with a copy of the sample: policies and tests."""
    directory = tmp_path / "policies"
    shutil.copytree(SAMPLE, directory)
    return directory


@pytest.fixture
def written(sample: Path) -> Write:
    """Writes the tests of policy `hot` (what stands under `tests:`), with the sample's background, as the only ones."""
    background = (sample / "hot_test.yaml").read_text(encoding="utf-8").partition("  tests:\n")[0]
    for file in sample.glob("*_test.yaml"):
        file.unlink()

    def write(tests: str) -> Path:
        path = sample / "hot_test.yaml"
        path.write_text(f"{background}  tests:\n{tests}", encoding="utf-8")
        return path

    return write
