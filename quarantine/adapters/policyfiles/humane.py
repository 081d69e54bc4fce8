"""pydantic's errors → sentences for people, each at its place in the file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from quarantine.adapters.policyfiles.faults import Fault, Placed, fault_at
from quarantine.adapters.policyfiles.strictyaml import Path_

_NUMERIC = re.compile(r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)\s*")
_WANTED = {
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "union": "a share such as 5% or a whole number from 1",  # the only union of the language
}


def translate(
    error: ValidationError,
    document: Placed,
    model: type[BaseModel],
    *,
    reported: Sequence[Path_] = (),
    ignored: Callable[[ErrorDetails], bool] = lambda _: False,
) -> list[Fault]:
    """One fault for each thing that is wrong with `document`, in the order of the file, but for what is `ignored`.

    Of what is `reported` already nothing more is said, nor of what it is in: that is mostly the consequence.
    """
    grouped: dict[tuple[Path_, bool], list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        path, key, union = _where(detail, document.data)
        if detail["type"] == "too_short" and detail["input"]:
            continue  # pydantic counts only the items that are sound; what is wrong with the others is reported
        if ignored(detail) or any(other[: len(path)] == path for other in reported):
            continue
        grouped.setdefault((path, key or detail["type"] == "extra_forbidden"), []).append(detail)
        if union and detail["type"] not in ("enum", "literal_error"):  # those are of a mapping's short form
            detail["type"] = "union"
    faults = []
    for (path, key), details in grouped.items():
        message, hint = _sentence(details[0], path, model)
        faults.append(fault_at(document, path, message, hint, key=key))
    return sorted(faults)


def describe(value: object) -> str:
    """A value in words: `text 'abc'`, `the number 78`, `true`, `a list`, `a mapping`, `nothing`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"text {value if len(value) <= 60 else value[:59] + '…'!r}"
        case list():
            return "a list"
        case _:
            return "a mapping"


def closest(name: str, known: Sequence[str]) -> str | None:
    """What somebody who wrote `name` may have meant."""
    found = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=1, cutoff=0.6)
    return next((k for k in known if found and k.lower() == found[0]), None)


def dotted(path: Sequence[str | int]) -> str:
    """`spec.sources[0].metrics`; empty for the document itself."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if re.fullmatch(r"\w+", part) else f"[{part!r}]"
    return text.removeprefix(".")


def _where(detail: ErrorDetails, data: object) -> tuple[Path_, bool, bool]:
    """(path in the document, whether its key is meant, whether one alternative of several failed)."""
    path: list[str | int] = []
    here: Any = data
    union = False
    loc = detail["loc"]
    for depth, part in enumerate(loc):
        last = depth == len(loc) - 1
        if last and part == "[key]":
            return tuple(path), True, union
        if isinstance(here, dict | list) and part in (here if isinstance(here, dict) else range(len(here))):
            here = here[part]  # type: ignore[index]
            path.append(part)
        elif last and detail["type"] == "missing":
            path.append(part)
        else:  # pydantic names the alternative of a union that it tried
            union = True
    return tuple(path), False, union


def _sentence(detail: ErrorDetails, path: Path_, model: type[BaseModel]) -> tuple[str, str]:
    kind, value = detail["type"], detail["input"]
    where = dotted(path) or "this"
    if kind == "missing":
        return f"{where} is missing", _about(model, path)
    if kind == "extra_forbidden":
        return _unknown_field(path, model)
    if wanted := _WANTED.get(kind):
        return f"{where} must be {wanted}, and is {describe(value)}", _quotes(kind, value)
    message, hint = _refused(detail, where)
    return message, hint or (_about(model, path) if kind == "string_pattern_mismatch" else "")


def _refused(detail: ErrorDetails, where: str) -> tuple[str, str]:
    """Of the right type, and still not what is wanted."""
    context = detail.get("ctx", {})
    match detail["type"]:
        case "literal_error" | "enum":
            return _choice(where, detail["input"], str(context.get("expected", "")))
        case "value_error":
            text = str(context.get("error", detail["msg"]))
            return (text if where == "this" else f"{where}: {text}"), ""
        case kind:
            return f"{where} {_limit(kind, context, detail['msg'])}", ""


_LIMITS = {
    "string_too_short": "is empty",
    "string_too_long": "is longer than {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "too_short": "needs {min_length} items",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}


def _limit(kind: str, context: dict[str, Any], message: str) -> str:
    if kind == "too_short" and context.get("min_length") == 1:
        return "is empty"
    known = _LIMITS.get(kind)
    return known.format_map(context) if known else f"is not accepted: {message[:1].lower()}{message[1:]}"


def _quotes(kind: str, value: object) -> str:
    if isinstance(value, str) and (
        (kind in {"float_type", "int_type"} and _NUMERIC.fullmatch(value))
        or (kind == "bool_type" and value in {"true", "false"})
    ):
        return "remove the quotes"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "put it in quotes"
    return "put it in a list, after a dash" if kind == "tuple_type" and isinstance(value, str) else ""


def _choice(where: str, value: object, expected: str) -> tuple[str, str]:
    choices = re.findall(r"'([^']*)'", expected)
    meant = closest(value, choices) if isinstance(value, str) else None
    text = f"{where} must be {' or '.join(choices)}, and is {describe(value)}"
    return text, f"did you mean {meant}?" if meant else ""


def _unknown_field(path: Path_, model: type[BaseModel]) -> tuple[str, str]:
    name = str(path[-1])
    fields = dict(_fields(model, path[:-1]))
    parent = dotted(path[:-1])
    # The name in Python's spelling is what a reader of the source would write.
    meant = fields.get(name) or closest(name, list(fields.values()))
    hint = f"did you mean `{meant}`?" if meant else f"known here: {', '.join(fields.values())}"
    return f"unknown field `{name}`" + (f" in {parent}" if parent else ""), hint


def _fields(model: type[BaseModel], path: Path_) -> Iterator[tuple[str, str]]:
    """(name in Python, name in the file) of the fields that may stand at `path`."""
    for found in _models_at(model, path):
        for name, info in found.model_fields.items():
            yield name, info.alias or name


def _about(model: type[BaseModel], path: Path_) -> str:
    for found in _models_at(model, path[:-1]):
        for name, info in found.model_fields.items():
            if path[-1] == (info.alias or name) and info.description:
                return info.description.rstrip(".")
    return ""


def _models_at(model: type[BaseModel], path: Path_) -> list[type[BaseModel]]:
    here = [model]
    for part in path:
        if isinstance(part, str):
            infos = [f for m in here for name, f in m.model_fields.items() if (f.alias or name) == part]
            here = [found for info in infos for found in models_in(info.annotation)]
    return here


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The models that a field's type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)
