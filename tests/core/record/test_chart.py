"""What a chart shows is what the trail says, for any points that were ever recorded."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.case import Effect, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Device, DeviceKind
from quarantine.core.record.chapters import Chapter, chapters
from quarantine.core.record.chart import LARGEST, MOST_MARKS, MOST_PANELS, Bound, ChartData, bounds_of, chart
from quarantine.core.record.trace import Trace
from quarantine.core.trigger import Trigger, threshold_text
from tests.core.record.lives import FOUND, GPU, Row, numbered, warming, whole
from tests.core.world import MINUTE, NOW, quarantined

CASE = "q-1"


def found(seq: int = 1, **changes: object) -> Row:
    """node-3 is taken out for its GPU; `changes` of the decision, or of its evidence."""
    evidence = {key: changes.pop(key) for key in list(changes) if key in FOUND.__slots__}
    made = Decision(
        NOW + timedelta(seconds=6),
        Kind.DECIDED,
        Action.QUARANTINE,
        "GPU 3 is hot",
        "controller 1",
        node="node-3",
        case=CASE,
        phase=Phase.QUARANTINED,
        device=GPU,
        policy="gpu-hot",
        policy_hash="abcdef0123456789",
        policy_revision="1f2e3d4",
        evidence=replace(FOUND, **evidence),  # type: ignore[arg-type]
    )
    return seq, replace(made, **changes)  # type: ignore[arg-type]


def drawn(*rows: Row, case: str = CASE) -> ChartData:
    made = chart("node-3", rows, case)
    assert made is not None
    return made


def one_case(rows: list[Row]) -> Chapter:
    (chapter,) = (c for c in chapters(rows).chapters if c.case is not None)
    return chapter


# --- A whole case -----------------------------------------------------------------------------------------------------


def test_a_whole_case() -> None:
    rows = whole(warming())
    case = next(d.case for _, d in rows if d.case)
    made = chart("node-3", rows, case)
    assert made is not None
    (panel,) = made.panels
    assert made.title == "taken out 2026-11-29 12:00 UTC"
    assert made.measured == "found → taken out: 5m, from 2026-11-29 11:55:00 to 2026-11-29 12:00:00 UTC"
    times = one_case(rows).times
    assert times is not None
    assert (times.found_at, times.out_at) == (NOW - 5 * MINUTE, NOW), "which the report calls found → taken out"
    assert panel.title == "GPU 3 (GPU-node-3-3) · gpu.temperature · policy gpu-hot"
    assert panel.said == "84 °C at 2026-11-29 12:00:00 UTC; bad is above 78 °C for 5m, 10% tolerated"
    assert panel.bounds == (Bound(78.0, above=True),)
    assert panel.since == NOW - 5 * MINUTE
    assert panel.tie.startswith(f"decision #{rows[0][0]} · policy gpu-hot ")
    assert panel.tie.endswith(", revision abc123")
    told = [re.sub(r"(ticket|for:) [-A-Z0-9a-z]+$", r"\1 …", mark.text) for mark in made.marks]
    wanted = ["found bad", "quarantined", "cordoned and tainted", "ticket …", "drained", "replacement wanted"]
    wanted += ["replacement asked for: …", "swapped", "probation begins", "released", "marks taken off"]
    assert [text for text in wanted if text not in told] == []
    assert [told.index(text) for text in wanted] == sorted(told.index(text) for text in wanted)
    assert [mark.number for mark in made.marks if made.left_out == 0] == list(range(1, len(told) + 1))


def test_other_cases_and_other_nodes_are_not_in_it() -> None:
    other = found(2, case="q-2", reason="another case")
    stranger = found(3, node="node-4", case=None)
    assert drawn(found(), other, stranger) == drawn(found())
    assert chart("node-3", [stranger], "") is None
    assert chart("node-3", [], CASE) is None


def gated(seq: int = 1) -> Row:
    made = Decision(
        NOW,
        Kind.DECIDED,
        Action.PROVE,
        "node-3 is new",
        "controller 1",
        node="node-3",
        case=CASE,
        phase=Phase.PROBATION,
        gate=True,
    )
    return seq, made


def test_a_machine_at_the_gate_is_out_though_nothing_was_found() -> None:
    made = drawn(gated())
    assert (made.title, made.reason) == ("held at the gate since 2026-11-29 12:00 UTC", "node-3 is new")
    assert made.measured == ""


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (NOW, "6s, from 2026-11-29 12:00:00 "),
        (NOW - 90 * MINUTE, "1h30m6s, from 2026-11-29 10:30:00 "),
        (NOW + timedelta(seconds=5.9), "1s, from 2026-11-29 12:00:05 "),
        (NOW + timedelta(seconds=6), ""),
        (NOW + MINUTE, ""),  # by a clock that is ahead
    ],
)
def test_how_long_it_was_seen_bad_before(at: datetime, said: str) -> None:
    made = drawn(found(at=at, trace=None))
    assert made.measured == (said and f"found → taken out: {said}to 2026-11-29 12:00:06 UTC")


def test_what_was_found_without_a_case() -> None:
    held = found(kind=Kind.HELD, held_by=HeldBy.IGNORED, case=None, phase=None, reason="node-3 is left alone")
    made = drawn(held, case="")
    assert made.title == "not taken out"
    assert made.reason == "node-3 is left alone"
    assert [mark.text for mark in made.marks] == ["found bad", "held by ignored"]
    assert len(made.panels) == 1


def test_a_persons_case_has_words_and_no_panel() -> None:
    asked = found(evidence=None, policy=None, device=None, actor="an engineer (cli)", reason="its riser is bad")
    made = drawn(asked)
    assert (made.panels, made.reason) == ((), "its riser is bad")
    assert [mark.text for mark in made.marks] == ["quarantined by an engineer (cli)"]


def test_a_taint_without_a_cordon_of_ours_is_told_so() -> None:
    done = Decision(NOW + MINUTE, Kind.DONE, Action.QUARANTINE, "done", "c", case=CASE, effect=Effect.MARK)
    assert drawn(found(), (2, replace(done, cordoned_by_us=False))).marks[-1].text == "tainted"


# --- Findings ---------------------------------------------------------------------------------------------------------


def devices(count: int) -> list[Row]:
    gpus = [Device(DeviceKind.GPU, f"GPU-{n}", str(n)) for n in range(count)]
    return [
        found(n + 1, device=gpu, action=Action.JOIN if n else Action.QUARANTINE, phase=None if n else Phase.QUARANTINED)
        for n, gpu in enumerate(gpus)
    ]


@pytest.mark.parametrize(("count", "panels", "more"), [(1, 1, 0), (4, 4, 0), (5, 4, 1), (9, 4, 5)])
def test_each_finding_has_a_panel_up_to_four(count: int, panels: int, more: int) -> None:
    made = drawn(*devices(count))
    assert (len(made.panels), made.more) == (panels, more)
    assert len(made.panels) <= MOST_PANELS
    assert made.panels[0].seq == 1, "what it was taken out for comes first"


def test_the_decision_with_points_and_that_was_carried_out_is_drawn() -> None:
    held = found(1, kind=Kind.HELD, held_by=HeldBy.SETTLING, phase=Phase.SUSPECTED, trace=warming())
    assert drawn(held, found(2)).panels[0].seq == 1, "it has the points"
    assert drawn(held, found(2, trace=warming())).panels[0].seq == 2, "both have: what was carried out"
    assert drawn(replace_trace(held), found(2)).panels[0].seq == 2
    assert len(drawn(held, found(2)).panels) == 1


def replace_trace(row: Row) -> Row:
    seq, decision = row
    assert decision.evidence is not None
    return seq, replace(decision, evidence=replace(decision.evidence, trace=None))


# --- Points -----------------------------------------------------------------------------------------------------------


def test_without_a_series_the_value_stands_alone_against_the_threshold() -> None:
    (panel,) = drawn(found()).panels
    assert (panel.value, panel.bounds, panel.runs) == (84.0, (Bound(78.0, above=True),), ())
    assert panel.note == "no series was kept with this decision: its value alone is shown"
    assert panel.start < panel.at < panel.end


def test_why_there_are_no_points_is_said() -> None:
    (panel,) = drawn(found(trace=Trace("q", note="Prometheus did not answer"), value=None)).panels
    assert panel.note == "Prometheus did not answer"
    assert panel.values == (78.0,)


def test_what_was_not_seen_is_not_drawn() -> None:
    points = tuple((NOW + MINUTE * n, 80.0) for n in (-9, -8, -7, -3, -2, -1, 0))
    (panel,) = drawn(found(trace=Trace("q", points, raw=True, bound=78.0))).panels
    assert [len(run) for run in panel.runs] == [3, 4]


def test_a_range_has_both_its_ends() -> None:
    threshold = threshold_text(Trigger.model_validate({"outside": {"min": 190, "max": 250}, "for": "5m"}), "W")
    trace = Trace("q", ((NOW, 300.0),), bound=250.0)
    (panel,) = drawn(found(threshold=threshold, trace=trace)).panels
    assert panel.bounds == (Bound(190.0, above=False), Bound(250.0, above=True))


def test_as_many_events_as_are_needed_are_bad_already() -> None:
    threshold = threshold_text(Trigger.model_validate({"events": 10, "within": "10m"}), "errors")
    (panel,) = drawn(found(threshold=threshold, trace=Trace("q", ((NOW, 10.0),), bound=10.0), value=10.0)).panels
    (bound,) = panel.bounds
    assert bound.is_beyond(10.0)
    assert not Bound(10.0, above=True).is_beyond(10.0)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)


@given(NUMBERS, st.sampled_from(["above", "below", "aboveSiblings"]), st.text(max_size=5))
def test_the_number_is_read_out_of_any_threshold(number: float, form: str, unit: str) -> None:
    text = threshold_text(Trigger.model_validate({form: number, "for": "5m"}), unit)
    (bound,) = bounds_of(text)
    assert bound.value == pytest.approx(number, rel=1e-5, abs=1e-300)
    assert bound.above is (form != "below")


@pytest.mark.parametrize("text", ["", "absent for 5m", "3 GPUs fewer than 8", "above", "above x °C", "above 1e999 W "])
def test_words_without_a_number_have_no_bound(text: str) -> None:
    assert bounds_of(text) == ()


MOMENTS = st.integers(-(10**8), 10**8).map(lambda seconds: NOW + timedelta(seconds=seconds))
VALUES = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e12, -1e12, 1e308, 5e-324])
TRACES = st.builds(
    Trace,
    query=st.just("q"),
    points=st.lists(st.tuples(MOMENTS, VALUES), max_size=40).map(tuple),
    raw=st.booleans(),
    bound=st.none() | VALUES,
    above=st.booleans(),
    since=st.none() | MOMENTS,
    note=st.text(max_size=20),
)


@given(st.none() | TRACES, st.none() | VALUES, MOMENTS)
def test_any_series_can_be_drawn(trace: Trace | None, value: float | None, at: datetime) -> None:
    (panel,) = drawn(found(trace=trace, value=value, at=at)).panels
    assert panel.start < panel.end
    assert panel.start <= panel.at <= panel.end
    assert all(math.isfinite(v) and abs(v) <= LARGEST for v in panel.values)
    shown = [point for run in panel.runs for point in run]
    assert shown == sorted(shown, key=lambda point: point[0])
    assert all(panel.start <= moment <= panel.end for moment, _ in shown)
    recorded = trace.points if trace is not None else ()
    assert set(shown) <= set(recorded)
    assert {at for at, _ in shown} == {at for at, v in recorded if math.isfinite(v) and abs(v) <= LARGEST}
    assert panel.since is None or panel.since < panel.at
    assert panel.note


# --- Marks ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 40))
def test_of_many_marks_the_first_and_the_last_are_kept_under_their_numbers(count: int) -> None:
    put_back = [
        (
            n,
            Decision(
                NOW + n * MINUTE, Kind.DONE, Action.TICKET, "", "c", case=CASE, effect=Effect.TICKET, ref=f"T-{n}"
            ),
        )
        for n in range(2, count + 2)
    ]
    made = drawn(found(), *put_back)
    total = count + 2  # found, and quarantined
    assert len(made.marks) + made.left_out == total
    assert len(made.marks) <= MOST_MARKS + 1
    assert made.marks[0].number == 1
    assert made.marks[-1].number == total
    assert made.left_out != 1, "its place would be taken by the words for it"


def test_marks_of_soon_after_are_within_the_picture_and_later_ones_are_not() -> None:
    rows = numbered([d for _, d in whole()], warming())
    case = next(d.case for _, d in rows if d.case)
    (panel,) = drawn(*rows, case=case).panels
    assert NOW <= panel.end <= NOW + 10 * MINUTE


def test_todays_state_has_no_part_in_it() -> None:
    state, _ = quarantined("node-3")
    assert all(f.evidence.trace is None for case in state.cases.values() for f in case.findings)
