"""A file of settings, and what is said when it is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from quarantine.core.errors import UsageError
from quarantine.settings import load

EMPTY: Mapping[str, str] = {}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def refused(
    config: Path | None = None, overrides: Mapping[str, object] | None = None, environ: Mapping[str, str] = EMPTY
) -> str:
    with pytest.raises(UsageError) as caught:
        load(config, overrides or {}, environ)
    message = str(caught.value)
    assert "\n" not in message
    return message
