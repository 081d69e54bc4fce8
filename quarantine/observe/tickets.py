"""What the providers' ticket systems say of the open cases' tickets, asked for at a slow pace.

A ticket system that does not answer must not hold the cycle: it is asked again only after a while, longer each time.
One that is slow is asked beside the cycle, and its answer is taken by a later one, unless what the trail says of the
ticket has changed meanwhile: an answer from before our own word must not pass for one to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from quarantine.core.decision import State
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.model import Failed, FailureKind
from quarantine.core.signs import in_utc
from quarantine.core.tickets import Answerable, Filing, Heard, Remark, Ticket
from quarantine.pacing import Tries
from quarantine.ports import Clock, Desks, Tickets

EVERY = timedelta(minutes=5)  # how often one ticket is asked about
AT_ONCE = timedelta(seconds=10)  # how long a cycle asks about tickets; what is left waits for the next one
PATIENCE = timedelta(seconds=5)  # how long a cycle waits for one answer of a system that was not slow the last time
SHORTEST_REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=30)  # of a ticket system that does not answer
TWICE_WITHIN = timedelta(hours=1)  # for so long after it was filed, a second ticket of its key may turn up

FRESH = 3  # times `every`: what was heard longer ago is not what is so now
MOST_NUDGED = 10_000  # that wait for a cycle

Key = tuple[str, str]  # target, reference


@dataclass(frozen=True, slots=True)
class _Story:
    """What the trail says of a ticket."""

    filing: Filing
    remarks: tuple[Remark, ...]

    @property
    def key(self) -> Key:
        return (self.filing.target, self.filing.ref)


@dataclass(slots=True)
class _Question:
    """One question to a ticket system, on a thread of its own. `said` and `seconds` are there once `done` is."""

    story: _Story
    at: datetime
    done: threading.Event = field(default_factory=threading.Event)
    said: Heard | BaseException | None = None
    seconds: float = 0.0

    def ask(self, tickets: Tickets) -> None:
        """Returns at once. A daemon: what hangs in somebody's adapter must not keep the process."""
        name = f"ticket-{self.story.filing.target}"
        threading.Thread(target=self._ask, args=(tickets,), name=name, daemon=True).start()

    def _ask(self, tickets: Tickets) -> None:
        began = time.monotonic()
        try:
            self.said = _look(tickets, self.story.filing, self.at)
        except BaseException as error:  # noqa: BLE001  (it is judged, or raised, by the thread that takes the answer)
            self.said = error
        finally:
            self.seconds = time.monotonic() - began
            self.done.set()


