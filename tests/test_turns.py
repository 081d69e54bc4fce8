"""A process whose ledger has another schema than its code lets the Lease go, and takes it no more until it fits."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from quarantine.core.errors import LedgerUnavailable, SchemaMismatch
from quarantine.health import Health
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import REVISION
from quarantine.metrics import OwnMetrics
from quarantine.turns import Turns
from tests.execute.lab import Lab, lab
from tests.test_controller import controller
from tests.test_leadership import Replica, Server

NEXT = "9999"


class Hears:
    """Who hears that the controller lives."""

    def __init__(self) -> None:
        self.count = 0

    def beat(self) -> None:
        self.count += 1


@dataclass
class Process:
    """One replica of this version: a turn every 14 seconds, a look at the Lease every two."""

    here: Lab
    replica: Replica
    turns: Turns
    heart: Hears

    def live(self, span: float, *others: Replica) -> None:
        for _ in range(int(span / 14)):
            self.turns.cycle()
            for _ in range(7):
                self.replica.seconds[0] += 2
                for one in (self.replica, *others):
                    one.leadership.step()
                assert sum(one.leadership.leads() for one in (self.replica, *others)) <= 1

    def leads(self) -> bool:
        return self.replica.leadership.leads()

    def ready(self) -> tuple[bool, str]:
        return self.turns.health.ready()


@dataclass
class Place:
    """A ledger's file, a Lease, and the processes that share them."""

    database: Path
    stack: ExitStack
    server: Server
    seconds: list[float]

    def replica(self, name: str) -> Replica:
        return Replica(name, self.server, self.seconds)

    def process(self, name: str) -> Process:
        replica, here, heart = self.replica(name), lab(self.database), Hears()
        self.stack.enter_context(here.ledger)
        here.executor.leads = replica.leadership.leads
        health = Health(timedelta(seconds=15), timedelta(minutes=1), lambda: self.seconds[0])
        metrics = OwnMetrics()
        turns = Turns(controller(here), lambda: None, metrics, health, replica.leadership, heart)
        return Process(here, replica, turns, heart)

    def write(self, statement: str, *values: str) -> None:
        with closing(sqlite3.connect(self.database)) as other, other:
            other.execute(statement, values)

    def schema(self, revision: str) -> None:
        self.write("UPDATE alembic_version SET version_num = ?", revision)

    @property
    def holder(self) -> str:
        return self.server.held.holder if self.server.held is not None else ""


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("turns") / "migrated.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def place(migrated: Path, tmp_path: Path) -> Iterator[Place]:
    shutil.copy(migrated, tmp_path / "ledger.db")
    with ExitStack() as stack:
        yield Place(tmp_path / "ledger.db", stack, Server(), [1000.0])


def leading(place: Place) -> Process:
    """One that leads, and has had a cycle."""
    a = place.process("a")
    a.live(56)
    assert a.leads()
    assert a.ready() == (True, "the last cycle had all that it needs")
    return a


def test_a_leader_whose_ledger_was_migrated_lets_the_lease_go_for_who_can_lead(place: Place) -> None:
    a, beats = leading(place), place.replica("of the next version")
    place.schema(NEXT)
    report = a.turns.cycle()
    assert report is not None
    assert isinstance(report.error, SchemaMismatch)
    assert (a.leads(), place.holder) == (False, "")
    beats.leadership.step()
    assert beats.leadership.leads(), "at its next look, and not only once the old pod has ended"
    a.live(140, beats)
    assert place.holder == "of the next version"


def test_it_takes_the_lease_no_more_though_nobody_else_does(place: Place) -> None:
    a = leading(place)
    place.schema(NEXT)
    won, beaten = a.replica.won, a.heart.count
    a.live(280)
    assert (place.holder, a.replica.won, a.heart.count) == ("", won, beaten)
    good, said = a.ready()
    assert not good
    assert f"is at schema {NEXT}, newer than this code's {REVISION}; upgrade the program" in said
    assert a.turns.health.live().good, "it waits, and does not hang"


