"""`quarantine open` and `quarantine release`: what people ask, recorded for the controller to decide."""

from __future__ import annotations

import getpass
import uuid
from typing import Annotated

import typer

from quarantine.cli import render
from quarantine.cli.options import (
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
from quarantine.core.decision import LONGEST_REASON, Request, RequestKind
from quarantine.core.errors import UsageError

Node = Annotated[str, typer.Argument(metavar="NODE", show_default=False)]


@friendly
def open_case(
    node: Node,
    reason: Reason,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Ask for a node to be taken out: a person's own finding."""
    _ask(RequestKind.OPEN, node, reason, config, database_url, output)


@friendly
def release(
    node: Node,
    reason: Reason,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Ask for a node to be put back in service; the findings of its case are then left alone for a week."""
    _ask(RequestKind.RELEASE, node, reason, config, database_url, output)


def _ask(kind: RequestKind, node: str, reason: str, config: Config, database_url: DatabaseUrl, output: Output) -> None:
    from quarantine import app
    from quarantine.ledger.absent import AbsentLedger

    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise UsageError(f"--reason must say why, in at most {LONGEST_REASON} characters")
    if not node.strip() or len(node) > 253:
        raise UsageError("NODE must be a node's name, of at most 253 characters")
    given = settings(config, database_url)
    with app.reader(given) as ledger:
        if isinstance(ledger, AbsentLedger):
            where = f"there is no ledger at {ledger.path.absolute()}, so nobody would read it"
            raise fail(f"{where}: ask where the controller runs, or name its --config or --database-url", Exit.NO)
        request = Request(uuid.uuid4().hex, kind, node, reason.strip(), _who(), "cli", app.CLOCK.now())
        ledger.ask(request)
    if output is Output.JSON:
        render.as_json({"request": request.id, "kind": kind.value, "node": node, "recorded": True})
    else:
        typer.echo(f"Recorded. The controller's next cycle decides; quarantine explain {node} shows what it did.")


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown user"
