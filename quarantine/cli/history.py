"""`quarantine history`: everything ever decided about a node, a machine or a GPU, across names and clusters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.cli import markdown, records, render
from quarantine.cli.markdown import Markdown
from quarantine.cli.options import Config, DatabaseUrl, Exit, Output, OutputFormat, fail, friendly, settings
from quarantine.cli.story import evidence_line
from quarantine.cli.when import begun, past
from quarantine.core import explain
from quarantine.core.errors import UsageError
from quarantine.core.reasons import in_words
from quarantine.core.record.history import Cases, Line
from quarantine.core.record.subjects import SubjectKind

if TYPE_CHECKING:
    from quarantine.ports import Archive, Filed, Sighting

LONGEST_NAME = 100_000  # characters; a label's value may be long, and a command line is longer
_PRINTED = re.compile(r"(?:gpu:|GPU \S+ \()(?P<uuid>(?:GPU|MIG)-[^()\s]+)\)?", re.IGNORECASE)
MOST = 6  # nodes or clusters that are named one by one


@dataclass(frozen=True, slots=True)
class Asked:
    """What is told, and of which time; both ends included."""

    name: str
    since: datetime | None
    until: datetime | None

    def covers(self, since: datetime, until: datetime) -> bool:
        """Whether some of that time is told of."""
        return (self.since is None or until >= self.since) and (self.until is None or since <= self.until)

    def decisions(self, archive: Archive) -> Iterator[Filed]:
        """Those of that time."""
        for filed in archive.history(self.name):
            if self.covers(filed.row.decision.at, filed.row.decision.at):
                yield filed


@dataclass(frozen=True, slots=True)
class Told:
    """All but the decisions, which are streamed behind it."""

    asked: Asked
    count: int  # of decisions
    several: bool  # whether the ledger has more than one cluster, so that each row names its own
    names: tuple[Sighting, ...]
    cases: Sequence[Line]


@friendly
def history(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="A node's name or uid, a provider's id, a system UUID, a GPU's UUID, or a machine's key.",
        ),
    ],
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="2026-11-01, -30d; else all.", show_default=False)
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="As it was known then; else now.", show_default=False)
    ] = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Everything ever decided about a node, a machine or a GPU, across node names and clusters."""
    from quarantine import app
    from quarantine.ledger.absent import AbsentArchive

    given, now = settings(config, database_url), app.CLOCK.now()
    asked = Asked(
        _meant(name),
        None if since is None else begun(since, "--since", now),
        None if until is None else past(until, "--until", now),
    )
    if not name or len(name) > LONGEST_NAME:
        raise UsageError("NAME is a node, a machine or a GPU: give its name, its uid, or its UUID")
    if asked.since is not None and asked.until is not None and asked.since > asked.until:
        raise UsageError(f"--since {since} is later than --until {until}: exchange them")
    with app.archive(given) as archive:
        if isinstance(archive, AbsentArchive):
            raise fail(f"there is no ledger at {archive.path} yet: a first cycle (quarantine run) makes it", Exit.NO)
        told = _told(archive, asked)
        _SHOW[output](told, asked.decisions(archive))


def _meant(name: str) -> str:
    """A GPU's UUID also where it is given as explain and an export print it: with its place, or its kind."""
    found = _PRINTED.fullmatch(name)
    return name if found is None else found["uuid"]


def _told(archive: Archive, asked: Asked) -> Told:
    """Go through it once for what stands at its beginning. What is later than `until` was not known then."""
    cases, count, known = Cases(), 0, False
    for filed in archive.history(asked.name):
        known, made = True, filed.row.decision
        if asked.until is None or made.at <= asked.until:
            cases.follow(filed.cluster, made)
            count += asked.covers(made.at, made.at)
    if not known:
        where = ", ".join(archive.clusters()) or "none yet"
        raise fail(
            f"nothing was ever decided about {render.safe(asked.name):.300}: no node, machine or GPU of that name is "
            f"in the ledger (clusters: {where})",
            Exit.NO,
        )
    names = tuple(one for one in archive.sightings(asked.name) if asked.covers(one.first_at, one.last_at))
    lines = [line for line in cases.lines() if asked.covers(line.since, line.until)]
    return Told(asked, count, len(archive.clusters()) > 1, names, lines)


# --- What both people's forms say -------------------------------------------------------------------------------------


def _heads(told: Told) -> tuple[str, ...]:
    where = ("cluster",) if told.several else ()
    return ("kind", "name", "on node", *where, "first decision", "last decision")


def _names(told: Told) -> Iterator[tuple[object, ...]]:
    """Each name once, however many Node objects it was seen on."""
    found: dict[tuple[SubjectKind, str], list[Sighting]] = {}
    for one in told.names:
        found.setdefault((one.kind, one.value), []).append(one)
    for (kind, name), seen in sorted(found.items(), key=lambda item: (list(SubjectKind).index(item[0][0]), item[0][1])):
        first, last = min(one.first_at for one in seen), max(one.last_at for one in seen)
        where = (in_words(_each(one.cluster for one in seen), most=MOST),) if told.several else ()
        nodes = in_words(_each(one.node for one in seen), most=MOST)
        yield (kind, name, nodes, *where, render.when(first), render.when(last))


