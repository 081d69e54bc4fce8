"""This version is the one that is replaced: the schema changes under it, at every stage of what it does.

The life of a case is that of `tests/e2e/test_convergence_life.py`: marked, drained, reset, reported, swapped, released.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from quarantine.controller import Controller
from quarantine.core.errors import SchemaMismatch
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import REVISION
from quarantine.ledger.store import open_ledger
from quarantine.ledger.verify import Sound
from tests.e2e.test_convergence_life import CYCLE, Fuse, World, check, live, world
from tests.upgrade.nextversion import NEXT, let_this_code_be_the_next, upgrade_to_next

pytestmark = pytest.mark.timeout(500)

OF_THE_LEDGER = {"record", "attempt", "settle", "postpone", "keep_rules"}
MOST_CYCLES = 40
# After the first of these the schema changes: what was decided is recorded and nothing of it tried; an effect is about
# to be tried; it was, and its outcome is not recorded; it is; one pod of two has left; a procedure runs; a ticket is
# filed.
MOMENTS = ("record", "attempt", "patch_node", "settle", "evict", "start", "open")


@dataclass
class Turn(Fuse):
    """Does something once, right after the first write or call of this name; `after`: what was carried out since."""

    name: str = ""
    do: Callable[[], object] = lambda: None
    after: list[str] | None = field(default=None)

    def cross(self, name: str) -> None:
        super().cross(name)
        if self.after is not None:
            self.after.append(name)
        elif name == self.name:
            self.after = []
            self.do()


@pytest.fixture(scope="module")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("next") / "migrated.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.mark.parametrize(
    ("dialect", "moment"), [*(("postgres", moment) for moment in MOMENTS), ("sqlite", "attempt"), ("sqlite", "evict")]
)
def test_the_schema_changes_in_the_middle(
    request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path, dialect: str, moment: str
) -> None:
    with world(tmp_path / "life", migrated_file, full=False) as cluster:
        if dialect == "postgres":
            cluster.database = request.getfixturevalue("migrated")
        turn = Turn(0, name=moment, do=lambda: upgrade_to_next(cluster.url))
        with cluster.process(turn) as controller:
            until_it_changed(cluster, controller, turn)
            writes_no_more(cluster, controller, turn)
        let_this_code_be_the_next(cluster.url)
        check(cluster, live(cluster, Fuse(0)))
        with closing(open_ledger(cluster.url, "test", now=cluster.clock.now)) as ledger:
            assert isinstance(ledger.verify(), Sound)


def until_it_changed(cluster: World, controller: Controller, turn: Turn) -> None:
    """Cycle after cycle up to the one in which it happened, which says so in one sentence."""
    for _ in range(MOST_CYCLES):
        report = controller.cycle()
        if turn.after is not None:
            assert isinstance(report.error, SchemaMismatch)
            assert report.sentence.endswith(
                f"is at schema {NEXT}, newer than this code's {REVISION}; upgrade the program, it writes nothing here"
            )
            return
        assert report.error is None, report.sentence
        cluster.go_on()
    raise AssertionError(f"there was no {turn.name}: {turn.crossed}")


def writes_no_more(cluster: World, controller: Controller, turn: Turn) -> None:
    """What was under way in that moment is carried out; nothing is recorded, and nothing else begun."""
    assert turn.after is not None
    assert not OF_THE_LEDGER & set(turn.after)
    assert len(set(turn.after)) <= 1, "one effect was under way at most"
    assert turn.name in {"attempt", "evict"} or not turn.after
    under_way, there = list(turn.after), objects(cluster)
    for _ in range(3):
        cluster.clock.at += CYCLE
        report = controller.cycle()
        assert isinstance(report.error, SchemaMismatch)
        assert "nothing was done in this cycle" in report.sentence
    assert turn.after == under_way
    assert objects(cluster) == there


def objects(cluster: World) -> list[object]:
    """All that it could change."""
    kinds = ("Node", "Pod", "Job", "Event")
    tickets = sorted(path.read_text() for path in (cluster.folder / "tickets").glob("*"))
    return [*(cluster.api.list(kind) for kind in kinds), cluster.slack.messages, tickets]
