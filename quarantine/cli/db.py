"""`quarantine db …`: the ledger's schema, and its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.cli import ask, records, render
from quarantine.cli.options import (
    BriefFormat,
    Config,
    DatabaseUrl,
    Exit,
    Output,
    OutputFormat,
    Reason,
    fail,
    friendly,
    settings,
)
from quarantine.cli.trails import All, Cluster, Progress, known, opened

if TYPE_CHECKING:
    from quarantine.ledger.rebuild import Rebuilt

db = typer.Typer(help="The ledger's database.", no_args_is_help=True)

_LONGEST = 160  # characters of a value that are shown


@db.command()
@friendly
def upgrade(config: Config = None, database_url: DatabaseUrl = None) -> None:
    """Bring the schema to what this version needs. Safe to run twice, and by two at once."""
    from quarantine.ledger import migrate

    before, after = migrate.upgrade(settings(config, database_url).database_url.get_secret_value())
    if before == after:
        typer.echo(f"The ledger is at revision {after} already.")
    else:
        typer.echo(f"The ledger went from {'empty' if before is None else f'revision {before}'} to revision {after}.")


@db.command()
@friendly
def rebuild(
    write: Annotated[
        bool, typer.Option("--write", help="Make them so. A controller that runs is stopped and begins anew.")
    ] = False,
    every: All = False,
    cluster: Cluster = None,
    show: Annotated[int, typer.Option(min=0, help="How many rows that differ are told of each cluster.")] = 20,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Fold all decisions anew, and tell where the tables do not say what they add up to."""
    from quarantine import app
    from quarantine.ledger import rebuild as rebuilding
    from quarantine.ledger.verify import known_clusters

    made = []
    with opened(config, database_url, cluster, every=every) as (engine, own):
        if not every:
            known(engine, own)
        for name in known_clusters(engine) if every else [own]:
            tell, now = Progress(name, "are folded"), app.CLOCK.now()
            made.append(rebuilding.rebuild(engine, name, now=now, write=write, shown=show, progress=tell))
    _tell(made, output, write=write)
    if any(one.unfit_count or (one.counted and not one.written) for one in made):
        raise typer.Exit(Exit.NO)


@db.command()
@friendly
def rebind(
    reason: Reason,
    cluster: Cluster = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Let another cluster go on with the trail: one that was made anew. A controller that runs is stopped."""
    from quarantine import app
    from quarantine.ledger import rebind as rebinding

    why, actor = ask.worded(reason), f"{ask.who()} (cli)"
    with opened(config, database_url, cluster) as (engine, own):
        known(engine, own)
        made = rebinding.rebind(engine, own, reason=why, actor=actor, now=app.CLOCK.now())
    if made is None:
        raise fail(f"the ledger does not know whose the trail of {own} is, so there is nothing to forget", Exit.NO)
    if output is Output.JSON:
        records.as_json(asdict(made))
        return
    was = f"that of the cluster whose namespace kube-system has the uid {made.identity}"
    typer.echo(render.safe(f"The trail of {made.cluster} was {was}."))
    typer.echo(f"It is now that of whichever controller begins next to write it (decision {made.seq}).")
    typer.echo(_becomes_of(made.open_cases))


def _becomes_of(cases: int) -> str:
    """What happens to the open cases of a cluster that was made anew, in words: see docs/machines.md."""
    if not cases:
        return "No case is open."
    return (
        f"{cases:,} case{' is' if cases == 1 else 's are'} open. One whose machine is in the new cluster goes on, and "
        "its mark is put back; one whose machine is not is retired within six hours (a week, if the provider was told)."
    )


def _tell(made: Sequence[Rebuilt], output: Output, *, write: bool) -> None:
    from quarantine.cli import markdown

    if output is Output.JSON:
        records.as_json([_as_record(one) for one in made])
        return
    heads = ("table", "row", "stored", "should be")
    for one in made:
        rows = [(d.table, d.key, _shown(d.stored), _shown(d.should_be)) for d in one.differences]
        unfit = [f"decision {seq} cannot be folded: {why}" for seq, why in one.unfit]
        if output is Output.MARKDOWN:
            said = [*markdown.bullets([*unfit, *_sums(one, write=write)]), ""]
            for line in [*markdown.heading(f"Cluster {one.cluster}"), *markdown.table(heads, rows), *said]:
                typer.echo(line)
            continue
        if rows:
            shown = render.table(*heads)
            for row in rows:
                render.row(shown, *row)
            render.console().print(shown)
        for line in [*unfit, *_sums(one, write=write)]:
            typer.echo(render.safe(line))


def _sums(one: Rebuilt, *, write: bool) -> list[str]:
    """What it comes to, in sentences."""
    of = f"{one.decisions:,} decision{'' if one.decisions == 1 else 's'} of {one.cluster}"
    if one.sound:
        return [f"The tables say what the {of} add up to."]
    total, told = sum(one.counted.values()), len(one.differences)
    said = []
    if total:
        each = ", ".join(f"{count:,} of {table}" for table, count in sorted(one.counted.items()))
        more = f" ({total - told:,} more than are told)" if total > told else ""
        many = total != 1
        done = ("were made" if many else "was made") if one.written else ("are not" if many else "is not")
        said.append(f"{total:,} row{'s' if many else ''} {done} what the {of} add up to: {each}{more}.")
    if one.unfit_count:
        said.append(
            f"{one.unfit_count:,} of the {of} cannot be folded{', so nothing was written' if write else ''}: run "
            "`quarantine audit verify`, and where the trail is sound, the version that took them."
        )
    elif not one.written:
        said.append(
            "Run `quarantine db rebuild --write` to make them so. Rows that an earlier version wrote may lack what "
            "this one tells."
        )
    return said


def _shown(row: Mapping[str, object] | None) -> str:
    """The columns of one side; a row that is not there is told as that."""
    if row is None:
        return "no such row"
    return "; ".join(f"{name}: {_cut(value)}" for name, value in row.items())


def _cut(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, datetime):
        return render.when(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:_LONGEST] + "…" * (len(text) > _LONGEST) or "empty"


def _as_record(one: Rebuilt) -> records.Json:
    return {
        "cluster": one.cluster,
        "decisions": one.decisions,
        "sound": one.sound,
        "written": one.written,
        "counted": dict(one.counted),
        "differences": [
            {"table": d.table, "row": d.key, "stored": d.stored, "should_be": d.should_be} for d in one.differences
        ],
        "unfit": [{"seq": seq, "why": why} for seq, why in one.unfit],
        "unfit_count": one.unfit_count,
    }
