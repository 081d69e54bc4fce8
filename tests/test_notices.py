"""People are told once of files that broke, however Slack is, and never of what was repaired meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from quarantine.core.errors import NotifierRefused, NotifierUnavailable
from quarantine.core.rulefiles import BrokenFile
from quarantine.notices import LONGEST_WAIT, Teller

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
HOT = BrokenFile("hot.yaml", "hot.yaml:3:1: a tab stands here", START)
WARM = BrokenFile("warm.yaml", "warm.yaml:1:1: the file is empty", None)


@dataclass
class Far:
    """A far side with the port's promises: it may fail before or after it has taken a notice."""

    taken: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    trouble: Exception | None = None
    lost: bool = False  # the answer, not the notice
    asked: int = 0

    def find(self, key: str) -> str | None:
        self._fail()
        return key if key in self.taken else None

    def tell(self, key: str, title: str, lines: Sequence[str]) -> str:
        self.asked += 1
        if self.lost:
            assert key not in self.taken
            self.taken[key] = (title, tuple(lines))
        self._fail()
        assert key not in self.taken, "told twice"
        self.taken[key] = (title, tuple(lines))
        return key

    def _fail(self) -> None:
        if self.trouble is not None:
            raise self.trouble


@dataclass
class Hands:
    at: datetime = START

    def now(self) -> datetime:
        return self.at


def teller(far: Far | None) -> tuple[Teller, Hands]:
    clock = Hands()
    return Teller(far, clock, "lab"), clock


def test_what_broke_together_is_told_together_and_once() -> None:
    far = Far()
    told, _ = teller(far)
    told.broke((HOT, WARM), START)
    for _ in range(3):
        assert told.tell((HOT, WARM)) == []
    ((title, lines),) = far.taken.values()
    assert title == "2 policy files are broken in cluster lab"
    assert lines == (HOT.reason, WARM.reason)


def test_it_is_tried_again_ever_more_slowly_until_it_is_told() -> None:
    far = Far(trouble=NotifierUnavailable("Slack is busy"))
    told, clock = teller(far)
    told.broke((HOT,), START)
    assert told.tell((HOT,)) == ["telling people of broken policy files is put off: Slack is busy"]
    assert told.tell((HOT,)) == [], "not at once"
    waits = 0
    while waits < 20:
        clock.at += LONGEST_WAIT
        assert len(told.tell((HOT,))) == 1
        waits += 1
    far.trouble = None
    clock.at += LONGEST_WAIT
    assert told.tell((HOT,)) == []
    assert len(far.taken) == 1


def test_who_asks_to_wait_is_waited_for() -> None:
    far = Far(trouble=NotifierUnavailable("busy", retry_after=timedelta(hours=1)))
    told, clock = teller(far)
    told.broke((HOT,), START)
    told.tell((HOT,))
    clock.at += timedelta(minutes=59)
    assert told.tell((HOT,)) == []
    assert far.asked == 1


def test_a_refusal_is_said_and_tried_again() -> None:
    far = Far(trouble=NotifierRefused("not_in_channel: invite the bot"))
    told, clock = teller(far)
    told.broke((HOT,), START)
    assert "invite the bot" in told.tell((HOT,))[0]
    far.trouble = None
    clock.at += LONGEST_WAIT
    assert told.tell((HOT,)) == []
    assert len(far.taken) == 1


def test_an_answer_that_was_lost_is_looked_up() -> None:
    far = Far(trouble=NotifierUnavailable("may or may not be there"), lost=True)
    told, clock = teller(far)
    told.broke((HOT,), START)
    assert told.tell((HOT,)) != []
    far.trouble, far.lost = None, False
    clock.at += LONGEST_WAIT
    assert told.tell((HOT,)) == []
    assert far.asked == 1
    assert len(far.taken) == 1


def test_what_was_repaired_before_it_could_be_told_concerns_nobody() -> None:
    far = Far(trouble=NotifierUnavailable("down"))
    told, clock = teller(far)
    told.broke((HOT, WARM), START)
    told.tell((HOT, WARM))
    far.trouble = None
    clock.at += LONGEST_WAIT
    assert told.tell((WARM,)) == []
    assert next(iter(far.taken.values()))[1] == (WARM.reason,)
    told.broke((HOT,), clock.at)
    assert told.tell(()) == []
    assert len(far.taken) == 1


def test_without_slack_nobody_is_told() -> None:
    told, _ = teller(None)
    told.broke((HOT,), START)
    assert told.tell((HOT,)) == []
