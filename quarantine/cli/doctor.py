"""`quarantine doctor`: everything that the controller needs, tried from here, with what to do about each fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from quarantine import __version__
from quarantine.cli import markdown, records, render
from quarantine.cli.options import (
    Config,
    DatabaseUrl,
    Exit,
    Output,
    OutputFormat,
    friendly,
    set_up_logging,
    settings,
)
from quarantine.core.errors import UsageError
from quarantine.core.units import format_duration, parse_duration

if TYPE_CHECKING:
    from quarantine.doctor import Finding

_MARKS = {"good": "✓", "note": "·", "warning": "!", "unreachable": "✗", "fault": "✗"}
_LONGEST = timedelta(minutes=30)


def _within(value: str) -> timedelta:
    try:
        within = parse_duration(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if within > _LONGEST:
        raise typer.BadParameter(f"{format_duration(_LONGEST)} is the longest")
    return within


@friendly
def doctor(
    within: Annotated[str, typer.Option(metavar="TIME", help="What does not answer by then is told as that.")] = "2m",
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Check everything from here, and say what to do: policies, Kubernetes, Prometheus, ledger, Slack, tickets, pagers.

    Changes nothing and tells nobody. Exit 0: all is well, warnings aside; 1: a fault; 3: something did not answer.
    """
    from quarantine import app
    from quarantine.doctor import Finding, Level, Patient, examine

    longest = _within(within)
    set_up_logging("error", "console")
    try:
        given = settings(config, database_url)
    except UsageError as error:
        _show([Finding(Level.FAULT, str(error), "nothing else can be checked before", "settings")], output)
        raise typer.Exit(Exit.NO) from None
    with Patient(given, app.CLOCK.now) as patient:
        found = examine(patient, longest)
        _show(found, output)
        if code := _exit(found):
            raise typer.Exit(code)


def _exit(found: Sequence[Finding]) -> Exit:
    """Where there is a fault as well, somebody must change something first."""
    from quarantine.doctor import Level, worst

    return {Level.FAULT: Exit.NO, Level.UNREACHABLE: Exit.DEPENDENCY}.get(worst(found), Exit.DONE)


def _show(found: Sequence[Finding], output: Output) -> None:
    counts = Counter(str(finding.level) for finding in found)
    if output is Output.JSON:
        findings = [
            {"check": f.check, "level": str(f.level), "sentence": f.sentence, "advice": f.advice} for f in found
        ]
        levels = {level: counts[level] for level in _MARKS}
        records.as_json({"version": __version__, "exit": int(_exit(found)), "levels": levels, "findings": findings})
        return
    if output is Output.MARKDOWN:
        rows = [(_MARKS[f.level], f.check, f.sentence, f.advice) for f in found]
        heads = ("", "check", "finding", "what to do")
        typer.echo("\n".join([*markdown.table(heads, rows), markdown.written(_sum(counts))]))
        return
    shown, before = render.table("", "check", "finding, and what to do"), ""
    for finding in found:
        name = "" if finding.check == before else finding.check
        render.row(shown, _MARKS[finding.level], name, finding.sentence)
        if finding.advice:
            render.row(shown, "", "", f"→ {finding.advice}")
        before = finding.check
    render.console().print(shown)
    typer.echo(f"\n{_sum(counts)}")


def _sum(counts: Counter[str]) -> str:
    named = (("fault", "fault", "faults"), ("unreachable", "did not answer", "did not answer"))
    parts = [f"{counts[level]} {one if counts[level] == 1 else many}" for level, one, many in named if counts[level]]
    if counts["warning"]:
        parts.append(f"{counts['warning']} warning{'' if counts['warning'] == 1 else 's'}")
    good = f"{counts['good']} as it should be" if counts["good"] else ""
    if not parts:
        return f"All is well: {good}." if good else "Nothing was checked."
    return "; ".join([", ".join(parts), *([good] if good else [])]) + "."
