"""A report on stdout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import typer
from rich.table import Table

from quarantine.cli import markdown, records, render
from quarantine.cli.options import Output
from quarantine.cli.report import words
from quarantine.cli.report.data import as_data
from quarantine.cli.report.words import Section
from quarantine.core.record.report import Report


def show(report: Report, note: str, output: Output) -> None:
    """`note`: what else is to be said; empty: nothing."""
    match output:
        case Output.JSON:
            records.as_json(as_data(report, note))
        case Output.MARKDOWN:
            typer.echo("\n".join(_markdown(report, note)))
        case Output.TABLE:
            _tables(report, note)


def _tables(report: Report, note: str) -> None:
    typer.echo(render.safe(words.headline(report)))
    if note:
        typer.echo(render.safe(f"{note[0].upper()}{note[1:]}."))
    for section in words.sections(report):
        typer.echo(f"\n{section.title}")
        if section.rows:
            _table(section)
        for said in section.notes:
            typer.echo(render.safe(said))


def _table(section: Section) -> None:
    """Ids that are too long for the terminal stand beneath it, each on a line of its own by the row's first cell."""
    shown = _made(section, range(len(section.heads)))
    if section.ids and not render.fits(shown):
        shown = _made(section, [n for n in range(len(section.heads)) if n not in section.ids])
        beneath = [f"{row[0]}: {row[n]}" for row in section.rows for n in sorted(section.ids)]
    else:
        beneath = []
    render.console().print(shown)
    for line in beneath:
        typer.echo(f"  {render.safe(line)}")


def _made(section: Section, columns: Sequence[int]) -> Table:
    shown = render.table(*(section.heads[n] for n in columns))
    for column, n in zip(shown.columns, columns, strict=True):
        if n >= section.numbers:
            column.justify = "right"
    for row in section.rows:
        render.row(shown, *(row[n] for n in columns))
    return shown


def _markdown(report: Report, note: str) -> list[str]:
    lines = [*markdown.heading("Quarantine report"), markdown.written(words.headline(report)), ""]
    if note:
        lines += [markdown.written(f"{note[0].upper()}{note[1:]}."), ""]
    for section in words.sections(report):
        lines += [
            *markdown.heading(section.title, 4),
            *markdown.table(section.heads, _copied(section), section.numbers),
        ]
        lines += [line for said in section.notes for line in (markdown.written(said), "")]
    return lines


def _copied(section: Section) -> Iterator[Sequence[object]]:
    """The rows, with ids as they are to be copied."""
    for row in section.rows:
        told = (n in section.ids and cell != words.NOT_TOLD for n, cell in enumerate(row))
        yield [markdown.code(cell) if copied else cell for cell, copied in zip(row, told, strict=True)]
