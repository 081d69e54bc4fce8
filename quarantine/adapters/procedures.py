"""Runs each procedure where it is to be run: on the machine as a Job, or as a command where the controller is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from quarantine.core.case import Run
from quarantine.core.errors import Refused
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.workload import RunStatus
from quarantine.ports import Order, Procedures


@dataclass(frozen=True, slots=True)
class EachItsOwn:
    """The `Procedures` port over both. `commands` is None where the settings do not let commands run."""

    jobs: Procedures
    commands: Procedures | None = None

    def start(self, order: Order) -> None:
        """Begin it. Raises Unavailable, Refused."""
        self._runner(order.run, order.spec).start(order)

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        """How far they have come, by run name. Raises Unavailable."""
        as_jobs = [(run, spec) for run, spec in runs if spec.job is not None]
        found = dict(self.jobs.look(as_jobs)) if as_jobs else {}
        if self.commands is not None:
            found |= self.commands.look([(run, spec) for run, spec in runs if spec.job is None])
        return found

    def stop(self, run: Run, spec: ProcedureSpec) -> None:
        """End it where it still runs. Raises Unavailable, Refused."""
        if spec.job is not None or self.commands is not None:
            self._runner(run, spec).stop(run, spec)

    def _runner(self, run: Run, spec: ProcedureSpec) -> Procedures:
        if spec.job is not None:
            return self.jobs
        if self.commands is None:
            raise Refused(
                f"The procedure {run.procedure} is a command, and the settings let none run where the controller is; "
                "set procedures.commands to true, or make it a Job."
            )
        return self.commands
