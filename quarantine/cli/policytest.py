"""`quarantine policy test …`: the unit tests beside the policies."""
# ruff: noqa: PT028  (`test` is a command, and none of pytest's tests)

from __future__ import annotations

from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from quarantine.cli.options import BriefFormat, Exit, Output, fail, friendly
from quarantine.cli.records import as_json


@friendly
def test(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files *_test.yaml, or their directories.")],
    only: Annotated[
        str | None, typer.Option("-k", metavar="TEXT", help="Only tests that have this in their name or policy.")
    ] = None,
    output: BriefFormat = Output.TABLE,
) -> None:
    """Run the tests beside the policies, on a real Prometheus and in simulated time; exit 1 if one fails."""
    from quarantine.adapters.policyfiles.faults import PolicyFaults, format_faults
    from quarantine.policytest import report
    from quarantine.policytest.loading import load
    from quarantine.policytest.runner import Outcome, run

    began = monotonic()
    try:
        files = load(paths)
    except PolicyFaults as error:
        typer.echo(format_faults(error.faults, style="json" if output is Output.JSON else "text"))
        raise typer.Exit(Exit.NO) from None
    wanted = (only or "").lower()
    tests = [t for file in files for t in file.tests if wanted in t.case.name.lower() or wanted in t.policy.name]
    if not tests:
        raise fail(f"no test has {only!r} in its name or policy: see the names in the files", Exit.NO)

    left = Counter(t.file for t in tests)
    done: list[Outcome] = []  # of the file whose tests are ending now

    def tell(outcome: Outcome) -> None:
        done.append(outcome)
        if len(done) == left[outcome.test.file]:
            for line in report.of_file(done):
                typer.echo(line)
            done.clear()

    outcomes = run(tests, progress=tell if output is Output.TABLE else lambda _: None)
    seconds = monotonic() - began
    if output is Output.JSON:
        as_json(report.as_data(outcomes, seconds))
    else:
        typer.echo(report.total(outcomes, seconds))
    if any(not outcome.passed for outcome in outcomes):
        raise typer.Exit(Exit.NO)
