"""`quarantine open`, `release`, `repaired` and `adopt`: what people ask, recorded for the controller to decide."""

from __future__ import annotations

import getpass
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import typer

from quarantine.cli import records
from quarantine.cli.options import (
    BriefFormat,
    Config,
    DatabaseUrl,
    Exit,
    Output,
    Reason,
    fail,
    friendly,
    settings,
)
from quarantine.core.decision import LONGEST_REASON, Request, RequestKind, State
from quarantine.core.errors import UsageError

Node = Annotated[str, typer.Argument(metavar="NODE", show_default=False)]
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
LONGEST_NAME = 253  # characters of a node's name


@friendly
def open_case(
    node: Node,
    reason: Reason,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Ask for a node to be taken out: a person's own finding."""
    ask(RequestKind.OPEN, reason, config, database_url, output, node=named(node))


@friendly
def release(
    node: Node,
    reason: Reason,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Ask for a node to be put back in service; the findings of its case are then left alone for a week."""
    ask(RequestKind.RELEASE, reason, config, database_url, output, node=named(node))


@friendly
def repaired(
    node: Node,
    reason: Reason,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Say that a machine that is out was repaired or replaced: it goes on probation, and is released by it."""
    ask(RequestKind.REPAIRED, reason, config, database_url, output, node=named(node))


@friendly
def adopt(
    reason: Reason,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Take over marks that are younger than the ledger, which was restored from a backup; until then it observes."""
    ask(RequestKind.ADOPT, reason, config, database_url, output)


def named(node: str) -> str:
    """A node's name. Raises UsageError for what cannot be one."""
    if len(node) > LONGEST_NAME or not _NAME.fullmatch(node):
        raise UsageError(f"NODE must be a node's name: letters, digits, - and ., of at most {LONGEST_NAME} characters")
    return node


_ABOUT_A_CASE = frozenset({RequestKind.RELEASE, RequestKind.REPAIRED, RequestKind.APPROVE, RequestKind.DEFER})


def ask(
    kind: RequestKind,
    reason: str,
    config: Config,
    database_url: DatabaseUrl,
    output: Output,
    *,
    node: str = "",
    scope: str = "",
    until: Callable[[datetime], datetime | None] = lambda _: None,
) -> None:
    """Record a request. `until` is given the present time. Raises UsageError, and Exit where there is no ledger."""
    (request,) = recorded(kind, reason, config, database_url, [node], scope=scope, until=until)
    if output is Output.JSON:
        records.as_json(as_data(request))
    else:
        shows = f"quarantine explain {node}" if node else "quarantine status"
        end = f" until {request.until:%Y-%m-%d %H:%M} UTC" if request.until is not None else ""
        typer.echo(f"Recorded{end}. The controller's next cycle decides; {shows} shows what it did.")


def recorded(
    kind: RequestKind,
    reason: str,
    config: Config,
    database_url: DatabaseUrl,
    nodes: Sequence[str],
    *,
    scope: str = "",
    until: Callable[[datetime], datetime | None] = lambda _: None,
) -> list[Request]:
    """Record a request about each of these nodes. As `ask`; what one of them is refused for keeps all from being."""
    from quarantine import app
    from quarantine.ledger.absent import AbsentLedger

    why, now = worded(reason, scope), app.CLOCK.now()
    blank = Request("", kind, "", why, who(), "cli", now, until=until(now), scope=scope)
    asked = [replace(blank, id=uuid.uuid4().hex, node=node) for node in nodes]
    given = settings(config, database_url)
    with app.reader(given) as ledger:
        if isinstance(ledger, AbsentLedger):
            where = f"there is no ledger at {ledger.path.absolute()}, so nobody would read it"
            raise fail(f"{where}: ask where the controller runs, or name its --config or --database-url", Exit.NO)
        if kind in _ABOUT_A_CASE:
            state = ledger.load().state
            asked = [_about_its_case(request, state) for request in asked]
        for request in asked:
            ledger.ask(request)
    return asked


def worded(reason: str, *others: str) -> str:
    """The reason as it is kept. Raises UsageError where it, or something else that was written, cannot be kept."""
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise UsageError(f"--reason must say why, in at most {LONGEST_REASON} characters")
    if any("\ud800" <= letter <= "\udfff" for letter in "".join((reason, *others))):
        raise UsageError("what you write must be text: some of its bytes are no characters of this terminal's encoding")
    return reason.strip()


def as_data(request: Request) -> dict[str, object]:
    """What is told of a request that was recorded."""
    return {
        "request": request.id,
        "kind": request.kind.value,
        "node": request.node,
        "scope": request.scope,
        "until": request.until,
        "recorded": True,
    }


def _about_its_case(request: Request, state: State) -> Request:
    """A newer case is not meant, however late this is read."""
    case = state.open_case_of(request.node)
    return request if case is None else replace(request, case=case.id)


def who() -> str:
    """Who writes the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown user"
