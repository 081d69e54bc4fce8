"""Alert rules and dashboards: they parse, name what is served, fire when they should, and find series."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import typer.main
import yaml
from prometheus_client import CollectorRegistry, ProcessCollector

from quarantine.cli.main import app
from quarantine.controller import CycleReport
from quarantine.core.case import Effect, EffectState, EffectStatus, HeldBy
from quarantine.core.decision import Hold, PendingEffect
from quarantine.core.errors import QuarantineError
from quarantine.core.law import Law
from quarantine.core.planner import plan
from quarantine.core.rulefiles import InForce, RuleFile
from quarantine.core.state import fold
from quarantine.metrics import STAGES, OwnMetrics
from quarantine.sandbox.prometheus import PrometheusServer, find_binary
from quarantine.sandbox.remotewrite import Series, write
from tests.core.world import FAILED, NOW, answers, flapping, hot, policy, quarantined, rules, snapshot
from tests.k8s.conftest import K8S, ROOT, Manifest, container_of, overlay, pod_of, rendered, the

TARGET = {"namespace": "quarantine-system", "pod": "quarantine-0", "instance": "10.0.0.1:9469", "job": "quarantine"}
RULES: dict[str, Any] = the(rendered("monitoring"), "PrometheusRule", "quarantine")["spec"]
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
TESTS = [ROOT / "tests/k8s" / name for name in ("rules_test.yaml", "rules_slow_test.yaml", "rules_rollout_test.yaml")]
RUNBOOKS = ROOT / "docs/runbooks"
SEVERITIES = {"critical", "warning", "info"}
# Decisions that this test does not make: their series are there, and nought.
NOT_MADE = ('action=~"evict"', 'action=~"step"', 'action=~"swap"', 'action=~"release|dismiss"')


# --- What is served ---------------------------------------------------------------------------------------------------


def served() -> Iterator[CollectorRegistry]:
    """A controller's registry after each of some cycles: a machine is out, one waits, one policy is not answered."""
    metrics, registry = OwnMetrics(interval=timedelta(seconds=15)), CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    state, nodes = quarantined("node-3")
    [case] = state.cases.values()
    given_up = replace(case, effects={**case.effects, Effect.NOTIFY: EffectState(EffectStatus.ABANDONED)})
    hold = Hold("a", HeldBy.BUDGET, "the budget is spent", NOW)
    state = replace(state, cases={case.id: given_up}, holds={"a": hold})
    file = RuleFile("/etc/quarantine/policies/gpu-hot.yaml", "", "a" * 64, None, NOW)
    law = Law.of(InForce(rules(policy(), flapping()), (file,)), None, 3)
    pending = [PendingEffect(f"{case.id}/ticket", case.id, Effect.TICKET, NOW + timedelta(minutes=57), attempts=2)]
    for number in range(1, 60):
        given = {
            "gpu-hot": answers(nodes, hot("node-3"), hot(f"node-{4 + number % 2}")),
            "ib-flapping": answers(nodes, trigger=FAILED),
        }
        seen = snapshot(nodes, state=state, given=given, pending=pending, now=NOW + timedelta(hours=1))
        made = plan(seen, law.rules)
        metrics.after(
            CycleReport(
                made.summary,
                datetime.now(UTC) - timedelta(seconds=10),  # noqa: TID251 - a real Prometheus asks for now
                law,
                made,
                snapshot=seen,
                state=fold(seen.state, made.decisions),
                seconds=dict.fromkeys(STAGES, 0.1 + number % 3),
                asked={"gpu-hot": 0.2, "ib-flapping": 5.0},
            )
        )
        if number % 10 == 0:
            metrics.after(CycleReport("nothing was done", error=QuarantineError("the cluster does not answer")))
        yield registry


@pytest.fixture(scope="module")
def history() -> dict[tuple[tuple[str, str], ...], list[tuple[datetime, float]]]:
    """What a Prometheus has of it after a quarter of an hour, by the series' labels."""
    end = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251 - as above
    found: dict[tuple[tuple[str, str], ...], list[tuple[datetime, float]]] = {}
    for number, registry in enumerate(served()):
        at = end - timedelta(seconds=15 * (58 - number))
        for family in registry.collect():
            for sample in family.samples:
                labels = {"__name__": sample.name, **TARGET, **sample.labels}
                found.setdefault(tuple(sorted(labels.items())), []).append((at, sample.value))
    return found


