"""On a real Prometheus: what passes, what fails and how that is told, and that no test sees another's series."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from quarantine.core.errors import Unavailable
from quarantine.core.model import Verdict
from quarantine.policytest import report
from quarantine.policytest.expectations import timeline
from quarantine.policytest.loading import load
from quarantine.policytest.runner import APART, Outcome, run, stretches
from tests.policytest.conftest import Write

HOT = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1-0"}: '


def outcomes(path: Path) -> dict[str, Outcome]:
    tests = [test for file in load([path]) for test in file.tests]
    return {outcome.test.case.name: outcome for outcome in run(tests)}


def test_the_sample_passes_in_every_situation(sample: Path) -> None:
    found = run([test for file in load([sample]) for test in file.tests])
    assert len(found) == 19
    assert [(outcome.test.case.name, outcome.problems) for outcome in found if not outcome.passed] == []


FAILING = {
    "verdict": ("60x10m 84...", "verdicts: {12m: bad}", ["at 12m GPU-1-0 of node-1 was unknown, not bad"]),
    "good": ("60...", "verdicts: {12m: good}", ["at 12m GPU-1-0 of node-1 was unknown, not good"]),
    "other device": (
        "60...",
        "others: [{node: node-2, device: GPU-2-3, verdicts: {5m: bad}}]",
        ["at 5m GPU-2-3 of node-2 was unknown, not bad"],
    ),
    "phase": ("60...", "phases: {12m: quarantined}", ["at 12m the case of node-1 was none, not quarantined"]),
    "no decision": (
        "60...",
        "lasts: 10m\n      decisions: [{action: quarantine}]",
        ["no quarantine of node-1 was decided"],
    ),
    "late": (
        "60x10m 84...",
        "lasts: 20m\n      decisions: [{action: quarantine, after: 5m, by: 12m}]",
        ["no quarantine of node-1 was decided after 5m by 12m, but at 14m"],
    ),
    "early": (
        "60x10m 84...",
        "decisions: [{action: quarantine, after: 15m, by: 20m}]",
        ["no quarantine of node-1 was decided after 15m by 20m, but at 14m"],
    ),
    "held": (
        "84...",
        "nodes: {node-1: {labels: {quarantine.gpu/ignore: 'true'}}}\n      decisions: [{action: quarantine, by: 10m}]",
        ["no quarantine of node-1 was decided by 10m; it was held by ignored at 3m30s"],
    ),
    "not held": (
        "60...",
        "decisions: [{held: budget, by: 10m}]",
        ["no decision of node-1 held by budget was decided by 10m"],
    ),
    "unexpected": (
        "84...",
        "lasts: 10m\n      decisions: []",
        [
            "quarantine of node-1 was decided at 3m30s, and no decision of the test expects it: GPU 0 (GPU-1-0) on "
            "node-1 is above 78 °C for 5m, 10% tolerated (84 °C now)"
        ],
    ),
    "unexpected for the verdict alone": (
        "84...",
        "verdicts: {5m: bad}",
        ["quarantine of node-1 was decided at 3m30s, and no decision of the test expects it"],
    ),
    "never": (
        "84x5m 60...",
        "lasts: 30m\n      decisions: [{action: quarantine}]\n      never: [recover]",
        ["recover of node-1 was decided at 15m, and never should be: GPU 0 (GPU-1-0) on node-1 is good again"],
    ),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All of FAILING, run on one Prometheus."""
    sample = Path(__file__).parent / "sample"
    directory = tmp_path_factory.mktemp("failing")
    for name in ("fleet.yaml", "policies.yaml"):
        (directory / name).write_text((sample / name).read_text(encoding="utf-8"), encoding="utf-8")
    background = (sample / "hot_test.yaml").read_text(encoding="utf-8").partition("  tests:\n")[0]
    tests = "".join(
        f"    - name: {name}\n      series:\n        {HOT}{values}\n      {expects}\n"
        for name, (values, expects, _) in FAILING.items()
    )
    (directory / "hot_test.yaml").write_text(f"{background}  tests:\n{tests}", encoding="utf-8")
    return outcomes(directory)


@pytest.mark.parametrize("name", FAILING)
def test_a_failure_says_what_was_otherwise(failed: dict[str, Outcome], name: str) -> None:
    wanted = FAILING[name][2]
    found = failed[name].problems
    assert len(found) == len(wanted), found
    assert all(problem.startswith(start) for problem, start in zip(found, wanted, strict=True)), found


def test_a_failure_shows_the_verdicts_the_decisions_and_what_the_trigger_saw(failed: dict[str, Outcome]) -> None:
    evidence = failed["verdict"].evidence
    assert evidence[0] == "GPU-1-0 of node-1: unknown from 0s"
    assert evidence[1] == "nothing was decided"
    assert evidence[2].startswith("at 12m policy hot saw GPU-1-0 above 78 °C in ")
    assert evidence[3].startswith("is it bad, by dcgm-exporter/DCGM_FI_DEV_GPU_TEMP: ")
    assert 'cluster="here"' in evidence[3]

    evidence = failed["never"].evidence
    assert evidence[0] == "GPU-1-0 of node-1: unknown from 0s, bad from 3m30s, unknown from 5m, good from 15m"
    assert evidence[1].startswith("3m30s quarantine of node-1: ")
    assert any(line.startswith("15m recover of node-1: ") for line in evidence)


