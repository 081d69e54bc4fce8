"""The reference page of the policy language, made of the models: `docs/policy-language.md`."""

from __future__ import annotations

import re
import types
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from quarantine.adapters.policyfiles.examples import EXAMPLES, INTRODUCTION
from quarantine.adapters.policyfiles.humane import models_in
from quarantine.core.document import LabelName, MetricName, Name, Text
from quarantine.core.fleet import Values
from quarantine.core.policy import KINDS
from quarantine.core.units import Bound, Count, Duration, Number, Share, format_duration, format_share

_WORDS: list[tuple[Any, str]] = [
    (Duration, "[duration](#values)"),
    (Share, "[share](#values)"),
    (Bound, "[bound](#values)"),
    (Number, "number"),
    (Count, "whole number from 1"),
    (Name, "[name](#values)"),
    (Text, "text"),
    (MetricName, "metric name"),
    (LabelName, "label name"),
    (Values, "text or a list of text"),
    (bool, "true or false"),
    (str, "text"),
    (int, "whole number"),
    (float, "number"),
]


def reference() -> str:
    """The page, in Markdown."""
    places = _places()
    parts = [INTRODUCTION]
    for kind, model in KINDS.items():
        parts.append(f"## {kind}\n\n{_doc(model)}\n\n```yaml\n{EXAMPLES[kind]}```\n")
        parts += [_section(nested, where) for nested, where in places.items() if where[0].startswith(f"{kind} ")]
    return "\n".join(parts)


def _places() -> dict[type[BaseModel], list[str]]:
    """Where each model below the kinds stands: `Policy spec.trigger`. In the order of the fields."""
    found: dict[type[BaseModel], list[str]] = {}
    left: list[tuple[type[BaseModel], str]] = [(model, f"{kind} ") for kind, model in KINDS.items()]
    while left:
        model, place = left.pop(0)
        if not place.endswith(" "):
            found.setdefault(model, []).append(place)
        below = []
        for name, field in model.model_fields.items():
            many = "[]" if get_origin(field.annotation) is tuple else ""
            path = f"{place}{'' if place.endswith(' ') else '.'}{field.alias or name}{many}"
            below += [(nested, path) for nested in models_in(field.annotation)]
        left = below + left
    return found


def _section(model: type[BaseModel], places: list[str]) -> str:
    hints = get_type_hints(model, include_extras=True)
    rows = [
        f"| `{field.alias or name}` | {_type(hints[name], field)} | {_default(field)} | {_cell(field.description)} |"
        for name, field in model.model_fields.items()
    ]
    head = "| field | type | default | |\n|---|---|---|---|"
    where = ", ".join(f"`{place}`" for place in places)
    return f"### {_title(model)}\n\n{where}\n\n{_doc(model)}\n\n{head}\n" + "\n".join(rows) + "\n"


def _title(model: type[BaseModel]) -> str:
    return re.sub(r"(?<!^)([A-Z])", r" \1", model.__name__).capitalize()


def _doc(model: type[BaseModel]) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (model.__doc__ or "").split("\n\n"))


def _type(hint: Any, field: FieldInfo | None = None) -> str:
    if hint is int and field is not None and (within := _range(field)):
        return f"whole number {within}"
    if (known := next((word for alias, word in _WORDS if alias == hint), None)) is not None:
        return known
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return f"[{_title(hint)}](#{_title(hint).lower().replace(' ', '-')})"
    return _compound(hint, field)


def _compound(hint: Any, field: FieldInfo | None) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(arguments[0], field)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return "mapping" if arguments[1] is Any else f"mapping, {_type(arguments[0])} → {_type(arguments[1])}"
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(a, field) for a in arguments if a is not type(None)))
    assert issubclass(hint, Enum)  # noqa: S101  (there is nothing else in the language)
    return " or ".join(f"`{member.value}`" for member in hint)


def _range(field: FieldInfo) -> str:
    low = next((m.ge for m in field.metadata if isinstance(m, Ge)), None)
    high = next((m.le for m in field.metadata if isinstance(m, Le)), None)
    return ("" if low is None else f"from {low}") + ("" if high is None else f" to {high}")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}, "") or isinstance(value, BaseModel):
        return ""
    if isinstance(value, dict):
        return "<br>".join(f"`{key}: {inner}`" for key, inner in value.items())
    return f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):
        return format_share(value)  # every number with a default is a share
    return str(value) if isinstance(value, str | int) else format_duration(value)


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
