"""`quarantine status` and `quarantine explain`: what the ledger knows, told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.cli import picture, standing
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
from quarantine.cli.story import Account, show
from quarantine.cli.waiting import waiting
from quarantine.cli.when import past
from quarantine.core.decision import Word
from quarantine.core.errors import QuarantineError, UsageError
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
        if said := waiting(ledger.pulse(), app.CLOCK.now(), given.cycle.interval):
            typer.echo(f"quarantine: {said}", err=True)


@friendly
def explain(
    node: NodeName,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="As it was known then: 2026-11-01T12:00:00Z, -3d.", show_default=False
        ),
    ] = None,
    case: Annotated[
        str, typer.Option("--case", metavar="ID", help="Only this case; left out, all of them.", show_default=False)
    ] = "",
    chart: Annotated[
        Path | None,
        typer.Option(
            "--chart",
            metavar="FILE.png|svg",
            help="Draw the case, or the newest one: signal, threshold, window, and what was done.",
            show_default=False,
        ),
    ] = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """Why a node was taken out, or why not: its trail with the evidence of every decision, now or as of then."""
    from quarantine import app

    form = picture.form_of(chart) if chart is not None else None
    given = settings(config, database_url)
    set_up_logging("error", given.log.format, given)
    asof = _past(at, app.CLOCK.now()) if at is not None else None
    with app.reader(given) as ledger:
        view = ledger.load()
        rows = list(ledger.decisions(node=node))
        account = Account(node, view.state, rows, only=case)
        if asof is not None:
            account = _then(account, asof, ledger.words(asof))
    blind = None
    if asof is None and not case:
        account, blind = _with_sight(given, account)
    if case and account.told.chapter(case) is None:
        raise fail(f"{node} has no case {case} {_known(account)}", Exit.NO)
    show(account, output)
    if blind is not None and not rows:
        raise fail(blind, Exit.DEPENDENCY)  # nothing was said of the node at all
    if chart is not None and form is not None:
        picture.draw(account, chart, form)


def _past(text: str, now: datetime) -> datetime:
    asof = past(text, "--at", now)
    if asof > now:
        raise UsageError(f"--at {text}: that has not come yet; it is {now:%Y-%m-%dT%H:%M:%SZ} now")
    return asof


def _then(account: Account, asof: datetime, words: Mapping[str, Word]) -> Account:
    """As it was: the rows until then, and what they alone add up to."""
    rows = list(takewhile(lambda row: row.decision.at <= asof, account.rows))
    if not rows:
        first = f"; the first decision about it is #{account.rows[0].seq}" if account.rows else ""
        told = f"nothing was known of {account.node} at {asof:%Y-%m-%d %H:%M:%S} UTC"
        raise fail(f"{told}{first}", Exit.NO)
    account = replace(account, rows=rows, asof=asof)
    return replace(account, state=replace(account.told.state, words=words))


def _known(account: Account) -> str:
    known = [c.case.id for c in account.told.chapters if c.case is not None]
    then = "" if account.asof is None else " by then"
    return f"(its cases{then}: {', '.join(known) or 'none'})"


def _with_sight(given: Settings, account: Account) -> tuple[Account, QuarantineError | None]:
    """With what the policies see now, and why that could not be asked. The trail is told all the same."""
    seen, blind = _seen(given, account.node, known=bool(account.rows))
    if seen is None:
        told = f"nothing is known of {account.node}: no decision in the ledger, and no node of the cluster is called so"
        raise fail(told, Exit.NO)
    return replace(account, now=seen if blind is None else [f"that cannot be asked: {blind}"]), blind


def _seen(given: Settings, name: str, *, known: bool) -> tuple[list[str] | None, QuarantineError | None]:
    """What the policies see now (None: there is no such node), and why that could not be asked."""
    from quarantine import app, whose

    try:
        with app.parts(given, watch=False, acts=False) as parts:
            whose.require_same(parts.cluster, parts.ledger)
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
