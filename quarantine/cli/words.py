"""`quarantine waive`, `pause`, `resume` and `maintain`: people's words that stand for a while."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from quarantine.cli.ask import Node, ask, named
from quarantine.cli.options import BriefFormat, Config, DatabaseUrl, Output, Reason, friendly
from quarantine.cli.when import ending
from quarantine.core.decision import RequestKind
from quarantine.core.errors import UsageError

LONGEST_SCOPE = 1000  # characters of a policy's or pool's name, or of a selector

For = Annotated[str | None, typer.Option("--for", help="How long: 4h, 2d.", show_default=False)]
Until = Annotated[
    str | None,
    typer.Option("--until", help="Its end: 2026-11-29T18:00:00Z; without a zone it is UTC.", show_default=False),
]
Scope = Annotated[
    str,
    typer.Argument(
        metavar="POLICY|POOL",
        help="A policy or a pool by its name; policy/NAME or pool/NAME where both have it; left out, everything.",
        show_default=False,
    ),
]
Selector = Annotated[
    str,
    typer.Argument(metavar="SELECTOR", help="A node's name, or labels: rack=r7,zone=a.", show_default=False),
]


@friendly
def waive(
    node: Node,
    reason: Reason,
    for_: For = None,
    until: Until = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Keep a node in service for a while, or put it back: only a new and fatal finding takes it out meanwhile."""
    _some_end(for_, until, "a waiver")
    ask(RequestKind.WAIVE, reason, config, database_url, output, node=named(node), until=partial(ending, for_, until))


@friendly
def pause(
    reason: Reason,
    scope: Scope = "",
    for_: For = None,
    until: Until = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Do nothing new: take no machine out, drain, repair and report none. Releases go on. Until resumed, or its end."""
    end = partial(ending, for_, until)
    ask(RequestKind.PAUSE, reason, config, database_url, output, scope=_scope(scope), until=end)


@friendly
def resume(
    reason: Reason,
    scope: Scope = "",
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """End a pause, or planned work by its selector. What was held is judged afresh, a few machines at a time."""
    ask(RequestKind.RESUME, reason, config, database_url, output, scope=_scope(scope))


@friendly
def maintain(
    selector: Selector,
    reason: Reason,
    for_: For = None,
    until: Until = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Say that work is planned on nodes: nothing is judged there until its end."""
    from quarantine.core.maintenance import selector as parse_selector

    _some_end(for_, until, "planned work")
    try:
        meant = parse_selector(_scope(selector))
    except ValueError as error:
        raise UsageError(f"SELECTOR {selector!r}: {error}") from None
    ask(RequestKind.MAINTAIN, reason, config, database_url, output, scope=meant, until=partial(ending, for_, until))


def _some_end(for_: str | None, until: str | None, what: str) -> None:
    if for_ is None and until is None:
        raise UsageError(f"{what} needs an end: give --for 4h, or --until with a time")


def _scope(text: str) -> str:
    if len(text) > LONGEST_SCOPE or not text.isprintable():
        raise UsageError(f"{text[:40]!r} is no name or selector: write at most {LONGEST_SCOPE} plain characters")
    return text.strip()
