"""`quarantine trust`: how far each policy has come from observing to acting, and what is next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.cli.options import Config, DatabaseUrl, Exit, Output, OutputFormat, fail, friendly, settings
from quarantine.cli.render import safe
from quarantine.cli.when import begun
from quarantine.core.errors import UsageError
from quarantine.core.record.trust import Standing, Step

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Engine

    from quarantine.cli.trust.reading import Installation
    from quarantine.core.policy import Rules
    from quarantine.settings import Settings


@friendly
def trust(
    policies: Annotated[
        list[str] | None, typer.Argument(metavar="POLICY", help="Only these, in full; left out, all in force.")
    ] = None,
    since: Annotated[
        str,
        typer.Option("--since", metavar="TIME", help="From when on it is looked; for so long a policy is to observe."),
    ] = "14d",
    require: Annotated[
        Step | None,
        typer.Option("--require", help="Exit 1 unless each named policy has come so far.", show_default=False),
    ] = None,
    check: Annotated[
        list[Path] | None,
        typer.Option(
            "--check",
            metavar="PATH",
            help="Exit 1 if a policy of these files says enforce and was not observed enough; may be repeated.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="POLICY", help="With --check: this one may, all the same; may be repeated."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Whose; else the settings'.", show_default=False)
    ] = None,
    config: Config = None,
    database_url: DatabaseUrl = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    """How far each policy is on its path: observe, read, backtest, enforce in one pool, widen; and what is next."""
    from quarantine import app
    from quarantine.cli.trails import opened
    from quarantine.cli.trust import check as checking
    from quarantine.cli.trust.reading import read
    from quarantine.cli.trust.show import show, show_checked

    _fits(policies, require, check, allow)
    now = app.CLOCK.now()
    first = _first(since, now)
    rules = _written(check) if check else None
    with opened(config, database_url, cluster) as (engine, own):
        given = settings(config, database_url, cluster=cluster)
        known = read(engine, _installation(engine, own, given, now), first, now)
        if rules is not None:
            rulings = checking.check(known, rules, _named(allow or (), [p.name for p in rules.policies], "--allow"))
            show_checked(rulings, known.at, known.wanted, given.policies, output)
            if any(one.refused for one in rulings):
                raise typer.Exit(Exit.NO)
            return
        told = _chosen(known.in_force(), policies)
        show(told, known.at, known.wanted, given.policies, output, full=bool(policies))
    _reached(told, require)


def _fits(policies: list[str] | None, require: Step | None, check: list[Path] | None, allow: list[str] | None) -> None:
    if require is not None and not policies:
        raise UsageError("--require says how far named policies are to have come: name them")
    if check and policies:
        raise UsageError("--check is about the policies of files: give no names beside it, or leave it out")
    if allow and not check:
        raise UsageError("--allow goes with --check")


def _first(since: str, now: datetime) -> datetime:
    first = begun(since, "--since", now)
    if first >= now:
        raise UsageError(f"--since {since}: that is now, and there is no time to look at")
    return first


def _written(paths: Sequence[Path]) -> Rules:
    from quarantine.adapters.policyfiles.faults import PolicyFaults, format_faults
    from quarantine.adapters.policyfiles.loader import load_rules

    try:
        return load_rules(paths)
    except PolicyFaults as error:  # as `policy check` tells them
        typer.echo(format_faults(error.faults), err=True)
        raise typer.Exit(Exit.NO) from None


def _installation(engine: Engine, own: str, given: Settings, now: datetime) -> Installation:
    from quarantine import app
    from quarantine.cli.trust.reading import installation
    from quarantine.cli.waiting import waiting
    from quarantine.ledger.store import SqlLedger

    book = SqlLedger(engine, own, now=app.CLOCK.now)
    pulse = book.pulse()
    state = book.load().state
    found = installation(own, given.mode, state, pulse, book.rule_files(), given.kubernetes.prefix)
    if found is None:
        raise fail(
            f"the controller of cluster {safe(own)} has taken up no policies yet: a first cycle (quarantine run) does",
            Exit.NO,
        )
    if said := waiting(pulse, now, given.cycle.interval):
        typer.echo(f"quarantine: {said}", err=True)
    return found


def _chosen(told: Sequence[Standing], names: list[str] | None) -> Sequence[Standing]:
    if not names:
        return told
    wanted = _named(names, [one.policy.name for one in told], "")
    return [one for one in told if one.policy.name in wanted]


def _named(names: Sequence[str], known: Sequence[str], option: str) -> frozenset[str]:
    """Raises Exit for a policy that is not there."""
    for name in names:
        if name not in known:
            where = f"{option} {safe(name)}: these files have" if option else f"{safe(name)}: in force is"
            raise fail(f"{where} no such policy; there is {', '.join(sorted(known)) or 'none'}", Exit.NO)
    return frozenset(names)


def _reached(told: Sequence[Standing], require: Step | None) -> None:
    if require is None:
        return
    short = [one for one in told if one.step.rank < require.rank]
    for one in short:
        typer.echo(f"quarantine: {one.policy.name} stands at {one.step}, and not yet at {require}", err=True)
    if short:
        raise typer.Exit(Exit.NO)
