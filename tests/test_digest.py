"""The daily digest: once a day by its key, with what stands, and nothing on a day on which nothing does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Action, Decision, Hold, Kind, State
from quarantine.core.errors import NotifierRefused, NotifierUnavailable
from quarantine.core.model import Mode
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.digest import LATE, MOST_WAITING, Digest
from tests.boards import Clock
from tests.core import world
from tests.ledger.samples import NOW, quarantined

AT = time(9, 0)
NINE = NOW.replace(hour=9)


@dataclass
class Far:
    """Keeps the port's promises; may fail before or after it has taken a notice."""

    taken: dict[str, Sequence[str]] = field(default_factory=dict)
    trouble: Exception | None = None
    lost: bool = False

    def find(self, key: str) -> str | None:
        if self.trouble is not None and not self.lost:
            raise self.trouble
        return key if key in self.taken else None

    def tell(self, key: str, title: str, lines: Sequence[str], advice: str = "") -> str:
        assert key not in self.taken, "said twice"
        assert advice
        assert title.endswith(key.partition("/")[2])
        self.taken[key] = lines
        if self.trouble is not None:
            raise self.trouble
        return key


def state(*numbers: int) -> State:
    return fold(State(), [quarantined(n, at=NINE - timedelta(hours=n)) for n in numbers])


def tell(digest: Digest, at: datetime, known: State) -> list[str]:
    digest.clock.at = at  # type: ignore[attr-defined]
    snapshot = Snapshot(at, "lab", Mode.ENFORCE, "controller", world.fleet(20), {}, known)
    return digest.tell(snapshot, known, world.rules())


def made(far: Far) -> Digest:
    return Digest(far, Clock(), "lab", AT)


def test_it_is_said_once_a_day_after_its_time() -> None:
    far = Far()
    digest = made(far)
    assert tell(digest, NINE - timedelta(seconds=1), state(1)) == []
    assert far.taken == {}
    for minutes in range(5):
        assert tell(digest, NINE + timedelta(minutes=minutes), state(1)) == []
    assert list(far.taken) == ["digest/2026-11-29"]
    tell(digest, NINE + timedelta(days=1), state(1))
    assert list(far.taken) == ["digest/2026-11-29", "digest/2026-11-30"]


def test_after_a_restart_it_is_not_said_again() -> None:
    far = Far()
    tell(made(far), NINE, state(1))
    assert tell(made(far), NINE + timedelta(hours=1), state(1)) == []
    assert len(far.taken) == 1


def test_it_is_not_said_late() -> None:
    far = Far()
    tell(made(far), NINE + LATE, state(1))
    assert far.taken == {}


def test_exactly_once_when_its_answer_is_lost() -> None:
    far = Far(trouble=NotifierUnavailable("no answer"), lost=True)
    digest = made(far)
    assert tell(digest, NINE, state(1)) == ["the daily digest is put off: no answer"]
    far.trouble = None
    for minutes in range(1, 5):
        assert tell(digest, NINE + timedelta(minutes=minutes), state(1)) == []
    assert len(far.taken) == 1


def test_it_is_tried_again_ever_more_rarely() -> None:
    far = Far(trouble=NotifierRefused("not_in_channel"))
    digest = made(far)
    said = [tell(digest, NINE + timedelta(seconds=15 * n), state(1)) for n in range(40)]
    assert 3 < sum(bool(one) for one in said) < 10


def test_it_tells_what_stands() -> None:
    far = Far()
    known = state(*range(1, 8))
    done = Decision(
        NINE, Kind.DECIDED, Action.RELEASE, "proven", "controller", node="node-7", case="c-7", phase=Phase.RELEASED
    )
    drained = replace(done, action=Action.DRAIN, case="c-6", node="node-6", phase=Phase.DRAINED)
    known = fold(known, [drained, done])
    known = replace(known, holds={"case/c-1": Hold("case/c-1", HeldBy.BUDGET, "no more may go", NINE)})
    tell(made(far), NINE, known)
    (lines,) = far.taken.values()
    assert list(lines[:3]) == [
        "5 machines out of service: node-1, node-2, node-3, node-4, node-5",
        "1 machine drained: node-6",
        "1 machine whose case ended within a day: node-7",
    ]
    waiting = [line for line in lines if line.startswith("out longest: ")]
    assert waiting[0] == "out longest: node-6 since 2026-11-29 03:00 UTC, is drained"
    assert len(waiting) == MOST_WAITING
    assert "held: 1 by budget" in lines
    assert lines[-1] == "pool gpu: 6 of 10 quarantined, 6 of 12 out for any reason, 20 in all"


def test_a_day_on_which_nothing_is_out_is_left_out() -> None:
    far = Far()
    assert tell(made(far), NINE, State()) == []
    assert far.taken == {}
    assert tell(Digest(None, Clock(), "lab", AT), NINE, state(1)) == []
