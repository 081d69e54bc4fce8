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

    def change(self, **fields: object) -> None:
        """Somebody writes to it by hand."""
        if self.held is not None:
            self.version += 1
            self.held = replace(self.held, version=str(self.version), **fields)  # type: ignore[arg-type]


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
    run(20, seconds, a, b)
    died = seconds[0]
    while not b.leadership.leads():
        run(2, seconds, b)
    assert seconds[0] - died <= TERMS.lasts.total_seconds() + 4
    assert b.server.held is not None
    assert b.server.held.transitions == 1


def test_who_is_paused_longer_than_the_lease_knows_it_before_anything_else() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    run(30, seconds, b)
    assert b.leadership.leads()
    assert not a.leadership.leads(), "without having looked"
    run(10, seconds, a, b)
    assert b.leadership.leads()


def test_who_is_cut_off_stops_before_another_may_begin() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    a.way.cut = True
    stopped = began = 0.0
    while not began:
        run(2, seconds, a, b)
        stopped = stopped or (seconds[0] if not a.leadership.leads() else 0.0)
        began = seconds[0] if b.leadership.leads() else 0.0
    assert stopped <= began - (TERMS.lasts - TERMS.renew_within).total_seconds() + 2


def test_a_lost_answer_is_no_loss() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
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
    run(20, seconds, a, b)
    a.leadership.stop()
    assert not a.leadership.leads()
    run(2, seconds, b)
    assert b.leadership.leads()


def test_who_leads_no_more_releases_nothing_of_anothers() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    run(30, seconds, b)
    a.leadership.stop()
    run(2, seconds, b)
    assert b.leadership.leads()
    assert b.server.held is not None
    assert b.server.held.holder == "b"


def test_a_lease_that_nobody_had_is_held_for_its_time_before_it_is_acted_on() -> None:
    a, b, seconds = two()
    a.leadership.step()
    assert not a.leadership.leads(), "another one may have deleted it a moment ago"
    assert a.leadership.leader == "", "nobody else leads, and it does not yet"
    run(14, seconds, a, b)
    assert (a.won, b.won) == (0, 0)
    run(2, seconds, a, b)
    assert (a.won, b.won) == (1, 0)


def test_a_lease_that_somebody_deleted_is_made_again() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    a.server.held = None
    run(2, seconds, a, b)
    assert not a.leadership.leads(), "another one may have had it meanwhile"
    run(18, seconds, a, b)
    assert a.leadership.leads()


def test_a_label_on_the_lease_changes_nothing() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    for _ in range(20):
        a.server.change()
        run(2, seconds, a, b)
        assert a.leadership.leads()
    assert (a.won, b.won) == (1, 0)


def test_a_lease_that_is_deleted_makes_no_second_leader() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    a.server.held = None
    seconds[0] += 1
    b.leadership.step()
    assert (a.leadership.leads(), b.leadership.leads()) == (True, False)
    run(20, seconds, a, b)
    assert (a.leadership.leads(), b.leadership.leads()) == (False, True)


def test_a_lease_that_is_emptied_by_hand_makes_no_second_leader() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    a.server.change(holder="")
    seconds[0] += 1
    b.leadership.step()
    assert (a.leadership.leads(), b.leadership.leads()) == (True, False)
    run(20, seconds, b, a)
    assert a.leadership.leads() or b.leadership.leads()


def test_a_lease_that_is_emptied_while_its_holder_is_away_is_taken_once_its_time_is_over() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    a.server.change(holder="")
    run(14, seconds, b)
    assert not b.leadership.leads()
    run(4, seconds, b)
    assert b.leadership.leads()


def test_a_name_that_is_written_into_the_lease_by_hand_makes_no_second_leader() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    a.server.change(holder="b")
    seconds[0] += 1
    b.leadership.step()
    assert (a.leadership.leads(), b.leadership.leads()) == (True, False)
    run(20, seconds, a, b)
    assert (a.leadership.leads(), b.leadership.leads()) == (False, True)


def test_who_sees_another_name_in_its_lease_stops_at_once() -> None:
    a, _, seconds = two()
    run(20, seconds, a)
    a.server.change(holder="somebody")
    a.leadership.step()
    assert not a.leadership.leads()
    assert a.leadership.leader == "somebody"


def test_a_time_that_is_shortened_by_hand_makes_no_second_leader() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    a.server.change(lasts=timedelta(seconds=1))
    b.leadership.step()
    seconds[0] += 3
    b.leadership.step()
    assert (a.leadership.leads(), b.leadership.leads()) == (True, False)
    a.server.change(holder="")
    b.leadership.step()
    assert (a.leadership.leads(), b.leadership.leads()) == (True, False), "it is not marked as let go"


def test_who_leaves_before_it_might_act_lets_nobody_act_at_once() -> None:
    a, b, seconds = two()
    run(20, seconds, a, b)
    c = Replica("c", a.server, seconds)
    a.server.held = None
    b.leadership.step()
    b.leadership.stop()
    seconds[0] += 1
    c.leadership.step()
    assert (a.leadership.leads(), c.leadership.leads()) == (True, False)


def test_who_comes_back_to_its_own_lease_goes_on_and_is_told_so() -> None:
    a, _, seconds = two()
    run(20, seconds, a)
    a.way.cut = True
    run(12, seconds, a)
    assert not a.leadership.leads()
    a.way.cut = False
    run(2, seconds, a)
    assert a.leadership.leads()
    assert a.won == 2, "it looks at everything anew"


def test_the_clock_goes_on() -> None:
    assert steady() <= steady()


_ACTS = ("step a", "step b", "step c", "pass", "cut a", "cut b", "lose a", "mend", "release a", "release b")
_BY_HAND = ("delete", "empty", "name a", "name b", "shorten")


def by_hand(server: Server, what: str, name: str) -> None:
    """Somebody does something to the Lease; whoever writes one that was let go in order asks for what comes of it."""
    if what == "delete":
        server.held = None
    elif what == "shorten":
        server.change(lasts=timedelta(seconds=2))
    else:
        server.change(holder=name)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(_ACTS + _BY_HAND), st.integers(1, 12)), max_size=60))
def test_two_never_lead_at_once(acts: list[tuple[str, int]]) -> None:
    seconds, server = [1000.0], Server()
    replicas = {name: Replica(name, server, seconds) for name in "abc"}
    run(20, seconds, replicas["a"])
    assert replicas["a"].leadership.leads()
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
            case _:
                by_hand(server, what, name)
        assert sum(replica.leadership.leads() for replica in replicas.values()) <= 1
