"""From command line, environment and file to `Settings`. What is wrong is told in one sentence, with its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from quarantine.core.errors import UsageError
from quarantine.settings.complaints import complaint
from quarantine.settings.layers import Layer, from_environment, from_file, from_options
from quarantine.settings.leaves import PREFIX, SECRETS, Leaf
from quarantine.settings.models import Settings

DEFAULT_FILE = Path("quarantine.yaml")


def load(config: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """The settings: `overrides` over environment over file over defaults.

    `config` is the file; without it QUARANTINE_CONFIG names it, else `quarantine.yaml` is read if it is there.
    `overrides` are what the command line gave, by name (`mode`, `prometheus.url`); None means not given. Only `environ`
    is looked at, never the process' own environment. Raises UsageError.
    """
    layers = [from_options(overrides, environ), from_environment(environ)]
    file = _file(config, environ)
    if file is not None:
        layers.append(from_file(file, environ))
    for secret, its_file in SECRETS:
        _choose(secret, its_file, layers)
    values: dict[str, Any] = {}
    for layer in reversed(layers):
        for name, value in layer.values.items():
            if isinstance(value, dict) and isinstance(values.get(name), dict):
                values[name] = {**values[name], **value}
            else:
                values[name] = value
    try:
        return Settings(**values)
    except ValidationError as error:
        raise UsageError(complaint(error, layers)) from None  # its own text would repeat a secret


def _file(config: Path | None, environ: Mapping[str, str]) -> Path | None:
    if config is not None:
        return config
    if named := environ.get(PREFIX + "CONFIG"):
        return Path(named)
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _choose(secret: Leaf, its_file: Leaf, layers: list[Layer]) -> None:
    """Of a secret and the file that holds it, the upper layer's word counts; then the file is read."""
    chosen: Layer | None = None
    for layer in layers:
        here = [leaf for leaf in (secret, its_file) if layer.has(leaf.path)]
        if chosen is not None:
            for leaf in here:
                layer.remove(leaf.path)
            continue
        if len(here) == 2:
            raise UsageError(f"{layer.where(its_file.path)} stands beside {secret.name}; give one of them.")
        chosen = layer if here else None
    if chosen is None or not chosen.has(its_file.path):
        return
    path = Path(str(chosen.get(its_file.path)))
    chosen.put(secret.path, _secret_in(path, chosen.where(its_file.path)))


def _secret_in(path: Path, where: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        why = (error.strerror or "unknown error").lower()
        raise UsageError(f"{where}: {path} cannot be read ({why}); check the path and who may read it.") from error
    except UnicodeDecodeError:
        raise UsageError(f"{where}: {path} is not text; write the secret there, and nothing else.") from None
    if not text or "\n" in text or "\0" in text:
        raise UsageError(f"{where}: {path} does not hold one line of text; write the secret there, and nothing else.")
    return text
