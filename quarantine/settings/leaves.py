"""The settings one by one, and what each is called where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from quarantine.settings.group import Group
from quarantine.settings.models import Settings

PREFIX = "QUARANTINE_"
TARGETS = ("tickets", "targets")  # below each target's name are its options, which only its kind knows
_SECRET_WORDS = frozenset({"token", "password", "secret", "passphrase", "credential", "credentials"})
_PATH_NAMES = frozenset({"directory", "templates"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting: `("prometheus", "url")`."""

    path: tuple[str, ...]
    field: FieldInfo

    @property
    def name(self) -> str:
        """In prose and in the file: `prometheus.url`."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        """In the environment: `QUARANTINE_PROMETHEUS__URL`."""
        return PREFIX + "__".join(self.path).upper()

    @property
    def is_secret(self) -> bool:
        """Whether its value must not be shown, nor stand in the file."""
        return _holds(self.field.annotation, SecretStr)

    @property
    def is_path(self) -> bool:
        """Whether it names a file or a directory, or several."""
        return _holds(self.field.annotation, Path)


def _holds(annotation: Any, wanted: type) -> bool:
    return annotation is wanted or any(_holds(part, wanted) for part in get_args(annotation))


def is_secret_option(name: str) -> bool:
    """Whether a target's option of this name is a secret: by its last word, since no model tells before it is used."""
    return name.lower().rpartition("_")[2] in _SECRET_WORDS


def is_path_option(name: str) -> bool:
    """Whether a target's option of this name is a path, relative to the file that it is written in."""
    return name in _PATH_NAMES or name.endswith(("_file", "_directory"))


def groups() -> Mapping[str, type[BaseModel]]:
    """The groups of settings by name, each with its model."""
    found: dict[str, type[BaseModel]] = {}
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Group):
            found[name] = field.annotation
    return found


def _all() -> Iterator[Leaf]:
    nested = groups()
    for name, field in Settings.model_fields.items():
        if name in nested:
            yield from (Leaf((name, inner), each) for inner, each in nested[name].model_fields.items())
        else:
            yield Leaf((name,), field)


LEAVES: tuple[Leaf, ...] = tuple(_all())
BY_NAME: Mapping[str, Leaf] = {leaf.name: leaf for leaf in LEAVES}
BY_VARIABLE: Mapping[str, Leaf] = {leaf.variable: leaf for leaf in LEAVES}
# A secret and the file that may hold it.
SECRETS: tuple[tuple[Leaf, Leaf], ...] = tuple(
    (leaf, BY_NAME[f"{leaf.name}_file"]) for leaf in LEAVES if leaf.is_secret
)
