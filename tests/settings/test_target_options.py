"""The settings know secrets and paths of ticket targets by their names alone: the options of the kinds keep to that."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from quarantine.adapters import tickets
from quarantine.adapters.tickets.directory import DirectoryOptions
from quarantine.adapters.tickets.targets import Common
from quarantine.core.errors import UsageError
from quarantine.settings import load
from quarantine.settings.leaves import _holds, is_path_option, is_secret_option

NAMES = st.sampled_from(["kind", "targets", "providers", "default", "directory", "acme", "token", "token_file", "é\n"])


def models() -> Iterator[type[BaseModel]]:
    yield from (Common, DirectoryOptions)
    for package in pkgutil.iter_modules(tickets.__path__, f"{tickets.__name__}."):
        if package.ispkg and pkgutil.resolve_name(package.name).__path__:
            module = import_module(f"{package.name}.options")
            found = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, BaseModel)]
            yield from (each for each in found if each.__module__ == module.__name__)


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.__name__)
def test_secrets_and_paths_are_known_by_their_names(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        assert is_path_option(name) == _holds(field.annotation, Path), name
        assert is_secret_option(name) == _holds(field.annotation, SecretStr), name
        if is_secret_option(name):
            assert f"{name}_file" in model.model_fields, name


def test_each_kind_has_its_options() -> None:
    assert len(list(models())) >= 7


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(given_tickets=st.dictionaries(NAMES, JSON, max_size=3) | JSON)
def test_whatever_is_written_is_read_or_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, given_tickets: object
) -> None:
    """JSON is YAML, of the strict kind too."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(json.dumps({"tickets": given_tickets}, ensure_ascii=True), encoding="utf-8")
    try:
        settings = load(path, {}, {})
    except UsageError as error:
        assert str(error).startswith(f"{path}:1: ")  # noqa: PT017  (either outcome is right)
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert all(isinstance(target.kind, str) for target in settings.tickets.chosen.values())
