"""How answers look: tables for people, JSON for programs. Text from outside never becomes markup."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from quarantine.cli import markdown, records
from quarantine.cli.options import Output
from quarantine.core import pauses
from quarantine.core.case import Evidence
from quarantine.core.decision import Dismissal, State, Word, WordKind
from quarantine.core.snapshot import Plan
from quarantine.core.units import format_number

_ANY = 10_000  # columns; wider than any terminal


def console() -> Console:
    """Made anew, so that it follows stdout where a test or a pipe has put it; as wide as it needs to be in a pipe."""
    found = Console(soft_wrap=False)
    return found if found.is_terminal else Console(width=200)


def plan(made: Plan, output: Output) -> None:
    """`quarantine plan`."""
    if output is Output.JSON:
        records.as_json(
            {"now": made.now, "decisions": [records.decision(d) for d in made.decisions], "summary": made.summary}
        )
        return
    heads = ("node", "device", "action", "held by", "value", "reason")
    rows = [(d.node, d.device, d.action, d.held_by, _value(d.evidence), d.reason) for d in made.decisions]
    summary = f"{made.summary[0].upper()}{made.summary[1:]}."
    if output is Output.MARKDOWN:
        typer.echo("\n".join([*markdown.table(heads, rows), markdown.written(summary)]))
        return
    if rows:
        shown = table(*heads)
        for cells in rows:
            row(shown, *cells)
        console().print(shown)
    typer.echo(summary)


def words(state: State) -> list[Word]:
    """Pauses and planned work, oldest first."""
    return sorted(state.words.values(), key=lambda word: (word.since, word.key))


def word(said: Word) -> str:
    """A pause, or planned work."""
    match said.kind:
        case WordKind.PAUSE:
            return f"{pauses.told(said)} (since {when(said.since)})"
        case WordKind.MAINTENANCE:
            until = f" until {said.until:%Y-%m-%d %H:%M} UTC" if said.until is not None else ""
            since = when(said.since)
            return f"work is planned on {said.scope} by {said.by}{until}: {said.reason} (since {since})"


def left_alone(word: Dismissal) -> str:
    """What a person keeps from being acted on."""
    end = f"{word.until:%Y-%m-%d %H:%M} UTC"
    if word.waiver:
        return f"{word.node} stays in service until {end} unless something fatal and new is found: {word.reason}"
    known = ", ".join(f"{signal} of {device}" for signal, device in word.findings) or "nothing that was found"
    return f"on {word.node} is left alone until {end}: {known} ({word.reason})"


def lines(title: str, said: Iterable[str]) -> None:
    """A title and what stands under it; nothing where nothing does."""
    found = list(said)
    if found:
        typer.echo(f"\n{title}")
        for line in found:
            typer.echo(f"  {safe(line)}")


def _value(found: Evidence | None) -> str:
    return "" if found is None or found.value is None else f"{format_number(found.value)} {found.unit}"


def when(at: datetime) -> str:
    """UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}"


def table(*columns: str) -> Table:
    """Without lines; what does not fit is folded, so nothing is cut."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column.upper(), overflow="fold")
    return made


def fits(made: Table) -> bool:
    """Whether it can be shown without a cell in two lines: what people copy is not to be put together again."""
    shown = console()
    wanted = shown.measure(made, options=shown.options.update(max_width=_ANY)).maximum
    return wanted <= shown.width


def row(into: Table, *cells: object) -> None:
    """A row of plain text."""
    into.add_row(*(escape(safe("" if cell is None else str(cell))) for cell in cells))


def safe(text: str) -> str:
    """On one line, without control characters: a label must not move a reader's cursor, and a query stays one."""
    return "".join(c if c.isprintable() else " " if c in "\n\t" else "�" for c in text)
