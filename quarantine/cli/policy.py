"""`quarantine policy …`: policies as code, checked before they are merged."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from quarantine.cli.backtest import backtest
from quarantine.cli.options import Config, Exit, friendly
from quarantine.cli.policyshow import show
from quarantine.cli.policytest import test
from quarantine.core.errors import QuarantineError

policy = typer.Typer(help="Policies as code.", no_args_is_help=True)
policy.command("test")(test)
policy.command("show")(show)
policy.command("backtest")(backtest)


class Style(StrEnum):
    """How faults are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


@policy.command()
@friendly
def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", show_default=False)],
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus",
            metavar="URL",
            help="Also ask this Prometheus: selectors without series, nodes without the signal, real intervals. "
            "Credentials come from the settings and the environment.",
        ),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(
            "--nodes",
            metavar="FILE",
            help="With --prometheus: the nodes there are, as `kubectl get nodes -o json` prints them; "
            "left out, kube-state-metrics is asked.",
        ),
    ] = None,
    config: Config = None,
    output: Annotated[Style, typer.Option("--output", "-o", help="text, json or github annotations.")] = Style.TEXT,
) -> None:
    """Check policy files: `file:line:column: message` for each fault, exit 1 if there is any."""
    from quarantine.adapters.policyfiles.faults import format_faults
    from quarantine.adapters.policyfiles.loader import check_paths

    if nodes is not None and prometheus is None:
        raise typer.BadParameter("it goes with --prometheus", param_hint="--nodes")
    result = check_paths(paths)
    found = [*result.faults, *result.notes]
    summary: list[str] = []
    unanswered: QuarantineError | None = None
    if prometheus is not None:
        from quarantine.cli.policylive import ask_prometheus

        try:
            live, summary = ask_prometheus(result, prometheus, nodes, config)
            found += live
        except QuarantineError as error:
            unanswered = error  # what is known without it is told all the same
    if output is Style.JSON or found:
        typer.echo(format_faults(sorted(found), style=output.value))
    for line in summary:
        typer.echo(line, err=output is not Style.TEXT)
    if unanswered is not None:
        raise unanswered
    where = ", ".join(map(str, paths))
    if count := sum(fault.severity == "fault" for fault in found):
        typer.echo(f"{count} fault{'' if count == 1 else 's'} in {where}", err=True)
        raise typer.Exit(Exit.NO)
    kinds = ", ".join(f"{count} {kind}" for kind, count in result.counts.items())
    typer.echo(f"{where}: no fault ({kinds})", err=output is not Style.TEXT)


@policy.command()
@friendly
def schema() -> None:
    """The JSON Schema of policy files, for editors."""
    from quarantine.adapters.policyfiles.schema import schema_text

    typer.echo(schema_text(), nl=False)


@policy.command(hidden=True)
@friendly
def reference() -> None:
    """The reference page of the language, as it is in docs/."""
    from quarantine.adapters.policyfiles.reference import reference as page

    typer.echo(page(), nl=False)
