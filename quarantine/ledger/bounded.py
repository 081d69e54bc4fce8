"""A connection to Postgres that gives up on a server which says nothing.

`statement_timeout` is kept by the server. One that hangs (its machine is frozen, its disk does not come back, a pooler
has lost what is behind it) keeps nothing, and its kernel still acknowledges what is sent: neither TCP's time-outs nor
libpq's end such a wait.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Self

import psycopg

GRACE_S = 10.0  # how much longer than the server's own limit is waited for its word
_LIMIT = "SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'"


class Unanswered(psycopg.OperationalError):
    """The server has not said anything for longer than any statement may take."""


class BoundedConnection(psycopg.Connection[Any]):
    """Ends a wait, and itself, once the server's `statement_timeout` has passed by `GRACE_S` without its answer."""

    limit_s: float | None = GRACE_S  # None: waits for as long as it takes
    usual_s: float | None = GRACE_S  # as the server has it by its settings

    @classmethod
    def connect(cls, *args: Any, **kwargs: Any) -> Self:
        """As psycopg's. The limit is asked of the server: the URL, the role or the database may have one of its own."""
        made = super().connect(*args, **kwargs)
        try:
            made.autocommit = True
            found = made.execute(_LIMIT).fetchone()
            made.autocommit = False
        except BaseException:
            made.close()
            raise
        limit_ms = 0 if found is None else found[0]
        made.limit_s = made.usual_s = limit_ms / 1000 + GRACE_S if limit_ms else None
        return made

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """As psycopg's. Raises Unanswered."""
        return super().wait(gen if self.limit_s is None else self._within(gen, self.limit_s), *args, **kwargs)

    def _within(self, gen: Generator[Any, Any, Any], limit_s: float) -> Generator[Any, Any, Any]:
        """The same, looking at the time whenever psycopg's wait comes round with nothing (ten times a second)."""
        deadline = time.monotonic() + limit_s
        try:
            awaited = next(gen)
            while True:
                ready = yield awaited
                if not ready and time.monotonic() > deadline:
                    self.close()  # what it would say now is the answer to a question that nobody asks any more
                    raise Unanswered(f"the server has said nothing for {limit_s:.0f} s")
                awaited = gen.send(ready)
        except StopIteration as done:
            return done.value
