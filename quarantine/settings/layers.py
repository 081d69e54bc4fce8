"""Where values come from: each layer knows how to name the place of a value to people."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic_settings import EnvSettingsSource, SettingsError

from quarantine.adapters.policyfiles.strictyaml import load_one, read_text
from quarantine.core.errors import UsageError
from quarantine.settings.leaves import (
    BY_NAME,
    BY_VARIABLE,
    LEAVES,
    PREFIX,
    SECRETS,
    TARGETS,
    groups,
    is_path_option,
    is_secret_option,
)
from quarantine.settings.models import Settings

PathOf = tuple[str, ...]
CONFIG = PREFIX + "CONFIG"
EXEMPT = (PREFIX + "TEST_", PREFIX + "SANDBOX_")
OF_PROCEDURES = {
    PREFIX + name for name in ("NODE", "CASE", "RUN")
}  # a command of a procedure has them, and may call us
# Kubernetes puts these into every pod of a namespace that has a Service called quarantine, or quarantine-something.
_SERVICE_LINK = re.compile(
    PREFIX + r"([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


@dataclass(frozen=True, slots=True)
class Layer:
    """Values, nested as in the file. `where` names the place of a path to people, ready for a colon after it."""

    values: dict[str, Any]
    where: Callable[[Sequence[str | int]], str]

    def get(self, path: PathOf) -> Any:
        """The value; None where there is none."""
        value: Any = self.values
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def has(self, path: PathOf) -> bool:
        """Whether it says something of this path."""
        return self.get(path) is not None

    def put(self, path: PathOf, value: object) -> None:
        """Set a value."""
        holder = self.values
        for part in path[:-1]:
            holder = holder.setdefault(part, {})
        holder[path[-1]] = value

    def remove(self, path: PathOf) -> None:
        """It says nothing of this path any more."""
        holder = self.get(path[:-1])
        if isinstance(holder, dict):
            holder.pop(path[-1], None)


def dotted(path: Sequence[str | int]) -> str:
    """`tickets.default`, on one line whatever somebody has written for a name."""
    return "".join(c if c.isprintable() else "�" for c in ".".join(str(part) for part in path))


def from_options(overrides: Mapping[str, object], environ: Mapping[str, str]) -> Layer:
    """What the command line gave, by dotted name."""
    layer = Layer({}, lambda path: "--" + "-".join(str(p) for p in path if isinstance(p, str)).replace("_", "-"))
    for name, value in overrides.items():
        if name not in BY_NAME:
            raise UsageError(f"There is no setting {name}{_or_did_you_mean(name, BY_NAME)}.")
        if value is not None:
            layer.put(BY_NAME[name].path, value)
    _place_paths(layer, None, environ)
    return layer


# --- Environment ------------------------------------------------------------------------------------------------------


class _Environment(EnvSettingsSource):
    """pydantic-settings' reading of variables, of the ones that it is given."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._environ.items()}


def from_environment(environ: Mapping[str, str]) -> Layer:
    """The QUARANTINE_ variables; an empty one counts as not set. Raises UsageError for one that does not exist."""
    given: dict[str, str] = {}
    for variable, value in environ.items():
        if (
            not variable.upper().startswith(PREFIX)
            or variable.startswith(EXEMPT)
            or variable in {CONFIG, *OF_PROCEDURES}
        ):
            continue
        if variable in BY_VARIABLE:
            given |= {variable: value} if value else {}
        elif not _is_service_link(variable, value):
            raise UsageError(_unknown_variable(variable))
    layer = Layer(_parsed(given), lambda path: _variable(path, given))
    if isinstance(several := layer.values.get("policies"), str):
        layer.values["policies"] = [part for part in several.split(":") if part]
    _place_paths(layer, None, environ)
    return layer


def _is_service_link(variable: str, value: str) -> bool:
    """Not with a double underscore: that is one of ours, misspelt. Nor QUARANTINE_PORT=9090, which somebody means."""
    if "__" in variable or not _SERVICE_LINK.fullmatch(variable):
        return False
    return "://" in value or variable.endswith("_HOST") or "_SERVICE_PORT" in variable or "_PORT_" in variable


