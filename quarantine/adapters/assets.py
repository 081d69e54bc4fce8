"""The asset map: a file in which an installation says what its providers call their machines.

Each entry names a machine by its node's name, its system UUID or its provider id, or a GPU by its UUID; whatever else
it has is told to the provider as it is. CSV, with the names of the first line, or YAML:

    node,system_uuid,serial,rack
    gpu-017,4c4c4544-0042-3510-8052-b4c04f4d4d32,J1234X5,R7

    assets:
      - gpu_uuid: GPU-5f1c7c1e-93f3-1d0e-8d0c-0c6a8a0b9d11
        serial: "1650923001234"

The system UUID says more surely which machine it is than the provider id, and that more than the node's name: an entry
with several of them does not count for a machine that has only taken over the node's name.
"""

from __future__ import annotations

import csv
import io
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from quarantine.adapters.policyfiles.strictyaml import load_one
from quarantine.core.errors import UsageError
from quarantine.core.letters import CaseReport

LARGEST = 32 * 1024 * 1024  # bytes
MOST = 500_000  # entries
LONGEST = 300  # characters of a name or a value
TOLD = 60  # values of one machine
GPU = "gpu_uuid"
MACHINE = ("node", "provider_id", "system_uuid")  # the last says most surely which machine it is
NAMES = (*MACHINE, GPU)
_GPU_LABELS = frozenset({"uuid", "gpu_uuid"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One machine's, or one GPU's."""

    line: int
    names: Mapping[str, str]  # which one it is: of NAMES, in lower case
    told: Mapping[str, str]


Index = Mapping[tuple[str, str], Entry]  # by name and value, as in `Entry.names`


class Assets:
    """Implements `tickets.prepared.AssetMap` over the file, which is read anew when it has changed."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError where the file cannot be used."""
        self._path = path
        self._seen = self._stamp()
        self._index = read(path)
        self.fault = ""

    def of(self, report: CaseReport) -> tuple[tuple[str, str], ...]:
        """The machine's, then those of its GPUs that have a fault, or of all of its GPUs where none has."""
        self._look()
        names = {"node": report.node, "provider_id": report.machine.provider_id}
        names = _lower({**names, "system_uuid": report.machine.system_uuid})
        told: dict[str, str] = {}
        for kind in MACHINE:
            entry = self._index.get((kind, names[kind])) if names[kind] else None
            if entry is not None and not _anothers(entry, kind, names):
                told |= entry.told
        for gpu in _gpus(report):
            entry = self._index.get((GPU, gpu.lower()))
            if entry is not None:
                told |= {f"{name} of {gpu}": value for name, value in entry.told.items()}
        return tuple(told.items())[:TOLD]

    def _look(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._index, self.fault = read(self._path), ""
        except UsageError as error:
            self.fault = str(error)
            structlog.get_logger().warning("the asset map cannot be used; the earlier one is", error=self.fault)

    def _stamp(self) -> tuple[int, int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def read(path: Path) -> Index:
    """All entries of the file. Raises UsageError with file and line."""
    text = _text(path)
    found: dict[tuple[str, str], Entry] = {}
    for number, entry in enumerate(_yaml(path, text) if path.suffix in (".yaml", ".yml") else _csv(path, text)):
        if number >= MOST:
            raise UsageError(f"{path}:{entry.line}: there are more than {MOST} entries")
        if not entry.names:
            raise UsageError(f"{path}:{entry.line}: this says of no machine; give it one of {', '.join(NAMES)}")
        for key in entry.names.items():
            if key in found:
                raise UsageError(
                    f"{path}:{entry.line}: {key[0]} {key[1]!r} is in line {found[key].line} already; keep one"
                )
            found[key] = entry
    return found


def _text(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
            raise UsageError(f"{path}: the asset map is no plain file")
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: the asset map cannot be read ({(error.strerror or 'error').lower()})") from error
    if len(raw) > LARGEST:
        raise UsageError(f"{path}: the asset map is larger than {LARGEST} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: this is not UTF-8; save the file as UTF-8") from None


def _csv(path: Path, text: str) -> Iterator[Entry]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            line = rows.line_num
            if header is None:
                header = _header(path, line, row)
                continue
            if len(row) != len(header):
                raise UsageError(f"{path}:{line}: {len(row)} fields, where the first line names {len(header)}")
            yield _entry(path, line, dict(zip(header, row, strict=True)))
    except csv.Error as error:
        raise UsageError(f"{path}:{rows.line_num}: this is no CSV ({error})") from error


def _header(path: Path, line: int, row: list[str]) -> list[str]:
    names = [name.strip() for name in row]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"{path}:{line}: each column needs a name of its own")
    if not set(names) & set(NAMES):
        raise UsageError(f"{path}:{line}: no column says which machine it is; there must be one of {', '.join(NAMES)}")
    return names


def _yaml(path: Path, text: str) -> Iterator[Entry]:
    document = load_one(text, str(path))
    for name in document.data:
        if name != "assets":
            raise UsageError(f"{path}:{document.place((name,), key=True)[0]}: {name} is not known; there is `assets`")
    entries = document.data.get("assets")
    if entries is None:
        return
    if not isinstance(entries, list):
        raise UsageError(f"{path}:{document.place(('assets',), key=True)[0]}: `assets` must be a list of mappings")
    for number, given in enumerate(entries):
        line = document.place(("assets", number))[0]
        if not isinstance(given, dict):
            raise UsageError(f"{path}:{line}: an entry must be a mapping of names to texts")
        for name, value in given.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
                where = document.place(("assets", number, name))[0]
                raise UsageError(f"{path}:{where}: {name} must be text; put it in quotes")
        yield _entry(path, line, {name: "" if value is None else str(value) for name, value in given.items()})


def _entry(path: Path, line: int, given: Mapping[str, str]) -> Entry:
    values = {name: value.strip() for name, value in given.items() if value.strip()}
    for name, value in values.items():
        if len(name) > LONGEST or len(value) > LONGEST:
            raise UsageError(f"{path}:{line}: {name[:40]!r} is longer than {LONGEST} characters")
    names = _lower({name: value for name, value in values.items() if name in NAMES})
    if GPU in names:  # a machine has several: which one it is in is no name of a GPU
        names = {GPU: names[GPU]}
    return Entry(line, names, {name: value for name, value in values.items() if name not in NAMES})


def _lower(names: Mapping[str, str]) -> dict[str, str]:
    """UUIDs are written either way, and no two of the others differ by case alone."""
    return {name: value.strip().lower() for name, value in names.items()}


def _anothers(entry: Entry, kind: str, names: Mapping[str, str]) -> bool:
    """Whether it is another machine's by a name that says more surely which one it is than `kind`."""
    surer = MACHINE[MACHINE.index(kind) + 1 :]
    return any(names[one] and entry.names.get(one, names[one]) != names[one] for one in surer)


def _gpus(report: CaseReport) -> tuple[str, ...]:
    suspect = {
        value for fault in report.faults for name, value in fault.labels if name.lower() in _GPU_LABELS and value
    }
    return tuple(sorted(suspect)) or report.machine.gpus
