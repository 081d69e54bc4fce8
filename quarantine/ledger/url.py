"""The ledger's URL: which databases there are, and how a URL is shown without its secrets."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from quarantine.core.errors import UsageError

_DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
}
_SECRET = frozenset({"password", "sslpassword", "passfile", "sslkey"})  # parameters of libpq


def parse_url(text: str | URL) -> URL:
    """A URL with its driver, `postgresql+psycopg` or `sqlite+pysqlite`. Raises UsageError; never shows the password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Neither shown nor chained, but for its scheme: what cannot be parsed cannot be masked.
        scheme, colon, _ = str(text).partition(":")
        shown = f" that begins with {scheme + colon!r:.40}" if colon else ""
        raise UsageError(
            f"the ledger's URL{shown} cannot be read; write postgresql://user@host/database or sqlite:///file.db"
        ) from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise UsageError(
            f"the ledger's URL begins with {url.drivername!r}, which is no database that it knows; "
            "write postgresql://user@host/database or sqlite:///file.db"
        )
    url = url.set(drivername=driver)
    if is_sqlite(url) and url.database in (None, "", ":memory:"):
        raise UsageError("the ledger's URL names no file, and what is in memory is no record; write sqlite:///file.db")
    return url


def is_sqlite(url: URL) -> bool:
    """Whether this is the embedded database."""
    return url.get_backend_name() == "sqlite"


def masked(url: URL) -> str:
    """The URL for people: no password, no driver."""
    query = {name: "***" if name in _SECRET else value for name, value in url.query.items()}
    shown = url.set(drivername=url.get_backend_name(), query=query)
    return shown.render_as_string(hide_password=True)
