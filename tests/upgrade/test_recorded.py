"""Every earlier version's ledger, left in the middle of everything, is gone on with by this one: all is done, and once.

What was recorded was written by the code of that version (`record.py`), in a database of each kind. This version's
controller finds the database, the cluster, Slack and the tickets as they were left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from quarantine.controller import Controller
from quarantine.core.case import Effect, HeldBy, Phase
from quarantine.ledger import drift, rebuild
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import REVISION
from tests.upgrade import recording
from tests.upgrade.left import Left, engine_of, left_by, rows_of
from tests.upgrade.record import KNOWS_WHOSE, SPEAKS
from tests.upgrade.town import CLUSTER, GUARDED, PAUSED

pytestmark = pytest.mark.timeout(500)

# It told the texts of policies apart otherwise: to this version each is new, and observes for its first cycles. A mark
# that was not recorded yet is taken back meanwhile; all others stay.
RENEWED = "0002"
PAUSE = f"pause/policy/{PAUSED}"


@pytest.fixture(params=recording.revisions())
def revision(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(params=recording.DIALECTS)
def left(request: pytest.FixtureRequest, revision: str, shown: str, tmp_path: Path) -> Iterator[Left]:
    url: str = (
        request.getfixturevalue("empty") if request.param == "postgres" else f"sqlite:///{tmp_path / 'ledger.db'}"
    )
    with left_by(revision, request.param, url, tmp_path, shown) as found:
        yield found


def test_every_schema_but_the_newest_was_recorded() -> None:
    """Whoever adds a migration records the version before it: `python -m tests.upgrade.record COMMIT`."""
    earlier = [f"{number:04}" for number in range(1, int(REVISION))]
    assert [one for one in recording.revisions() if one < REVISION] == earlier
    assert all(recording.path_of(one, dialect).exists() for one in earlier for dialect in recording.DIALECTS)


def test_this_version_goes_on_where_that_one_was(left: Left) -> None:
    place = left.town
    before = place.out()
    assert upgrade(left.url) == (left.revision, REVISION)
    kept(left)
    with left.controller() as one:
        knew = left.revision >= KNOWS_WHOSE
        assert left.writer()["identity"] == (place.identity if knew else None), "no earlier version knew whose it is"
        left.cycles(one, 19)
        assert left.writer()["identity"] == place.identity
        went_on(left, before)
        if left.url.startswith("sqlite"):  # what follows is the same, and takes its time
            return
        left.cycles(one, 22)
        went_on(left, before)
        place.guard(0)
        left.cycles(one, 24, 26)
        drained(left)
        for node in sorted(place.out().keys() - {"node-1"}):
            left.call("release", node, "--reason", "looked at")
        left.cycles(one, 62)
        assert place.out() == {"node-1": before["node-1"]}, "the fault of the others is over"
        swapped(left, one)
        resumed(left, one)
        left.cycles(one, 100, 101)
    over(left)


def kept(left: Left) -> None:
    """Every row of the trail is there as it was, and every case, word and request with it."""
    after = rows_of(left.url)
    for table, rows in left.before.items():
        if table != "clusters":  # its row says who writes
            assert [{**row, **was} for row, was in zip(after[table], rows, strict=True)] == after[table], table
    assert drift.differences(left.url) == []
    left.sound()
    view = left.view()
    was_open = {row["id"]: row["phase"] for row in left.before["cases"] if row["ended_at"] is None}
    assert {case.id: str(case.phase) for case in view.state.cases.values() if case.open} == was_open
    assert [request.node for request in view.requests] == ["node-8"]
    tried = {(view.state.cases[effect.case].node, effect.effect) for effect in view.pending if effect.attempts}
    assert ("node-4", Effect.MARK) in tried
    if left.revision >= SPEAKS:
        assert PAUSE in view.state.words
        assert "node-7" in {one.node for one in view.state.dismissals}


def went_on(left: Left, before: Mapping[str, str]) -> None:
    """What was begun is ended, once; what was held is held; what a person asked for is done."""
    place, view = left.town, left.view()
    out = place.out()
    stay = {node: case for node, case in before.items() if node != "node-4" or left.revision != RENEWED}
    assert {node: out[node] for node in stay} == stay, "each by the case that took it out"
    assert out.keys() == {*stay, "node-8"}
    assert left.cases()["node-5"].phase is Phase.SUSPECTED
    held_by = HeldBy.BUDGET if left.revision != RENEWED else HeldBy.OBSERVE_MODE
    assert held_by in {hold.held_by for hold in view.state.holds.values()}
    assert not view.requests
    left.once()
    assert place.pods() == {"bystander", GUARDED} | (set() if left.revision >= SPEAKS else {"free"})
    if left.revision >= SPEAKS:
        assert left.cases()["node-2"].phase is Phase.DRAINING
        assert PAUSE in view.state.words


def drained(left: Left) -> None:
    """The guard is gone, so the guarded pod has left."""
    if left.revision >= SPEAKS:
        assert left.town.pods() == {"bystander"}
        assert left.cases()["node-2"].phase is Phase.DRAINED
    left.once()


def swapped(left: Left, one: Controller) -> None:
    """The provider brings another machine."""
    left.town.api.delete("Node", "node-1")
    left.cycles(one, 64)
    left.town.join(1, hardware="b")
    left.cycles(one, 65)
    left.call("release", "node-1", "--reason", "another machine")
    left.cycles(one, 65.5)


def resumed(left: Left, one: Controller) -> None:
    """What was paused was held all the time, and no longer than that."""
    if left.revision < SPEAKS:
        return
    assert left.cases()["node-9"].phase is Phase.SUSPECTED
    left.call("resume", PAUSED, "--reason", "looked at")
    left.cycles(one, 66, 67)
    assert left.town.out().keys() == {"node-9"}
    left.call("release", "node-9", "--reason", "looked at")
    left.cycles(one, 68)


def over(left: Left) -> None:
    """Every case has ended, no node bears anything of ours, and the trail tells all of it."""
    place = left.town
    assert place.out() == {}
    assert left.cases() == {}
    left.once()
    left.sound()
    with engine_of(left.url) as engine:
        assert not rebuild.rebuild(engine, CLUSTER, now=place.time.now()).unfit
    assert "node-4" in left.call("explain", "node-4")
    assert "node-4" in left.call("history", "node-4")
    left.call("report", "--since", "1d", "--output", "json")
    left.call("audit", "verify")
