"""The provider's tickets, Slack, and what runs procedures: each does a thing once by its key, and may be down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core.cards import Card, Fold
from quarantine.core.case import Run, RunOutcome
from quarantine.core.errors import (
    ClusterUnavailable,
    NotifierUnavailable,
    TicketsRefused,
    TicketsUnavailable,
    TicketsUncertain,
)
from quarantine.core.letters import CaseReport
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.tickets import Answerable, Attachment, Ticket, TicketState, Update
from quarantine.core.workload import RunStatus
from quarantine.ports import Order, Tickets
from tests.core.invariants.kube import Trouble


@dataclass
class Held:
    """A ticket as the provider has it, and from when on it is found by its key."""

    ticket: Ticket
    found_from: datetime
    ours: bool = True  # False: the second one that a lost answer left behind


@dataclass
class Desk:
    """Tickets, by reference, and those who work on them. `filing` is called before one is made."""

    trouble: Trouble
    filing: Callable[[CaseReport], None]
    now: Callable[[], datetime]
    held: dict[str, Held] = field(default_factory=dict)  # by reference, oldest first
    gone: set[str] = field(default_factory=set)  # references of those that were deleted
    told: dict[str, dict[str, str]] = field(default_factory=dict)  # by reference, then by the update's key
    answerable: Answerable = Answerable.SEARCHABLE
    settles: timedelta = timedelta(0)
    down: bool = False
    forgetful: Callable[[], bool] = lambda: False  # whether a ledger was restored, so that one may be filed again
    _number: int = 0

    def of(self, provider: str) -> tuple[str, Tickets]:  # noqa: ARG002
        return "desk", self

    def names(self) -> tuple[str, ...]:
        return ("desk",)

    def named(self, target: str) -> Tickets:
        assert target == "desk"
        return self

    def find(self, key: str) -> tuple[Ticket, ...]:
        self._answers("ticket")
        held = (one for one in self.held.values() if one.ticket.key == key and self.now() >= one.found_from)
        return tuple(one.ticket for one in held)

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:  # noqa: ARG002
        self._answers("ticket")
        known = [one for one in self.held.values() if one.ticket.key == report.key and one.ours]
        again = known and (not self.forgetful() or self.now() >= known[-1].found_from)
        self.filing(report)
        self.check(not again, f"{report.key} is filed twice")
        made = self.file(report.key)
        self.trouble.after("ticket", TicketsUncertain("the answer was lost", retry_after=self.settles))
        return made

    def check(self, holds: object, said: str) -> None:
        """Replaced by whoever keeps what is broken: a controller does not fall over by it."""
        assert holds, said

    def read(self, ref: str) -> Ticket | None:
        self._answers("read")
        return self.held[ref].ticket if ref in self.held else None

    def update(self, ref: str, update: Update) -> None:
        assert update.text
        self._answers("comment")
        if ref not in self.held:
            raise TicketsRefused(f"there is no ticket {ref}")
        said = self.told.setdefault(ref, {}).setdefault(update.key, update.text)
        self.check(said == update.text or update.key.endswith("-ended"), f"{update.key} says two things to {ref}")
        if update.close and self.held[ref].ticket.open:
            self.says(ref, state=TicketState.CLOSED, open=False)
        self.trouble.after("comment", TicketsUncertain("the answer was lost"))

    def _answers(self, call: str) -> None:
        if self.down:
            raise TicketsUnavailable("the ticket system does not answer")
        self.trouble.before(call, TicketsUnavailable("the ticket system does not answer"))

    # --- What happens there -------------------------------------------------------------------------------------------

    def file(self, key: str, *, ours: bool = True) -> Ticket:
        """A ticket comes to be."""
        self._number += 1
        made = Ticket(f"T-{self._number}", key, "open")
        self.held[made.ref] = Held(made, self.now() + self.settles, ours)
        return made

    def says(self, ref: str, **fields: object) -> None:
        """Somebody writes to a ticket."""
        held = self.held[ref]
        self.held[ref] = replace(held, ticket=replace(held.ticket, **fields))  # type: ignore[arg-type]

    def delete(self, ref: str) -> None:
        """And somebody takes it away."""
        del self.held[ref]
        self.gone.add(ref)


@dataclass
class Chat:
    """Slack: the messages, by what they are found by."""

    trouble: Trouble
    posted: dict[str, str] = field(default_factory=dict)  # the ticket that each names

    def find(self, key: str, channel: str = "") -> str | None:
        assert channel == ""
        self.trouble.before("post", NotifierUnavailable("Slack does not answer"))
        return key if key in self.posted else None

    def post(self, card: Card) -> str:
        return self._post(card.report.key, card.ticket)

    def fold(self, fold: Fold) -> str:
        assert fold.cards
        return self._post(fold.key, "")

    def _post(self, key: str, ticket: str) -> str:
        assert key not in self.posted, f"{key} is posted twice"
        self.posted[key] = ticket
        self.trouble.after("post", NotifierUnavailable("the answer was lost"))
        return key


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
