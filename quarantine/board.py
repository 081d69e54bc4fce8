"""The messages about cases, kept as the cases stand: what each should say is compared with what it says.

Level-triggered, and nothing of it is kept in the ledger: who starts again shows every message once more, reads in its
thread how much of the story was told, and goes on from there. While Slack is away nothing piles up: afterwards each
message says how its case stands then, and what happened meanwhile is one reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import structlog

from quarantine.core import cards
from quarantine.core.cards import Card, Fold, Thread
from quarantine.core.case import Case
from quarantine.core.decision import Hold, State
from quarantine.core.errors import NotifierUnavailable, Refused, Unavailable, UsageError
from quarantine.core.policy import Rules
from quarantine.core.record.chart import ChartData, chart
from quarantine.core.snapshot import Snapshot
from quarantine.core.tickets import Attachment
from quarantine.pacing import Pace, Tries
from quarantine.ports import Clock, Notifier
from quarantine.posted import Message, about_of, pods_of, posted
from quarantine.storyteller import Read, Trail

LONGEST = timedelta(seconds=10)  # a round begins nothing after it; one call may take as long again
LONGEST_REST = timedelta(minutes=5)  # between two tries while Slack does not answer
SETTLES = timedelta(minutes=1)  # a file that was attached may be missing from its thread for so long
MOST_SHOWN, MOST_TOLD = 10, 5  # messages a cycle that are shown anew, and threads that are added to
MINUTE = timedelta(minutes=1)
SHOWS = 40  # a minute, of all channels; so many threads are looked at as well. Slack's tier 3 allows 50
REPLIES = 20  # a minute, in one channel: Slack allows about one message a second, less when it goes on


@dataclass(slots=True)
class Board:
    """Remembers what each message says. Called once a cycle, after it has acted; raises nothing of Slack's."""

    notifier: Notifier | None
    trail: Trail
    clock: Clock
    cluster: str
    draw: Callable[[ChartData], bytes] | None = None  # a PNG; None: no charts. Raises UsageError where it cannot be
    may: Callable[[], bool] = lambda: True  # whether this process may still tell anything
    tenure: Callable[[], int] = lambda: 0  # another one: another process may have told meanwhile
    _tenure: int = 0
    _messages: dict[str, Message] = field(default_factory=dict)  # by reference
    _rules: Rules | None = None
    _rest: Tries = field(default_factory=Tries)  # while Slack does not answer
    _shows: Pace = field(default_factory=lambda: Pace(SHOWS, MINUTE))
    _looks: Pace = field(default_factory=lambda: Pace(SHOWS, MINUTE))
    _charts: Tries = field(default_factory=Tries)  # of all cases: where a scope is missing, none can be attached
    _replies: dict[str, Pace] = field(default_factory=dict)  # by channel

    def tell(self, snapshot: Snapshot, state: State, rules: Rules) -> list[str]:
        """Bring the messages up to date, as far as a round goes. `state`: as it is after this cycle's decisions.

        Returns a sentence for each thing that is put off.
        """
        if self.notifier is None:
            return []
        if self._tenure != (tenure := self.tenure()):
            self._tenure, self._messages = tenure, {}  # what they say, and what was told, is read anew
        try:
            self._follow(snapshot, state, rules)
        except Exception as error:  # noqa: BLE001  (said, and tried again: the cycle has done what matters)
            return [_defect("what the messages about cases should say is not known", error)]
        put_off: list[str] = []
        until = self.clock.now() + LONGEST
        for what, tries, act in self._due():
            now = self.clock.now()
            if now >= until or not self._rest.due(now) or not self.may():
                break
            sentence = self._try(what, tries, act)
            if sentence:
                put_off.append(sentence)
        return put_off

    # --- What should be said ------------------------------------------------------------------------------------------

    def _follow(self, snapshot: Snapshot, state: State, rules: Rules) -> None:
        assert self.notifier is not None  # noqa: S101
        holds = cards.holds_of(state)
        fresh = rules is not self._rules
        self._rules = rules
        told = posted(state, snapshot.now)
        for ref in [ref for ref in self._messages if ref not in told]:
            del self._messages[ref]
        for ref, cases in told.items():
            known = self._messages.get(ref)
            about = tuple(about_of(case, holds, snapshot) for case in cases)
            if known is not None and not fresh and known.about == about:
                continue
            shared = cards.is_shared(ref.partition(":")[0], rules.fleet, self.notifier.home)
            what = self._what(cases, rules, state, holds, snapshot, shared=shared)
            if known is None:
                self._messages[ref] = Message(ref, cases, what, about)
                continue
            known.behind = known.behind or [one.story for one in known.about] != [one.story for one in about]
            known.cases, known.what, known.about = cases, what, about

    def _what(
        self,
        cases: tuple[Case, ...],
        rules: Rules,
        state: State,
        holds: Mapping[str, tuple[Hold, ...]],
        snapshot: Snapshot,
        *,
        shared: bool,
    ) -> Card | Fold:
        """`shared`: where the message is, which a route may not name any more."""
        made = tuple(
            cards.card(
                case,
                self.cluster,
                rules,
                state,
                holds=holds.get(case.id, ()),
                node=snapshot.nodes.get(case.node),
                pods=pods_of(case, snapshot),
                deferred=cards.is_deferred(case, snapshot.now),
                shared=shared,
            )
            for case in cases
        )
        if len(made) == 1:
            return made[0]
        return Fold(cards.storm_key(cases[0]), self.cluster, made[0].report.channel, made)

    # --- What is to be done -------------------------------------------------------------------------------------------

    def _due(self) -> Iterator[tuple[str, Tries, Callable[[], None]]]:
        """What each message says first, since that is what is read; then the stories; one chart at the end."""
        now = self.clock.now()
        known = sorted(self._messages.values(), key=lambda m: (m.showing.count, m.ref))
        for message in [m for m in known if m.what != m.shown and m.showing.due(now)][:MOST_SHOWN]:
            if self._shows.free(self.clock.now()):
                yield f"what Slack says of {message.name}", message.showing, partial(self._show, message)
        known.sort(key=lambda m: (m.telling.count, m.ref))
        for message in [m for m in known if (m.behind or m.thread is None) and m.telling.due(now)][:MOST_TOLD]:
            if self._looks.free(self.clock.now()) and self._pace(message).free(self.clock.now()):
                yield f"the story of {message.name} on Slack", message.telling, partial(self._story, message)
        known.sort(key=lambda m: (m.charting.count, m.ref))
        wanting = [m for m in known if self._wants_chart(m) and m.charting.due(now)] if self._charts.due(now) else []
        for message in wanting[:1]:
            yield f"the chart of {message.name} on Slack", self._charts, partial(self._chart, message)

    def _try(self, what: str, tries: Tries, act: Callable[[], None]) -> str:
        """Why it is put off; empty where it is done."""
        now = self.clock.now()
        try:
            act()
        except NotifierUnavailable as error:
            self._rest.failed(self.clock.now(), LONGEST_REST, at_least=error.retry_after)
            return f"{what} is put off: {error}"
        except (Unavailable, Refused) as error:
            tries.failed(now)
            return f"{what} is put off: {error}"
        except Exception as error:  # noqa: BLE001  (said, and put off: no defect of one message stops the others)
            tries.failed(now)
            return _defect(f"{what} is put off", error)
        tries.done()
        self._rest.done()
        return ""

    def _show(self, message: Message) -> None:
        assert self.notifier is not None  # noqa: S101
        what = message.what
        self._shows.spend(self.clock.now())
        self.notifier.show(message.ref, what)
        message.shown = what

    def _story(self, message: Message) -> None:
        """Tell what was not told yet. What was is read in the thread first, if this process does not know."""
        assert self.notifier is not None  # noqa: S101
        if message.thread is None:
            self._looks.spend(self.clock.now())
            message.thread = self.notifier.thread(message.ref)
        if not message.behind:
            return
        thread = message.thread
        reply = Read.of(self.trail, message.cases).untold(message.cases, thread.told, shared=message.what.shared)
        if reply is None:
            message.behind = False
            return
        if not self.may():
            return  # the thread, and the trail, took long to read
        self._pace(message).spend(self.clock.now())
        message.thread = None  # in doubt until the answer is here
        self.notifier.tell(message.ref, reply)
        message.thread = Thread({**thread.told, **reply.told}, thread.files)
        message.behind = len(reply.told) < len(message.cases)  # of so many, some may be left

    def _pace(self, message: Message) -> Pace:
        return self._replies.setdefault(message.channel, Pace(REPLIES, MINUTE))

    # --- The chart ----------------------------------------------------------------------------------------------------

    def _wants_chart(self, message: Message) -> bool:
        """Once a case, and only to our own people. Several cases in one message have none: `explain` draws theirs."""
        what = message.what
        if self.draw is None or message.charted or message.thread is None or isinstance(what, Fold):
            return False
        return what.open and not what.shared and _picture(what) not in message.thread.files

    def _chart(self, message: Message) -> None:
        assert self.notifier is not None  # noqa: S101
        case, what = message.cases[0], message.what
        if message.attaching:
            message.thread = self.notifier.thread(message.ref)
            message.attaching = False
        if not self._wants_chart(message):
            return
        rows = [(row.seq, row.decision) for row in Read.of(self.trail, message.cases).rows[case.id]]
        data = chart(case.node, rows, case.id)
        if data is None or not data.panels or not isinstance(what, Card):
            message.charted = True
            return
        content = self._drawn(data)
        if content is None or not self.may():
            return
        message.attaching = True  # until the answer is here
        message.charting.failed(self.clock.now(), at_least=SETTLES)
        self.notifier.attach(message.ref, Attachment(_picture(what), "image/png", content), _alternative(what, data))
        message.attaching, message.charted = False, True

    def _drawn(self, data: ChartData) -> bytes | None:
        assert self.draw is not None  # noqa: S101
        try:
            return self.draw(data)
        except UsageError as error:
            structlog.get_logger().warning(f"no charts are attached on Slack: {error}")
            self.draw = None
            return None


def _picture(what: Card) -> str:
    return f"{what.report.key}.png"


def _alternative(what: Card, data: ChartData) -> str:
    """What the picture shows, for those who do not see it."""
    said = "; ".join(f"{panel.title}: {panel.said}" for panel in data.panels)
    return f"Chart of case {what.report.key} on {what.report.node}. {said}"


def _defect(what: str, error: Exception) -> str:
    structlog.get_logger().exception("a defect in the messages about cases; please report it with this traceback")
    return f"{what} by a defect ({type(error).__name__})"
