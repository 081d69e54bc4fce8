"""People are told once of what needs them, however Slack is, and never of what is over meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from quarantine.core.case import HeldBy
from quarantine.core.decision import Hold
from quarantine.core.errors import NotifierRefused, NotifierUnavailable
from quarantine.core.rulefiles import BrokenFile
from quarantine.notices import LONGEST_WAIT, MOST_AT_ONCE, NEEDS_A_PERSON, YOUNG, Teller

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
    advices: list[str] = field(default_factory=list)

    def find(self, key: str) -> str | None:
        self._fail()
        return key if key in self.taken else None

    def tell(self, key: str, title: str, lines: Sequence[str], advice: str = "") -> str:
        self.asked += 1
        self.advices.append(advice)
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


def hold(key: str, held_by: HeldBy = HeldBy.READY, since: datetime = START) -> Hold:
    return Hold(key, held_by, f"what {key} waits for", since)


def test_a_hold_that_needs_a_person_is_told_once_for_as_long_as_it_stands() -> None:
    far = Far()
    told, clock = teller(far)
    for _ in range(3):
        told.held([hold("ready/q-1")], clock.at)
        assert told.tell(()) == []
        clock.at += timedelta(minutes=1)
    ((title, lines),) = far.taken.values()
    assert title == "A machine has proven itself and waits for its release in cluster lab"
    assert lines == ("what ready/q-1 waits for",)
    told.held([], clock.at)
    assert told.tell(()) == []
    told.held([hold("ready/q-1", since=clock.at)], clock.at)
    assert told.tell(()) == []
    assert len(far.taken) == 2, "it stands anew"


def test_what_a_cycle_holds_for_one_reason_is_one_notice() -> None:
    far = Far()
    told, clock = teller(far)
    told.held([*(hold(f"ready/q-{n}") for n in range(30)), hold("drain/q-1", HeldBy.DRAIN)], clock.at)
    assert told.tell(()) == []
    assert sorted(len(lines) for _, lines in far.taken.values()) == [1, 30]
    assert any(title.endswith("in cluster lab (30 times)") for title, _ in far.taken.values())


def test_every_kind_of_hold_that_needs_a_person_says_what_to_do() -> None:
    far = Far()
    told, clock = teller(far)
    told.held([hold(f"x/{kind}", kind) for kind in NEEDS_A_PERSON if kind is not HeldBy.CORRELATED], clock.at)
    for _ in NEEDS_A_PERSON:
        told.tell(())
    assert len(far.taken) == len(NEEDS_A_PERSON) - 1
    assert all(advice.endswith(".") for advice in far.advices)


def test_an_incident_is_one_page_and_its_machines_are_none() -> None:
    far = Far()
    told, clock = teller(far)
    machines = [hold(f"case/q-{n}", HeldBy.CORRELATED) for n in range(12)]
    told.held([*machines, hold("incident/gpu-hot/rack/r7", HeldBy.CORRELATED)], clock.at)
    told.tell(())
    ((title, lines),) = far.taken.values()
    assert title.startswith("Machines that share something fail together")
    assert lines == ("what incident/gpu-hot/rack/r7 waits for",)


def test_what_is_held_of_one_machine_is_told_as_a_whole() -> None:
    far = Far()
    told, clock = teller(far)
    told.held([hold("case/q-1", HeldBy.BREAKER), hold("case/q-2", HeldBy.RESTORED)], clock.at)
    told.held([hold("case/q-1", HeldBy.BUDGET), hold("node/a", HeldBy.IGNORED)], clock.at)
    assert told.tell(()) == []
    assert far.taken == {}


def test_what_an_earlier_process_told_is_looked_up_and_not_told_again() -> None:
    far = Far()
    first, clock = teller(far)
    first.held([hold("ready/q-1")], clock.at)
    first.tell(())
    again = Teller(far, clock, "lab")
    clock.at += timedelta(minutes=5)
    again.held([hold("ready/q-1"), hold("drain/q-2", HeldBy.DRAIN)], clock.at)
    again.tell(())
    assert len(far.taken) == 2, "and what it did not get to say is said"


def test_what_stood_for_long_before_is_not_looked_up() -> None:
    far = Far(trouble=NotifierUnavailable("nobody may be asked"))
    told, clock = teller(far)
    told.held([hold("ready/q-1", since=START - YOUNG)], clock.at)
    assert told.tell(()) == []


def test_what_could_not_be_told_for_a_day_is_told_all_the_same() -> None:
    far = Far(trouble=NotifierUnavailable("Slack is down"))
    told, clock = teller(far)
    for _ in range(300):
        told.held([hold("ready/q-1")], clock.at)
        told.tell(())
        clock.at += LONGEST_WAIT
    assert clock.at - START > YOUNG
    far.trouble = None
    told.tell(())
    assert len(far.taken) == 1


def test_a_hold_that_is_over_before_it_could_be_told_concerns_nobody() -> None:
    far = Far(trouble=NotifierUnavailable("Slack is down"))
    told, clock = teller(far)
    told.held([hold("ready/q-1")], clock.at)
    assert told.tell(()) == [
        "telling people of what needs a person (a machine has proven itself and waits for its release) is put off: "
        "Slack is down"
    ]
    far.trouble = None
    clock.at += LONGEST_WAIT
    told.held([], clock.at)
    assert told.tell(()) == []
    assert far.taken == {}


def test_a_flood_is_told_a_few_at_a_time_and_a_slack_that_is_down_is_asked_once_a_cycle() -> None:
    far = Far()
    told, clock = teller(far)
    many = [hold(f"ready/q-{n}", since=START + timedelta(seconds=n)) for n in range(2 * MOST_AT_ONCE)]
    told.held(many, clock.at)
    told.tell(())
    assert len(far.taken) == MOST_AT_ONCE
    far.trouble = NotifierUnavailable("Slack is down")
    before = far.asked
    assert len(told.tell(())) == 1
    assert far.asked == before + 1
    far.trouble = None
    for _ in range(3):
        clock.at += LONGEST_WAIT
        told.tell(())
    assert len(far.taken) == len(many)


def test_the_page_tells_of_every_notice() -> None:
    page = (Path(__file__).parents[1] / "docs" / "notices.md").read_text(encoding="utf-8")
    rows = [f"| {what[0].upper()}{what[1:]} | {advice} |" for what, advice in NEEDS_A_PERSON.values()]
    assert page.rstrip().splitlines()[-len(rows) :] == rows, "write the table of the page anew"
