"""A ConfigMap mounted into a pod, and changed as a kubelet changes it (its AtomicWriter), one operation at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

_NUMBERS = count(1)


class Mount:
    """`..data` is a link to the directory of this version, and each visible name a link through it."""

    def __init__(self, path: Path, data: Mapping[str, str]) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.swap(data)

    def swap(self, data: Mapping[str, str]) -> None:
        """All of it, at once."""
        for _ in self.operations(data):
            pass

    def operations(self, data: Mapping[str, str]) -> Iterator[str]:
        """In the kubelet's order; what was done is given after each, so that others may look in between."""
        link, before = self.path / "..data", self._version()
        made = self.path / f"..2026_11_30_12_00_00.{next(_NUMBERS):09}"
        made.mkdir()
        for name, text in data.items():
            (made / name).write_text(text, encoding="utf-8")
        yield "the new version is written beside the old one"
        (self.path / "..data_tmp").symlink_to(made.name)
        yield "a link to it is made"
        os.replace(self.path / "..data_tmp", link)  # noqa: PTH105
        yield "that link takes the place of the one that all names lead through"
        for name in data:
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        yield "new names are made"
        for entry in self.path.iterdir():
            if not entry.name.startswith("..") and entry.name not in data:
                entry.unlink()
        yield "names that lead nowhere are removed"
        if before is not None:
            shutil.rmtree(before)
        yield "the old version is removed"

    def _version(self) -> Path | None:
        link = self.path / "..data"
        return self.path / link.readlink() if link.is_symlink() else None
