"""What a setting's value may be, and the sentences that say what else it must be."""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

from quarantine.core.units import parse_duration

_PREFIX = re.compile(r"(?=.{1,200}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LISTEN = re.compile(r"(?P<host>|[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_DATABASES = ("sqlite:", "sqlite+", "postgresql:", "postgresql+")


def _zero_or_more(value: object) -> timedelta:
    return timedelta(0) if value in {"0s", "0ms"} or value == timedelta(0) else parse_duration(value)


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _paths(value: object) -> object:
    """One path where a list is wanted is a list of one."""
    return (value,) if isinstance(value, str | Path) else value


def _web_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise ValueError("is no URL; write http://host:port or https://host") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("is no http or https URL; write http://host:port or https://host")
    if parts.username or parts.password:
        raise ValueError("may hold no credentials; use the settings of their own (username, password_file)")
    if parts.query or parts.fragment:
        raise ValueError("may not go on after its path; remove what follows `?` or `#`")
    return value


def _safe_address(value: str) -> str:
    """A token goes there: in the clear only to this machine."""
    parts = urlsplit(_web_address(value))
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError("would send the token in the clear; write https://")
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _database(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(_DATABASES):
        raise ValueError(
            "is neither Postgres nor SQLite; write postgresql+psycopg://user@host/name or sqlite:///file.db"
        )
    return value


def _listen_address(value: str) -> str:
    if value:
        listen_address(value)
    return value


def listen_address(value: str) -> tuple[str, int]:
    """Host (empty: all) and port of `host:port`. Raises ValueError."""
    found = _LISTEN.fullmatch(value)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ValueError("is no address to listen on; write host:port, such as 127.0.0.1:9469, or :9469 for all")
    return found["host"].strip("[]"), int(found["port"])


def _label_prefix(value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise ValueError("is no prefix of a label; write a DNS name in lower case, without a slash")
    return value


OrZero = Annotated[timedelta, BeforeValidator(_zero_or_more)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
SafeAddress = Annotated[str, AfterValidator(_safe_address)]
ListenAddress = Annotated[str, AfterValidator(_listen_address)]
LabelPrefix = Annotated[str, AfterValidator(_label_prefix)]
Database = Annotated[SecretStr, AfterValidator(_database)]
Lower = BeforeValidator(_lower)
Paths = BeforeValidator(_paths)
