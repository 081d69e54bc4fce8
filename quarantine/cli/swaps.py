"""`quarantine approve` and `defer`: whether another machine may be asked for, where a policy asks people first."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from quarantine.cli import records
from quarantine.cli.ask import Node, as_data, ask, named, recorded
from quarantine.cli.options import BriefFormat, Config, DatabaseUrl, Output, Reason, friendly
from quarantine.cli.when import ending
from quarantine.cli.words import For, Until
from quarantine.core.decision import RequestKind
from quarantine.core.errors import UsageError

MOST = 100  # swaps that are approved at once: more is no person's look at each

Nodes = Annotated[list[str], typer.Argument(metavar="NODE", show_default=False)]


@friendly
def approve(
    nodes: Nodes,
    reason: Reason,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Say that another machine may be asked for in place of each of these nodes. Each is looked at again then."""
    meant = list(dict.fromkeys(named(node) for node in nodes))
    if len(meant) > MOST:
        raise UsageError(f"{len(meant)} swaps at once are too many to have been looked at: name at most {MOST} nodes")
    asked = recorded(RequestKind.APPROVE, reason, config, database_url, meant)
    if output is Output.JSON:
        records.as_json([as_data(request) for request in asked])
    else:
        shows = f"quarantine explain {meant[0]}" if len(meant) == 1 else "quarantine status"
        typer.echo(f"Recorded. The controller's next cycle decides; {shows} shows what it did.")


@friendly
def defer(
    node: Node,
    reason: Reason,
    for_: For = None,
    until: Until = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Say that no other machine is asked for in place of this node for a while; it is asked again after that."""
    if for_ is None and until is None:
        raise UsageError("a swap is put off for a time: give --for 4h, or --until with a time")
    ask(RequestKind.DEFER, reason, config, database_url, output, node=named(node), until=partial(ending, for_, until))
