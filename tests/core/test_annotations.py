"""What a chart shows of a case: from when it was taken out to its end, within what Grafana keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.annotations import KEPT, LONGEST_TAG, LONGEST_TAGS, MOST_MOMENTS, Annotation, of_cases
from quarantine.core.case import Case, Phase, Rung, Step
from quarantine.core.decision import State
from quarantine.core.state import fold
from quarantine.core.tickets import Filing
from tests.core.world import suspected
from tests.ledger.samples import NOW, quarantined

LATER = NOW + timedelta(hours=2)


def case_of(**changes: object) -> Case:
    (case,) = fold(State(), [quarantined()]).cases.values()
    return replace(case, **changes)  # type: ignore[arg-type]


def only(case: Case, at: object = LATER) -> Annotation:
    (found,) = of_cases(State(cases={case.id: case}), "lab", at)  # type: ignore[arg-type]
    return found


def test_a_machine_that_is_out_is_shown_until_now() -> None:
    found = only(case_of())
    assert (found.key, found.since, found.until) == ("c-1", NOW, LATER)
    assert found.text == "node-1 is out of service: node-1: GPU 1 is at 91.5 °C, above 78 °C for 5m"
    assert [(one.at, one.what) for one in found.moments] == [(NOW, "taken out of service")]
    assert found.tags == (
        *("quarantine", "case:c-1", "cluster:lab", "phase:quarantined"),
        *("node:node-1", "pool:gpu", "policy:gpu-hot"),
    )
    assert set(found.known_by) <= set(found.tags)


def test_one_that_is_back_is_shown_until_then_and_seen_to_for_a_day() -> None:
    back = case_of(phase=Phase.RELEASED, phase_since=NOW + timedelta(hours=1))
    found = only(back)
    assert found.until == back.phase_since
    assert found.moments[-1].what == "is back in service"
    assert "phase:released" in found.tags
    state = State(cases={back.id: back})
    assert [*of_cases(state, "lab", back.phase_since + KEPT)] == []


def test_a_machine_that_was_never_out_is_not_shown() -> None:
    assert [*of_cases(suspected("node-3"), "lab", LATER)] == []


def test_what_happened_is_told_in_its_order_with_where_to_read_on() -> None:
    url = "https://desk.example/browse/GPU-7"
    filing = Filing("GPU-7", "key", "acme", "report", NOW + timedelta(minutes=2), url=url)
    rungs = (Rung(Step.RESET, 0, NOW + timedelta(minutes=9), "gpu-reset"),)
    found = only(case_of(filings=(filing,), rungs=rungs))
    assert [(one.what, one.url) for one in found.moments] == [
        ("taken out of service", ""),
        ("ticket GPU-7 at acme: filed", url),
        ("reset: procedure gpu-reset", ""),
    ]


def test_of_many_moments_the_newest_are_told() -> None:
    rungs = tuple(Rung(Step.RESET, n, NOW + timedelta(minutes=n)) for n in range(1, 100))
    found = only(case_of(rungs=rungs))
    assert len(found.moments) == MOST_MOMENTS
    assert found.moments[-1].at == rungs[-1].at


def test_a_clock_that_was_behind_makes_no_region_that_ends_before_it_begins() -> None:
    found = only(case_of(), NOW - timedelta(seconds=5))
    assert found.since == found.until == NOW


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_tags_stay_within_what_grafana_keeps_and_the_case_is_always_found(node: str, pool: str, cluster: str) -> None:
    case = case_of(node=node, pool=pool)
    (found,) = of_cases(State(cases={case.id: case}), f"c{cluster}", LATER)
    assert len(json.dumps(found.tags, ensure_ascii=False).encode("utf-8", "surrogatepass")) <= LONGEST_TAGS
    for tag in found.tags:
        name, _, value = tag.partition(":")
        assert len(name) <= LONGEST_TAG
        assert len(value) <= LONGEST_TAG
        assert tag == tag.strip()
    assert f"case:{case.id}" in found.tags
