"""What befalls the database of the live pair: the server itself, past the proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg

from quarantine.sandbox.postgres import PostgresServer
from tests.chaos.live_eye import Eye
from tests.chaos.live_stand import POSTGRES, Stand
from tests.chaos.live_troubles import Trouble
from tests.chaos.toxic import Ill, Kind
from tests.e2e import test_bad_database as database
from tests.ledger.mishaps import without_room


def postgres(failure: str, spell: Callable[[PostgresServer, str], Iterator[None]], *, cycles: int = 2) -> Trouble:
    """The server is so, for some cycles."""

    def during(stand: Stand, _: Eye) -> Iterator[None]:
        with contextmanager(spell)(stand.postgres, stand.database):
            before = stand.cycles
            yield
            stand.until(lambda: stand.cycles >= before + cycles, "cycles in which nothing can be recorded")

    return Trouble(POSTGRES, failure, during)


def full_disk() -> Trouble:
    """No more room for a row."""

    def during(stand: Stand, _: Eye) -> Iterator[None]:
        before = stand.cycles
        with without_room(stand.postgres, stand.room, stand.url):
            yield
            stand.until(lambda: stand.cycles >= before + 2, "cycles in which nothing can be recorded")

    return Trouble(POSTGRES, "full disk", during)


def crowded() -> Trouble:
    """Every connection that it has is somebody else's: it says `too many clients`."""

    def during(stand: Stand, _: Eye) -> Iterator[None]:
        (toxic,) = stand.toxics[POSTGRES]
        with ExitStack() as taken:
            toxic.fall(Ill(Kind.DOWN))  # or a replica would be among those who get one
            with psycopg.connect(stand.postgres.url, autocommit=True) as admin:
                admin.execute(_END, [stand.database])
            for _again in (False, True):  # a first refusal may be for that of `admin`, which is about to end
                with suppress(psycopg.OperationalError):
                    while True:
                        taken.enter_context(psycopg.connect(stand.postgres.url, autocommit=True))
            toxic.heal()
            before = stand.cycles
            yield
            stand.until(lambda: stand.cycles >= before + 2, "cycles in which nothing can be recorded")

    return Trouble(POSTGRES, "too many clients", during)


_END = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
SPELLS = (
    postgres("killed", database.killed),
    postgres("frozen", database.frozen, cycles=1),
    postgres("a standby", database.standby),
    postgres("read-only", database.read_only),
    postgres("locked", database.locked),
    crowded(),
)
