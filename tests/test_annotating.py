"""Charts kept in step with the cases, over HTTP: once each, little at a time, never again what a person took away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from quarantine import outward
from quarantine.adapters.grafana import connect
from quarantine.annotating import AT_ONCE, LONGER_EVERY, SETTLES, WITHIN, Annotating
from quarantine.core.annotations import KEPT, Annotation
from quarantine.core.case import Phase
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.errors import UsageError
from quarantine.core.model import Mode
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.ledger.store import open_ledger
from quarantine.sandbox.desks.grafana import GrafanaDesk
from quarantine.settings import load
from tests.boards import Clock
from tests.core import world
from tests.ledger.samples import NOW, quarantined

TOKEN = "glsa_very-secret"
CYCLE = timedelta(seconds=15)


@pytest.fixture
def desk() -> Iterator[GrafanaDesk]:
    with GrafanaDesk(TOKEN) as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW + timedelta(minutes=1))


def process(desk: GrafanaDesk, clock: Clock) -> Annotating:
    return Annotating(connect({"url": desk.url, "token": SecretStr(TOKEN)}, clock.now), clock, "lab")


def state(*numbers: int) -> State:
    return fold(State(), [quarantined(n) for n in numbers])


def released(known: State, number: int, at: datetime) -> State:
    case = f"c-{number}"
    end = Decision(at, Kind.DECIDED, Action.RELEASE, "proven", "controller", node=f"node-{number}", case=case)
    return fold(known, [replace(end, phase=Phase.RELEASED)])


def cycle(annotating: Annotating, clock: Clock, known: State, after: timedelta = CYCLE) -> list[str]:
    said = annotating.tell(
        Snapshot(clock.at, "lab", Mode.ENFORCE, "controller", world.fleet(20), {}, known), known, world.rules()
    )
    clock.at += after
    return said


def test_a_case_is_annotated_once_and_longer_now_and_then_and_to_its_end(desk: GrafanaDesk, clock: Clock) -> None:
    annotating, known = process(desk, clock), state(1)
    for _ in range(int(LONGER_EVERY / CYCLE)):
        assert cycle(annotating, clock, known) == []
    (region,) = desk.regions
    assert region.writes == 1, "a cycle in which nothing happened costs nothing"
    cycle(annotating, clock, known)
    assert region.writes == 2
    assert region.end == int(clock.at.timestamp() - 15) * 1000
    over = released(known, 1, clock.at)
    for _ in range(3):
        cycle(annotating, clock, over)
    assert region.writes == 3
    assert region.end == int(over.cases["c-1"].phase_since.timestamp() * 1000)
    assert "phase:released" in region.tags
    clock.at += KEPT
    asked = len(desk.asked)
    cycle(annotating, clock, over)
    assert len(desk.asked) == asked


def test_a_process_that_was_killed_makes_no_second_one(desk: GrafanaDesk, clock: Clock) -> None:
    known = state(1, 2)
    for _ in range(3):
        cycle(process(desk, clock), clock, known)
    assert [region.tags[1] for region in desk.regions] == ["case:c-1", "case:c-2"]


@pytest.mark.parametrize("fault", ["cut-after", "garbled-after", "delayed", "cut-before"])
def test_exactly_once_though_an_answer_is_lost(desk: GrafanaDesk, clock: Clock, fault: str) -> None:
    annotating, known = process(desk, clock), state(1)
    desk.faults["POST annotations"] = [fault]
    (said,) = cycle(annotating, clock, known, SETTLES - timedelta(seconds=1))
    assert said.startswith("annotating charts is put off: could not annotate case c-1 with Grafana at")
    assert cycle(annotating, clock, known) == []
    assert desk.asked[-1].method == "POST", "it rests until what was made would be found"
    desk.deliver()  # late, and well before we look
    cycle(annotating, clock, known)
    assert len(desk.regions) == 1
    assert desk.asked[-1].method == ("POST" if fault == "cut-before" else "PATCH")


def test_what_a_person_took_away_is_not_fought(desk: GrafanaDesk, clock: Clock) -> None:
    annotating, known = process(desk, clock), state(1)
    cycle(annotating, clock, known, LONGER_EVERY)
    desk.remove(1)
    for _ in range(5):
        assert cycle(annotating, clock, known, LONGER_EVERY) == []
    cycle(annotating, clock, released(known, 1, clock.at))
    assert desk.regions == []


def test_a_cycle_asks_for_a_few_and_the_next_ones_go_on(desk: GrafanaDesk, clock: Clock) -> None:
    annotating, known = process(desk, clock), state(*range(1, AT_ONCE + 6))
    cycle(annotating, clock, known)
    assert len(desk.regions) == AT_ONCE
    cycle(annotating, clock, known)
    assert len(desk.regions) == AT_ONCE + 5


def test_one_that_is_away_is_let_rest_ever_longer(desk: GrafanaDesk, clock: Clock) -> None:
    annotating, known = process(desk, clock), state(*range(1, 10))
    desk.faults["GET annotations"] = ["500"] * 1000
    said = [cycle(annotating, clock, known) for _ in range(240)]  # an hour
    assert 5 < sum(bool(one) for one in said) < 15
    assert len(desk.asked) == sum(bool(one) for one in said), "one try, and all others rest with it"
    desk.faults.clear()
    clock.at += timedelta(hours=1)
    cycle(annotating, clock, known)
    assert len(desk.regions) == 9


def test_a_token_that_may_not_is_not_tried_for_each(desk: GrafanaDesk, clock: Clock) -> None:
    annotating, known = process(desk, clock), state(*range(1, 10))
    desk.role = "Viewer"
    (said,) = cycle(annotating, clock, known)
    assert "annotations:create" in said
    assert sum(asked.method == "POST" for asked in desk.asked) == 2
    desk.role = "Editor"
    clock.at += timedelta(hours=1)
    cycle(annotating, clock, known)
    assert len(desk.regions) == 9


def test_one_that_is_refused_keeps_no_other_waiting(desk: GrafanaDesk, clock: Clock) -> None:
    annotating, known = process(desk, clock), state(1, 2, 3)
    desk.faults["POST annotations"] = ["400"]
    (said,) = cycle(annotating, clock, known)
    assert "annotating a chart is put off" in said
    assert {region.tags[1] for region in desk.regions} == {"case:c-2", "case:c-3"}
    cycle(annotating, clock, known)
    assert len(desk.regions) == 3


def test_a_slow_one_holds_no_cycle(clock: Clock) -> None:
    class Slow:
        told = 0

        def find(self, annotation: Annotation) -> None:
            assert annotation.key

        def put(self, annotation: Annotation, ref: str | None) -> str:
            clock.at += WITHIN - timedelta(seconds=1)
            self.told += 1
            return ref or annotation.key

    slow = Slow()
    annotating = Annotating(slow, clock, "lab")
    for told in (2, 4):
        cycle(annotating, clock, state(*range(1, 10)))
        assert slow.told == told


def test_who_leads_no_more_tells_nothing_more(desk: GrafanaDesk, clock: Clock) -> None:
    annotating, known = process(desk, clock), state(1, 2)
    annotating.may = lambda: not desk.regions
    cycle(annotating, clock, known)
    assert len(desk.regions) == 1


def test_who_leads_no_more_by_the_time_that_it_has_looked_makes_nothing(desk: GrafanaDesk, clock: Clock) -> None:
    annotating, known = process(desk, clock), state(1)
    annotating.may = lambda: not desk.asked
    assert cycle(annotating, clock, known) == []
    assert [asked.method for asked in desk.asked] == ["GET"]
    annotating.may = lambda: True
    cycle(annotating, clock, known)
    assert len(desk.regions) == 1


def test_who_leads_again_looks_at_what_another_made_meanwhile(desk: GrafanaDesk, clock: Clock) -> None:
    one, another, known = process(desk, clock), process(desk, clock), state(1)
    cycle(one, clock, known)
    desk.remove(1)
    cycle(one, clock, known, LONGER_EVERY)
    cycle(another, clock, known)
    cycle(one, clock, known, LONGER_EVERY)
    (region,) = desk.regions
    before = region.writes
    one.tenure = lambda: 1
    over = released(known, 1, clock.at)
    cycle(one, clock, over)
    assert region.writes == before + 1
    assert "phase:released" in region.tags, "what it had seen taken away is there again, and has ended"


def test_in_observe_mode_nothing_is_out_and_nothing_shown(desk: GrafanaDesk, clock: Clock) -> None:
    cycle(process(desk, clock), clock, world.suspected("node-3"))
    assert desk.asked == []


def test_the_settings_say_where_and_as_whom(desk: GrafanaDesk, clock: Clock, tmp_path: Path) -> None:
    assert outward.annotator(load(None, {}, {}), clock) is None
    given = {"QUARANTINE_GRAFANA__URL": desk.url}
    with pytest.raises(UsageError, match=r"needs grafana.token_file"):
        load(None, {}, given)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    settings = load(None, {}, {**given, "QUARANTINE_GRAFANA__TOKEN_FILE": str(tmp_path / "token")})
    assert TOKEN not in repr(settings)
    with open_ledger(f"sqlite:///{tmp_path}/ledger.db", "lab", now=clock.now) as book:
        _, annotates = outward.sayings(settings, book, None, None, clock)
    known = state(1)
    assert annotates(Snapshot(clock.at, "lab", Mode.ENFORCE, "c", {}, {}, known), known, world.rules()) == []
    assert len(desk.regions) == 1
    with pytest.raises(UsageError, match="GRAFANA__URL would send the token in the clear"):
        load(None, {}, {**given, "QUARANTINE_GRAFANA__URL": "http://grafana.example", "QUARANTINE_GRAFANA__TOKEN": "t"})