@pytest.fixture(scope="module")
def prometheus(history: Any) -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        write(server.url, [Series(dict(labels), samples) for labels, samples in history.items()])
        yield server


def names_in(expression: str) -> set[str]:
    """The metrics that an expression names."""
    promql_parser.parse(expression)  # raises for what is no PromQL
    return set(re.findall(r"\b(?:quarantine|process)_[a-z_]+\b", re.sub(r'"[^"]*"', "", expression)))


# --- Dashboards -------------------------------------------------------------------------------------------------------


def _made() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("dashboards", ROOT / "scripts/dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return {name: module.text(document) for name, document in module.DASHBOARDS.items()}


DASHBOARDS = {name: json.loads((K8S / "monitoring/dashboards" / name).read_text(encoding="utf-8")) for name in (
    "quarantine-fleet.json", "quarantine-controller.json",
)}  # fmt: skip


def queries() -> Iterator[tuple[str, str]]:
    for name, document in DASHBOARDS.items():
        for panel in document["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"]
        for annotation in document["annotations"]["list"]:
            if annotation["datasource"]["type"] == "prometheus":
                yield f"{name}: {annotation['name']}", annotation["expr"]


def filled(expression: str) -> str:
    """As Grafana sends it with everything chosen."""
    return expression.replace("$__rate_interval", "1m").replace("$pool", ".*").replace("$namespace", ".*")


def test_what_is_committed_is_what_the_program_writes() -> None:
    for name, text in _made().items():
        committed = (K8S / "monitoring/dashboards" / name).read_text(encoding="utf-8")
        assert committed == text, "run: python scripts/dashboards.py"


def test_they_are_in_the_config_map_that_a_sidecar_looks_for() -> None:
    found = the(rendered("monitoring"), "ConfigMap", "quarantine-dashboards")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in found["data"].items()} == DASHBOARDS


@pytest.mark.parametrize(("where", "expression"), list(queries()), ids=lambda text: text if ": " in text else "")
def test_each_query_finds_series(where: str, expression: str, prometheus: PrometheusServer) -> None:
    assert names_in(filled(expression))
    assert "$" not in filled(expression), "a variable that is not there"
    answer = prometheus.query(filled(expression))
    if any(selector in expression for selector in NOT_MADE):
        assert not answer
        answer = prometheus.query(filled(expression).removesuffix(" > 0"))
    assert answer, where


def test_each_variable_is_there_and_used() -> None:
    for document in DASHBOARDS.values():
        names = {variable["name"] for variable in document["templating"]["list"]}
        used = set(re.findall(r"\$\{?([a-z_]+)\}?", json.dumps(document["panels"]))) - {"__rate_interval"}
        assert used == names


def test_decisions_are_marked_by_what_and_where_and_each_mark_can_be_switched_off() -> None:
    for document in DASHBOARDS.values():
        marks = document["annotations"]["list"]
        assert len({mark["name"] for mark in marks}) == len(marks)
        assert all(mark["enable"] and not mark["hide"] for mark in marks)
        for mark in marks[:-1]:
            assert "by (action, pool)" in mark["expr"]
            assert set(mark["tagKeys"].split(",")) == {"action", "pool"}
            assert set(re.findall(r"{{(\w+)}}", mark["titleFormat"])) <= {"action", "pool"}
        assert marks[-1]["datasource"]["uid"] == "-- Grafana --"
        assert set(marks[-1]["target"]["tags"]) <= {"quarantine"}, "the tag of what the controller puts there"


def test_panels_do_not_lie_on_one_another() -> None:
    for document in DASHBOARDS.values():
        taken: set[tuple[int, int]] = set()
        for panel in document["panels"]:
            grid = panel["gridPos"]
            cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
            assert not taken & cells, panel["title"]
            assert all(x < 24 for x, _ in cells)
            assert panel["description"]
            taken |= cells


