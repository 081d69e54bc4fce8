"""The reference page of all settings, rendered from the models: what is true of the code is true of the page."""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from quarantine.core.units import format_duration
from quarantine.settings.leaves import LEAVES, SECRETS, Leaf, groups
from quarantine.settings.models import Settings

_INTRODUCTION = """\
# Settings

A setting comes from the command line, else from the environment, else from a file, else it has its default. The file
is YAML: what `--config` names, else what `QUARANTINE_CONFIG` names, else `quarantine.yaml` where the command is run, if
there is one. A relative path in the file, an embedded ledger's too, is relative to the file. A duration is a number
with its unit: `500ms`, `30s`, `5m`, `1h30m`.

A name that does not exist is refused, in the file and among the variables that begin with `QUARANTINE_` (those that
begin with `QUARANTINE_TEST_` or `QUARANTINE_SANDBOX_` are left alone, and so are the three that a procedure's command
is given). An empty variable counts as not set.

Secrets are refused in the file, which tends to be committed: they come from the environment, or from a file of their
own that a setting in `_file` names.
"""
_KINDS = {
    bool: "`true`, `false`",
    str: "text",
    int: "number",
    timedelta: "duration",
    Path: "path",
    SecretStr: "secret",
    dict: "mapping",
}


def reference() -> str:
    """Markdown: a table for each group."""
    return "\n".join((_INTRODUCTION, *_section("General", ""), *_groups()))


def _groups() -> Iterator[str]:
    for name in groups():
        yield from _section(f"`{name}`", name, f"{Settings.model_fields[name].description}\n")


def _section(title: str, group: str, *about: str) -> Iterator[str]:
    yield f"## {title}\n"
    yield from about
    yield "| setting | variable | is | default | meaning |"
    yield "|---|---|---|---|---|"
    for leaf in LEAVES:
        if leaf.path[:-1] == ((group,) if group else ()):
            yield _row(leaf)
    yield ""


def _row(leaf: Leaf) -> str:
    meaning = leaf.field.description or ""
    if any(leaf is secret for secret, _ in SECRETS):
        meaning += " Not in the file if it has a password." if leaf.name == "database_url" else " Not in the file."
    return f"| `{leaf.name}` | `{leaf.variable}` | {_kind(leaf.field.annotation)} | {_default(leaf)} | {meaning} |"


def _kind(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(parts[0])
    if origin in {Union, types.UnionType}:
        return " or ".join(_kind(part) for part in parts if part is not type(None))
    if origin is tuple:
        return f"list of {_kind(parts[0])}s"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        origin, parts = Literal, tuple(member.value for member in annotation)
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    return _KINDS[origin or annotation]


def _default(leaf: Leaf) -> str:
    value = leaf.field.default
    if leaf.name == "policies":
        return "the shipped ones"
    if value is None or value is PydanticUndefined:
        return "none"
    if value == "":
        return "empty"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, timedelta):
        value = format_duration(value)
    if isinstance(value, Enum):
        value = value.value
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
