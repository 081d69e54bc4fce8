"""`quarantine audit …`: whether the trail is what was written, and copies of it that others can check."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from quarantine.cli import records, render
from quarantine.cli.options import Config, DatabaseUrl, Exit, Output, OutputFormat, fail, friendly
from quarantine.cli.trails import All, Cluster, Progress, known, opened
from quarantine.core.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from quarantine.ledger.checkpoint import Checkpoint
    from quarantine.ledger.export import Chosen
    from quarantine.ledger.verify import Broken, Sound

audit = typer.Typer(help="The audit trail: verify it, mark where it stands, export it.", no_args_is_help=True)


class Format(StrEnum):
    """For programs and auditors, or for a spreadsheet."""

    JSONL = "jsonl"
    CSV = "csv"


@audit.command()
@friendly
def verify(
    every: All = False,
    cluster: Cluster = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option("--checkpoint", help="The trail must begin with what this file saw. May be given again."),
    ] = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Check every row against its hash, its predecessor and its columns; name the first that is not as written."""
    from quarantine.ledger import checkpoint as checkpoints
    from quarantine.ledger import guards, texts
    from quarantine.ledger.engine import reading
    from quarantine.ledger.verify import Sound, usable_cpus
    from quarantine.ledger.verify import verify as walk

    seen = [checkpoints.read(path) for path in checkpoint or ()]
    with opened(config, database_url, cluster, every=every) as (engine, own):
        names = _chosen(engine, own, every=every, seen=seen)
        found: dict[str, Sound | Broken] = {}
        faults: list[str] = []
        for name in names:
            of_it = [one for one in seen if one.cluster == name]
            tell = Progress(name, "are sound")
            found[name] = walked = walk(engine, name, checkpoints=of_it, workers=usable_cpus(), progress=tell)
            named = walked.versions if isinstance(walked, Sound) else ()
            faults += [f"{name}: {line}" for line in texts.faults(engine, name, named)]
        with reading(engine) as connection:
            faults += guards.differences(connection)
    _tell(found, seen, faults, output)
    if faults or not all(isinstance(one, Sound) for one in found.values()):
        raise typer.Exit(Exit.NO)


@audit.command()
@friendly
def checkpoint(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to; else stdout.", show_default=False)
    ] = None,
    cluster: Cluster = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write down where the trail stands: its rows, counted, and the hash of the newest. Keep it somewhere else."""
    from quarantine import app
    from quarantine.ledger import checkpoint as checkpoints
    from quarantine.ledger.trail import Head
    from quarantine.ledger.verify import Broken

    before = checkpoints.read(file) if file is not None and file.exists() else None
    with opened(config, database_url, cluster) as (engine, own):
        if before is not None and before.cluster != own:
            raise UsageError(f"{file} is a checkpoint of cluster {before.cluster!r}, not of {own!r}: name another file")
        _chosen(engine, own, every=False)
        taken = checkpoints.take(engine, own, app.CLOCK.now())
        if isinstance(taken, Broken):
            raise fail(f"row {taken.seq} of cluster {own!r} {taken.what}; run `quarantine audit verify`", Exit.NO)
        # The older file may be the only thing that still shows what was done to the trail.
        earlier = () if before is None else (before,)
        if (wrong := checkpoints.contradiction(engine, Head(taken.count, taken.hash), earlier)) is not None:
            raise fail(f"{file} is left as it is, since row {wrong.seq} {wrong.what}", Exit.NO)
    if file is None:
        typer.echo(checkpoints.text_of(taken), nl=False)
        return
    checkpoints.write(file, taken)
    typer.echo(
        f"{file} says that the trail of {render.safe(own)} has {taken.count} rows. Keep it where the database's owner "
        "cannot write, and give it to `quarantine audit verify --checkpoint`."
    )


@audit.command()
@friendly
def export(
    since: Annotated[
        str | None, typer.Option(help="From this time on: 2026-11-01, 2026-11-01T12:00:00Z, -30d.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.", show_default=False)] = None,
    node: Annotated[str | None, typer.Option(help="Of this node alone.", show_default=False)] = None,
    case: Annotated[str | None, typer.Option(help="Of this case alone.", show_default=False)] = None,
    every: All = False,
    cluster: Cluster = None,
    format_: Annotated[
        Format, typer.Option("--format", help="jsonl, from which the chain can be verified, or csv.")
    ] = Format.JSONL,
    out: Annotated[Path | None, typer.Option("--out", help="Where to; else stdout.", show_default=False)] = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Write decisions in the order of the chain, as they are read: of any length, in little memory."""
    from quarantine import app
    from quarantine.cli.when import begun, past
    from quarantine.ledger import export as exporting
    from quarantine.ledger.wholefile import whole_file

    now = app.CLOCK.now()
    chosen = exporting.Chosen(
        None if since is None else begun(since, "--since", now),
        None if until is None else past(until, "--until", now),
        node,
        case,
    )
    if chosen.since is not None and chosen.until is not None and chosen.since >= chosen.until:
        raise UsageError(f"--since {since} is not before --until {until}")
    with opened(config, database_url, cluster, every=every) as (engine, own):
        names = _chosen(engine, own, every=every)
        lines = _lines(engine, names, chosen, format_)
        if out is None:
            count = _write(lines, sys.stdout.buffer)
        else:
            with whole_file(out) as file:
                count = _write(lines, file)
    heading = 1 if format_ is Format.CSV else 0
    typer.echo(f"quarantine: {count - heading} decisions are written", err=True)


