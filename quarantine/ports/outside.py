"""Whom is told: providers, people, and what wakes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from quarantine.core.alarms import Alarm
from quarantine.core.annotations import Annotation
from quarantine.core.cards import Card, Fold, Reply, Thread
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Attachment, Ticket, Update


class Tickets(Protocol):
    """Where machines are reported to their provider. Raises TicketsUnavailable, TicketsRefused.

    An adapter tries once, within bounds: what is tried again, and when, and who is told, is not its business. Where it
    is not known whether something was done it raises TicketsUncertain; TicketsUnavailable says that nothing was.

    `find` and `read` are called from any thread, also while another one is in `open` or `update`.
    """

    @property
    def answerable(self) -> Answerable:
        """What can be known of a ticket whose opening was asked for and whose answer was lost."""
        ...

    @property
    def settles(self) -> timedelta:
        """For how long a new ticket may be missing from what `find` finds; zero where it never is."""
        ...

    def find(self, key: str) -> tuple[Ticket, ...]:
        """All tickets with this key, open and closed, oldest first; empty only where the far side says there is none.

        What is BLIND finds nothing, ever.
        """
        ...

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """File it under `report.key`. The caller has looked it up before. What could not be attached is in its note."""
        ...

    def read(self, ref: str) -> Ticket | None:
        """Its present state; None where it does not exist, or where nothing can be read at all (BLIND)."""
        ...

    def update(self, ref: str, update: Update) -> None:
        """Add to it, and end it where that is said. The same update again adds nothing; ending twice is ending once."""
        ...


class Desks(Protocol):
    """Which ticket system a provider has. Several in one fleet are normal."""

    def names(self) -> tuple[str, ...]:
        """All targets, whether a provider has them at present or not."""
        ...

    def of(self, provider: str) -> tuple[str, Tickets] | None:
        """The name of the target that takes this provider's tickets, and the target; None: none is configured."""
        ...

    def named(self, target: str) -> Tickets:
        """The target of this name, which a ticket was filed with. Raises TicketsRefused where it is there no more."""
        ...


class Notifier(Protocol):
    """Slack. Raises NotifierUnavailable, NotifierRefused. Each verb tries once, within bounds.

    What was posted is known by its reference. What shows a message again (`show`) may be said twice; before what adds
    to it (`post`, `fold`, `tell`, `attach`) is said again, the caller looks up whether it is there.
    """

    @property
    def home(self) -> str:
        """The settings' channel, as references begin with it."""
        ...

    def find(self, key: str, channel: str = "") -> str | None:
        """The reference of the message of this case id, or `Fold.key`; None only where the far side says there is none.

        `channel`: the report's. The settings' channel is looked through as well, since routes change.
        """
        ...

    def post(self, card: Card) -> str:
        """Tell of a case, in its report's channel. Returns the message's reference."""
        ...

    def fold(self, fold: Fold) -> str:
        """Tell of several cases in one message. Returns its reference."""
        ...

    def show(self, ref: str, what: Card | Fold) -> None:
        """What the message says from now on, in place of what it said."""
        ...

    def thread(self, ref: str) -> Thread:
        """What was told, and attached, in the thread of a message. What was added a moment ago may be missing."""
        ...

    def tell(self, ref: str, reply: Reply) -> None:
        """Add to the thread of a message."""
        ...

    def attach(self, ref: str, picture: Attachment, text: str) -> None:
        """Add a picture to the thread of a message; `text` says what it shows, for those who do not see it."""
        ...


class Notices(Protocol):
    """Where people are told what concerns no single machine. Raises as `Notifier`."""

    def find(self, key: str) -> str | None:
        """The reference of the notice with this key; None only where the far side says that there is none."""
        ...

    def tell(self, key: str, title: str, lines: Sequence[str], advice: str = "") -> str:
        """Say it, and what to do. The caller has looked it up before, if an earlier attempt is in doubt.

        Returns its reference.
        """
        ...


class Pager(Protocol):
    """What wakes people. Raises PagerUnavailable, PagerRefused.

    Both of its verbs say how things are, and may be said again: nothing is doubled by it, and what is unknown there is
    over already.
    """

    @property
    def name(self) -> str:
        """For people: which one it is."""
        ...

    @property
    def repeats(self) -> timedelta | None:
        """How often an alarm that stands must be said again, or the far side takes it for over; None: once will do."""
        ...

    def fire(self, alarm: Alarm) -> None:
        """It stands."""
        ...

    def clear(self, alarm: Alarm) -> None:
        """It stands no more. Of the alarm, the key is enough."""
        ...


class Annotator(Protocol):
    """Charts that show when machines were out of service. Raises AnnotatorUnavailable, AnnotatorRefused."""

    def find(self, annotation: Annotation) -> str | None:
        """What the far side calls it, whoever made it; None: it is not there."""
        ...

    def put(self, annotation: Annotation, ref: str | None) -> str | None:
        """Have it there as it is now. Returns what the far side calls it; None: somebody has taken it away.

        `ref`: what it is called; None: it is made, so it is looked up first.
        """
        ...


class Heart(Protocol):
    """The sign of life that somebody else watches."""

    def beat(self) -> None:
        """The controller lives, and sees. Returns at once, and never raises."""
        ...
