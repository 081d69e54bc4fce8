"""What a cycle saw, as gauges: by hand for one of each, and by the state for any."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from quarantine.controller import CycleReport
from quarantine.core.case import Effect
from quarantine.core.decision import PendingEffect, Word, WordKind
from quarantine.core.errors import ClusterUnavailable
from quarantine.core.law import Law
from quarantine.core.model import Mode, Sample, Samples
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.rulefiles import InForce
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.gauges import gauges
from tests.core.world import FAILED, NOW, answers, flapping, fleet, hot, policy, quarantined, rules, snapshot

Labels = tuple[str, ...]


def report(seen: Snapshot, by: Rules | None = None) -> CycleReport:
    """Of a cycle that saw this, and recorded what it planned."""
    law = Law.of(InForce(by or rules(), ()), None, 3)
    made = plan(seen, law.rules)
    state = fold(seen.state, made.decisions)
    return CycleReport(made.summary, seen.now, law, made, snapshot=seen, state=state, asked={"gpu-hot": 0.25})


def of(told: CycleReport, name: str) -> dict[Labels, float]:
    """The values of one gauge, by its labels' values in their order."""
    [family] = [family for family in gauges(told) if family.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_what_is_out_and_what_the_budget_still_allows() -> None:
    state, nodes = quarantined("node-3", "node-4")
    told = report(snapshot(nodes, hot("node-3"), hot("node-4"), state=state))
    assert of(told, "quarantine_cases")["quarantined", "gpu"] == 2
    assert of(told, "quarantine_cases")["draining", "gpu"] == 0, "a phase without a case is 0, and not missing"
    assert ("released", "gpu") not in of(told, "quarantine_cases"), "an ended case is none"
    assert of(told, "quarantine_findings") == {("gpu-hot", "bad"): 2}
    assert of(told, "quarantine_pool_machines") == {("gpu",): 20}
    assert of(told, "quarantine_pool_quarantined") == {("gpu",): 2}
    assert of(told, "quarantine_pool_out") == {("gpu",): 2}
    assert of(told, "quarantine_pool_budget_left") == {
        ("gpu", "quarantined"): 8,
        ("gpu", "unavailable"): 10,
        ("gpu", "per_hour"): 8,
    }
    assert of(told, "quarantine_case_actions")["mark", "done"] == 2
    assert of(told, "quarantine_case_actions")["mark", "pending"] == 0
    assert of(told, "quarantine_nodes") == {(): 20}


def test_how_long_cases_have_stood() -> None:
    state, nodes = quarantined("node-3")
    later = report(snapshot(nodes, hot("node-3"), state=state, now=NOW + timedelta(hours=2)))
    assert of(later, "quarantine_case_phase_oldest_seconds")[("quarantined",)] == 7200
    assert of(later, "quarantine_case_phase_oldest_seconds")[("probation",)] == 0
    back = report(snapshot(nodes, hot("node-3"), state=state, now=NOW - timedelta(hours=2)))
    assert of(back, "quarantine_case_phase_oldest_seconds")[("quarantined",)] == 0, "a clock that was set back"


def test_holds_by_what_they_wait_for() -> None:
    told = report(snapshot(None, hot("node-3"), mode=Mode.OBSERVE))
    held = of(told, "quarantine_holds")
    assert sum(held.values()) == len(told.state.holds if told.state else ()) == held["observe-mode",] == 1
    assert held["budget",] == 0
    assert of(told, "quarantine_mode_info") == {("observe",): 1, ("enforce",): 0}


def test_what_was_asked_and_answered() -> None:
    nodes = fleet()
    both = {
        "gpu-hot": answers(nodes, hot("node-3"), good=[hot("node-4")]),
        "ib-flapping": answers(nodes, trigger=FAILED),
    }
    told = report(snapshot(nodes, given=both), rules(policy(), flapping()))
    assert of(told, "quarantine_policy_answered") == {("gpu-hot",): 1, ("ib-flapping",): 0}
    assert of(told, "quarantine_policy_failed") == {("ib-flapping", "unreachable"): 1}
    assert of(told, "quarantine_policy_query_duration_seconds") == {("gpu-hot",): 0.25}
    verdicts = of(told, "quarantine_policy_verdicts")
    assert (verdicts["gpu-hot", "bad"], verdicts["gpu-hot", "good"]) == (1, 1)
    assert ("ib-flapping", "bad") not in verdicts, "not answered is not zero"
    assert of(told, "quarantine_signal_nodes") == {("gpu.temperature", "dcgm-exporter"): 20}
    assert of(told, "quarantine_signal_devices") == {("gpu.temperature", "dcgm-exporter"): 160}


def test_a_signal_that_is_not_answered_has_no_coverage() -> None:
    unseen = {"gpu-hot": answers(fleet(), coverage=FAILED)}
    assert of(report(snapshot(given=unseen)), "quarantine_signal_nodes") == {}


def test_what_waits_to_be_done_and_for_whom() -> None:
    waits = [
        PendingEffect("q-1/notify", "q-1", Effect.NOTIFY, NOW - timedelta(minutes=5), attempts=4),
        PendingEffect("q-2/notify", "q-2", Effect.NOTIFY, NOW - timedelta(minutes=1)),
    ]
    told = report(snapshot(pending=waits))
    assert of(told, "quarantine_outbox") == {("notify",): 2}
    assert of(told, "quarantine_outbox_oldest_seconds") == {(): 300}
    assert of(told, "quarantine_outbox_attempts") == {(): 4}
    empty = report(snapshot())
    assert of(empty, "quarantine_outbox_oldest_seconds") == {(): 0}
    assert of(empty, "quarantine_requests") == {(): 0}


def test_people_s_words() -> None:
    seen = snapshot()
    word = Word("pause/all", WordKind.PAUSE, "all", "an engineer", "a test", NOW)
    paused = replace(seen, state=replace(seen.state, words={word.key: word}))
    assert of(report(paused), "quarantine_words") == {("pause",): 1, ("maintenance",): 0}


def test_of_a_cycle_that_ended_early_nothing_is_said() -> None:
    assert list(gauges(CycleReport("nothing was done", error=ClusterUnavailable("it is down")))) == []


@given(st.sets(st.integers(0, 19), max_size=12), st.sampled_from(Mode))
def test_the_cases_add_up_and_no_label_names_a_machine(numbers: set[int], mode: Mode) -> None:
    told = report(snapshot(None, *(hot(f"node-{n}") for n in numbers), mode=mode))
    assert told.state is not None
    assert sum(of(told, "quarantine_cases").values()) == sum(case.open for case in told.state.cases.values())
    assert all(left >= 0 for left in of(told, "quarantine_pool_budget_left").values())
    for family in gauges(told):
        for sample in family.samples:
            assert not any("node-" in value and value != "node-exporter" for value in sample.labels.values())


def test_what_is_no_count_is_not_shown_and_hinders_nothing() -> None:
    nodes = fleet()
    garbage = Samples(tuple(Sample({"Hostname": name}, float("nan"), NOW) for name in nodes), "cover")
    told = report(snapshot(nodes, given={"gpu-hot": answers(nodes, hot("node-3"), coverage=garbage)}))
    assert set(of(told, "quarantine_signal_nodes").values()) == {0}
    assert set(of(told, "quarantine_signal_devices").values()) == {0}
