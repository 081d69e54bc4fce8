"""What an operator gives of a far side: its URL and its secret, taken only as they are safe."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from quarantine.core.errors import Refused

_LONGEST_SECRET = 8192


def secret_of(value: SecretStr | None, file: Path | None, what: str, *, refused: type[Refused]) -> Callable[[], str]:
    """Reads a secret whenever it is called, so that a rotated file counts. It raises `refused` without one."""

    def read() -> str:
        if file is None:
            text = value.get_secret_value() if value is not None else ""
        else:
            try:
                with file.open("rb") as handle:
                    text = handle.read(_LONGEST_SECRET + 1).decode("ascii")
            except (OSError, UnicodeDecodeError):
                raise refused(f"the {what} cannot be read from {file}: mount it, or set it right") from None
        text = text.strip()
        if not text or len(text) > _LONGEST_SECRET or not (text.isascii() and text.isprintable()):
            raise refused(f"the {what} is empty, or is no single line of ASCII: set it right")
        return text

    return read


def base_url(url: str, what: str, *, plain: bool = False) -> str:
    """The URL without its last slash; `what`: whose it is, "ticket system". Raises ValueError, with no secret in it.

    Only https, or http on loopback (`plain`: http anywhere, where nothing secret is sent); no user, no query.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"the URL of the {what} cannot be read: write https://host/path") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"the URL of the {what} has a user or a password in it: set the token option instead")
    if not host or parts.query or parts.fragment:
        raise ValueError(f"the URL of the {what} must have a host, and no query and no fragment")
    if parts.scheme != "https" and not (parts.scheme == "http" and (plain or _is_loopback(host))):
        raise ValueError(f"the URL of the {what} must begin with https:// (http:// only on loopback)")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
