"""A Containerfile read, and its steps carried out without an engine: in a directory, with this machine's Python.

`python -m tests.k8s.steps` carries out all of them, the download of the locked packages too, and starts the program.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = ROOT / "Containerfile"


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction."""

    name: str
    text: str


@dataclass(slots=True)
class Stage:
    """From one FROM to the next."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)

    def of(self, name: str) -> list[str]:
        """The texts of all instructions of this name."""
        return [step.text for step in self.steps if step.name == name]

    def words(self, name: str) -> list[str]:
        """Of the one instruction in JSON."""
        [text] = self.of(name)
        return list(json.loads(text))


def read(file: Path = FILE) -> tuple[dict[str, str], list[Stage]]:
    """The arguments before the first stage, and the stages."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, text = line.partition(" ")
        if name == "FROM":
            base, _, called = text.partition(" AS ")
            stages.append(Stage(base, called))
        elif stages:
            stages[-1].steps.append(Step(name, text))
        else:
            key, _, value = text.partition("=")
            arguments[key] = value
    return arguments, stages


@dataclass(slots=True)
class Bench:
    """Carries steps out below `folder`, which stands for the root of each stage's filesystem.

    `instead`: shell commands in the place of steps, by a part of their text.
    """

    folder: Path
    instead: Mapping[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def build(self) -> Path:
        """All stages; the folder of the last one's filesystem."""
        _, stages = read()
        for number, stage in enumerate(stages):
            self._stage(stage, self._root(stage.name or str(number)))
        return self._root(stages[-1].name or str(len(stages) - 1))

    def _root(self, name: str) -> Path:
        return self.folder / name

    def _stage(self, stage: Stage, root: Path) -> None:
        here = root
        root.mkdir(parents=True, exist_ok=True)
        for step in stage.steps:
            match step.name:
                case "WORKDIR":
                    here = root / step.text.lstrip("/")
                    here.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(shlex.split(step.text), root, here)
                case "RUN":
                    self._run(step.text, root, here)

    def _copy(self, words: Sequence[str], root: Path, here: Path) -> None:
        source = ROOT
        if words[0].startswith("--from="):
            source, words = self._root(words[0].removeprefix("--from=")), words[1:]
        *given, target = words
        there = root / target.lstrip("/") if target.startswith("/") else here / target
        for name in given:
            origin = source / name.lstrip("/")
            if origin.is_dir():
                hidden = shutil.ignore_patterns("__pycache__") if source is ROOT else None  # .dockerignore
                shutil.copytree(origin, there, dirs_exist_ok=True, symlinks=True, ignore=hidden)
            else:
                into = there / origin.name if target.endswith("/") else there
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin, into)

    def _run(self, text: str, root: Path, here: Path) -> None:
        command = next((other for part, other in self.instead.items() if part in text), text)
        for path in ("/dist", "/opt", "/locks"):
            command = command.replace(f" {path}/", f" {root}{path}/").replace(f" {path}\n", f" {root}{path}")
        command = command.replace("--directory /dist", f"--directory {root}/dist")
        if command.startswith("/opt/"):
            command = f"{root}{command}"
        if command.startswith("python "):
            command = f"{shlex.quote(sys.executable)}{command.removeprefix('python')}"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("QUARANTINE_", "PYTHON"))}
        done = subprocess.run(
            ["/bin/sh", "-ec", command], cwd=here, env=clean, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{text}\n{done.stdout}{done.stderr}")
        self.done.append(text)


# What would change this machine's own Python, of which the base has one to itself.
OWN_PYTHON = {
    "pip uninstall": "true",
    "--requirement locks/sandbox.txt": "python -c 'import hatchling'",
}


def main() -> None:
    """All of it, and the program started."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), OWN_PYTHON)
        image = bench.build()
        command = image / "opt/quarantine/bin/quarantine"
        # The interpreter is a link into this machine's; the scripts name the folder that they were made in.
        first, *rest = command.read_text(encoding="utf-8").splitlines()
        python = image / "opt/quarantine/bin/python"
        command.write_text("\n".join([f"#!{python}", *rest]), encoding="utf-8")
        size = sum(p.stat().st_size for p in (image / "opt").rglob("*") if p.is_file() and not p.is_symlink())
        said = subprocess.run([str(command), "--version"], capture_output=True, text=True, check=True, cwd=folder)
        print(f"{len(bench.done)} steps, {size / 1e6:.0f} MB in /opt (interpreter: {first}): {said.stdout.strip()}")


if __name__ == "__main__":
    main()
