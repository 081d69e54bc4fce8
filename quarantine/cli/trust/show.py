"""The path of trust on stdout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from quarantine.cli import markdown, records, render
from quarantine.cli.options import Output
from quarantine.cli.trust import check, words
from quarantine.cli.trust.check import Ruling
from quarantine.cli.trust.data import as_checked, as_data
from quarantine.cli.trust.reading import Installation
from quarantine.core.record.trust import Rank, Standing, Wanted

_HEADS = ("policy", "stands at", "mode", "pools", "day by day", "observed", "cases", "wait", "right")
_NUMBERS = 5  # from this column on
_CHECKED = ("policy", "place", "may enforce", "why")
_NONE = "–"
_QUIET = (Rank.TIME, Rank.DONE)


def show(
    told: Sequence[Standing], at: Installation, wanted: Wanted, paths: Sequence[Path], output: Output, *, full: bool
) -> None:
    """`full`: what is to be said of every one of them, and not only of those that wait for people."""
    if output is Output.JSON:
        records.as_json(as_data(told, at, wanted, paths))
        return
    spoken = [one for one in told if full or one.turn not in _QUIET]
    if output is Output.MARKDOWN:
        typer.echo("\n".join(_markdown(told, spoken, at, wanted, paths)))
        return
    typer.echo(render.safe(words.headline(at, wanted)))
    if told:
        typer.echo("")
        made = render.table(*_HEADS)
        for one in told:
            render.row(made, *_cells(one))
        for column in made.columns[_NUMBERS:]:
            column.justify = "right"
        render.console().print(made)
        typer.echo(words.LEGEND)
    for one in spoken:
        _block(one, at, wanted, paths, full=full)
    if rest := _rest(told, spoken):
        typer.echo(f"\n{rest}")


def _cells(one: Standing) -> tuple[object, ...]:
    found = one.found
    return (
        one.policy.name,
        f"{one.step} (acts)" if one.ahead else one.step,
        one.policy.spec.mode,
        ", ".join(one.pools) or _NONE,
        words.bar(one),
        words.share(one),
        f"{found.cases:,}" if found.cases else _NONE,
        f"{found.waits:,}" if found.waits else _NONE,
        words.right(one) or _NONE,
    )


def _block(one: Standing, at: Installation, wanted: Wanted, paths: Sequence[Path], *, full: bool) -> None:
    then = words.after(one, at, wanted, paths)
    typer.echo(f"\n{render.safe(f'{one.policy.name}: {then.why}.')}")
    if full:
        for line in _details(one):
            typer.echo(render.safe(f"  {line}."))
    for said in words.notes(one, at, wanted):
        typer.echo(render.safe(f"  Mind: {said}."))
    typer.echo(render.safe(f"  Next: {then.what}."))
    for command in then.commands:
        typer.echo(render.safe(f"    {command}"))


def _details(one: Standing) -> Iterator[str]:
    found = one.found
    if found.cases:
        yield (
            f"It opened {words.counted(found.cases, 'case')} on {words.counted(found.machines, 'machine')}; "
            f"{found.out:,} of them {'was' if found.out == 1 else 'were'} taken out, "
            f"and {words.counted(found.passed, 'suspicion')} went by "
            f"{'itself' if found.passed == 1 else 'themselves'}"
        )
    if one.overflow is not None:
        sweep, allowed = one.overflow.sweep, one.overflow.allowed
        lets = "its budget cannot be told" if allowed is None else f"its budget lets out {allowed:,} within an hour"
        yield (
            f"The most at once: {words.counted(sweep.machines, 'machine')} of pool {sweep.pool or 'none'} in one "
            f"cycle; {lets}"
        )
    yield f"When it acts, it {words.response(one.policy)}"


def _rest(told: Sequence[Standing], spoken: Sequence[Standing]) -> str:
    """Those of which nothing more is said."""
    left = Counter(one.turn for one in told if one not in spoken)
    parts = [f"{words.counted(left[Rank.TIME], 'policy goes', 'policies go')} on observing"] if left[Rank.TIME] else []
    if left[Rank.DONE]:
        parts.append(f"{words.counted(left[Rank.DONE], 'policy enforces', 'policies enforce')} wherever it observed")
    return f"{', and '.join(parts)}: name one to be told more." if parts else ""


def _markdown(
    told: Sequence[Standing], spoken: Sequence[Standing], at: Installation, wanted: Wanted, paths: Sequence[Path]
) -> Iterator[str]:
    yield from markdown.heading("The path of trust")
    yield from (markdown.written(words.headline(at, wanted)), "")
    yield from markdown.table(_HEADS, map(_cells, told), _NUMBERS)
    for one in spoken:
        then = words.after(one, at, wanted, paths)
        yield from markdown.heading(one.policy.name, 4)
        said = [then.why, *(f"mind: {note}" for note in words.notes(one, at, wanted)), f"next: {then.what}"]
        yield from markdown.bullets(f"{line[0].upper()}{line[1:]}." for line in said)
        yield ""
        if then.commands:
            yield from markdown.bullets(markdown.code(command) for command in then.commands)
            yield ""
    if rest := _rest(told, spoken):
        yield from (markdown.written(rest), "")


# --- Files ------------------------------------------------------------------------------------------------------------


def show_checked(
    rulings: Sequence[Ruling], at: Installation, wanted: Wanted, paths: Sequence[Path], output: Output
) -> None:
    """What is said of policies of files that say enforce."""
    rows = [_ruled(one) for one in rulings]
    end = _end(rulings)
    match output:
        case Output.JSON:
            records.as_json(as_checked(rulings, at, wanted, paths))
        case Output.MARKDOWN:
            lines = [*markdown.heading("May these policies enforce?"), *markdown.table(_CHECKED, rows)]
            typer.echo("\n".join([*lines, markdown.written(end)]))
        case Output.TABLE:
            if rows:
                made = render.table(*_CHECKED)
                for cells in rows:
                    render.row(made, *cells)
                render.console().print(made)
            typer.echo(render.safe(end))


def _ruled(one: Ruling) -> tuple[object, ...]:
    answer = "no" if one.refused else "allowed" if one.allowed else "yes"
    return one.standing.policy.name, one.standing.policy.place, answer, one.reason


def _end(rulings: Sequence[Ruling]) -> str:
    if not rulings:
        return "No policy of these files says enforce."
    refused = sum(1 for one in rulings if one.refused)
    if not refused:
        return f"Nothing stands in the way of those that enforce. Mind: {words.UNSEEN}."
    return f"{words.counted(refused, 'policy is', 'policies are')} not to enforce yet: {check.advice(rulings)}"