# --- Alert rules ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rule_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules as a plain Prometheus reads them, and their tests; `bare.yaml` without annotations."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "whole.yaml").write_text(yaml.safe_dump(RULES), encoding="utf-8")
    bare = [
        {**g, "rules": [{k: v for k, v in r.items() if k != "annotations"} for r in g["rules"]]}
        for g in RULES["groups"]
    ]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": bare}), encoding="utf-8")
    for test in TESTS:
        shutil.copy(test, folder)
    return folder


def promtool(*arguments: str, folder: Path) -> str:
    command = [str(find_binary("promtool")), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_rules_with_their_templates(rule_files: Path) -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", "whole.yaml", folder=rule_files)


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.name)
def test_they_fire_when_they_should(rule_files: Path, test: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", test.name, folder=rule_files)


def cases() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for test in TESTS:
        for group in yaml.safe_load(test.read_text(encoding="utf-8"))["tests"]:
            for case in group["alert_rule_test"]:
                yield case["alertname"], [alert["exp_labels"] for alert in case.get("exp_alerts", [])]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_is_seen_to_fire_and_not_to(alert: dict[str, Any]) -> None:
    outcomes = [labels for name, labels in cases() if name == alert["alert"]]
    fired = [one for labels in outcomes for one in labels]
    assert fired, "no test of it fires"
    assert [] in outcomes, "no test of it stays quiet"
    # A template that names a label which the expression does not have says nothing there.
    said = set(re.findall(r"\$labels\.([a-z_]+)", json.dumps(alert["annotations"])))
    assert all(said <= set(labels) for labels in fired)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_names_what_is_served_and_has_a_page(alert: dict[str, Any], history: Any) -> None:
    known = {dict(labels)["__name__"] for labels in history}
    assert names_in(alert["expr"]) <= known
    assert alert["labels"]["severity"] in SEVERITIES
    assert set(alert["annotations"]) == {"summary", "description", "runbook"}
    page = ROOT / alert["annotations"]["runbook"]
    assert page == RUNBOOKS / f"{alert['alert']}.md"
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {alert['alert']}\n")
    for part in ("**Meanwhile**", "## Look", "## Do"):
        assert part in text, part
    for held_by in re.findall(r'held_by=~?"([^"]+)"', alert["expr"]):
        assert set(held_by.split("|")) <= {reason.value for reason in HeldBy}


def test_none_fires_for_the_controller_that_was_played(prometheus: PrometheusServer) -> None:
    """But of what is wrong with it: one policy gets no answer."""
    firing = {alert["alert"] for alert in ALERTS if prometheus.query(alert["expr"])}
    assert firing == {"QuarantinePolicyBlind"}


def test_each_page_has_its_alert() -> None:
    assert {page.stem for page in RUNBOOKS.glob("Quarantine*.md")} == {alert["alert"] for alert in ALERTS}
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    for alert in ALERTS:
        assert f"[{alert['alert']}]({alert['alert']}.md)" in index


def commands() -> Iterator[tuple[str, list[str]]]:
    pages = [*RUNBOOKS.glob("*.md"), ROOT / "docs/install.md"]
    for page in pages:
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith("    ") and "quarantine " in line and (found := COMMAND.search(line)):
                yield page.name, found[1].split()


COMMAND = re.compile(r"(?:^    |-- |\()quarantine ((?:[a-z]+ ?)+)")


def test_each_command_of_the_pages_exists() -> None:
    seen = 0
    for page, words in commands():
        here: Any = typer.main.get_command(app)
        for word in words:
            if not hasattr(here, "commands"):
                break
            assert word in here.commands, f"{page}: {' '.join(words)}"
            here = here.commands[word]
            seen += 1
    assert seen > 10


def test_the_monitor_finds_the_controller() -> None:
    spec = the(rendered("monitoring"), "PodMonitor", "quarantine")["spec"]
    assert spec["selector"]["matchLabels"].items() <= pod_of(overlay("observe"))["metadata"]["labels"].items()
    [endpoint] = spec["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in container_of(overlay("observe"))["ports"]}
    manifests: tuple[Manifest, ...] = rendered("monitoring")
    assert {m["metadata"]["namespace"] for m in manifests} == {"quarantine-system"}
