"""The pager is told once, again where something changed, and when it is over; also after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core.alarms import Alarm, Urgency, key_of
from quarantine.core.errors import PagerRefused, PagerUnavailable
from quarantine.paging import AT_ONCE, Paging
from tests.core.world import NOW


@dataclass
class Hands:
    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


@dataclass
class Far:
    """What the far side has: `standing` by key, and every call."""

    name: str = "pager"
    repeats: timedelta | None = None
    standing: dict[str, Alarm] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    trouble: Exception | None = None
    lost: bool = False  # done, and not answered

    def fire(self, alarm: Alarm) -> None:
        self._call("fire", alarm)
        self.standing[alarm.key] = alarm
        self._answer()

    def clear(self, alarm: Alarm) -> None:
        self._call("clear", alarm)
        self.standing.pop(alarm.key, None)
        self._answer()

    def _call(self, verb: str, alarm: Alarm) -> None:
        self.calls.append((verb, alarm.key))
        if self.trouble is not None:
            raise self.trouble

    def _answer(self) -> None:
        if self.lost:
            raise PagerUnavailable("the answer was lost")


def alarm(group: str = "overdue", **changes: object) -> Alarm:
    made = Alarm(key_of("training-a", group), Urgency.WARNING, f"{group} stands", NOW, "training-a")
    return replace(made, **changes)  # type: ignore[arg-type]


def paging(far: Far, ended: Iterable[str] = ()) -> tuple[Paging, Hands]:
    clock = Hands()
    return Paging([far], clock, lambda since: [alarm(group) for group in ended] if since < NOW else ()), clock


def test_what_stands_is_said_once_and_cleared_once() -> None:
    far = Far()
    made, _ = paging(far)
    for _ in range(5):
        assert made.reconcile([alarm()]) == []
    for _ in range(5):
        assert made.reconcile([]) == []
    assert [verb for verb, _ in far.calls] == ["fire", "clear"]
    assert far.standing == {}


def test_what_changed_is_said_again() -> None:
    far = Far()
    made, _ = paging(far)
    made.reconcile([alarm()])
    made.reconcile([alarm(summary="two of them")])
    assert far.standing[alarm().key].summary == "two of them"


def test_what_the_far_side_forgets_is_repeated() -> None:
    far = Far(repeats=timedelta(minutes=1))
    made, clock = paging(far)
    for _ in range(6):
        made.reconcile([alarm()])
        clock.at += timedelta(seconds=30)
    assert [verb for verb, _ in far.calls] == ["fire"] * 3


def test_exactly_once_an_alarm_whose_answer_was_lost_is_said_again_under_its_key() -> None:
    far = Far(lost=True)
    made, clock = paging(far)
    assert made.reconcile([alarm()]) == ["telling pager is put off: the answer was lost"]
    far.lost = False
    clock.at += timedelta(minutes=1)
    assert made.reconcile([alarm()]) == []
    assert list(far.standing) == [alarm().key]


def test_exactly_once_a_restart_doubles_nothing_and_clears_what_ended_meanwhile() -> None:
    far = Far()
    made, _ = paging(far)
    made.reconcile([alarm("incident/ib/leaf/l1"), alarm()])
    after, _ = paging(far, ended=["incident/ib/leaf/l1", "overdue"])
    after.reconcile([alarm()])
    assert list(far.standing) == [alarm().key], "what stands again under an ended key is not cleared"


def test_a_pager_that_is_down_is_left_alone_for_a_while_and_nothing_is_lost() -> None:
    far = Far(trouble=PagerUnavailable("nobody answers", retry_after=timedelta(minutes=3)))
    made, clock = paging(far)
    assert len(made.reconcile([alarm(), alarm("budget/gpu")])) == 1
    for _ in range(5):
        clock.at += timedelta(seconds=30)
        made.reconcile([alarm()])
    assert len(far.calls) == 1
    far.trouble = None
    clock.at += timedelta(minutes=1)
    made.reconcile([alarm()])
    assert list(far.standing) == [alarm().key], "what ended meanwhile is not said"


def test_an_alarm_that_is_refused_keeps_no_other_and_is_not_said_again_as_it_is() -> None:
    class Picky(Far):
        def fire(self, alarm: Alarm) -> None:
            if "gpu" in alarm.key:
                self.calls.append(("refused", alarm.key))
                raise PagerRefused("the summary is wrong")
            super().fire(alarm)

    far = Picky()
    made, _ = paging(far)
    assert len(made.reconcile([alarm("budget/gpu"), alarm()])) == 1
    assert made.reconcile([alarm("budget/gpu"), alarm()]) == []
    made.reconcile([alarm("budget/gpu", summary="other words"), alarm()])
    assert [verb for verb, _ in far.calls] == ["refused", "fire", "refused"]


def test_a_storm_is_told_over_several_cycles() -> None:
    far = Far()
    made, _ = paging(far)
    many = [alarm(f"incident/ib/leaf/l{n}") for n in range(2 * AT_ONCE)]
    made.reconcile(many)
    assert len(far.standing) == AT_ONCE
    made.reconcile(many)
    assert len(far.standing) == 2 * AT_ONCE


def test_one_pager_that_fails_keeps_nothing_from_another() -> None:
    down, up = Far("down", trouble=PagerUnavailable("nobody answers")), Far("up")
    made = Paging([down, up], Hands(), lambda _: ())
    assert len(made.reconcile([alarm()])) == 1
    assert list(up.standing) == [alarm().key]


def test_without_a_pager_nothing_is_read() -> None:
    def refuse(_: datetime) -> Iterable[Alarm]:
        raise AssertionError

    assert Paging([], Hands(), refuse).reconcile([alarm()]) == []
