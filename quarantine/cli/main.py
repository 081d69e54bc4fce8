"""The command line: `quarantine --help`. Commands import what they need when they run, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from quarantine import __version__
from quarantine.cli import ask, demo, history, read, run, swaps, words
from quarantine.cli.audit import audit
from quarantine.cli.db import db
from quarantine.cli.doctor import doctor
from quarantine.cli.grants import grants
from quarantine.cli.policy import policy
from quarantine.cli.report import report
from quarantine.cli.trust import trust

app = typer.Typer(
    name="quarantine",
    help="Node health and quarantine controller for GPU training fleets.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("plan")(run.plan)
app.command("status")(read.status)
app.command("explain")(read.explain)
app.command("history")(history.history)
app.command("report")(report)
app.command("trust")(trust)
app.command("open")(ask.open_case)
app.command("release")(ask.release)
app.command("repaired")(ask.repaired)
app.command("approve")(swaps.approve)
app.command("defer")(swaps.defer)
app.command("waive")(words.waive)
app.command("pause")(words.pause)
app.command("resume")(words.resume)
app.command("maintain")(words.maintain)
app.command("adopt")(ask.adopt)
app.command("demo")(demo.demo)
app.command("doctor")(doctor)
app.add_typer(policy, name="policy")
db.command("grants")(grants)
app.add_typer(db, name="db")
app.add_typer(audit, name="audit")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quarantine {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass
