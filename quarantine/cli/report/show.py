"""A report on stdout."""

from __future__ import annotations

import typer

from quarantine.cli import markdown, records, render
from quarantine.cli.options import Output
from quarantine.cli.report import words
from quarantine.cli.report.data import as_data
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
    console = render.console()
    for section in words.sections(report):
        typer.echo(f"\n{section.title}")
        if section.rows:
            shown = render.table(*section.heads)
            for column in shown.columns[section.numbers :]:
                column.justify = "right"
            for row in section.rows:
                render.row(shown, *row)
            console.print(shown)
        for said in section.notes:
            typer.echo(render.safe(said))


def _markdown(report: Report, note: str) -> list[str]:
    lines = [*markdown.heading("Quarantine report"), markdown.written(words.headline(report)), ""]
    if note:
        lines += [markdown.written(f"{note[0].upper()}{note[1:]}."), ""]
    for section in words.sections(report):
        lines += [*markdown.heading(section.title, 4), *markdown.table(section.heads, section.rows)]
        lines += [line for said in section.notes for line in (markdown.written(said), "")]
    return lines
