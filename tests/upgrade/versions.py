"""Earlier versions of this program, as real processes: code of their own, on the packages that this process has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import quarantine
from quarantine.ledger.schema import REVISION
from tests.upgrade.recording import RECORDED
from tests.upgrade.town import SIMULATED, TOKEN, Town

BEFORE = f"{int(REVISION) - 1:04}"
PACKED = ".tar.xz"  # how the name of kept code ends

# Carries out one command after another, since a start costs more than a cycle. Every version so far has its clock
# there. What it says goes to the standard streams, which are a file; what is asked and answered has pipes of its own.
_OBEYS = """
import json, os, sys
from datetime import datetime
from quarantine import app
from quarantine.cli.main import app as commands

class Standing:
    def now(self):
        return at

app.CLOCK = Standing()
with os.fdopen(int(sys.argv[1])) as asked, os.fdopen(int(sys.argv[2]), "w", buffering=1) as answers:
    for line in asked:
        order = json.loads(line)
        at = datetime.fromisoformat(order["at"])
        try:
            commands(order["words"])
        except SystemExit as ended:
            code = ended.code
        sys.stdout.flush()
        sys.stderr.flush()
        print(json.dumps(code or 0), file=answers)
"""


# Goes on by itself, from a given time.
_GOES_ON = """
import sys, time
from datetime import datetime, timedelta
from quarantine import app
from quarantine.cli.main import app as commands

begun, at = time.monotonic(), datetime.fromisoformat(sys.argv.pop(1))

class Going:
    def now(self):
        return at + timedelta(seconds=time.monotonic() - begun)

app.CLOCK, app.drawing = Going(), lambda: None  # charts would take longer than all the rest
commands()
"""


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    text: str


@dataclass(frozen=True)
class Version:
    """The code in `tree`: a folder with `quarantine` and `migrations` in it."""

    tree: Path

    def environment(self, database: str) -> Mapping[str, str]:
        """Nothing of this process's own settings."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("QUARANTINE_")}
        own = {"PYTHONPATH": str(self.tree), "QUARANTINE_SLACK__TOKEN": TOKEN, "QUARANTINE_DATABASE_URL": database}
        if "clock_tolerance" in (self.tree / "quarantine" / "settings" / "models.py").read_text("utf-8"):
            own |= SIMULATED
        return {**clean, **own, "USER": "somebody", "LOGNAME": "somebody", "PYTHONSAFEPATH": "1"}

    @contextmanager
    def process(
        self, town: Town, database: str, log: Path, *arguments: str, config: Path | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A command that goes on by itself, from the town's time on; killed at the end of the block.

        `config`: its settings; left out, the town's.
        """
        at = town.time.at.isoformat()
        command = [sys.executable, "-c", _GOES_ON, at, *arguments, "--config", str(config or town.config)]
        with (
            log.open("wb") as out,
            subprocess.Popen(command, env=self.environment(database), stdout=out, stderr=out) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def obeying(self, town: Town, database: str, log: Path) -> Iterator[Obeying]:
        """A process that carries out commands at the town's time; killed at the end of the block."""
        to_hear, to_ask = os.pipe()
        to_read, to_answer = os.pipe()
        with os.fdopen(to_ask, "w") as asked, os.fdopen(to_read) as answers, log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", _OBEYS, str(to_hear), str(to_answer)],
                env=self.environment(database),
                pass_fds=(to_hear, to_answer),
                stdout=out,
                stderr=out,
            )
            os.close(to_hear)
            os.close(to_answer)
            try:
                yield Obeying(town, log, process, asked, answers)
            finally:
                process.kill()
                process.wait()


def this_version() -> Version:
    """The code that is tested."""
    return Version(Path(quarantine.__file__).parents[1])


def version_before(folder: Path) -> Version:
    """The last version of the schema before this one, as it is kept beside the recordings; unpacked into `folder`.

    It is kept, and not taken from the history: a shallow clone and a source archive have none, and would test nothing.
    """
    with tarfile.open(RECORDED / f"{BEFORE}{PACKED}") as packed:
        unpacked(packed, folder)
    return Version(folder)


def unpacked(archive: tarfile.TarFile, target: Path) -> None:
    """All of it. Python has a filter since 3.11.4, and wants one told from 3.12 on."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(target, filter="data")
    else:
        archive.extractall(target)  # noqa: S202  (it is our own)


def pack(tree: Path, target: Path) -> None:
    """What of a tree runs, without the sandbox; the same bytes for the same tree. As one piece it is half as large."""
    with tarfile.open(target, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as packed:
        for path in sorted([*tree.glob("quarantine/**/*"), *tree.glob("migrations/**/*")]):
            name = path.relative_to(tree)
            if path.is_file() and "sandbox" not in name.parts and "__pycache__" not in name.parts:
                about = tarfile.TarInfo(str(name))  # of nobody, and of no time
                about.size = path.stat().st_size
                with path.open("rb") as text:
                    packed.addfile(about, text)


@dataclass
class Obeying:
    """A process of an earlier version that does as it is told."""

    town: Town
    log: Path
    process: subprocess.Popen[bytes]
    asked: IO[str]
    answers: IO[str]
    said_before: int = 0  # bytes of the log before the last command

    def begin(self, *words: str) -> None:
        """A command, whose end is not waited for."""
        self.said_before = self.log.stat().st_size
        order = {"at": self.town.time.at.isoformat(), "words": [*words, "--config", str(self.town.config)]}
        print(json.dumps(order), file=self.asked, flush=True)

    def call(self, *words: str) -> Said:
        """A command, to its end. Raises AssertionError where the process ends."""
        self.begin(*words)
        return self.ended()

    def ended(self) -> Said:
        """Wait for the end of what was begun. Raises as `call`."""
        answer = self.answers.readline()
        said = self.log.read_bytes()[self.said_before :].decode(errors="replace")
        assert answer, f"the process has ended: {said}"
        return Said(json.loads(answer), said)

    def do(self, *words: str) -> str:
        """A command that must go well; what it said."""
        done = self.call(*words)
        assert done.code == 0, done.text
        return done.text
