"""Which files are meant by the paths that somebody gives, and of which git revision they are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from quarantine.adapters.policyfiles import checkout
from quarantine.adapters.policyfiles.faults import Fault

MAX_FILES = 1000
GIT_TIMEOUT = 5.0  # seconds for each question
REVISION_FILE = "REVISION"
_SUFFIXES = (".yaml", ".yml")
_TEST = re.compile(r".*_test\.ya?ml")
_REVISION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/+-]{0,99}")

# Nothing of the person's or the machine's configuration, and nothing that runs a program of the repository.
_GIT_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.excludesFile=/dev/null"),
    *("-c", "core.attributesFile=/dev/null"),
)
_GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


def policy_files(paths: Sequence[Path]) -> tuple[list[tuple[Path, Path]], list[Fault]]:
    """The files that `paths` mean, each with the root it was found under, and what could not be looked at.

    Of a directory: `*.yaml` and `*.yml` in it and below it, sorted. Hidden names are passed over, so that of the
    `..data` layout of a mounted ConfigMap each file is read once, through its link; so are tests (`*_test.yaml`).
    """
    found: dict[Path, tuple[Path, Path]] = {}
    faults: list[Fault] = []
    for path in paths:
        if _is_directory(path):
            walked = list(islice(_walk(path, (), set(), faults), MAX_FILES + 1))
            if not walked and not faults:
                faults.append(Fault(str(path), 1, 1, "there is no policy file (*.yaml) in this directory"))
            pairs = [(file, path) for file in walked]
        else:
            pairs = [] if _TEST.fullmatch(path.name) else [(path, path.parent)]
        for file, root in pairs:
            found.setdefault(_real(file), (file, root))
    if len(found) > MAX_FILES:
        return [], [Fault(str(paths[0]), 1, 1, f"there are more than {MAX_FILES} policy files", "give their directory")]
    return list(found.values()), faults


def _walk(directory: Path, above: tuple[Path, ...], seen: set[Path], faults: list[Fault]) -> Iterator[Path]:
    real = _real(directory)
    if real in above:
        faults.append(Fault(str(directory), 1, 1, "this symbolic link leads to a directory that it is in", "remove it"))
    if real in seen:
        return
    seen.add(real)
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        what = (error.strerror or "unknown error").lower()
        faults.append(Fault(str(directory), 1, 1, f"the directory cannot be read: {what}"))
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if _is_directory(entry):
            yield from _walk(entry, (*above, real), seen, faults)
        elif entry.name.endswith(_SUFFIXES) and not _TEST.fullmatch(entry.name):
            yield entry


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # it may not be looked at: reading it says so
        return False


def _real(path: Path) -> Path:
    # Not Path.resolve: up to Python 3.12 it raises RuntimeError on a loop of links.
    return Path(os.path.realpath(path))


# --- Revision ---------------------------------------------------------------------------------------------------------


def revision_of(directory: Path, root: Path) -> str | None:
    """The git revision of a directory's policies; `…-dirty` where the directory differs from it; None if not known.

    A file REVISION in the directory, or above it up to `root`, is believed first: a ConfigMap or an image has no git.
    Then git is asked; where it is missing or refuses (a checkout that belongs to somebody else), its files are read.
    """
    for place in (directory, *directory.parents):
        if (told := _told(place / REVISION_FILE)) is not None:
            return told
        if place == root:
            break
    found = _git(directory, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if not found:
        return checkout.revision(directory)
    # A directory that HEAD does not have (ignored, new, an installed package within a repository) is not of it.
    if _git(directory, "rev-parse", "--verify", "--quiet", "HEAD:./") is None:
        return None
    changes = _git(directory, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=all", "--", ".")
    return found if changes == "" else f"{found}-dirty"


def _told(file: Path) -> str | None:
    try:
        with file.open(encoding="utf-8") as opened:
            word = opened.read(200).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return word if _REVISION.fullmatch(word) else None


def _git(directory: Path, *arguments: str) -> str | None:
    """What git answers; None where it is absent, refuses or takes too long."""
    git = shutil.which("git")
    if git is None:
        return None
    # In a hook of git's, GIT_DIR and GIT_INDEX_FILE name the repository that is being committed to.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | _GIT_ENVIRONMENT
    try:
        done = subprocess.run(  # noqa: S603  (no shell; the arguments are ours and the directory follows -C)
            [git, "-C", str(directory), *_GIT_OPTIONS, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None
