"""What a process does at each turn of its timer: a cycle where it leads, and else only what keeps it ready to.

A process whose ledger has another schema than its code, or is another cluster's than the one that it sees, can do
nothing for as long as that is so. It stands aside: it lets the Lease go, for a process of the version or with the
settings that can, and does not take it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from quarantine.controller import Controller, CycleReport
from quarantine.core.errors import OtherCluster, QuarantineError, Refused, SchemaMismatch, Superseded, Unavailable
from quarantine.health import Health
from quarantine.leadership import Leadership
from quarantine.metrics import OwnMetrics
from quarantine.ports import Heart


@dataclass(slots=True)
class Turns:
    """Of one process. `refresh` lists the nodes anew; without `leadership` it needs nobody's leave."""

    controller: Controller
    refresh: Callable[[], object]
    metrics: OwnMetrics
    health: Health
    leadership: Leadership | None = None
    heart: Heart | None = None
    _won: int = field(default=0)  # how often the Lease was, when the last cycle began
    _aside: str = field(default="")  # why this process takes no part; empty where it does

    def cycle(self) -> CycleReport | None:
        """One turn. None where no cycle ended. Raises Superseded as the controller, where no Lease explains it."""
        leadership = self.leadership
        if leadership is None:
            return self._told(self.controller.cycle())
        if leadership.won != self._won and not self._begun(leadership):
            return None
        try:
            report = self.controller.cycle() if leadership.leads() else None
        except Superseded:
            if self._led_throughout(leadership):
                raise
            report = None  # it was another's in the middle, for longer than the Lease lasts: so is the term by now
        if report is None or report.ceded:
            if report is not None:
                self._show(report)
            if self.controller.executor.stopping():
                return report  # whatever is asked now may hang, and the Lease is let go only once this has ended
            self._look_at_ledger(leadership)
            self._stand_by(leadership)
            return report
        self._told(report)
        if isinstance(report.error, SchemaMismatch | OtherCluster) and not self.controller.executor.stopping():
            self._look_at_ledger(leadership)
            if self._aside:
                self._stand_by(leadership)
        return report

    def _begun(self, leadership: Leadership) -> bool:
        """Whether this process can begin to lead: it may have been another that led since the last cycle."""
        self.controller.step_down()
        try:
            self.refresh()
        except (Unavailable, Refused) as error:
            self.health.waiting(f"this process leads, and cannot see the nodes yet: {error}")
            return False
        self._won = leadership.won
        return True

    def _told(self, report: CycleReport) -> CycleReport:
        self._show(report)
        if self.heart is not None and self.health.ready().good:
            self.heart.beat()
        return report

    def _show(self, report: CycleReport) -> None:
        """On the probes and as metrics, where it came to look. A defect of what only shows ends nothing."""
        if report.ceded and report.at is None:
            return
        for show in (self.health.after, self.metrics.after):
            try:
                show(report)
            except Exception:  # noqa: BLE001  (said, with its traceback)
                structlog.get_logger().exception(
                    "a defect kept this cycle from being shown; please report it with its traceback", about="cycle"
                )

    def _stand_by(self, leadership: Leadership) -> None:
        self.controller.step_down()
        self.controller.keep_up()
        self.metrics.standby()
        if self._aside:
            self.metrics.without_ledger()
            self.health.waiting(self._aside)
        else:
            self.health.standby(leadership.leader)

    def _look_at_ledger(self, leadership: Leadership) -> None:
        """Have this process take part or not, by its ledger's schema, and by whose it is. No answer changes nothing.

        Nothing else counts: a row that cannot be read is as unreadable to every other process of this version.
        """
        try:
            self.controller.look_at_ledger()
        except (SchemaMismatch, OtherCluster) as error:
            if not self._aside:
                structlog.get_logger().error(f"this process stands aside, so that another one can lead: {error}")
            self._aside = str(error)
            leadership.stand_aside()
        except QuarantineError:
            return  # not known
        else:
            self._aside = ""
            leadership.take_part()

    def _led_throughout(self, leadership: Leadership) -> bool:
        """Whether it leads since this cycle began, and did not lose the Lease and win it again meanwhile."""
        leadership.step()  # counts what it won since its last look
        return leadership.leads() and leadership.won == self._won
