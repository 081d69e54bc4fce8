"""All clusters of one ledger, to be read: the port `Archive`, for Postgres and SQLite. Nothing is written here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.engine import URL

from quarantine.core.record.report import Material
from quarantine.ledger import histories, material, revision
from quarantine.ledger.engine import Opened, make_engine, reading
from quarantine.ledger.schema import clusters
from quarantine.ledger.subjects import resolve
from quarantine.ledger.url import masked
from quarantine.ports import Filed, Sighting


def open_archive(url: str | URL) -> SqlArchive:
    """The archive at a URL. Connects at its first use. Raises UsageError for a URL that cannot be one."""
    return SqlArchive(make_engine(url))


class SqlArchive(Opened):
    """Implements `Archive`. Safe to share between threads; whoever opens it closes it."""

    def __repr__(self) -> str:
        """Without the password."""
        return f"SqlArchive({masked(self._engine.url)!r})"

    def clusters(self) -> tuple[str, ...]:
        """Those that have a trail, by name."""
        chosen = select(clusters.c.cluster).where(clusters.c.seq > 0)
        with reading(self._engine) as connection:
            revision.require(connection)
            return tuple(sorted(connection.execute(chosen).scalars()))

    def sightings(self, name: str) -> tuple[Sighting, ...]:
        """Every name of what is called `name`, and where it was seen under it, in order of time.

        Of a node's name also the names of the machines that had it, and of a machine each name that it had.
        """
        with reading(self._engine) as connection:
            revision.require(connection)
            return resolve(connection, name).seen

    def history(self, name: str) -> Iterator[Filed]:
        """Everything ever decided about what is called so, in order of time, streamed in pages.

        Of a node's name: whatever names it, in every cluster. Of a machine: whatever was decided while it was behind a
        Node object, of any name. Of a GPU: the same of the machines that it was in, and whatever is about it or a link
        of it.
        """
        return histories.history(self._engine, name)

    def material(self, since: datetime, until: datetime, cluster: str | None = None) -> Material:
        """What a report of that time is made from: of one cluster, or of all of them."""
        return material.material(self._engine, since, until, cluster)
