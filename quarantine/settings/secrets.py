"""Every secret that the settings hold, name or lead to: what must be nowhere but on its way to its own host."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

from pydantic import BaseModel, SecretStr
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from quarantine.adapters.kube import credentials
from quarantine.redaction import SHORTEST, Redactor
from quarantine.settings.leaves import LEAVES, SECRETS, is_secret_option
from quarantine.settings.models import Settings

_USERS = ("username", "user", "email")
_OURS = "quarantine"  # in every taint
_TENANT = "x-scope-orgid"  # whose the metrics are: a name
_IDENTIFIES = 8  # characters, a digit among them: no word that a sentence needs


def redactor(settings: Settings) -> Redactor:
    """Takes them out of a text."""
    kept = credentials.of(settings.kubernetes.kubeconfig)
    files = {*_files(settings), *kept.files}
    return Redactor([*secrets(settings), *kept.values, *proxy_passwords()], sorted(files), spared=_names(settings))


def secrets(settings: Settings) -> Iterator[str]:
    """Those of the settings themselves, and what is made of them on the way: the words of basic authentication."""
    yield from (value for _, value in _set(settings))
    yield from (value for name, value in settings.prometheus.headers.items() if name.lower() != _TENANT)
    if settings.heartbeat.url is not None:
        yield from _of_heartbeat(settings.heartbeat.url.get_secret_value())
    for group in (settings.prometheus, settings.alertmanager):
        if isinstance(group.password, SecretStr):
            yield from _basic((group.username or "",), (group.password.get_secret_value(),))
    for target in settings.tickets.chosen.values():
        found = list(_in_options(target.options))
        yield from found
        users = [user for name in _USERS if isinstance(user := target.options.get(name), str)]
        yield from _basic([*users, *(f"{user}/token" for user in users)], found)


def shown(settings: Settings) -> Iterator[tuple[str, str]]:
    """What is a secret, and is not hidden all the same: what it is called, and why it is not."""
    names = _names(settings)
    for called, value in _set(settings):
        if value in names:
            yield called, "a name that these settings have for something else as well"
        elif len(value) < SHORTEST:
            yield called, f"shorter than {SHORTEST} characters"


def _set(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each that is a setting of its own, or a part of one, by what it is called."""
    for password in _of_database(settings.database_url.get_secret_value()):
        yield "the password of database_url", password
    for leaf in LEAVES:
        if leaf.is_secret and leaf.name != "database_url":
            value = _at(settings, leaf.path)
            if isinstance(value, SecretStr):
                yield leaf.name, value.get_secret_value()


def _names(settings: Settings) -> frozenset[str]:
    """Words of the settings that a log is full of. One that is a password as well keeps nothing from anybody."""
    plain = (_at(settings, leaf.path) for leaf in LEAVES if not leaf.is_secret)
    texts = (value for value in plain if isinstance(value, str))
    return frozenset([_OURS, *texts, *_parts_of_database(settings)])


def _parts_of_database(settings: Settings) -> Iterator[str]:
    try:
        parsed = make_url(settings.database_url.get_secret_value())
    except (ArgumentError, ValueError):
        return
    yield from filter(None, (parsed.username, parsed.host, parsed.database))


def proxy_passwords() -> Iterator[str]:
    """Of the proxies that the environment names."""
    for proxy in getproxies().values():
        try:
            password = urlsplit(proxy).password
        except ValueError:
            continue
        if password:
            yield from (password, unquote(password))


def _files(settings: Settings) -> Iterator[Path]:
    """Those that are read again and again, since what they hold is rotated."""
    for _, its_file in SECRETS:
        if isinstance(path := _at(settings, its_file.path), Path):
            yield path
    for target in settings.tickets.chosen.values():
        for name, value in target.options.items():
            if name.endswith("_file") and is_secret_option(name.removesuffix("_file")) and isinstance(value, str):
                yield Path(value)


def _of_heartbeat(url: str) -> Iterator[str]:
    """What identifies the check is a part of the path, the first or the last; the other one may be a plain word."""
    try:
        path = urlsplit(url).path
    except ValueError:
        return
    yield path.strip("/") if any(c.isdigit() for c in path) else url
    yield from (part for part in path.split("/") if len(part) >= _IDENTIFIES and any(c.isdigit() for c in part))


def _of_database(url: str) -> Iterator[str]:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        yield url
        return
    if parsed.password:
        yield str(parsed.password)
    for name, value in parsed.query.items():  # postgresql://host/name?password=…
        if is_secret_option(name):
            yield from (value,) if isinstance(value, str) else value


def _in_options(options: Mapping[str, object]) -> Iterator[str]:
    """Of a kind of ticket system that is not ours to know: what is named as a secret."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _in_options({str(key): inner for key, inner in value.items()})
        elif isinstance(value, str) and (is_secret_option(str(name)) or str(name).lower().endswith("key")):
            yield value


def _basic(users: tuple[str, ...] | list[str], passwords: tuple[str, ...] | list[str]) -> Iterator[str]:
    for user, password in itertools.product(users, passwords):
        yield base64.b64encode(f"{user}:{password}".encode()).decode()


def _at(settings: BaseModel, path: tuple[str, ...]) -> object:
    found: object = settings
    for name in path:
        found = getattr(found, name)
    return found
