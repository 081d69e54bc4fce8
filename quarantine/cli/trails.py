"""Commands about trails: of which cluster, in which database, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.cli import render
from quarantine.cli.options import Exit, fail, settings
from quarantine.core.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine

PROGRESS = 5.0  # seconds between two lines that say how far it is

Cluster = Annotated[
    str | None, typer.Option("--cluster", help="Whose trail; else the settings' cluster.", show_default=False)
]
All = Annotated[bool, typer.Option("--all", help="The trails of all clusters in this ledger.")]


@contextmanager
def opened(
    config: Path | None, database_url: str | None, cluster: str | None, *, every: bool = False
) -> Iterator[tuple[Engine, str]]:
    """The ledger's database, and the cluster of the settings. Raises as `settings`, and Exit where there is none."""
    from quarantine.ledger.absent import missing_file
    from quarantine.ledger.engine import make_engine

    if every and cluster is not None:
        raise UsageError("give --cluster or --all, not both")
    given = settings(config, database_url, cluster=cluster)
    url = given.database_url.get_secret_value()
    if (missing := missing_file(url)) is not None:
        raise fail(f"there is no ledger at {missing} yet: a first cycle (quarantine run) makes it", Exit.NO)
    engine = make_engine(url)
    try:
        yield engine, given.cluster
    finally:
        engine.dispose()


def known(engine: Engine, own: str) -> Sequence[str]:
    """The clusters that have a trail. Raises Exit where `own` is not among them, and names those that are."""
    from quarantine.ledger.verify import known_clusters

    there = known_clusters(engine)
    if own not in there:
        others = (
            f"it has those of {', '.join(map(repr, there))}: name one by --cluster" if there else "nor any other yet"
        )
        raise fail(f"the ledger has no trail of cluster {own!r}; {others}", Exit.NO)
    return there


class Progress:
    """Says on stderr how far it is, now and then."""

    def __init__(self, cluster: str, done: str) -> None:
        """`done`: what was done with so many of the rows: `are sound`."""
        self._cluster = render.safe(cluster)
        self._done = done
        self._said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS and done < total:
            self._said = now
            typer.echo(f"quarantine: {self._cluster}: {done:,} of {total:,} rows {self._done}", err=True)
