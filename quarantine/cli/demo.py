"""`quarantine demo`: the main job on a simulated fleet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from quarantine.cli.options import Exit, friendly
from quarantine.core.errors import UsageError


@friendly
def demo(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Play on this API server: the demo makes its own nodes and removes them.", show_default=False
        ),
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="A ledger other than .demo/quarantine.db.", show_default=False)
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where everything is written.")] = Path(".demo"),
    nodes: Annotated[int, typer.Option(min=28, max=99, help="Machines of the fleet.")] = 32,
    factor: Annotated[
        int, typer.Option(min=1, max=20, help="The one setting by which every window of the policies is shorter.")
    ] = 15,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 7,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the outcome as an SVG file.", show_default=False)
    ] = None,
) -> None:
    """Three faults are caught and five decoys left alone, before your eyes, in a minute or two.

    With QUARANTINE_SLACK__TOKEN and QUARANTINE_SLACK__CHANNEL set, the swaps are asked for on the real Slack.
    """
    try:
        from quarantine.sandbox.demo.main import play
        from quarantine.sandbox.demo.stage import Options
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the demo needs {error.name}: run scripts/demo in the source tree, which sets it up"
        ) from error
    options = Options(
        folder=folder,
        nodes=nodes,
        factor=factor,
        seed=seed,
        picture=picture,
        kubeconfig=kubeconfig,
        database_url=database_url,
        slack_token=os.environ.get("QUARANTINE_SLACK__TOKEN"),
        slack_channel=os.environ.get("QUARANTINE_SLACK__CHANNEL"),
    )
    if not play(options, Console()):
        raise typer.Exit(Exit.NO)