@dataclass(slots=True)
class Follower:
    """Remembers what it heard last, for as long as this process leads: the trail has what of it was new."""

    desks: Desks
    clock: Clock
    every: timedelta = EVERY
    patience: timedelta = PATIENCE
    _heard: dict[Key, Heard | Failed] = field(default_factory=dict)
    _asked: dict[Key, datetime] = field(default_factory=dict)
    _heard_at: dict[Key, datetime] = field(default_factory=dict)
    _missing: set[Key] = field(default_factory=set)  # that were not found when they were last looked for
    _rests: dict[str, Tries] = field(default_factory=dict)  # by target
    _out: dict[str, _Question] = field(default_factory=dict)  # by target: what it has not answered yet, one at a time
    _slow: set[str] = field(default_factory=set)  # targets that are not waited for until they answer in time again
    _nudged: set[Key] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def heard(self, state: State) -> Mapping[Key, Heard | Failed]:
        """The latest word on each ticket of the open cases. Never raises: what could not be heard is `Failed`."""
        stories = {story.key: story for story in _of_open_cases(state)}
        self._collect(stories)
        self._forget(stories.keys())
        until = self.clock.now() + AT_ONCE
        for key in sorted(stories, key=self._waited):
            now = self.clock.now()
            if now >= until:
                break
            if self._due(key, now):
                self._ask(stories[key], now, until - now)
        # What was heard long ago (the system is left alone, or this process waited for its turn) says nothing of now.
        now = self.clock.now()
        oldest = now - FRESH * self.every
        heard = {key: said for key, said in self._heard.items() if self._heard_at[key] > oldest}
        silent = {target: question.at for target, question in self._out.items() if question.at <= oldest}
        return heard | {key: _silence(*key, silent[key[0]]) for key in stories if key[0] in silent}

    def nudge(self, target: str, ref: str) -> None:
        """Ask about this ticket in the next cycle: it is said to have changed. From any thread."""
        with self._lock:
            if len(self._nudged) < MOST_NUDGED:
                self._nudged.add((target, ref))

    def forget(self) -> None:
        """Another process may have led, and told of what it heard and said: ours is older, and passes for no news."""
        self._heard, self._heard_at, self._asked = {}, {}, {}
        self._missing.clear()

    def _forget(self, kept: Iterable[Key]) -> None:
        """All of tickets that are followed no more; and when those were asked about that are said to have changed."""
        known = frozenset(kept)
        with self._lock:
            nudged, self._nudged = self._nudged, set()
        self._heard = {key: said for key, said in self._heard.items() if key in known}
        self._heard_at = {key: at for key, at in self._heard_at.items() if key in known}
        self._missing &= known
        self._asked = {key: at for key, at in self._asked.items() if key in known and key not in nudged}

    def _waited(self, key: Key) -> tuple[bool, datetime | None, Key]:
        """What was never asked about first, then what was not for longest."""
        at = self._asked.get(key)
        return (at is not None, at, key)

    def _due(self, key: Key, now: datetime) -> bool:
        if key[0] in self._out:
            return False
        asked, rest = self._asked.get(key), self._rests.get(key[0])
        return (asked is None or now >= asked + self.every) and (rest is None or rest.due(now))

    def _ask(self, story: _Story, now: datetime, left: timedelta) -> None:
        """Ask, and wait for the answer where that is worth it. `left`: of the time that the cycle has for all."""
        target = story.filing.target
        self._asked[story.key] = now
        question = _Question(story, now)
        try:
            tickets = self.desks.named(target)
            if tickets.answerable is Answerable.BLIND:
                self._heard.pop(story.key, None)
                return
        except Exception as error:  # noqa: BLE001  (as in `_take`)
            question.said = error
            self._take(question)
            return
        self._out[target] = question
        question.ask(tickets)
        if target not in self._slow and question.done.wait(min(self.patience, left).total_seconds()):
            del self._out[target]
            self._take(question)
        else:
            self._slow.add(target)

    def _collect(self, stories: Mapping[Key, _Story]) -> None:
        """The answers that came since."""
        for target, question in list(self._out.items()):
            if not question.done.is_set():
                continue
            del self._out[target]
            if timedelta(seconds=question.seconds) < self.patience:
                self._slow.discard(target)
            key = question.story.key
            if stories.get(key) == question.story:
                self._take(question)
            else:
                self._asked.pop(key, None)

    def _take(self, question: _Question) -> None:
        """An answer, whatever it is."""
        key, said = question.story.key, question.said
        target = key[0]
        if isinstance(said, Heard):
            self._rests.pop(target, None)
            self._hear(key, said, question.at)
            return
        if said is not None and not isinstance(said, Exception):
            raise said  # it ends the process, wherever it comes up
        why = str(said)
        if isinstance(said, Unavailable):
            self._let_rest(target, said.retry_after)
        elif not isinstance(said, Refused):  # an adapter may be anybody's; the cycle needs none of it
            structlog.get_logger().error("a defect of a ticket target left a ticket unread", exc_info=said)
            why = f"a defect of target {target}: {type(said).__name__}"
            self._let_rest(target, None)
        self._keep(key, Failed(FailureKind.UNREACHABLE, why), question.at)

    def _hear(self, key: Key, said: Heard, at: datetime) -> None:
        """That a ticket is gone is believed when it is said twice: a 404 may be a permission, or a moment's."""
        first = said.ticket is None and key not in self._missing
        if said.ticket is None:
            self._missing.add(key)
        else:
            self._missing.discard(key)
        why = f"ticket {key[1]} is not found at {key[0]}, and is looked for once more"
        self._keep(key, Failed(FailureKind.UNREACHABLE, why) if first else said, at)

    def _keep(self, key: Key, said: Heard | Failed, at: datetime) -> None:
        self._heard[key], self._heard_at[key] = said, at

    def _let_rest(self, target: str, asked: timedelta | None) -> None:
        rest = max(asked or SHORTEST_REST, SHORTEST_REST)
        self._rests.setdefault(target, Tries()).failed(self.clock.now(), LONGEST_REST, at_least=rest)


def _look(tickets: Tickets, filing: Filing, now: datetime) -> Heard:
    """Raises as the port does."""
    others: tuple[Ticket, ...] = ()
    if now < filing.at + TWICE_WITHIN + tickets.settles:
        others = tuple(one for one in tickets.find(filing.key) if one.open and one.ref != filing.ref)
    return Heard(tickets.read(filing.ref), others)


def _silence(target: str, ref: str, since: datetime) -> Failed:
    why = f"ticket {ref} is not known: {target} has not answered since {in_utc(since)}, and is asked nothing more"
    return Failed(FailureKind.UNREACHABLE, why)


def _of_open_cases(state: State) -> Iterator[_Story]:
    for case in state.cases.values():
        if case.open:
            for filing in case.filings:
                of = (filing.target, filing.ref)
                yield _Story(filing, tuple(one for one in case.remarks if (one.target, one.ref) == of))
