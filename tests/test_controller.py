"""A cycle whose process leads no more at some line of it, and one whom whoever is told of it fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from quarantine.adapters.tickets.targets import only
from quarantine.controller import Controller, Saying
from quarantine.core.case import Effect
from quarantine.core.decision import Action, Decision, State
from quarantine.core.errors import ClusterRefused, ClusterUnavailable, LedgerUnavailable, OtherCluster, Superseded
from quarantine.core.model import Mode
from quarantine.core.policy import Rules
from quarantine.core.rulefiles import InForce
from quarantine.core.snapshot import Snapshot
from quarantine.core.tickets import Update
from quarantine.ledger.engine import make_engine
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import clusters
from quarantine.notices import Teller
from quarantine.observe import Observer
from quarantine.observe.tickets import Follower
from quarantine.ports import LedgerView
from tests.core.world import hot, policy, rules, snapshot
from tests.execute.lab import NODE, Lab, lab


@dataclass
class Eyes:
    """They see a hot node; `then` happens while they look."""

    here: Lab
    rules: Rules
    then: Callable[[], None] = lambda: None
    asked: dict[str, float] = field(default_factory=dict)

    def snapshot(self, view: LedgerView, **_: object) -> Snapshot:
        self.then()
        here = self.here
        return snapshot(here.kube.nodes(), hot(NODE), state=view.state, mode=here.mode, now=here.clock.at)

    def forget(self) -> None: ...

    def traced(self, decisions: Sequence[Decision], _: State) -> Sequence[Decision]:
        return decisions


@dataclass
class Book:
    held: InForce

    def read(self) -> InForce:
        return self.held


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("controller") / "migrated.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def here(migrated: Path, tmp_path: Path) -> Iterator[Lab]:
    shutil.copy(migrated, tmp_path / "ledger.db")
    made = lab(tmp_path / "ledger.db")
    with made.ledger:
        yield made


def controller(here: Lab, *outward: Saying) -> Controller:
    eyes: Any = Eyes(here, here.rules)
    return Controller(
        observer=eyes,
        executor=here.executor,
        ledger=here.ledger,
        rulebook=Book(InForce(here.rules, ())),
        teller=Teller(None, here.clock, "test"),
        cluster="test",
        mode=Mode.ENFORCE,
        actor="controller test",
        holder="a",
        settle=0,
        outward=outward,
    )


def says(told: list[str], what: str, error: Exception | None = None) -> Saying:
    def say(_: Snapshot, __: State, ___: Rules) -> list[str]:
        told.append(what)
        if error is not None:
            raise error
        return []

    return say


def leads_until(here: Lab, told: Collection[object]) -> None:
    """It leads until somebody was told something."""
    here.executor.leads = lambda: not told


def test_a_cycle_decides_acts_and_tells(here: Lab) -> None:
    told: list[str] = []
    report = controller(here, says(told, "pager"), says(told, "digest")).cycle()
    assert report.error is None
    assert not report.ceded
    assert told == ["pager", "digest"]
    assert here.case.node == NODE


def test_of_the_texts_that_the_ledger_has_only_those_in_force_are_remembered(here: Lab) -> None:
    """A process lives for months, and policies change."""
    made, book = controller(here), Book(InForce(here.rules, ()))
    made.rulebook = book
    for minutes in (5, 6, 7):
        law = rules(policy(trigger={"above": 78, "for": f"{minutes}m"}))
        book.held = InForce(law, ())
        assert made.cycle().error is None
        assert made._written == {one.hash for one in law.policies}
        here.later(seconds=15)


def test_who_steps_down_takes_nothing_that_it_heard_for_news(here: Lab) -> None:
    """Another process may have heard the ticket meanwhile, and answered it."""
    here.quarantine()
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    (filing,) = here.case.filings
    follower = Follower(only("lab", here.tickets), here.clock, patience=timedelta(seconds=60))
    made = controller(here)
    nothing: Any = None  # of metrics it is asked nothing here
    made.observer = Observer(here.kube, nothing, here.clock, here.rules, follower=follower)
    heard = follower.heard(here.state)
    here.tickets.update(filing.ref, Update("done", "it is mended", close=True))
    here.later(minutes=1)
    assert follower.heard(here.state) == heard, "it was asked about a moment ago"
    made.step_down()
    assert follower.heard(here.state) != heard


def test_who_leads_no_more_takes_no_term(here: Lab) -> None:
    made = controller(here)
    here.executor.leads = lambda: False
    other = here.ledger.take_term("b, the holder of the Lease", here.kube.uid)
    report = made.cycle()
    assert (report.ceded, report.at, report.error) == (True, None, None)
    assert "another process may lead" in report.sentence
    here.ledger.record(other, ())


def test_who_leads_no_more_once_it_has_looked_decides_nothing(here: Lab) -> None:
    told: list[str] = []
    made = controller(here, says(told, "pager"))
    made.observer.then = lambda: setattr(here.executor, "leads", lambda: False)  # type: ignore[attr-defined]
    report = made.cycle()
    assert report.ceded
    assert here.state.cases == {}
    assert told == []


def test_who_led_again_takes_a_new_term(here: Lab) -> None:
    made = controller(here)
    made.cycle()
    here.executor.leads = lambda: False
    made.cycle()
    here.ledger.take_term("b, which led meanwhile", here.kube.uid)
    here.executor.leads = lambda: True
    assert made.cycle().error is None


def test_who_leads_no_more_tells_nobody_else(here: Lab) -> None:
    told: list[str] = []
    leads_until(here, told)
    report = controller(here, says(told, "board"), says(told, "digest"), says(told, "pager")).cycle()
    assert told == ["board"]
    assert report.ceded
    assert "is for who leads next" in report.trouble
    assert report.snapshot is not None, "it is counted: it has acted"


def test_a_defect_of_one_who_is_told_keeps_nothing_from_the_others(here: Lab) -> None:
    told: list[str] = []
    report = controller(here, says(told, "digest", KeyError("theirs")), says(told, "pager")).cycle()
    assert told == ["digest", "pager"]
    assert report.error is None
    assert "a defect (KeyError: 'theirs')" in report.trouble


def test_a_ledger_that_fails_in_the_telling_fails_the_cycle_once_all_were_told(here: Lab) -> None:
    told: list[str] = []
    failed = LedgerUnavailable("the database is down")
    report = controller(here, says(told, "board", failed), says(told, "pager")).cycle()
    assert told == ["board", "pager"]
    assert report.error is failed


def test_who_was_succeeded_tells_nobody_else(here: Lab) -> None:
    told: list[str] = []
    with pytest.raises(Superseded):
        controller(here, says(told, "board", Superseded("b has the term")), says(told, "pager")).cycle()
    assert told == ["board"]


def test_the_executor_is_asked_for_the_same_leave(here: Lab) -> None:
    """A cycle that is ceded while it acts says so, and leaves the node alone."""
    made = controller(here)
    asked: list[int] = []
    here.executor.leads = lambda: asked.append(1) or len(asked) <= 3  # type: ignore[func-returns-value]
    before = replace(here.kube.held[NODE])
    assert made.cycle().ceded
    assert here.case.node == NODE, "it was decided while it led"
    assert here.kube.held[NODE] == before


# --- Whose trail it is ------------------------------------------------------------------------------------------------


def test_of_a_trail_that_is_another_clusters_nothing_is_done_until_it_is_mended(here: Lab) -> None:
    """A wrong kubeconfig. It goes on trying, and says why it waits."""
    told: list[str] = []
    made, here.kube.uid = controller(here, says(told, "board")), "uid-of-another-cluster"
    for _ in range(3):
        report = made.cycle()
        assert isinstance(report.error, OtherCluster)
        assert report.sentence.startswith("nothing was done in this cycle: the trail of 'test' in ")
        assert "has the uid uid-of-this-cluster, and in this one it has uid-of-another-cluster" in report.trouble
    assert (told, here.kube.events, list(here.ledger.decisions())) == ([], {}, [])
    pulse = here.ledger.pulse()
    assert pulse is not None
    assert pulse.holder == "lab", "who has the term keeps it"
    here.kube.uid = "uid-of-this-cluster"
    assert made.cycle().error is None
    assert here.case.node == NODE


def test_a_cluster_that_does_not_say_which_one_it_is_gets_no_term(here: Lab) -> None:
    def away() -> str:
        raise ClusterUnavailable("the API server does not answer")

    made, here.kube.identity = controller(here), away  # type: ignore[method-assign]
    assert isinstance(made.cycle().error, ClusterUnavailable)
    here.ledger.record(here.term, ())


def test_without_the_right_to_ask_a_trail_of_some_clusters_is_left_alone(here: Lab) -> None:
    made, here.kube.identity = controller(here), refused  # type: ignore[method-assign]
    report = made.cycle()
    assert isinstance(report.error, OtherCluster)
    assert "grant this account get on the namespace kube-system" in report.sentence


def test_without_the_right_to_ask_a_trail_of_nobody_yet_is_written_and_that_is_said_once(here: Lab) -> None:
    with make_engine(f"sqlite:///{here.folder.parent / 'ledger.db'}").begin() as connection:
        connection.execute(update(clusters).values(identity=None))
    made, here.kube.identity = controller(here), refused  # type: ignore[method-assign]
    with capture_logs() as said:
        assert made.cycle().error is None
        assert made.cycle().error is None
    assert [line["log_level"] for line in said if "the ledger is not told whose trail this is" in line["event"]] == [
        "warning"
    ]
    assert here.ledger.identity() is None


def refused() -> str:
    raise ClusterRefused("HTTP 403")
