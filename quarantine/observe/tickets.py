"""What the providers' ticket systems say of the open cases' tickets, asked for at a slow pace.

A ticket system that does not answer must not hold the cycle: it is asked again only after a while, longer each time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from quarantine.core.decision import State
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.model import Failed, FailureKind
from quarantine.core.tickets import Answerable, Filing, Heard, Ticket
from quarantine.ports import Clock, Desks, Tickets

EVERY = timedelta(minutes=5)  # how often one ticket is asked about
AT_ONCE = timedelta(seconds=10)  # how long a cycle asks about tickets; what is left waits for the next one
LONGEST_REST = timedelta(minutes=30)  # of a ticket system that does not answer
TWICE_WITHIN = timedelta(hours=1)  # for so long after it was filed, a second ticket of its key may turn up

FRESH = 3  # times `every`: what was heard longer ago is not what is so now
MOST_NUDGED = 10_000  # that wait for a cycle

Key = tuple[str, str]  # target, reference


@dataclass(slots=True)
class _Rest:
    until: datetime
    tries: int = 0


@dataclass(slots=True)
class Follower:
    """Remembers what it heard last, for this process: the trail has what of it was new."""

    desks: Desks
    clock: Clock
    every: timedelta = EVERY
    _heard: dict[Key, Heard | Failed] = field(default_factory=dict)
    _asked: dict[Key, datetime] = field(default_factory=dict)
    _heard_at: dict[Key, datetime] = field(default_factory=dict)
    _missing: set[Key] = field(default_factory=set)  # that were not found when they were last looked for
    _rests: dict[str, _Rest] = field(default_factory=dict)  # by target
    _nudged: set[Key] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def heard(self, state: State) -> Mapping[Key, Heard | Failed]:
        """The latest word on each ticket of the open cases. Never raises: what could not be heard is `Failed`."""
        filings = {(filing.target, filing.ref): filing for filing in _of_open_cases(state)}
        self._heard = {key: said for key, said in self._heard.items() if key in filings}
        self._heard_at = {key: at for key, at in self._heard_at.items() if key in filings}
        self._missing &= filings.keys()
        self._asked = {key: at for key, at in self._asked.items() if key in filings}
        with self._lock:
            nudged, self._nudged = self._nudged, set()
        self._asked = {key: at for key, at in self._asked.items() if key not in nudged}
        until = self.clock.now() + AT_ONCE
        for key in sorted(filings, key=self._waited):
            now = self.clock.now()
            if now >= until:
                break
            if self._due(key, now):
                self._ask(filings[key], now)
        # What was heard long ago (the system is left alone, or this process waited for its turn) says nothing of now.
        oldest = self.clock.now() - FRESH * self.every
        return {key: said for key, said in self._heard.items() if self._heard_at[key] > oldest}

    def nudge(self, target: str, ref: str) -> None:
        """Ask about this ticket in the next cycle: it is said to have changed. From any thread."""
        with self._lock:
            if len(self._nudged) < MOST_NUDGED:
                self._nudged.add((target, ref))

    def _waited(self, key: Key) -> tuple[bool, datetime | None, Key]:
        """What was never asked about first, then what was not for longest."""
        at = self._asked.get(key)
        return (at is not None, at, key)

    def _due(self, key: Key, now: datetime) -> bool:
        asked, rest = self._asked.get(key), self._rests.get(key[0])
        return (asked is None or now >= asked + self.every) and (rest is None or now >= rest.until)

    def _ask(self, filing: Filing, now: datetime) -> None:
        key = (filing.target, filing.ref)
        self._asked[key] = now
        try:
            tickets = self.desks.named(filing.target)
            if tickets.answerable is Answerable.BLIND:
                self._heard.pop(key, None)
                return
            said = _look(tickets, filing, now)
        except Refused as error:
            self._keep(key, Failed(FailureKind.UNREACHABLE, str(error)))
        except Unavailable as error:
            self._keep(key, Failed(FailureKind.UNREACHABLE, str(error)))
            self._let_rest(filing.target, error.retry_after)
        except Exception as error:  # noqa: BLE001  (an adapter may be anybody's; the cycle needs none of it)
            structlog.get_logger().exception("a defect of a ticket target left a ticket unread")
            self._keep(
                key, Failed(FailureKind.UNREACHABLE, f"a defect of target {filing.target}: {type(error).__name__}")
            )
            self._let_rest(filing.target, None)
        else:
            self._rests.pop(filing.target, None)
            self._hear(key, said)

    def _hear(self, key: Key, said: Heard) -> None:
        """That a ticket is gone is believed when it is said twice: a 404 may be a permission, or a moment's."""
        first = said.ticket is None and key not in self._missing
        if said.ticket is None:
            self._missing.add(key)
        else:
            self._missing.discard(key)
        why = f"ticket {key[1]} is not found at {key[0]}, and is looked for once more"
        self._keep(key, Failed(FailureKind.UNREACHABLE, why) if first else said)

    def _keep(self, key: Key, said: Heard | Failed) -> None:
        self._heard[key], self._heard_at[key] = said, self.clock.now()

    def _let_rest(self, target: str, asked: timedelta | None) -> None:
        rest = self._rests.setdefault(target, _Rest(self.clock.now()))
        rest.tries += 1
        wait = min(timedelta(seconds=15) * (1 << min(rest.tries, 9)), LONGEST_REST)
        rest.until = self.clock.now() + max(wait, asked or wait)


def _look(tickets: Tickets, filing: Filing, now: datetime) -> Heard:
    """Raises as the port does."""
    others: tuple[Ticket, ...] = ()
    if now < filing.at + TWICE_WITHIN + tickets.settles:
        others = tuple(one for one in tickets.find(filing.key) if one.open and one.ref != filing.ref)
    return Heard(tickets.read(filing.ref), others)


def _of_open_cases(state: State) -> Iterator[Filing]:
    for case in state.cases.values():
        if case.open:
            yield from case.filings
