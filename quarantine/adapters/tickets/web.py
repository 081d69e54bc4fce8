"""The client of the ticket systems' APIs: `adapters.web`, whose errors are the port's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import SecretStr
from requests.auth import AuthBase

from quarantine.adapters import web
from quarantine.adapters.web import WAIT, WHOLE, Answer, Call, Errors
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain

__all__ = ["Answer", "Call", "Web", "base_url", "secret_of", "settling"]

_ERRORS = Errors(unavailable=TicketsUnavailable, uncertain=TicketsUncertain, refused=TicketsRefused)


def secret_of(value: SecretStr | None, file: Path | None, what: str) -> Callable[[], str]:
    """As `adapters.web`: reads a secret whenever it is called. It raises TicketsRefused without one."""
    return web.secret_of(value, file, what, refused=TicketsRefused)


def base_url(url: str) -> str:
    """The URL without its last slash. Raises ValueError: only https, or http on loopback, without a user or a query."""
    return web.base_url(url, "ticket system")


@contextmanager
def settling(settles: timedelta) -> Iterator[None]:
    """Of a ticket that was perhaps filed: asks whoever tries again to wait until it would be found by its key."""
    try:
        yield
    except TicketsUncertain as error:
        raise TicketsUncertain(str(error), retry_after=max(error.retry_after or settles, settles)) from None


class Web(web.Web):
    """One ticket system's API. A request that may have been carried out raises TicketsUncertain."""

    def __init__(
        self,
        base: str,
        authorization: Callable[[], str],
        *,
        name: str,
        headers: Mapping[str, str] | None = None,
        now: Callable[[], datetime],
        wait: float = WAIT,
        whole: float = WHOLE,
        authorize: Callable[[str], AuthBase] | None = None,
    ) -> None:
        """As `adapters.web.Web`. Raises ValueError where `base_url` does."""
        super().__init__(
            base_url(base),
            authorization,
            name=name,
            errors=_ERRORS,
            headers=headers,
            now=now,
            wait=wait,
            whole=whole,
            authorize=authorize,
        )
