"""YAML without its surprises: a small, safe part of it, each refusal with its place.

Only mappings with text keys, lists, text, numbers, `true`, `false` and nothing. No anchors, merge keys, tags or
directives; no duplicate keys; nothing that two YAML readers take for two things (`yes`, `017`, `1:30`, `1e3`, dates).
Nodes are built from PyYAML's event stream, so depth is counted before anything recurses and no alias is ever followed.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.events import (
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from quarantine.adapters.policyfiles.plainscalars import Surprise, kind_of, plain
from quarantine.core.errors import UsageError

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
MAX_VALUES = 20_000  # in a document: bounds the time that a hostile file of the largest size takes

Path_ = tuple[str | int, ...]
Place = tuple[int, int]

# Line separators that editors do not show could hide a line behind a comment; bidi controls reorder what is seen.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_NO_CHARACTER = re.compile(r"\\U(?!000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})[0-9a-fA-F]{8}")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")  # what an escape can still bring in: neither PostgreSQL nor UTF-8 takes it


class YamlFault(UsageError):
    """A file is not the YAML that is wanted. `message` is one sentence without its end, `hint` what to do about it."""

    def __init__(self, source: str, line: int, column: int, message: str, hint: str = "") -> None:
        super().__init__(f"{source}:{line}: {message}" + (f" — {hint}" if hint else ""))
        self.source, self.line, self.column, self.message, self.hint = source, line, column, message, hint


@dataclass(frozen=True, slots=True)
class StrictDocument:
    """One document: its mapping as plain Python, its own text, and where each value and key stands (1-based)."""

    source: str
    data: Any  # a dict; the two functions below see to it that it is not None
    text: str  # first to last line of its content, `\n` at each line's end: without what stands around it
    line: int  # where `text` begins
    values: dict[Path_, Place] = field(repr=False)
    keys: dict[Path_, Place] = field(repr=False)

    def place(self, path: Sequence[str | int] = (), *, key: bool = False) -> Place:
        """`(line, column)` of the value at `path`, or with `key` of its key; else of the nearest ancestor that exists.

        Of a value that begins on a line below its key (a block), the key's place: that is the line people look for.
        """
        at = tuple(path)
        if key and at in self.keys:
            return self.keys[at]
        while at not in self.values:
            at = at[:-1]
        value = self.values[at]
        return min(value, self.keys[at]) if at in self.keys and self.keys[at][0] < value[0] else value

    def locate(self, path: Sequence[str | int] = (), *, key: bool = False) -> tuple[str, int, int]:
        """`place`, after the file that it is in."""
        return (self.source, *self.place(path, key=key))


def read_text(path: Path) -> str:
    """The text of a UTF-8 file (a BOM is dropped). Raises YamlFault: unreadable, no plain file, too big, not UTF-8."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise YamlFault(str(path), 1, 1, "is no plain file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        what = (error.strerror or "unknown error").lower()
        raise YamlFault(str(path), 1, 1, f"the file cannot be read: {what}") from error
    _check_size(len(raw), str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", "replace")
        line, column = _position(_normalise(before), None)
        message = f"the byte 0x{raw[error.start]:02x} is not UTF-8"
        raise YamlFault(str(path), line, column, message, "save the file as UTF-8") from error


def load_strict(text: str, source: str) -> list[StrictDocument]:
    """All documents of a file. Raises YamlFault; an empty file or document is a fault too."""
    documents = _parse(text, source)
    if not documents:
        raise YamlFault(source, 1, 1, "the file is empty", "write a document or delete the file")
    for document in documents:
        if document.data is None:
            line, column = document.place()
            raise YamlFault(source, line, column, "this document is empty", "remove the `---` or write a document")
    return documents


def load_one(text: str, source: str) -> StrictDocument:
    """The one document of a file of settings; an empty file is an empty mapping. Raises YamlFault."""
    documents = _parse(text, source)
    if len(documents) > 1:
        line, column = documents[1].place()
        raise YamlFault(source, line, column, "a second document begins here", "keep one, and remove the `---`")
    if not documents or documents[0].data is None:
        return StrictDocument(source, {}, "", 1, {(): (1, 1)}, {})
    return documents[0]


# --- From text to documents -------------------------------------------------------------------------------------------


def _parse(text: str, source: str) -> list[StrictDocument]:
    _check_size(len(text.encode("utf-8", "replace")), source)
    text = _normalise(text.removeprefix("\ufeff"))
    if found := _FORBIDDEN.search(text):
        line, column = _position(text, found.start())
        name = "NUL" if found[0] == "\0" else f"U+{ord(found[0]):04X}"
        raise YamlFault(source, line, column, f"the character {name} may not be in a YAML file", "remove it")
    try:
        return list(_documents(text, source))
    except yaml.MarkedYAMLError as error:
        raise _translate(error, source) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML lets chr() fail on \U00110000
        escape = _NO_CHARACTER.search(text)
        line, column = _position(text, escape.start() if escape else 0)
        raise YamlFault(source, line, column, "an escape names no character", "write the character itself") from error


def _documents(text: str, source: str) -> Iterator[StrictDocument]:
    events = yaml.parse(text, Loader=yaml.SafeLoader)
    for event in events:
        if not isinstance(event, DocumentStartEvent):
            continue
        if event.version or event.tags:
            raise _fault(source, event, "directives (%YAML, %TAG) are not supported", "remove the line")
        builder = _Builder(events, source)
        root = next(events)
        data = builder.node(root, ())
        if data is not None and not isinstance(data, dict):
            raise _fault(source, root, f"a document is a mapping of keys to values, and this is {kind_of(data)}")
        line, column = _place(root)
        end = text.find("\n", builder.end)
        body = text[_index(root.start_mark) - column + 1 : len(text) if end < 0 else end].rstrip() + "\n"
        yield StrictDocument(source, data, body, line, builder.values, builder.keys)


class _Builder:
    """Takes the events of one document, and remembers where everything stands."""

    def __init__(self, events: Iterator[Event], source: str) -> None:
        self.events = events
        self.source = source
        self.values: dict[Path_, Place] = {}
        self.keys: dict[Path_, Place] = {}
        self.end = 0  # index in the text of the last thing that is no comment

    def node(self, event: Event, path: Path_) -> object:
        self.check(event, path)
        if len(self.values) >= MAX_VALUES:
            raise _fault(self.source, event, f"a document of more than {MAX_VALUES} values", "split it")
        self.values[path] = _place(event)
        match event:
            case ScalarEvent():
                is_block = event.style in {"|", ">"}  # the end of which is the beginning of the line after it
                self.end = _index(event.end_mark) - is_block
                return self.scalar(event)
            case SequenceStartEvent():
                return self.sequence(path)
            case MappingStartEvent():
                return self.mapping(path)
        raise AssertionError(event)

    def check(self, event: Event, path: Path_) -> None:
        if getattr(event, "anchor", None) is not None:
            raise _fault(self.source, event, "anchors and aliases (`&`, `*`) are not supported", "repeat the value")
        if getattr(event, "tag", None) is not None:
            raise _fault(self.source, event, "tags (`!`) are not supported", "remove it, or put the text in quotes")
        if len(path) > MAX_DEPTH:
            raise _fault(self.source, event, f"this is nested deeper than {MAX_DEPTH} levels")

    def close(self, event: Event) -> None:
        if (start := _index(event.start_mark)) < _index(event.end_mark):  # a bracket; a block ends at what comes next
            self.end = start

    def scalar(self, event: ScalarEvent) -> object:
        if event.style is not None:  # quoted or block: always text
            if _NO_TEXT.search(event.value):
                raise _fault(
                    self.source, event, "an escape for NUL or half a character may not be in text", "remove it"
                )
            return event.value
        try:
            return plain(event.value)
        except Surprise as surprise:
            raise _fault(self.source, event, surprise.message, surprise.hint) from None

    def sequence(self, path: Path_) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self.events), SequenceEndEvent):
            items.append(self.node(event, (*path, len(items))))
        self.close(event)
        return items

    def mapping(self, path: Path_) -> dict[str, object]:
        items: dict[str, object] = {}
        while not isinstance(event := next(self.events), MappingEndEvent):
            key = self.key(event, path)
            if key in items:
                line = self.keys[*path, key][0]
                raise _fault(
                    self.source, event, f"the key `{key[:60]}` is there twice, first in line {line}", "keep one"
                )
            self.keys[*path, key] = _place(event)
            items[key] = self.node(next(self.events), (*path, key))
        self.close(event)
        return items

    def key(self, event: Event, path: Path_) -> str:
        self.check(event, path)
        if not isinstance(event, ScalarEvent):
            raise _fault(self.source, event, "a key must be text, and this is a list or a mapping")
        if event.style is None and event.value == "<<":
            raise _fault(self.source, event, "merge keys (`<<`) are not supported", "repeat what they would bring")
        key = self.scalar(event)
        if not isinstance(key, str):
            raise _fault(self.source, event, f"a key must be text, and this is {kind_of(key)}", "put it in quotes")
        return key


