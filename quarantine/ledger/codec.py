"""Records of the core as canonical JSON text and back: what is stored, hashed and, a year later, read.

Canonical means: one text for one record. Keys sorted, no spaces, ASCII only (NUL and lone surrogates are `\\u`
escapes), times RFC 3339 in UTC with microseconds, enums by value, NaN and the infinities as the strings `NaN`,
`Infinity` and `-Infinity`, a trace's points packed (`ledger.points`). A field that is empty and whose default is empty
is left out, so a field added later changes no older text and no older meaning. A high surrogate followed by a low one
is the character that the two spell: JSON has no other way.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from quarantine.core.case import Finding
from quarantine.core.decision import Decision
from quarantine.core.model import Machine
from quarantine.core.record.trace import Trace
from quarantine.ledger import points
from quarantine.ledger.atoms import BASIC, Coder, quoted, typed

Record = TypeVar("Record")
Plain = dict[str, Any]  # a record as JSON's own types

_DUMPS = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def encode(record: object) -> str:
    """The canonical text of a dataclass of the core. Raises ValueError for a time without a zone."""
    kind: Any = type(record)
    return _coder(kind).write(record)


def plain(record: object) -> Plain:
    """The same as a dict of JSON's own types."""
    kind: Any = type(record)
    return cast("Plain", _coder(kind).pack(record))


def partly(record: object, names: frozenset[str]) -> Plain:
    """Some fields of what `plain` gives."""
    kind: Any = type(record)
    return {
        name: pack(held)
        for name, pack, omit_none, omit_empty in _packed(kind)
        if name in names and not (((held := getattr(record, name)) is None and omit_none) or (omit_empty and not held))
    }


def dump(data: Plain) -> str:
    """The canonical text of what `plain` gave."""
    return _DUMPS(data)


def decode(text: str) -> Decision:
    """The decision that this is the text of. Raises ValueError, saying which field is wrong."""
    return decode_as(Decision, text)


def decode_as(kind: type[Record], text: str) -> Record:
    """The record of type `kind` that this is the text of. Raises ValueError, saying which field is wrong."""
    wanted: Any = kind
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return cast("Record", _coder(wanted).unpack(data))


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


@cache
def _coder(hint: Any) -> Coder:
    """The coder of a type, as it is written in an annotation."""
    if isinstance(hint, type):
        return _plain_coder(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType) and len(args) == 2 and args[1] is type(None):
        return _optional(_coder(args[0]))
    if origin is tuple and args[1:] == (...,):
        return _sequence(_coder(args[0]))
    if origin is tuple:
        return _fixed(tuple(_coder(arg) for arg in args))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_coder(args[0]), _coder(args[1]))
    raise TypeError(f"the ledger does not know how to store {hint}")


def _plain_coder(kind: type) -> Coder:
    if issubclass(kind, StrEnum):
        return Coder(str.__str__, kind, quoted)  # `.value` is an attribute made in Python, and there are many
    return _record(kind) if is_dataclass(kind) else BASIC[kind]


def _optional(inner: Coder) -> Coder:
    pack, unpack, write = inner.pack, inner.unpack, inner.write
    return Coder(
        lambda value: None if value is None else pack(value),
        lambda value: None if value is None else unpack(value),
        lambda value: "null" if value is None else write(value),
    )


def _sequence(inner: Coder) -> Coder:
    def unpack(value: Any) -> tuple[Any, ...]:
        return tuple(inner.unpack(part) for part in typed(list)(value))

    return Coder(
        lambda value: [inner.pack(part) for part in value],
        unpack,
        lambda value: f"[{','.join(map(inner.write, value))}]",
    )


def _fixed(inner: tuple[Coder, ...]) -> Coder:
    def unpack(value: Any) -> tuple[Any, ...]:
        return tuple(coder.unpack(part) for coder, part in zip(inner, typed(list)(value), strict=True))

    return Coder(
        lambda value: [coder.pack(part) for coder, part in zip(inner, value, strict=True)],
        unpack,
        lambda value: f"[{','.join([coder.write(part) for coder, part in zip(inner, value, strict=True)])}]",
    )


