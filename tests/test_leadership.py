"""Who acts: one at a time, whatever is paused, cut off or wrong about the time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.errors import ClusterUnavailable, Conflict
from quarantine.leadership import Leadership, Terms, steady
from quarantine.ports import LeaseRecord

EPOCH = datetime(2026, 11, 29, tzinfo=UTC)
TERMS = Terms()


@dataclass
class Server:
    """The Lease, with conditional writes."""

    held: LeaseRecord | None = None
    version: int = 0

    def write(self, record: LeaseRecord) -> LeaseRecord:
        there = self.held.version if self.held is not None else ""
        if record.version != there:
            raise Conflict("it changed")
        self.version += 1
        self.held = replace(record, version=str(self.version))
        return self.held


@dataclass
class Way:
    """One replica's way to the server: it may be cut, or lose answers."""

    server: Server
    cut: bool = False
    lost: bool = False

    def read(self) -> LeaseRecord | None:
        if self.cut:
            raise ClusterUnavailable("nobody answers")
        return self.server.held

    def write(self, record: LeaseRecord) -> LeaseRecord:
        if self.cut:
            raise ClusterUnavailable("nobody answers")
        written = self.server.write(record)
        if self.lost:
            raise ClusterUnavailable("the answer was lost")
        return written


@dataclass
class Replica:
    """`skew`: how wrong its wall clock is."""

    name: str
    server: Server
    seconds: list[float]
    skew: timedelta = timedelta(0)
    won: int = 0
    way: Way = field(init=False)
    leadership: Leadership = field(init=False)

    def __post_init__(self) -> None:
        self.way = Way(self.server)
        self.leadership = Leadership(
            self.way,
            self.name,
            lambda: EPOCH + timedelta(seconds=self.seconds[0]) + self.skew,
            terms=TERMS,
            monotonic=lambda: self.seconds[0],
        )
        self.leadership.on_lead = self._won

    def _won(self) -> None:
        self.won += 1


def two() -> tuple[Replica, Replica, list[float]]:
    seconds, server = [1000.0], Server()
    return Replica("a", server, seconds), Replica("b", server, seconds), seconds


def run(span: float, seconds: list[float], *replicas: Replica) -> None:
    """Both step every two seconds, as long as they live."""
    for _ in range(int(span / 2)):
        seconds[0] += 2
        for replica in replicas:
            replica.leadership.step()
            assert sum(r.leadership.leads() for r in replicas) <= 1


def test_the_first_leads_and_the_second_waits() -> None:
    a, b, seconds = two()
    a.leadership.step()
    b.leadership.step()
    run(120, seconds, a, b)
    assert (a.leadership.leads(), b.leadership.leads()) == (True, False)
    assert (a.won, b.won) == (1, 0)
    assert b.leadership.leader == "a"
    assert a.server.held is not None
    assert a.server.held.transitions == 0


def test_who_dies_is_followed_within_the_leases_time_and_a_step() -> None:
    a, b, seconds = two()
    run(10, seconds, a, b)
    died = seconds[0]
    while not b.leadership.leads():
        run(2, seconds, b)
    assert seconds[0] - died <= TERMS.lasts.total_seconds() + 4
    assert b.server.held is not None
    assert b.server.held.transitions == 1


def test_who_is_paused_longer_than_the_lease_knows_it_before_anything_else() -> None:
    a, b, seconds = two()
    run(10, seconds, a, b)
    run(30, seconds, b)
    assert b.leadership.leads()
    assert not a.leadership.leads(), "without having looked"
    run(10, seconds, a, b)
    assert b.leadership.leads()


def test_who_is_cut_off_stops_before_another_may_begin() -> None:
    a, b, seconds = two()
    run(10, seconds, a, b)
    a.way.cut = True
    stopped = began = 0.0
    while not began:
        run(2, seconds, a, b)
        stopped = stopped or (seconds[0] if not a.leadership.leads() else 0.0)
        began = seconds[0] if b.leadership.leads() else 0.0
    assert stopped <= began - (TERMS.lasts - TERMS.renew_within).total_seconds() + 2


def test_a_lost_answer_is_no_loss() -> None:
    a, b, seconds = two()
    run(10, seconds, a, b)
    a.way.lost = True
    run(4, seconds, a, b)
    a.way.lost = False
    run(60, seconds, a, b)
    assert a.leadership.leads()
    assert b.won == 0


def test_clocks_that_are_wrong_by_hours_change_nothing() -> None:
    a, b, seconds = two()
    a.skew, b.skew = timedelta(hours=-5), timedelta(hours=7)
    run(120, seconds, a, b)
    assert a.leadership.leads()
    run(40, seconds, b)
    assert b.leadership.leads()


def test_who_leaves_in_order_is_followed_at_once() -> None:
    a, b, seconds = two()
    run(10, seconds, a, b)
    a.leadership.stop()
    assert not a.leadership.leads()
    run(2, seconds, b)
    assert b.leadership.leads()


def test_who_leads_no_more_releases_nothing_of_anothers() -> None:
    a, b, seconds = two()
    run(10, seconds, a, b)
    run(30, seconds, b)
    a.leadership.stop()
    run(2, seconds, b)
    assert b.leadership.leads()
    assert b.server.held is not None
    assert b.server.held.holder == "b"


def test_a_lease_that_somebody_deleted_is_made_again() -> None:
    a, b, seconds = two()
    run(10, seconds, a, b)
    a.server.held = None
    run(20, seconds, a, b)
    assert a.leadership.leads() or b.leadership.leads()


def test_the_clock_goes_on() -> None:
    assert steady() <= steady()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["step a", "step b", "step c", "pass", "cut a", "cut b", "lose a", "mend", "release a", "gone"]
            ),
            st.integers(1, 12),
        ),
        max_size=60,
    )
)
def test_two_never_lead_at_once(acts: list[tuple[str, int]]) -> None:
    seconds, server = [1000.0], Server()
    replicas = {name: Replica(name, server, seconds) for name in "abc"}
    for act, number in acts:
        what, _, name = act.partition(" ")
        match what:
            case "step":
                replicas[name].leadership.step()
            case "pass":
                seconds[0] += number
            case "cut":
                replicas[name].way.cut = True
            case "lose":
                replicas[name].way.lost = True
            case "mend":
                for replica in replicas.values():
                    replica.way.cut = replica.way.lost = False
            case "release":
                replicas[name].leadership.release()
        assert sum(replica.leadership.leads() for replica in replicas.values()) <= 1