def _chosen(engine: Engine, own: str, *, every: bool, seen: Sequence[Checkpoint] = ()) -> list[str]:
    """The clusters that are meant. Raises UsageError, and Exit where one has no trail."""
    from quarantine.ledger.verify import known_clusters

    of = {one.cluster for one in seen}
    if every:
        found = sorted({*known_clusters(engine), *of})  # a trail that is gone altogether is the first to be missed
        if not found:
            raise fail("the ledger has no trail yet", Exit.NO)
        return found
    if other := sorted(of - {own}):
        raise UsageError(
            f"the checkpoint is of cluster {other[0]!r}, not of {own!r}: give --cluster {other[0]}, or --all"
        )
    if not of:
        known(engine, own)
    return [own]


def _tell(found: dict[str, Sound | Broken], seen: Sequence[Checkpoint], faults: Sequence[str], output: Output) -> None:
    from quarantine.cli import markdown
    from quarantine.ledger.verify import Sound

    if output is Output.JSON:
        trails = [_as_record(name, one, [s for s in seen if s.cluster == name]) for name, one in found.items()]
        sound = not faults and all(isinstance(one, Sound) for one in found.values())
        records.as_json({"sound": sound, "trails": trails, "faults": list(faults)})
        return
    told = [_sentence(name, one, [s for s in seen if s.cluster == name]) for name, one in found.items()] + list(faults)
    if output is Output.MARKDOWN:
        told = markdown.bullets(told)
    for line in told:
        typer.echo(render.safe(line))


def _sentence(cluster: str, one: Sound | Broken, seen: Sequence[Checkpoint]) -> str:
    from quarantine.ledger.verify import Broken

    if isinstance(one, Broken):
        return f"{cluster}: row {one.seq} {one.what}"
    agrees = f", and it agrees with {len(seen)} checkpoint{'s' if len(seen) > 1 else ''}" if seen else ""
    return f"{cluster}: the trail is sound, {one.count} rows{agrees}; the head's hash is {one.hash}"


def _as_record(cluster: str, one: Sound | Broken, seen: Sequence[Checkpoint]) -> records.Json:
    from quarantine.ledger.verify import Sound

    return {
        "cluster": cluster,
        "sound": isinstance(one, Sound),
        "rows": one.count if isinstance(one, Sound) else None,
        "hash": one.hash if isinstance(one, Sound) else None,
        "first_bad_row": None if isinstance(one, Sound) else {"seq": one.seq, "what": one.what},
        "checkpoints": [{"count": s.count, "hash": s.hash, "at": s.at} for s in seen],
    }


def _lines(engine: Engine, clusters: Sequence[str], chosen: Chosen, form: Format) -> Iterator[str]:
    from quarantine.ledger import export as exporting

    if form is Format.CSV:
        yield exporting.csv_heading()
    of_one = exporting.comma_separated if form is Format.CSV else exporting.json_lines
    for cluster in clusters:
        yield from of_one(engine, cluster, chosen)


def _write(lines: Iterator[str], into: IO[bytes]) -> int:
    """How many lines."""
    count = 0
    for line in lines:
        into.write(line.encode())
        count += 1
    into.flush()
    return count