def _mapping(key: Coder, inner: Coder) -> Coder:
    def unpack(value: Any) -> dict[Any, Any]:
        return {key.unpack(k): inner.unpack(v) for k, v in typed(dict)(value).items()}

    def write(value: Any) -> str:
        held = {key.pack(k): v for k, v in value.items()}
        return "{" + ",".join([f"{quoted(name)}:{inner.write(held[name])}" for name in sorted(held)]) + "}"

    return Coder(lambda value: {key.pack(k): inner.pack(v) for k, v in value.items()}, unpack, write)


# Fields that are not written as their type is elsewhere.
_OWN: Mapping[tuple[type, str], Coder] = {
    (Trace, "points"): Coder(points.pack, points.unpack, lambda value: quoted(points.pack(value)))
}
# Parts of a case that stay the same object while the case goes on: their texts are kept.
_LASTING = (Finding, Machine)
_KEPT = 500  # of each


def _record(kind: type) -> Coder:
    parts, packed = _parts(kind), _packed(kind)

    def pack(value: Any) -> Plain:
        data = {}
        for name, pack_field, omit_none, omit_empty in packed:
            held = getattr(value, name)
            if (omit_none and held is None) or (omit_empty and not held):
                continue
            data[name] = pack_field(held)
        return data

    def unpack(data: Any) -> Any:
        # A key that this code does not know was written by a newer one: it stays in the stored text.
        held = typed(dict)(data)
        try:
            return kind(**{name: _field(kind, name, coder, held[name]) for name, coder in parts if name in held})
        except TypeError as error:
            raise ValueError(f"a {kind.__name__} lacks a field: {error}") from error

    write = _writer(kind)
    return Coder(pack, unpack, _remembering(write) if kind in _LASTING else write)


@cache
def _parts(kind: type) -> tuple[tuple[str, Coder], ...]:
    hints = get_type_hints(kind)
    return tuple((f.name, _OWN.get((kind, f.name)) or _coder(hints[f.name])) for f in _fields(kind))


@cache
def _packed(kind: type) -> tuple[tuple[str, Callable[[Any], Any], bool, bool], ...]:
    """Left out are only values that reading gives back by default: None for None, empty for empty."""
    both = zip(_fields(kind), _parts(kind), strict=True)
    return tuple((f.name, coder.pack, f.default is None, _is_empty(f)) for f, (_, coder) in both)


def _writer(kind: type) -> Callable[[Any], str]:
    known = sorted(zip(_fields(kind), _parts(kind), strict=True), key=lambda both: both[0].name)
    told = [
        (f"{quoted(f.name)}:", attrgetter(f.name), coder.write, f.default is None, _is_empty(f))
        for f, (_, coder) in known
    ]

    def write(value: Any) -> str:
        said = [
            label + write_field(held)
            for label, get, write_field, omit_none, omit_empty in told
            if not (((held := get(value)) is None and omit_none) or (omit_empty and not held))
        ]
        return "{" + ",".join(said) + "}"

    return write


def _remembering(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """The same, by which of the records it is: they are frozen."""
    kept: dict[int, tuple[object, str]] = {}

    def remembered(value: object) -> str:
        found = kept.get(id(value))
        if found is not None and found[0] is value:
            return found[1]
        text = write(value)
        if len(kept) >= _KEPT:
            kept.clear()
        kept[id(value)] = (value, text)
        return text

    return remembered


def _fields(kind: type) -> tuple[Field[Any], ...]:
    return fields(cast("Any", kind))


def _field(kind: type, name: str, coder: Coder, value: Any) -> Any:
    try:
        return coder.unpack(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{kind.__name__}.{name}: {error}") from error


def _is_empty(field: Field[Any]) -> bool:
    """Whether a field's default is an empty text, tuple or mapping."""
    return field.default in ("", ()) or field.default_factory is dict
