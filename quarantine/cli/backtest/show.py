"""A backtest on stdout: tables for people, or what a program or a pull request reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from quarantine.cli.backtest import words
from quarantine.cli.backtest.data import as_data
from quarantine.cli.backtest.markdown import markdown
from quarantine.cli.backtest.words import Report
from quarantine.cli.records import as_json
from quarantine.cli.render import console

if TYPE_CHECKING:
    from quarantine.cli.backtest.command import Style


def show(report: Report, style: Style) -> None:
    """On stdout."""
    if style == "json":
        as_json(as_data(report))
    elif style == "markdown":
        typer.echo(markdown(report))
    else:
        _tables(report)


def _tables(report: Report) -> None:
    out, result, difference = console(), report.head, report.difference
    out.print(escape(words.period(result)), style="dim")
    out.print(escape(words.headline(report)), style="bold")
    if difference is None:
        _table("Taken out", words.OUTAGE, words.outage_rows(result.outages, result))
    else:
        _table("Newly taken out", words.OUTAGE, words.outage_rows(difference.added, result))
        _table("No longer taken out", words.SPARED, words.spared_rows(difference))
        _table("At another time or by another policy", words.MOVED, words.moved_rows(difference))
    _table("Found, and held back", words.HELD, words.held_rows([h for h in result.held if not h.stray], result))
    if report.record is not None:
        _table("By the trail", words.SCORE, words.score_rows(report.record))
        out.print(escape(words.missed(report.record)))
    for line in words.unseen(result):
        out.print(escape(f"Not known: {line}"), style="yellow")
    out.print(escape("Assumed: " + "; ".join(result.assumptions) + "."), style="dim")
    out.print(f"{result.queries} queries, {result.points:,} values, {result.steps} looks", style="dim")
    out.print("What is next for each policy, from observing to acting: quarantine trust", style="dim")


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    found = list(rows)
    if not found:
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold", justify="right" if head == "GPU-hours" else "left")
    for row in found:
        table.add_row(*map(escape, row))
    console().print(table)