# --- Places and sentences ---------------------------------------------------------------------------------------------

_PROBLEMS = (  # PyYAML's words, ours, what to do
    (r"'\\t' that cannot start", "a tab stands here", "indent and separate with spaces"),
    (r"found character .* that cannot start", "text may not begin with this character", "put the text in quotes"),
    (
        r"mapping values are not allowed",
        "a colon stands where none can",
        "check the indentation, and quote text that has `: ` in it",
    ),
    (r"could not find expected ':'", "a key without its colon", "write `key: value`"),
    (
        r"expected <block end>",
        "this does not line up with what is above it",
        "check the indentation and the quotes",
    ),
    (r"expected ',' or", "a list or mapping in brackets is not closed before here", "close it with its bracket"),
    (r"unexpected end of stream|unexpected document sep", "a quote is opened and never closed", "close it"),
    (r"alias|anchor", "anchors and aliases are not supported", "put text that begins with & or * in quotes"),
    (r"tag|expected URI|'!'", "tags are not supported", "put text that begins with ! in quotes"),
    (r"escape", "a backslash in double quotes begins no escape", "use single quotes, or write two backslashes"),
    (r"expected the node|document start", "a value was expected here", "check the brackets, commas and dashes"),
    (r"chomping or indentation", "only + or - may stand after | or >", "begin the text on the next line"),
)


def _translate(error: yaml.MarkedYAMLError, source: str) -> YamlFault:
    problem = error.problem or "unreadable"
    mark = error.problem_mark or error.context_mark
    if "quoted scalar" in (error.context or "") and error.context_mark and "end of stream" in problem:
        mark = error.context_mark  # where the quote opens tells more than the end of the file
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    for pattern, message, hint in _PROBLEMS:
        if re.search(pattern, problem):
            return YamlFault(source, line, column, message, hint)
    return YamlFault(source, line, column, f"this is no YAML: {problem}")


def _normalise(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _position(text: str, index: int | None) -> Place:
    before = text if index is None else text[:index]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _place(event: Event) -> Place:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _index(mark: Any) -> int:
    return mark.index if mark else 0


def _fault(source: str, event: Event, message: str, hint: str = "") -> YamlFault:
    return YamlFault(source, *_place(event), message, hint)


def _check_size(size: int, source: str) -> None:
    if size > MAX_BYTES:
        raise YamlFault(source, 1, 1, "the file is larger than 1 MiB", "split it")
