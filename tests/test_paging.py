"""The pager is told once, again where something changed, and when it is over; also after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
import structlog

from quarantine.core.alarms import Alarm, Urgency, key_of
from quarantine.core.errors import LedgerUnavailable, PagerRefused, PagerUnavailable
from quarantine.paging import AT_ONCE, LONGEST_WAIT, Paging
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


def test_who_leads_again_says_anew_what_another_had_cleared_meanwhile() -> None:
    far, over, reign = Far(), list[str](), [0]
    made, _ = paging(far, over)
    made.tenure = lambda: reign[0]
    made.reconcile([alarm()])
    far.clear(alarm())  # by another process, which led for a while
    made.reconcile([alarm()])
    assert far.standing == {}, "this one believes that it is told"
    reign[0] = 1
    made.reconcile([alarm()])
    made.reconcile([alarm()])
    assert [verb for verb, _ in far.calls] == ["fire", "clear", "fire"]


def test_who_leads_again_clears_what_another_had_fired_and_has_ended() -> None:
    far, over = Far(), list[str]()
    made, _ = paging(far, over)
    made.reconcile([alarm()])
    far.fire(alarm("budget/gpu"))  # by another process, which led for a while
    over.append("budget/gpu")
    made.tenure = lambda: 1
    made.reconcile([])
    assert far.standing == {}, "what this one fired, and what the other one did"


def test_a_ledger_that_fails_just_then_is_asked_again() -> None:
    far, over = Far(), ["budget/gpu"]
    made, _ = paging(far)
    made.reconcile([])
    far.fire(alarm("budget/gpu"))
    made.tenure = lambda: 1

    def silent(_: datetime) -> Iterable[Alarm]:
        raise LedgerUnavailable("nobody answers")

    made.ended = silent
    with pytest.raises(LedgerUnavailable):
        made.reconcile([])
    made.ended = lambda _: [alarm(group) for group in over]
    made.reconcile([])
    assert far.standing == {}


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


def test_what_was_refused_for_a_moment_is_told_later() -> None:
    far = Far(trouble=PagerRefused("403 while the key was rotated"))
    made, clock = paging(far)
    assert made.reconcile([alarm()]) == ["pager refuses an alarm (overdue stands): 403 while the key was rotated"]
    far.trouble = None
    clock.at += LONGEST_WAIT
    assert made.reconcile([alarm()]) == []
    assert list(far.standing) == [alarm().key]


def test_an_end_that_was_refused_for_a_moment_is_told_later() -> None:
    far = Far()
    made, clock = paging(far)
    made.reconcile([alarm()])
    far.trouble = PagerRefused("the routing key cannot be read")
    made.reconcile([])
    made.reconcile([])
    assert [verb for verb, _ in far.calls] == ["fire", "clear"], "not in each cycle"
    far.trouble = None
    clock.at += LONGEST_WAIT
    made.reconcile([])
    assert far.standing == {}


def test_what_was_said_before_a_change_that_is_refused_is_cleared_at_its_end() -> None:
    far = Far()
    made, _ = paging(far)
    made.reconcile([alarm()])
    far.trouble = PagerRefused("the summary is wrong")
    made.reconcile([alarm(summary="other words")])
    far.trouble = None
    made.reconcile([])
    assert far.standing == {}


def test_what_may_have_been_said_is_cleared_at_its_end() -> None:
    far = Far(lost=True)
    made, clock = paging(far)
    made.reconcile([alarm()])
    assert list(far.standing) == [alarm().key]
    far.lost = False
    clock.at += timedelta(minutes=1)
    made.reconcile([])
    assert far.standing == {}


def test_what_may_have_been_cleared_and_stands_again_is_said_again() -> None:
    far = Far()
    made, clock = paging(far)
    made.reconcile([alarm()])
    far.lost = True
    made.reconcile([])
    far.lost = False
    clock.at += timedelta(minutes=1)
    made.reconcile([alarm()])
    assert list(far.standing) == [alarm().key]


@pytest.mark.parametrize("retry_after", [None, timedelta(seconds=1), timedelta(hours=3)])
@pytest.mark.parametrize("error", [PagerUnavailable("500"), ValueError("third party")])
def test_alarms_that_fail_keep_none_of_the_others(error: Exception, retry_after: timedelta | None) -> None:
    class Poisoned(Far):
        def fire(self, alarm: Alarm) -> None:
            if "poison" in alarm.key:
                raise error
            super().fire(alarm)

    if isinstance(error, PagerUnavailable):
        error.retry_after = retry_after
    far = Poisoned()
    made, clock = paging(far)
    poison = [alarm(f"a-poison-{n}", urgency=Urgency.CRITICAL) for n in range(5)]
    with structlog.testing.capture_logs():
        for _ in range(8):
            made.reconcile([*poison, alarm("z")])
            clock.at += LONGEST_WAIT
    assert list(far.standing) == [alarm("z").key]


def test_one_alarm_that_fails_delays_no_other() -> None:
    class Poisoned(Far):
        def fire(self, alarm: Alarm) -> None:
            if "poison" in alarm.key:
                raise PagerUnavailable("500")
            super().fire(alarm)

    far = Poisoned()
    made, _ = paging(far)
    assert made.reconcile([alarm("a-poison"), alarm("b")]) == ["telling pager is put off: 500"]
    assert list(far.standing) == [alarm("b").key], "in the same cycle"
    made.reconcile([alarm("a-poison"), alarm("b"), alarm("c")])
    assert list(far.standing) == [alarm("b").key, alarm("c").key], "and what is new does not wait"


def test_a_pager_that_asks_for_hours_is_tried_again_within_minutes() -> None:
    far = Far(trouble=PagerUnavailable("429", retry_after=timedelta(hours=9)))
    made, clock = paging(far)
    made.reconcile([alarm()])
    far.trouble = None
    clock.at += LONGEST_WAIT
    made.reconcile([alarm()])
    assert list(far.standing) == [alarm().key]


def test_the_worst_is_told_first() -> None:
    far = Far()
    made, _ = paging(far)
    many = [alarm(f"a{n}") for n in range(2 * AT_ONCE)]
    made.reconcile([*many, alarm("z", urgency=Urgency.CRITICAL)])
    assert far.calls[0] == ("fire", alarm("z").key)


def test_repetitions_of_many_keep_no_alarm_and_no_end_from_being_told() -> None:
    far = Far(repeats=timedelta(minutes=1))
    made, clock = paging(far)
    many = [alarm(f"a{n}") for n in range(5 * AT_ONCE)]
    said: dict[str, datetime] = {}
    for _ in range(20):
        before = len(far.calls)
        made.reconcile(many)
        said |= {key: clock.at for _, key in far.calls[before:]}
        clock.at += timedelta(seconds=30)
    assert len(said) == len(many)
    assert min(said.values()) >= clock.at - timedelta(minutes=3), "all are said again in their turn"
    made.reconcile(many[1:])
    assert many[0].key not in far.standing


def test_a_defect_of_a_pager_is_said_and_put_off() -> None:
    far, other = Far("theirs", trouble=KeyError("status")), Far("other")
    made = Paging([far, other], Hands(), lambda _: ())
    with structlog.testing.capture_logs() as logs:
        assert made.reconcile([alarm()]) == ["telling theirs is put off by a defect (KeyError: 'status')"]
    assert "report it with this traceback" in logs[0]["event"]
    assert list(other.standing) == [alarm().key]


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
