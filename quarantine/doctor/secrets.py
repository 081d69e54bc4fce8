"""No secret of the settings leaves: adapters see to it, and this looks at every sentence once more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from pydantic import BaseModel, SecretStr
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from quarantine.doctor.finding import Finding
from quarantine.settings import Settings

_TOO_SHORT = 6  # characters; to hide a shorter one would blot out half of what is said
_NAMED = re.compile(r"token|password|secret|key$", re.IGNORECASE)


def mask_of(settings: Settings) -> Callable[[Finding], Finding]:
    """What replaces the secrets of these settings by `***`."""
    hidden = sorted({s for s in _of(settings) if len(s) >= _TOO_SHORT}, key=len, reverse=True)

    def mask(finding: Finding) -> Finding:
        sentence, advice = finding.sentence, finding.advice
        for secret in hidden:
            sentence, advice = sentence.replace(secret, "***"), advice.replace(secret, "***")
        return replace(finding, sentence=sentence, advice=advice)

    return mask


def _of(settings: Settings) -> Iterator[str]:
    database = settings.database_url.get_secret_value()
    try:
        password = make_url(database).password
        yield str(password) if password else ""
    except (ArgumentError, ValueError):
        yield database
    yield from settings.prometheus.headers.values()
    for target in settings.tickets.chosen.values():
        yield from _in_options(target.options)
    yield from _in_model(settings)


def _in_model(model: BaseModel) -> Iterator[str]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, SecretStr) and name != "database_url":
            yield value.get_secret_value()
        elif isinstance(value, BaseModel):
            yield from _in_model(value)


def _in_options(options: Mapping[str, object]) -> Iterator[str]:
    """Of a kind of ticket system that is not ours to know: what is named as a secret."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _in_options({str(key): inner for key, inner in value.items()})
        elif isinstance(value, str) and _NAMED.search(str(name)):
            yield value
