"""`--chart FILE`: the picture of a case beside its story."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import typer

from quarantine.charts import Format, render, require
from quarantine.cli.options import Exit, fail
from quarantine.cli.render import safe
from quarantine.cli.story import Account
from quarantine.core.errors import UsageError
from quarantine.core.record.chart import ChartData, chart


def form_of(file: Path) -> Format:
    """What a file's suffix says, before anything is done. Raises UsageError, also where nothing can be drawn here."""
    suffix = file.suffix.lower().removeprefix(".")
    if suffix not in list(Format):
        raise UsageError(f"--chart {file}: the name must end in .png or .svg")
    require()
    return Format(suffix)


def draw(account: Account, file: Path, form: Format) -> None:
    """Write the picture, and say on stderr of which case it is. Raises UsageError where it cannot be written."""
    drawn = chart_of(account)
    if drawn is None:
        raise fail(f"there is nothing to draw of {account.node}: no decision tells of a finding or a case", Exit.NO)
    _write(file, render(drawn, form))
    about = f"case {drawn.case}" if drawn.case else "what was found without a case"
    others = sum(c.case is not None for c in account.told.chapters) - bool(drawn.case)
    more = f"; --case names another one of {others}" if others and not account.only else ""
    typer.echo(safe(f"{file} shows {about}{more}"), err=True)


def chart_of(account: Account) -> ChartData | None:
    """Of the case that is named, of the one that is open, or of the newest; of no case where there is none."""
    cases = [c.case for c in account.told.chapters if c.case is not None]
    chosen = [c for c in cases if c.id == account.only] or [c for c in cases if c.open] or cases
    rows = [(r.seq, r.decision) for r in account.rows]
    return chart(account.node, rows, chosen[-1].id if chosen else "")


def _write(file: Path, content: bytes) -> None:
    """All of it or nothing: who looks at the file meanwhile sees the one before."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name[:100]}.", dir=file.parent)
        written = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(content)
            written.chmod(0o666 & ~_umask())
            written.replace(file)
        except BaseException:
            written.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"--chart {file} cannot be written: {error.strerror or error}") from None


def _umask() -> int:
    """What new files are made with; it can only be read by setting it."""
    before = os.umask(0o022)
    os.umask(before)
    return before
