"""What a ticket is, whoever keeps it: its state in our words, what can be known of it, and what is added to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class TicketState(StrEnum):
    """How far the provider has come with a ticket. The vendor's own word is `Ticket.status`."""

    FILED = "filed"  # nobody has said that they saw it
    ACKNOWLEDGED = "acknowledged"
    IN_PROGRESS = "in-progress"
    REPLACED = "replaced"  # the machine, or what was bad of it, was exchanged
    HOST_RELEASED = "host-released"  # the machine was taken back; another one is coming
    NO_FAULT_FOUND = "no-fault-found"
    REFUSED = "refused"  # the provider will not do it
    CLOSED = "closed"  # it has ended, and the far side does not say how

    @property
    def is_verdict(self) -> bool:
        """Whether this is how it ended: nothing more is waited for."""
        return self in _VERDICTS


_VERDICTS = frozenset(
    {
        TicketState.REPLACED,
        TicketState.HOST_RELEASED,
        TicketState.NO_FAULT_FOUND,
        TicketState.REFUSED,
        TicketState.CLOSED,
    }
)


class Answerable(StrEnum):
    """What can be known of a ticket whose opening was asked for, and whose answer was lost."""

    IDEMPOTENT = "idempotent"  # opening twice under one key is opening once
    SEARCHABLE = "searchable"  # what was opened is found by its key, some of it only after a while
    BLIND = "blind"  # nothing can be looked up: a person has to


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket as the far side has it."""

    ref: str  # what people call it
    key: str  # the case's, see `execute.people`
    status: str  # in the far side's own word
    url: str = ""
    state: TicketState = TicketState.FILED
    open: bool = True  # whether it is still worked on
    note: str = ""  # what went wrong beside it: a chart that could not be attached


@dataclass(frozen=True, slots=True)
class Heard:
    """What the far side says of a ticket that was filed."""

    ticket: Ticket | None  # None: it is not there any more
    others: tuple[Ticket, ...] = ()  # with the same key, that are still worked on


@dataclass(frozen=True, slots=True)
class Update:
    """What is added to a ticket. The same `key` again is the same update, and is not added twice."""

    key: str  # of this update, unique among the ticket's: lower case letters, digits and dashes
    text: str  # raw, several lines; the adapter escapes it
    close: bool = False  # and end the ticket with it


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that goes with a ticket: the chart of the evidence."""

    name: str  # with its ending, no folder
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Filing:
    """A ticket that was filed in a case, as it was last heard of."""

    ref: str  # what the far side calls it
    key: str  # under which it was filed, and is found
    target: str  # the name of the ticket system that has it, by the settings
    ask: str  # `case.Step`: report or replace
    at: datetime  # when it was filed
    state: TicketState = TicketState.FILED
    status: str = ""  # in the far side's own word
    url: str = ""
    heard_at: datetime | None = None  # when that last changed; None: it was filed, and nothing was heard since
    open: bool | None = None  # None: it is, or an older record
    acknowledged_at: datetime | None = None  # when it was first heard that somebody has seen it
    cited: tuple[str, ...] = ()  # later tickets of the same key, which were closed in favour of this one


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to be added to a ticket of a case, once. The same `key` again is the same remark."""

    key: str  # lower case letters, digits and dashes; unique in the case
    ref: str  # of the ticket
    target: str  # as of `Filing`
    text: str
    at: datetime
    close: bool | None = None  # True: and the ticket is ended with it
    said: bool | None = None  # True: it was added, given up, or is void
    given_up: bool | None = None  # True: it could not be added
    about: tuple[str, ...] = ()  # digests of the findings that it tells of
