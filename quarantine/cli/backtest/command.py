"""`quarantine policy backtest …`: which machines these policies would have taken out, over Prometheus' memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quarantine.cli.options import Config, DatabaseUrl, Exit, fail, friendly, settings
from quarantine.core.errors import UsageError
from quarantine.core.units import parse_duration

if TYPE_CHECKING:
    from quarantine.backtest.inventory import Inventory
    from quarantine.backtest.precision import Record
    from quarantine.backtest.result import Result, Span
    from quarantine.cli.backtest.words import Report
    from quarantine.core.model import Node
    from quarantine.core.policy import Rules
    from quarantine.ports import RangeMetrics
    from quarantine.settings import Settings


class Style(StrEnum):
    """For people, for programs, or for a pull request's comment."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


LONGEST = timedelta(days=366)
MOST_STEPS = 600_000  # a year of minutes, and a little more
Progress = Callable[[datetime], None]


@friendly
def backtest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", show_default=False)],
    start: Annotated[str, typer.Option("--start", help="2026-11-01, 2026-11-01T12:00:00Z, or -30d.")] = "-7d",
    end: Annotated[str, typer.Option("--end", help="As --start, or now.")] = "now",
    step: Annotated[str, typer.Option("--step", help="How often the fleet is looked at.")] = "1m",
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Overrides the settings' prometheus.url.")
    ] = None,
    base: Annotated[
        list[Path] | None, typer.Option("--base", metavar="PATH", help="The version to compare with; may be repeated.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option("--nodes", metavar="FILE", help="What `kubectl get nodes -o json` said; else the metrics' nodes."),
    ] = None,
    as_written: Annotated[
        bool, typer.Option("--as-written", help="Policies in observe mode stay there; else all are tried as enforcing.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Draw the timeline.", dir_okay=False)
    ] = None,
    output: Annotated[Style, typer.Option("--output", "-o", help="table, json or markdown.")] = Style.TABLE,
    config: Config = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Judge history by these policies: what would have been taken out, when, for how long, and what was held back."""
    from quarantine.app import CLOCK
    from quarantine.cli.backtest.show import show
    from quarantine.cli.backtest.words import Report

    given = settings(config, database_url, **{"prometheus.url": prometheus})
    if picture is not None and picture.suffix != ".svg":
        raise UsageError(f"--picture {picture}: pictures are drawn as SVG; give it a name that ends in .svg")
    if picture is not None and not picture.parent.is_dir():
        raise UsageError(f"--picture {picture}: there is no directory {picture.parent}")
    span = _span(start, end, step, CLOCK.now())
    head = _rules(paths, given, policy, as_written=as_written)
    before = _rules(base, given, policy, as_written=as_written) if base else None
    with _history(given) as metrics:
        # One fleet for both versions, or a machine that only one of them can see would be a difference of its own.
        machines = _machines(nodes, given, (before, head), metrics, span)
        result = _run(head, machines, metrics, span, "")
        older = _run(before, machines, metrics, span, "base: ") if before is not None else None
    told = Report(result, older, _precision(given, result, wanted=database_url is not None))
    if picture is not None:
        _draw(picture, told)
    show(told, output)
    if result.blind:
        raise fail(f"no policy was ever answered, so nothing is known: {result.gaps[0].detail}", Exit.DEPENDENCY)


# --- What is asked for ------------------------------------------------------------------------------------------------


def _span(start: str, end: str, step: str, now: datetime) -> Span:
    from quarantine.backtest.result import Span
    from quarantine.cli.when import moment

    try:
        pace = parse_duration(step)
    except ValueError as error:
        raise UsageError(f"--step {error}") from None
    span = Span(moment(start, "--start", now), moment(end, "--end", now), pace)
    if span.start >= span.end:
        raise UsageError(f"--start {span.start:%Y-%m-%d %H:%M} is not before --end {span.end:%Y-%m-%d %H:%M} UTC")
    if span.end > now + timedelta(minutes=1):
        raise UsageError(f"--end {span.end:%Y-%m-%d %H:%M} UTC is in the future, of which Prometheus knows nothing")
    if span.end - span.start > LONGEST or span.grid.count > MOST_STEPS:
        raise UsageError(
            f"{span.grid.count:,} looks from {span.start:%Y-%m-%d} to {span.end:%Y-%m-%d} are too many: at most "
            f"{LONGEST.days} days, and {MOST_STEPS:,} looks; choose a later --start or a longer --step"
        )
    if span.grid.count == 0:
        raise UsageError(f"--step {step} is longer than from --start to --end: there is nothing to look at")
    return span


def _rules(paths: list[Path], given: Settings, only: list[str] | None, *, as_written: bool) -> Rules:
    from quarantine.adapters.policyfiles.faults import PolicyFaults, format_faults
    from quarantine.adapters.policyfiles.loader import load_rules
    from quarantine.core.rehearsal import as_enforced

    try:
        rules = load_rules(paths, prefix=given.kubernetes.prefix)
    except PolicyFaults as error:  # as `policy check` tells them
        typer.echo(format_faults(error.faults), err=True)
        raise typer.Exit(Exit.NO) from None
    if only:
        known = {policy.name for policy in rules.policies}
        if missing := sorted(set(only) - known):
            names = ", ".join(sorted(known))
            raise UsageError(f"--policy {missing[0]}: there is no such policy in {paths[0]} (there are {names})")
        rules = replace(rules, policies=tuple(policy for policy in rules.policies if policy.name in only))
    if not rules.policies:
        raise UsageError(f"there is no policy in {paths[0]}, so there is nothing to judge by")
    return rules if as_written else as_enforced(rules)


@contextmanager
def _history(given: Settings) -> Iterator[RangeMetrics]:
    from quarantine.adapters.prometheus import PrometheusMetrics

    connection = given.prometheus.connection()
    patient = replace(connection, timeout=max(connection.timeout, timedelta(minutes=2)))  # a range takes its time
    with PrometheusMetrics(patient) as metrics:
        yield metrics


def _machines(
    file: Path | None, given: Settings, versions: tuple[Rules | None, Rules], metrics: RangeMetrics, span: Span
) -> Inventory:
    from quarantine.backtest import inventory

    if file is not None:
        prefix = given.kubernetes.prefix
        nodes = inventory.at_the_start(_listed(file, prefix), prefix, versions[1].fleet.maintenance)
        said = f"the {len(nodes)} machines of {file.name} were there all the time, in service at the start"
        return inventory.Inventory(nodes, (said,))
    older, head = versions
    policies = head.policies + (older.policies if older is not None else ())
    signals = {**(older.signals if older is not None else {}), **head.signals}
    return inventory.from_metrics(replace(head, policies=policies, signals=signals), metrics, span.grid)


def _listed(file: Path, prefix: str) -> list[Node]:
    from quarantine.adapters.kube.records import Garbled, node_record

    hint = "give the output of `kubectl get nodes -o json`"
    try:
        raw = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"--nodes {file}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"--nodes {file} is no JSON: {hint}") from None
    items = raw.get("items") if isinstance(raw, Mapping) else None
    if not isinstance(items, list) or not items:
        raise UsageError(f"--nodes {file} lists no nodes: {hint}")
    try:
        return [node_record(item, prefix) for item in items]
    except Garbled as error:
        raise UsageError(f"--nodes {file} holds {error}: {hint}") from None


# --- Running ----------------------------------------------------------------------------------------------------------


def _run(rules: Rules, machines: Inventory, metrics: RangeMetrics, span: Span, what: str) -> Result:
    from quarantine.backtest.engine import run

    with _progress(span, what) as progress:
        result = run(rules, machines.nodes, metrics, span, progress=progress)
    return replace(result, assumptions=(*machines.assumptions, *result.assumptions))


@contextmanager
def _progress(span: Span, what: str) -> Iterator[Progress]:
    """A bar on a terminal; where there is none, a line at every tenth."""
    whole = span.end - span.start
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"{what}{span.start:%Y-%m-%d %H:%M}", total=1.0)
            yield lambda at: bar.update(
                task, completed=(at - span.start) / whole, description=f"{what}{at:%Y-%m-%d %H:%M}"
            )
        return
    told = 0

    def line(at: datetime) -> None:
        nonlocal told
        tenth = int(10 * ((at - span.start) / whole) + 1e-9)
        if tenth > told:
            told = tenth
            typer.echo(f"{what}{at:%Y-%m-%d %H:%M} UTC, {10 * tenth}%", err=True)

    yield line


def _precision(given: Settings, result: Result, *, wanted: bool) -> Record | None:
    """Against the trail, where the command line names one."""
    if not wanted:
        return None
    from quarantine import app
    from quarantine.backtest.precision import cases_of, precision
    from quarantine.ledger.absent import AbsentLedger

    with app.reader(given) as ledger:
        if isinstance(ledger, AbsentLedger):
            raise UsageError(f"--database-url: there is no ledger at {ledger.path}")
        return precision(result, cases_of(row.decision for row in ledger.decisions()))


def _draw(file: Path, told: Report) -> None:
    from quarantine.backtest.picture import timeline, timelines

    drawn = timeline(told.head) if told.difference is None else timelines(told.difference)
    try:
        file.write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--picture {file}: {error.strerror or error}") from None