def test_a_device_that_is_not_there_is_said_to_be_so(written: Write) -> None:
    path = written("    - name: x\n      device: GPU-9\n      verdicts: {5m: bad}\n")
    evidence = outcomes(path)["x"].evidence
    assert "at 5m policy hot saw no series of it" in evidence


def test_a_question_that_prometheus_refuses_fails_the_test(written: Write, sample: Path) -> None:
    policies = sample / "policies.yaml"
    once, twice = (f'last_over_time({name}{{cluster="here"}}[1m])' for name in ("once", "twice"))
    gate = f"      gate: {once} * on (Hostname) {twice}\n"
    text = policies.read_text(encoding="utf-8").replace(
        "      heartbeat: DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION\n", gate, 1
    )
    policies.write_text(text, encoding="utf-8")
    path = written(
        "    - name: x\n      verdicts: {5m: unknown}\n      more:\n"
        '        once{Hostname="node-1"}: 1...\n'
        '        twice{Hostname="node-1",a="1"}: 1...\n        twice{Hostname="node-1",a="2"}: 1...\n'
    )
    (problem,) = outcomes(path)["x"].problems
    assert problem.startswith("at ")
    assert "a question was not answered" in problem
    assert "many-to-many" in problem or "duplicate series" in problem


def test_no_query_of_a_test_reaches_another(written: Write, sample: Path) -> None:
    """A policy that counts whatever was there within a day, from anywhere: each test sees its own series alone."""
    policies = sample / "policies.yaml"
    extra = """---
apiVersion: quarantine.gpu/v1alpha1
kind: Policy
metadata: {name: whatever}
spec:
  description: Anything within a day.
  owner: on call
  severity: warning
  query:
    expr: |
      count by (Hostname) (last_over_time(any{cluster="here"}[1d]))
      + 0 * count by (Hostname) (last_over_time(any{cluster="here"}[1m]))
    unit: series
    device: node
    plausible: {min: 0, max: 100}
    interval: 30s
    node: {first: [Hostname]}
  trigger: {above: 1, for: 1m}
  breaker: {maxShare: 100%}
"""
    policies.write_text(policies.read_text(encoding="utf-8") + extra, encoding="utf-8")
    path = written("")
    tests = "".join(
        f'    - name: {i}th\n      more:\n        any{{Hostname="node-1",i="{i}"}}: 1...\n'
        "      verdicts: {10m: unknown}\n"
        for i in range(4)
    )
    tests += (
        "    - name: both\n      more:\n"
        '        any{Hostname="node-1",i="1"}: 1...\n        any{Hostname="node-1",i="2"}: 1...\n'
        "      verdicts: {10m: bad}\n      decisions: [{action: quarantine}]\n"
    )
    path.write_text(
        "apiVersion: quarantine.gpu/v1alpha1\nkind: PolicyTest\nmetadata: {name: whatever}\n"
        f"spec:\n  policy: whatever\n  tests:\n{tests}",
        encoding="utf-8",
    )
    assert {name: outcome.problems for name, outcome in outcomes(path).items() if not outcome.passed} == {}


def test_tests_are_further_apart_than_anything_looks_back(sample: Path) -> None:
    tests = [test for file in load([sample]) for test in file.tests]
    begins = list(stretches(tests))
    for (test, start), (_, following) in pairwise(begins):
        assert following - (start + test.case.length) >= APART
    assert all(start.timestamp() % test.history.interval.total_seconds() == 0 for test, start in begins)


def test_progress_is_told_in_order(sample: Path) -> None:
    tests = [test for file in load([sample / "flapping_test.yaml"]) for test in file.tests]
    told: list[Outcome] = []
    assert run(tests, progress=told.append) == told
    assert [outcome.test.case.name for outcome in told] == [test.case.name for test in tests]


def test_without_a_prometheus(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARANTINE_SANDBOX_PROMETHEUS", str(sample / "nowhere"))
    with pytest.raises(Unavailable, match=r"the tests need a Prometheus: .*nowhere"):
        run([])


def test_a_timeline_tells_changes_only() -> None:
    minute = timedelta(minutes=1)
    verdicts: Sequence[Verdict] = [Verdict.UNKNOWN, Verdict.BAD, Verdict.BAD, Verdict.UNKNOWN]
    told = timeline({n * minute: found for n, found in enumerate(verdicts)})
    assert told == "unknown from 0s, bad from 1m, unknown from 3m"


def test_the_report_names_the_place_of_each_failure(failed: dict[str, Outcome]) -> None:
    lines = list(report.of_file(list(failed.values())))
    first = failed["verdict"]
    assert lines[0].startswith(f"{first.test.file}: {len(FAILING)} of {len(FAILING)} tests failed (")
    assert lines[1] == f"{first.test.file}:{first.test.line}: verdict: at 12m GPU-1-0 of node-1 was unknown, not bad"
    assert lines[2] == "    GPU-1-0 of node-1: unknown from 0s"
