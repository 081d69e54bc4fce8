"""`quarantine policy show HASH`: the text of a version that decided, as it was then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.adapters.tickets.markdown import code_block
from quarantine.cli import markdown, records
from quarantine.cli.options import Config, DatabaseUrl, Exit, Output, OutputFormat, fail, friendly
from quarantine.cli.render import safe
from quarantine.cli.trails import Cluster, opened
from quarantine.core.errors import UsageError

if TYPE_CHECKING:
    from quarantine.ledger.texts import Kept

SHORTEST = 4  # characters of a hash that are worth looking for
_HEX = frozenset("0123456789abcdef")


@friendly
def show(
    version: Annotated[
        str, typer.Argument(metavar="HASH", help="As explain and history print it: its beginning suffices.")
    ],
    cluster: Cluster = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Print the text of a policy in the version that took a decision, from the ledger."""
    from quarantine.ledger.texts import kept

    wanted = version.strip().rstrip("….").lower()
    if len(wanted) < SHORTEST or len(wanted) > 64 or not set(wanted) <= _HEX:
        raise UsageError(
            f"{safe(version)[:80]!r} is no hash of a policy: give its first {SHORTEST} characters or more, "
            "of 0 to 9 and a to f"
        )
    with opened(config, database_url, cluster) as (engine, own):
        found = kept(engine, own, wanted)
    if not found:
        raise fail(f"the ledger has no policy of cluster {own!r} whose hash begins with {wanted}", Exit.NO)
    if len(found) > 1:
        several = ", ".join(f"{one.hash[:12]} ({safe(one.name)})" for one in found)
        raise UsageError(f"several hashes begin with {wanted}: give more of the one that is meant: {several}")
    (one,) = found
    match output:
        case Output.JSON:
            records.as_json(_as_data(one))
        case Output.MARKDOWN:
            typer.echo(f"{markdown.written(_heading(one))}\n\n{code_block(one.text, 'yaml')}")
        case Output.TABLE:
            typer.echo(_heading(one), err=True)  # so that stdout is the text alone
            typer.echo("\n".join(_visible(line) for line in one.text.split("\n")), nl=not one.text.endswith("\n"))


def _as_data(one: Kept) -> records.Json:
    told: records.Json = {"name": one.name, "hash": one.hash, "revision": one.revision, "first_seen": one.first_seen}
    return {**told, "text": one.text}


def _heading(one: Kept) -> str:
    revision = f", revision {safe(one.revision)}" if one.revision else ""
    return f"{safe(one.name)}, {one.hash}{revision}, first seen {one.first_seen:%Y-%m-%d %H:%M} UTC"


def _visible(line: str) -> str:
    """Without control characters, which would move a reader's cursor. JSON has the text letter for letter."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line.removesuffix("\r"))