def _each(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _title(told: Told, line: Line) -> str:
    return f"{line.id} ({line.cluster})" if told.several else line.id


def _within(asked: Asked) -> str:
    since = "" if asked.since is None else f" since {render.when(asked.since)} UTC"
    until = "" if asked.until is None else f" until {render.when(asked.until)} UTC"
    return f"{since}{until}"


def _sum(told: Told) -> str:
    cases = f"{len(told.cases)} case{'' if len(told.cases) == 1 else 's'}" if told.cases else "no case"
    return f"{told.count} decision{'' if told.count == 1 else 's'} and {cases}{_within(told.asked)}"


# --- Text -------------------------------------------------------------------------------------------------------------


def _as_text(told: Told, decisions: Iterator[Filed]) -> None:
    typer.echo(f"{render.safe(told.asked.name)}: {_sum(told)}.")
    if told.names:
        typer.echo("\nKnown by:")
        _show_names(told)
    render.lines("Cases:", (f"{_title(told, line)}: {line.text}" for line in told.cases))
    title = "\nEverything decided (UTC):"
    for filed in decisions:
        if title:
            typer.echo(title)
            title = ""
        row, where = filed.row, f"{filed.cluster}  " if told.several else ""
        (sentence,) = explain.story([(row.seq, row.decision)])
        typer.echo(f"  {render.when(sentence.at)}  {render.safe(where)}#{row.seq}  {render.safe(sentence.text)}")
        for line in sentence.evidence:
            typer.echo(f"  {' ' * 19}    {render.safe(line)}")


def _show_names(told: Told) -> None:
    """A table, or where that is too wide a line for each name: what is copied is in one piece."""
    shown = render.table(*_heads(told))
    for cells in _names(told):
        render.row(shown, *cells)
    if render.fits(shown):
        render.console().print(shown)
        return
    for kind, name, *where, first, last in _names(told):
        place = ", in ".join(map(str, where))
        typer.echo(render.safe(f"  {kind} {name}, on {place}: {first} to {last}"))


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _as_markdown(told: Told, decisions: Iterator[Filed]) -> None:
    _echo([*markdown.heading(told.asked.name), f"{markdown.written(_sum(told))}.", ""])
    if told.names:
        _echo(["Known by:", "", *markdown.table(_heads(told), (_copied(cells) for cells in _names(told)))])
    if told.cases:
        lines = (
            Markdown(f"**{markdown.written(_title(told, one))}**: {markdown.escape(one.text)}") for one in told.cases
        )
        _echo(["Cases:", "", *markdown.bullets(lines), ""])
    title = ["Everything decided (UTC):", ""]
    for filed in decisions:
        row, where = filed.row, f"{markdown.written(filed.cluster)} " if told.several else ""
        (sentence,) = explain.story([(row.seq, row.decision)])
        text = f"{render.when(sentence.at)} {where}**#{row.seq}** {markdown.escape(sentence.text)}"
        _echo(
            [
                *title,
                *markdown.bullets([Markdown(text)]),
                *markdown.bullets(map(evidence_line, sentence.evidence), depth=1),
            ]
        )
        title = []


def _copied(cells: tuple[object, ...]) -> tuple[object, ...]:
    """With the name as it is to be copied."""
    kind, name, *rest = cells
    return (kind, markdown.code(str(name)), *rest)


def _echo(lines: Sequence[str]) -> None:
    typer.echo("\n".join(lines))


# --- JSON -------------------------------------------------------------------------------------------------------------


def _as_json(told: Told, decisions: Iterator[Filed]) -> None:
    """One document, written as it is read: a year of a GPU's decisions need not fit in memory."""
    head = {
        "name": told.asked.name,
        "since": told.asked.since,
        "until": told.asked.until,
        "known_by": [_name(one) for one in told.names],
        "cases": [_case(line) for line in told.cases],
    }
    typer.echo(json.dumps(records.plain(head), indent=2).removesuffix("\n}") + ',\n  "decisions": [', nl=False)
    between = "\n"
    for filed in decisions:
        row = json.dumps(records.plain(_decision(filed)), indent=2)
        typer.echo(between + "\n".join(f"    {line}" for line in row.splitlines()), nl=False)
        between = ",\n"
    typer.echo("]\n}" if between == "\n" else "\n  ]\n}")


def _name(one: Sighting) -> records.Json:
    return {
        "kind": one.kind.value,
        "name": one.value,
        "cluster": one.cluster,
        "node": one.node,
        "node_uid": one.node_uid,
        "machine": one.machine or None,
        "first_seq": one.first_seq,
        "last_seq": one.last_seq,
        "first_at": one.first_at,
        "last_at": one.last_at,
    }


def _case(line: Line) -> records.Json:
    return {
        "cluster": line.cluster,
        "id": line.id,
        "node": line.node,
        "since": line.since,
        "until": line.until,
        "phase": None if line.phase is None else line.phase.value,
        "headline": line.text,
        "times": None if line.times is None else records.times(line.times),
    }


def _decision(filed: Filed) -> records.Json:
    row, made = filed.row, filed.row.decision
    told = {"cluster": filed.cluster, "seq": row.seq, "hash": row.hash, "at": made.at}
    return {**told, "kind": made.kind.value, "actor": made.actor, **records.decision(made)}


_SHOW: dict[Output, Callable[[Told, Iterator[Filed]], None]] = {
    Output.TABLE: _as_text,
    Output.MARKDOWN: _as_markdown,
    Output.JSON: _as_json,
}
