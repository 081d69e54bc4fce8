"""Commands as a process sees them that does not stay: the controller runs them, and it alone knows how far they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quarantine.core.case import Run, RunOutcome
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.workload import RunStatus
from quarantine.ports import Order


class Elsewhere:
    """The `Procedures` port of `quarantine plan`, which changes nothing, and of `run --once`, with whose end a command
    would be cut off.
    """

    def start(self, order: Order) -> None:
        """Never: raises Unavailable, since a controller that stays will begin it."""
        raise Unavailable(f"{order.run.name} is begun by a controller that stays: quarantine run, without --once")

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        """What the ledger says of them, they still are: none is taken to be lost because it runs elsewhere."""
        return {run.name: RunStatus(RunOutcome.RUNNING) for run, _ in runs}

    def stop(self, run: Run, spec: ProcedureSpec) -> None:  # noqa: ARG002 - the port's
        """Never: raises Refused."""
        raise Refused(f"{run.name} is ended by the controller alone")
