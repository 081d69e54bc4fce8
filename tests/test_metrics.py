"""The controller's own metrics over HTTP: what is in force, and when a cycle was last completed."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from quarantine import __version__
from quarantine.controller import CycleReport
from quarantine.core.decision import RequestKind
from quarantine.core.errors import LedgerUnavailable, QuarantineError, SchemaMismatch
from quarantine.core.law import Law
from quarantine.core.planner import plan
from quarantine.core.rulefiles import BrokenFile, InForce, PolicyRun, RuleFile
from quarantine.core.state import fold
from quarantine.health import Health
from quarantine.metrics import OUTCOMES, STAGES, OwnMetrics
from quarantine.serving import served as serving
from tests.core.world import NOW, ask, flapping, hot, policy, quarantined, rules, snapshot, suspected

HOT = RuleFile("/p/hot.yaml", "", "a" * 64, None, NOW)
ODD = RuleFile('/p/"\\\n\udcff.yaml', "", "b" * 64, None, NOW)
AT = datetime(2026, 11, 29, 12, 0, 30, tzinfo=UTC)

COUNTED = ("quarantine_cycles", "quarantine_cycle_duration", "quarantine_decisions")
Sample = tuple[str, tuple[tuple[str, str], ...]]


def law(*broken: BrokenFile, files: tuple[RuleFile, ...] = (HOT, ODD)) -> Law:
    in_force = InForce(rules(policy(), flapping(mode="observe")), files, broken)
    return Law.of(in_force, None, 3)


@contextmanager
def served(metrics: OwnMetrics, host: str, port: int) -> Iterator[int]:
    registry = CollectorRegistry()
    registry.register(metrics)
    with serving(registry, Health(timedelta(seconds=15), timedelta(minutes=1)), host, port) as given:
        yield given


def scraped(port: int) -> dict[Sample, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_what_is_in_force_and_how_the_cycles_go() -> None:
    broken = BrokenFile(HOT.file, "/p/hot.yaml:1:1: the file is empty", NOW)
    metrics = OwnMetrics(law(broken))
    with served(metrics, "127.0.0.1", 0) as port:
        found = scraped(port)
        assert {key: value for key, value in found.items() if not key[0].startswith(COUNTED)} == {
            ("quarantine_leader", ()): 0,
            ("quarantine_build_info", (("version", __version__),)): 1,
            ("quarantine_policy_file_broken", (("file", HOT.file),)): 1,
            ("quarantine_policy_file_broken", (("file", '/p/"\\\n\\udcff.yaml'),)): 0,
            ("quarantine_policy_files", ()): 2,
            ("quarantine_policies", (("mode", "observe"),)): 1,
            ("quarantine_policies", (("mode", "enforce"),)): 1,
        }
        metrics.after(CycleReport("all is well", at=AT, law=law()))
        found = scraped(port)
        assert found["quarantine_policy_file_broken", (("file", HOT.file),)] == 0
        assert found["quarantine_cycle_last_completed_timestamp_seconds", ()] == AT.timestamp()
        assert found["quarantine_ledger_writable", ()] == 1
        metrics.after(CycleReport("nothing was done", error=QuarantineError("the cluster does not answer")))
        changed = {key for key, value in scraped(port).items() if found.get(key) != value}
        assert changed == {("quarantine_cycles_total", (("outcome", "failed"),))}


@pytest.mark.parametrize("error", [LedgerUnavailable("it is down"), SchemaMismatch("it is newer")])
def test_whether_the_ledger_can_be_written(error: QuarantineError) -> None:
    metrics = OwnMetrics()
    with served(metrics, "127.0.0.1", 0) as port:
        assert ("quarantine_ledger_writable", ()) not in scraped(port)
        metrics.without_ledger()
        assert scraped(port)["quarantine_ledger_writable", ()] == 0
        metrics.begun(law())
        metrics.after(CycleReport("all is well", at=AT))
        found = scraped(port)
        assert found["quarantine_ledger_writable", ()] == 1
        metrics.after(CycleReport("nothing was done", error=error))
        after = scraped(port)
        assert after["quarantine_ledger_writable", ()] == after["quarantine_leader", ()] == 0
        assert found.keys() == after.keys(), "what is in force is told all the same"


def test_a_policy_that_is_new_counts_as_observing() -> None:
    known = {"gpu-hot": PolicyRun("0" * 64, 3)}
    metrics = OwnMetrics(Law.of(InForce(rules(policy()), ()), known, 3))
    with served(metrics, "127.0.0.1", 0) as port:
        assert scraped(port)["quarantine_policies", (("mode", "observe"),)] == 1


def test_cycles_their_stages_and_decisions_are_counted() -> None:
    metrics = OwnMetrics(interval=timedelta(seconds=15))
    seen = snapshot(None, hot("node-3"))
    made = plan(seen, rules())
    stages = dict.fromkeys(STAGES, 0.2)
    report = CycleReport(
        made.summary, AT, law(), made, snapshot=seen, state=fold(seen.state, made.decisions), seconds=stages
    )
    with served(metrics, "127.0.0.1", 0) as port:
        assert scraped(port)["quarantine_cycles_total", (("outcome", "complete"),)] == 0, "there before the first"
        metrics.after(report)
        metrics.after(replace(report, blind=("policy gpu-hot got no answer",)))
        metrics.after(CycleReport("nothing was done", error=QuarantineError("the cluster does not answer")))
        found = scraped(port)
    outcomes = {labels[0][1]: value for (name, labels), value in found.items() if name == "quarantine_cycles_total"}
    assert outcomes == dict.fromkeys(OUTCOMES, 1)
    for stage in STAGES:
        assert found["quarantine_cycle_duration_seconds_sum", (("stage", stage),)] == pytest.approx(0.4)
    decided = ("kind", "decided"), ("pool", "gpu")
    assert found["quarantine_decisions_total", (("action", "quarantine"), *decided)] == 2
    assert found["quarantine_decisions_total", (("action", "release"), *decided)] == 0, "there before the first"
    assert found["quarantine_cycle_interval_seconds", ()] == 15
    assert found["quarantine_cases", (("phase", "quarantined"), ("pool", "gpu"))] == 1, "what stood is told still"


def test_the_end_of_a_suspicion_put_no_machine_back() -> None:
    """Charts mark the other one, whose taint is gone by hand: in observe mode no machine was ever out."""
    metrics = OwnMetrics()
    asked, (out, _) = [ask(RequestKind.RELEASE, "node-3")], quarantined("node-3")
    with served(metrics, "127.0.0.1", 0) as port:
        for before, requests in ((suspected("node-3"), asked), (out, [])):
            seen = snapshot(None, state=before, requests=requests)
            made = plan(seen, rules())
            state = fold(before, made.decisions)
            metrics.after(CycleReport(made.summary, AT, law(), made, snapshot=seen, state=state))
        found = scraped(port)
    for kind in ("decided", "suspected"):
        assert found["quarantine_decisions_total", (("action", "dismiss"), ("kind", kind), ("pool", "gpu"))] == 1, kind


def test_one_that_stands_by_tells_nothing_of_the_time_when_it_led() -> None:
    metrics = OwnMetrics(law())
    seen = snapshot(None, hot("node-3"))
    metrics.after(CycleReport("all is well", at=AT, law=law(), snapshot=seen, state=seen.state))
    with served(metrics, "127.0.0.1", 0) as port:
        assert scraped(port)["quarantine_leader", ()] == 1
        metrics.standby()
        found = scraped(port)
    assert found["quarantine_leader", ()] == 0
    names = {name for name, _ in found}
    assert not names & {"quarantine_nodes", "quarantine_ledger_writable"}
    assert "quarantine_cycle_last_completed_timestamp_seconds" not in names
    assert "quarantine_policies" in names
