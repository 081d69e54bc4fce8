"""What is wrong with policy files: faults with their place, and how they are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

from quarantine.adapters.policyfiles.strictyaml import Path_, YamlFault
from quarantine.core.errors import UsageError

LONGEST = 400  # characters of a message: a fault may quote what it found, and that can be a megabyte

Style = Literal["text", "json", "github"]
Severity = Literal["fault", "note"]


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong. Line and column count from 1; `message` is one sentence, `hint` says what to do.

    A note is no fault: it says something that is worth knowing, and fails no check.
    """

    file: str
    line: int
    column: int
    message: str
    hint: str = ""
    severity: Severity = "fault"

    @property
    def place(self) -> str:
        """`file:line:column`, as editors read it."""
        return f"{self.file}:{self.line}:{self.column}"

    def __str__(self) -> str:
        return printable(f"{self.place}: {self.message}" + (f" — {self.hint}" if self.hint else ""))


class Placed(Protocol):
    """A document that knows where each of its values stands."""

    @property
    def data(self) -> Any:
        """Its mapping."""
        ...

    def locate(self, path: Path_ = (), *, key: bool = False) -> tuple[str, int, int]:
        """(file, line, column) of the value at `path`, or of its key; else of the nearest ancestor that exists."""
        ...


class PolicyFaults(UsageError):
    """The policy files cannot be used as they are. `faults` is never empty."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        more = len(faults) - 1
        super().__init__(str(faults[0]) + (f" (and {more} more {'fault' if more == 1 else 'faults'})" if more else ""))
        self.faults = tuple(faults)


def fault_at(document: Placed, path: Path_, message: str, hint: str = "", *, key: bool = False) -> Fault:
    """A fault at a value of a document, or at its key."""
    return Fault(*document.locate(path, key=key), shorten(message), shorten(hint))


def note_at(document: Placed, path: Path_, message: str, hint: str = "") -> Fault:
    """A note at a value of a document."""
    return replace(fault_at(document, path, message, hint), severity="note")


def fault_of(error: YamlFault) -> Fault:
    """A fault of the YAML itself."""
    return Fault(error.source, error.line, error.column, error.message, error.hint)


def format_faults(faults: Iterable[Fault], style: Style = "text") -> str:
    """For people, with the hint on a line of its own; a JSON list of objects; or annotations of a GitHub workflow.

    No newline at the end.
    """
    match style:
        case "text":
            return "\n".join(_lines(fault) for fault in faults)
        case "json":
            listed = [{k: _encodable(v) for k, v in asdict(fault).items()} for fault in faults]
            return json.dumps(listed, indent=2, ensure_ascii=False)
        case "github":
            return "\n".join(_annotation(fault) for fault in faults)


def _lines(fault: Fault) -> str:
    said = fault.message if fault.severity == "fault" else f"note: {fault.message}"
    hint = f"\n    hint: {printable(fault.hint)}" if fault.hint else ""
    return printable(f"{fault.place}: {said}") + hint


def _encodable(value: object) -> object:
    # A file's name may hold bytes that are not UTF-8; Python has them as lone surrogates, which no encoder takes.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _annotation(fault: Fault) -> str:
    def escape(text: str) -> str:
        return printable(text).replace("%", "%25")

    place = escape(fault.file).replace(":", "%3A").replace(",", "%2C")
    message = escape(fault.message + (f" — {fault.hint}" if fault.hint else ""))
    command = "error" if fault.severity == "fault" else "notice"
    return f"::{command} file={place},line={fault.line},col={fault.column}::{message}"


def printable(text: str) -> str:
    """Text for a terminal: whatever could move its cursor or cannot be encoded is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def shorten(text: str, limit: int = LONGEST) -> str:
    """At most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