def test_one_that_only_waits_takes_it_no_more_either(place: Place) -> None:
    a, b = leading(place), place.process("b")
    b.live(28, a.replica)
    assert b.ready() == (True, "a leads, and this one waits")
    place.schema(NEXT)
    b.live(14, a.replica)
    assert not b.ready()[0]
    a.turns.cycle()
    b.live(140, a.replica)
    assert (place.holder, b.replica.won) == ("", 0)


def test_once_the_schema_is_this_versions_again_it_leads_again(place: Place) -> None:
    a = leading(place)
    place.schema(NEXT)
    a.live(56)
    assert not a.leads()
    place.schema(REVISION)  # the backup was put back
    a.live(56)
    assert a.leads()
    assert a.ready()[0]


def test_a_ledger_that_does_not_answer_meanwhile_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    a = leading(place)

    def silent(_: object) -> None:
        raise LedgerUnavailable("nobody answers")

    place.schema(NEXT)
    a.live(14)
    with monkeypatch.context() as patched:
        patched.setattr(type(a.here.ledger), "policy_runs", silent)
        a.live(140)
    assert place.holder == ""
    assert "newer than this code's" in a.ready()[1]


def test_a_row_that_cannot_be_read_is_no_other_version_of_the_schema(place: Place) -> None:
    """Who leads next would not read it either: the Lease would go from one to the other for good."""
    a = leading(place)
    place.write("UPDATE cases SET body = '{}'")
    a.live(56)
    assert "cannot be read" in a.ready()[1]
    assert place.holder == "a"


def test_a_defect_of_what_only_shows_a_cycle_ends_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("cannot convert float NaN to integer")

    a = leading(place)
    monkeypatch.setattr(OwnMetrics, "after", broken)
    with capture_logs() as said:
        report = a.turns.cycle()
    assert report is not None
    assert report.error is None
    assert a.leads()
    assert [line["log_level"] for line in said if "kept this cycle from being shown" in line["event"]] == ["error"]


# --- A trail of another cluster ---------------------------------------------------------------------------------------


def copied(place: Place, name: str) -> Process:
    """A copy of the installation in another cluster, by the same settings, or one with a wrong kubeconfig."""
    made = place.process(name)
    made.here.kube.uid = "uid-of-another-cluster"
    return made


def test_a_process_of_another_cluster_takes_no_lease_and_says_why(place: Place) -> None:
    leading(place)
    b = Place(place.database, place.stack, Server(), place.seconds)  # its Lease is in that other cluster
    made = copied(b, "copy")
    with capture_logs() as said:
        made.live(140)
    assert (b.holder, made.heart.count) == ("", 0)
    good, sentence = made.ready()
    assert not good
    assert "has the uid uid-of-this-cluster, and in this one it has uid-of-another-cluster" in sentence
    assert made.turns.health.live().good
    assert len([line for line in said if "this process stands aside" in line["event"]]) == 1


def test_a_replica_that_sees_the_right_cluster_leads_in_its_place(place: Place) -> None:
    """While a correction is rolled out, the Lease is one of the cluster that both of them see."""
    leading(place).turns.leadership.release()  # type: ignore[union-attr]
    wrong, right = place.process("wrong"), place.process("right")
    place.write("UPDATE clusters SET identity = ?", "uid-of-another-cluster")
    wrong.here.kube.uid = "uid-of-this-cluster"
    right.here.kube.uid = "uid-of-another-cluster"
    wrong.live(56)
    assert not wrong.leads()
    for _ in range(4):
        wrong.live(14, right.replica)
        right.live(14, wrong.replica)
    assert right.leads()
    assert right.ready()[0]
    assert not wrong.ready()[0]


def test_once_the_trail_is_its_own_it_leads_by_itself(place: Place) -> None:
    leading(place).turns.leadership.release()  # type: ignore[union-attr]
    b = copied(place, "b")
    b.live(56)
    assert not b.ready()[0]
    place.write("UPDATE clusters SET identity = NULL")  # `quarantine db rebind`
    b.live(56)
    assert b.leads()
    assert b.ready()[0]
    assert b.here.ledger.identity() == "uid-of-another-cluster"
