"""`quarantine status` and `quarantine explain`: what the ledger knows, told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.cli import render, standing
from quarantine.cli.options import (
    Config,
    DatabaseUrl,
    Exit,
    Output,
    OutputFormat,
    fail,
    friendly,
    set_up_logging,
    settings,
)
from quarantine.core.errors import QuarantineError
from quarantine.inspection import what_is_seen

if TYPE_CHECKING:
    from quarantine.settings import Settings

NodeName = Annotated[str, typer.Argument(metavar="NODE", show_default=False)]


@friendly
def status(config: Config = None, database_url: DatabaseUrl = None, output: OutputFormat = Output.TABLE) -> None:
    """Open cases, what is under way, people's words, broken files, holds, what waits to be done and what was asked."""
    from quarantine import app
    from quarantine.ledger.absent import AbsentLedger

    given = settings(config, database_url)
    with app.reader(given) as ledger:
        if isinstance(ledger, AbsentLedger):
            raise fail(f"there is no ledger at {ledger.path} yet: a first cycle (quarantine run) makes it", Exit.NO)
        standing.status(ledger.load(), ledger.rule_files(), output)


@friendly
def explain(
    node: NodeName,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Why a node was taken out, or why not: its trail with the evidence of every decision."""
    from quarantine import app

    given = settings(config, database_url)
    set_up_logging("error", given.log.format)
    with app.reader(given) as ledger:
        view = ledger.load()
        rows = list(ledger.decisions(node=node))
    seen, blind = _seen(given, node, known=bool(rows))
    if seen is None:
        raise fail(
            f"nothing is known of {node}: no decision in the ledger, and no node of the cluster is called so", Exit.NO
        )
    told = seen if blind is None else [f"that cannot be asked: {blind}"]
    render.story(node, view.state, rows, told, output)
    if blind is not None and not rows:
        raise fail(blind, Exit.DEPENDENCY)  # nothing was said of the node at all


def _seen(given: Settings, name: str, *, known: bool) -> tuple[list[str] | None, QuarantineError | None]:
    """What the policies see now (None: there is no such node), and why that could not be asked."""
    from quarantine import app

    try:
        with app.parts(given, watch=False, acts=False) as parts:
            node = parts.cluster.nodes().get(name)
            if node is None:
                return (["it is no node of the cluster now"] if known else None), None
            seen = what_is_seen(
                parts.metrics,
                parts.rules,
                node,
                at=app.CLOCK.now() - given.prometheus.delay,
                timeout=given.prometheus.timeout,
            )
            return seen, None
    except QuarantineError as error:
        return [], error
