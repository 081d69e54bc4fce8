"""The provider's tickets, Slack, and what runs procedures: each does a thing once by its key, and may be down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.core.case import Run, RunOutcome
from quarantine.core.errors import ClusterUnavailable, NotifierUnavailable, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.tickets import Answerable, Attachment, Ticket, Update
from quarantine.core.workload import RunStatus
from quarantine.ports import Order, Tickets
from tests.core.invariants.kube import Trouble


@dataclass
class Desk:
    """Tickets, by key. `filing` is called before one is made."""

    trouble: Trouble
    filing: Callable[[CaseReport], None]
    open_: dict[str, Ticket] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    told: dict[str, dict[str, str]] = field(default_factory=dict)  # by reference, then by the update's key
    answerable: Answerable = Answerable.SEARCHABLE
    settles: timedelta = timedelta(0)

    def of(self, provider: str) -> tuple[str, Tickets]:  # noqa: ARG002
        return "desk", self

    def named(self, target: str) -> Tickets:
        assert target == "desk"
        return self

    def find(self, key: str) -> tuple[Ticket, ...]:
        self.trouble.before("ticket", TicketsUnavailable("the ticket system does not answer"))
        return (self.open_[key],) if key in self.open_ else ()

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:  # noqa: ARG002
        assert report.key not in self.open_, f"{report.key} is filed twice"
        self.filing(report)
        self.open_[report.key] = Ticket(f"T-{report.key}", report.key, "open")
        self.trouble.after("ticket", TicketsUncertain("the answer was lost"))
        return self.open_[report.key]

    def read(self, ref: str) -> Ticket | None:
        return self.open_.get(ref.removeprefix("T-"))

    def update(self, ref: str, update: Update) -> None:
        assert update.text
        self.trouble.before("comment", TicketsUnavailable("the ticket system does not answer"))
        self.told.setdefault(ref, {})[update.key] = update.text
        if update.close:
            self.closed.append(ref.removeprefix("T-"))
            self.open_.pop(ref.removeprefix("T-"), None)
        self.trouble.after("comment", TicketsUncertain("the answer was lost"))


@dataclass
class Chat:
    """Slack."""

    trouble: Trouble
    posted: dict[str, str] = field(default_factory=dict)

    def find(self, key: str, channel: str = "") -> str | None:
        assert channel == ""
        self.trouble.before("post", NotifierUnavailable("Slack does not answer"))
        return key if key in self.posted else None

    def post(self, report: CaseReport, ticket: str) -> str:
        assert report.key not in self.posted, f"{report.key} is posted twice"
        self.posted[report.key] = ticket
        self.trouble.after("post", NotifierUnavailable("the answer was lost"))
        return report.key


@dataclass
class Runner:
    """Jobs, which are found again by their name, and commands, which are known only to the process that began them.

    `starting` is called with each order that it had not begun before.
    """

    trouble: Trouble
    starting: Callable[[Order], None]
    orders: dict[str, Order] = field(default_factory=dict)
    ended: dict[str, RunStatus] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    starts: dict[str, int] = field(default_factory=dict)
    blind: bool = False

    def start(self, order: Order) -> None:
        self.trouble.before("run", ClusterUnavailable("the API server does not answer"))
        name = order.run.name
        if order.spec.command is not None or name not in self.orders:
            self.starting(order)
            self.starts[name] = self.starts.get(name, 0) + 1
        self.orders.setdefault(name, order)
        self.trouble.after("run", ClusterUnavailable("the answer was lost"))

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        if self.blind:
            raise ClusterUnavailable("Jobs may not be listed")
        names = [run.name for run, _ in runs if run.name in self.orders and run.name not in self.forgotten]
        return {name: self.ended.get(name, RunStatus(RunOutcome.RUNNING)) for name in names}

    def stop(self, run: Run, spec: ProcedureSpec) -> None:
        assert spec.description
        self.trouble.before("stop", ClusterUnavailable("the API server does not answer"))
        self.stopped.add(run.name)

    # --- What happens there -------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[Order]:
        """What has been begun and has not ended."""
        gone = self.ended.keys() | self.stopped | self.forgotten
        return [order for name, order in self.orders.items() if name not in gone]

    def end(self, order: Order, outcome: RunOutcome, now: datetime) -> None:
        """A procedure ends."""
        self.ended[order.run.name] = RunStatus(outcome, now, "so it says")

    def restart(self) -> None:
        """Another process runs the controller: it knows no command of the one before."""
        self.forgotten |= {order.run.name for order in self.running if order.spec.command is not None}
