"""The revision of a checkout by git's own files, where the program git is missing or refuses.

An image of the controller need not have git, and git asks nothing of a directory that belongs to somebody else, as a
checkout made by a sidecar does. Only files are read, and nothing of the repository is run. What is staged and not
committed is taken for committed: a checkout that is mounted has none of that, and a version's text is kept anyway.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_INDEX = 64 * 1024 * 1024  # bytes; a repository of a million files has more
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LINKS = 5  # from HEAD to what it means at the end
_SUFFIXES = (".yaml", ".yml")
_HEADER, _STAT = 12, 40  # bytes: of the index, and of an entry before its object id
_NAME_LENGTH, _EXTENDED, _SKIPPED = 0x0FFF, 0x4000, 0x4000  # of an entry's flags; the last is of its further ones


class _Repository(NamedTuple):
    top: Path  # of the checkout
    own: Path  # what git keeps of this checkout: HEAD, the index
    common: Path  # what it keeps of all of them: references


def revision(directory: Path) -> str | None:
    """The commit that is checked out; `…-dirty` where a YAML file in the directory is another, is not of it or is gone.

    None where the directory is in no checkout, the checkout does not hold it, or its files cannot be understood.
    """
    real = Path(os.path.realpath(directory))
    try:
        repository = _repository(real)
        head = _resolved(repository) if repository is not None else None
        if repository is None or head is None:
            return None
        below = real.relative_to(repository.top).as_posix()
        prefix = "" if below == "." else f"{below}/"
        known = {path: id_ for path, id_ in _index(repository.own / "index", len(head) // 2) if path.startswith(prefix)}
        if not known:
            return None
        found = {f"{prefix}{file.relative_to(real).as_posix()}": file for file in _yaml_files(real)}
        gone = any(path not in found and path.endswith(_SUFFIXES) and "/." not in f"/{path}" for path in known)
        clean = not gone and all(known.get(path) == _blob(file, len(head)) for path, file in found.items())
    except (OSError, ValueError, IndexError):
        return None
    return head if clean else f"{head}-dirty"


def _repository(directory: Path) -> _Repository | None:
    for top in (directory, *directory.parents):
        own = top / ".git"
        if own.is_file():  # a worktree or a submodule: the file says where
            word = own.read_text(encoding="utf-8").strip()
            own = top / word.removeprefix("gitdir:").strip()
        if (own / "HEAD").is_file():
            shared = own / "commondir"
            common = own / shared.read_text(encoding="utf-8").strip() if shared.is_file() else own
            return _Repository(top, own, common)
    return None


def _resolved(repository: _Repository) -> str | None:
    """The commit that HEAD means."""
    word = (repository.own / "HEAD").read_text(encoding="utf-8").strip()
    for _ in range(_LINKS):
        if not word.startswith("ref:"):
            break
        name = word.removeprefix("ref:").strip()
        if not name.startswith("refs/") or ".." in name:
            return None
        word = _reference(repository, name)
    return word if _ID.fullmatch(word) else None


def _reference(repository: _Repository, name: str) -> str:
    """What a reference says; empty where there is none."""
    for place in (repository.own, repository.common):
        if (place / name).is_file():
            return (place / name).read_text(encoding="utf-8").strip()
    packed = repository.common / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.split()[1:] == [name]), "")


def _index(file: Path, width: int) -> Iterator[tuple[str, str]]:
    """(path, object id) of every file that the checkout holds. Raises ValueError for an index that it cannot read.

    `width`: bytes of an object id. See gitformat-index(5).
    """
    if file.stat().st_size > MAX_INDEX:
        raise ValueError("the index is too large")
    data = file.read_bytes()
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("this is no index of a known version")
    at, path = _HEADER, b""
    for _ in range(count):
        begun, at = at, at + _STAT
        id_, at = data[at : at + width], at + width
        flags, at = int.from_bytes(data[at : at + 2]), at + 2
        more = int.from_bytes(data[at : at + 2]) if flags & _EXTENDED else 0
        at += 2 if flags & _EXTENDED else 0
        if version == 4:  # what is cut off the path before, as a number, then what stands in its place
            cut, at = _number(data, at)
            end = data.index(b"\0", at)
            path, at = path[: len(path) - cut] + data[at:end], end + 1
        else:
            end = data.index(b"\0", at + (flags & _NAME_LENGTH))
            path, at = data[at:end], begun + (end - begun + 8) // 8 * 8
        if not more & _SKIPPED:
            yield path.decode("utf-8", "surrogateescape"), id_.hex()
    while at < len(data) - width:  # its extensions, before its checksum
        if not data[
            at : at + 1
        ].isupper():  # who does not know such a one cannot read the index: it is split, or sparse
            raise ValueError("the index is of a kind that is not known")
        at += 8 + int.from_bytes(data[at + 4 : at + 8])


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, as git packs it, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1


def _yaml_files(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in files if name.endswith(_SUFFIXES) and not name.startswith("."))


def _blob(file: Path, digits: int) -> str:
    """The object id of a file's content; of a link's, where it leads."""
    content = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()
    algorithm = hashlib.sha1 if digits == 40 else hashlib.sha256
    return algorithm(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
