"""`quarantine policy …`: policies as code, checked before they are merged."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from quarantine.cli.options import Exit, friendly
from quarantine.core.policy import KINDS

policy = typer.Typer(help="Policies as code.", no_args_is_help=True)


class Style(StrEnum):
    """How faults are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


@policy.command()
@friendly
def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", show_default=False)],
    output: Annotated[Style, typer.Option("--output", "-o", help="text, json or github annotations.")] = Style.TEXT,
) -> None:
    """Check policy files: `file:line: message` for each fault, exit 1 if there is any."""
    from quarantine.adapters.policyfiles.faults import format_faults
    from quarantine.adapters.policyfiles.loader import check_paths

    result = check_paths(paths)
    if output is Style.JSON or result.faults:
        typer.echo(format_faults(result.faults, style=output.value))
    if result.faults:
        count = len(result.faults)
        typer.echo(f"{count} fault{'' if count == 1 else 's'} in {', '.join(map(str, paths))}", err=True)
        raise typer.Exit(Exit.NO)
    found = ", ".join(f"{count} {kind}" for kind, count in result.counts.items())
    typer.echo(f"{', '.join(map(str, paths))}: no fault ({found})", err=output is not Style.TEXT)


@policy.command()
@friendly
def schema() -> None:
    """The JSON Schema of policy files, for editors."""
    schemas = [model.model_json_schema(by_alias=True) for model in KINDS.values()]
    typer.echo(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "oneOf": schemas}, indent=2))
