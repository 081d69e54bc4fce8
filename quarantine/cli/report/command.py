"""`quarantine report`: what the trail says about a stretch of time, as sums."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.cli.options import Config, DatabaseUrl, Exit, Output, OutputFormat, fail, friendly, settings
from quarantine.cli.render import safe
from quarantine.cli.when import begun
from quarantine.core.errors import UsageError
from quarantine.core.units import parse_duration

if TYPE_CHECKING:
    from datetime import datetime

    from quarantine.ports import Archive

GPUS = (1024,)


@friendly
def report(
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="30d, 2026-11-01 or 2026-11-01T12:00:00Z.")
    ] = "30d",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="As --since, or now.")] = "now",
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Whose; else the settings'.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Of all clusters in this ledger.")] = False,
    gpus: Annotated[
        list[int] | None,
        typer.Option("--gpus", metavar="N", min=1, help="For a job of so many GPUs; may be repeated. Else 1024."),
    ] = None,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", metavar="TIME", help="How long the job takes to write a checkpoint.")
    ] = "5m",
    worst: Annotated[int, typer.Option("--worst", metavar="N", min=0, help="How many of the worst machines.")] = 10,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Quarantines by cause, how long things took, machine-hours lost, providers, failure rates, what holds cost."""
    from quarantine import app
    from quarantine.cli.report.show import show
    from quarantine.core.record.report import Wanted
    from quarantine.core.record.report import report as summed_up
    from quarantine.ledger.absent import AbsentArchive

    if every and cluster is not None:
        raise UsageError("give --cluster or --all, not both")
    given, now = settings(config, database_url, cluster=cluster), app.CLOCK.now()
    first, over = _span(since, until, now)
    wanted = Wanted(tuple(gpus or GPUS), _cost(checkpoint), worst)
    with app.archive(given) as archive:
        if isinstance(archive, AbsentArchive):
            raise fail(f"there is no ledger at {archive.path} yet: a first cycle (quarantine run) makes it", Exit.NO)
        note = "" if every else _note(archive, given.cluster, named=cluster is not None)
        show(summed_up(archive.material(first, over, None if every else given.cluster), wanted), note, output)


def _span(since: str, until: str, now: datetime) -> tuple[datetime, datetime]:
    first, over = begun(since, "--since", now), begun(until, "--until", now)
    if first >= over:
        raise UsageError(f"--since {since} is not before --until {until}: there is no time between them")
    return first, over


def _cost(checkpoint: str) -> timedelta:
    try:
        return parse_duration(checkpoint)
    except ValueError as error:
        raise UsageError(f"--checkpoint {error}") from None


def _note(archive: Archive, cluster: str, *, named: bool) -> str:
    """That nothing was ever decided for this cluster; an answer of no where it was asked for by its name."""
    known = archive.clusters()
    if cluster in known:
        return ""
    others = f"it has those of {', '.join(map(safe, known))}" if known else "it has none yet"
    said = f"the ledger has no trail of cluster {safe(cluster)}: {others}"
    if named and known:
        raise fail(said, Exit.NO)
    return said