def _parsed(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        return _Environment(given)()
    except SettingsError:
        named = {leaf.variable: str(leaf.field.annotation) for leaf in LEAVES if leaf.variable in given}
        broken = [variable for variable, kind in named.items() if "dict" in kind or "tuple" in kind]
        is_list = any("tuple" in named[variable] for variable in broken)
        wanted = 'list; write it as ["one"]' if is_list else 'object; write it as {"name": "value"}'
        raise UsageError(f"{' or '.join(broken)} is no JSON {wanted}.") from None


def _variable(path: Sequence[str | int], given: Mapping[str, str]) -> str:
    name = ".".join(str(part) for part in path[:2])
    if name in BY_NAME:
        within = dotted(path[2:])
        return BY_NAME[name].variable + (f": {within}" if within else "")
    of_list = str(path[0]) if path else ""
    if of_list in BY_NAME:
        return BY_NAME[of_list].variable
    return ", ".join(v for v in given if v.startswith(PREFIX + of_list.upper() + "__")) or PREFIX + of_list.upper()


def _unknown_variable(variable: str) -> str:
    group = variable.upper().removeprefix(PREFIX).lower()
    if group in groups():
        example = next(leaf.variable for leaf in LEAVES if leaf.path[0] == group)
        return f"The variable {variable} is no setting but a group of them; set its parts, such as {example}."
    if group.startswith("__".join(TARGETS) + "__"):
        return (
            f"The variable {variable} is no setting: single options of ticket targets have no variables; write them in "
            "the file, a secret as the path in its option in `_file`."
        )
    # Compared without the prefix that they all share.
    hint = _or_did_you_mean(
        variable.upper().removeprefix(PREFIX), [v.removeprefix(PREFIX) for v in BY_VARIABLE], PREFIX
    )
    return f"The variable {variable} is no setting{hint}."


def _or_did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {prefix}{close[0]}" if close else "; see the reference of settings"


# --- File -------------------------------------------------------------------------------------------------------------


def from_file(path: Path, environ: Mapping[str, str]) -> Layer:
    """The file's values; its relative paths are relative to it. Raises UsageError, also for a secret in it."""
    document = load_one(read_text(path), str(path))

    def where(of: Sequence[str | int]) -> str:
        line, _ = document.place(tuple(of), key=True)
        return f"{path}:{line}: {dotted(of)}"

    values = {
        name: {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
        for name, value in document.data.items()
        if value is not None
    }
    layer = Layer(values, where)
    for name in groups():
        if not isinstance(values.get(name, {}), dict):
            raise UsageError(f"{where((name,))} must be a mapping of names to values.")
    for secret, its_file in SECRETS:
        value = layer.get(secret.path)
        if value is not None and (secret.name != "database_url" or _has_password(str(value))):
            raise UsageError(
                f"{where(secret.path)} is a secret, and this file is no place for one; "
                f"use {its_file.name}, or the variable {secret.variable}."
            )
    for name, option in _options(layer):
        if is_secret_option(option):
            raise UsageError(
                f"{where((*TARGETS, name, option))} is a secret, and this file is no place for one; use "
                f"{dotted((option,))}_file, "
                "which names a file that holds it (single options of targets have no variables)."
            )
    _place_paths(layer, path.parent, environ)
    _place_ledger(layer, path.parent)
    return layer


def _options(layer: Layer) -> Iterator[tuple[str, str]]:
    """Target and option of all that is said of targets. What has not the form of it is left to the models."""
    targets = layer.get(TARGETS)
    for name, options in targets.items() if isinstance(targets, dict) else ():
        yield from ((name, option) for option in (list(options) if isinstance(options, dict) else ()))


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.password) or any("pass" in key.lower() for key in parse_qs(parts.query))
    except ValueError:  # unreadable: say no more about it than that it may hold one
        return "@" in url


def _place_paths(layer: Layer, base: Path | None, environ: Mapping[str, str]) -> None:
    for leaf in LEAVES:
        value = layer.get(leaf.path) if leaf.is_path else None
        if isinstance(value, str | Path):
            layer.put(leaf.path, _placed(value, base, environ))
        elif isinstance(value, list | tuple):
            layer.put(leaf.path, list(_each(value, base, environ)))
    for name, option in _options(layer):
        path = (*TARGETS, name, option)
        value = layer.get(path)
        if value is None:
            layer.remove(path)
        elif is_path_option(option) and isinstance(value, str):
            layer.put(path, str(_placed(value, base, environ)))


def _place_ledger(layer: Layer, base: Path) -> None:
    """The embedded ledger is a file as well: relative to the settings, wherever a command is run."""
    value = layer.get(("database_url",))
    if value is None and not layer.has(("database_url_file",)):
        value = "sqlite:///quarantine.db"
    scheme, three, file = str(value).partition(":///") if value is not None else ("", "", "")
    if scheme.startswith("sqlite") and three and file and not file.startswith(("/", ":", "file:")):
        layer.put(("database_url",), f"{scheme}:///{base / file}")


def _each(values: Sequence[Any], base: Path | None, environ: Mapping[str, str]) -> Iterator[Any]:
    for value in values:
        yield _placed(value, base, environ) if isinstance(value, str | Path) else value


def _placed(value: str | Path, base: Path | None, environ: Mapping[str, str]) -> str | Path:
    home = environ.get("HOME")
    text = str(value)
    if text.startswith("~/") and home:
        return Path(home, text[2:])
    return base / text if base is not None and text else value
