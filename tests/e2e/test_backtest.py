"""`quarantine policy backtest` as a user runs it, on a real Prometheus over written history."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarantine.ledger.migrate import upgrade
from quarantine.sandbox.notation import series
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write
from tests.backtest.history import COUNT, END, NODES, START, STEP, fleet, gpu

HOT = {
    "node-3": "60x100 84x260",  # from 00:50 on
    "node-5": "60x200 79x20 60x140",  # warm from 01:40 for ten minutes
    "node-7": f"77x{COUNT - 1}",  # below the threshold, all the time
}
SPAN = ("--start", START.isoformat(), "--end", END.isoformat())
LABELS = {"node": {"first": ["Hostname", "hostname"]}, "device": {"first": ["UUID", "uuid"], "index": "gpu"}}


def signal(name: str, metric: str, most: int) -> dict[str, Any]:
    source = {"exporter": "dcgm-exporter", "metrics": [metric], **LABELS}
    spec = {"description": "x", "unit": "°C", "device": "gpu", "type": "gauge", "interval": "30s", "sources": [source]}
    plausible = {"plausible": {"min": 0, "max": most}}
    return {"kind": "Signal", "metadata": {"name": name}, "spec": {**spec, **plausible}}


def policies(directory: Path, *, above: int = 78, per_hour: int = 5, name: str = "gpu-hot") -> Path:
    budget = {"quarantined": 5, "unavailable": 5, "perHour": per_hour}
    pool = {"name": "gpu", "nodeSelector": {"nvidia.com/gpu.present": "true"}, "budget": budget}
    recovery = {"below": 70, "for": "30m", "load": {"signal": "tensor", "above": 0.1}}
    spec = {
        "description": "x",
        "owner": "x",
        "severity": "critical",
        "signal": "temperature",
        "trigger": {"above": above, "for": "5m"},
        "recovery": recovery,
        "breaker": {"maxShare": "20%"},
    }
    documents = [
        {"kind": "Fleet", "metadata": {"name": "fleet"}, "spec": {"pools": [pool]}},
        signal("temperature", "DCGM_FI_DEV_GPU_TEMP", 129),
        signal("tensor", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1),
        {"kind": "Policy", "metadata": {"name": name}, "spec": spec},
    ]
    versioned = [{"apiVersion": "quarantine.gpu/v1alpha1", **document} for document in documents]
    directory.mkdir(exist_ok=True)
    (directory / "all.yaml").write_text(yaml.safe_dump_all(versioned, allow_unicode=True), encoding="utf-8")
    return directory


def kube_state() -> Iterator[Series]:
    for number in range(2):
        labels = {"node": f"node-{number}", "label_nvidia_com_gpu_present": "true" if number else "no"}
        text = f"1x{COUNT - 1}"
        yield series({"__name__": "kube_node_labels", **labels}, text, start=START, interval=STEP)


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        write(server.url, fleet(hot=HOT))
        yield server


def backtest(*args: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "quarantine", "policy", "backtest", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def data(*args: object) -> Any:
    return json.loads(backtest(*args, "--output", "json").stdout)


def test_who_would_have_been_taken_out_and_when(tmp_path: Path, prometheus: PrometheusServer) -> None:
    told = data(policies(tmp_path / "a"), "--prometheus", prometheus.url, *SPAN)
    out = [(o["node"], o["device"], o["start"], o["end"]) for o in told["outages"]]
    assert out == [
        ("node-3", "GPU-node-3-1", "2026-11-01T00:55:00Z", None),
        ("node-5", "GPU-node-5-1", "2026-11-01T01:45:00Z", None),
    ]
    assert (told["nodes"], told["gpus"], told["gaps"]) == (NODES, 4 * NODES, [])
    assert told["outages"][0]["evidence"]["value"] == 84
    assert "every machine belongs to pool gpu" in " ".join(told["assumptions"])


def test_what_a_budget_holds_is_not_out(tmp_path: Path, prometheus: PrometheusServer) -> None:
    told = data(policies(tmp_path / "a", per_hour=1), "--prometheus", prometheus.url, *SPAN)
    assert [o["node"] for o in told["outages"]] == ["node-3"]
    assert [(h["node"], h["held_by"]) for h in told["held"]] == [("node-5", "budget")]


def test_two_versions_are_compared_on_the_same_machines(tmp_path: Path, prometheus: PrometheusServer) -> None:
    picture = tmp_path / "timeline.svg"
    head, base = policies(tmp_path / "head", above=76), policies(tmp_path / "base")
    where = ("--prometheus", prometheus.url, *SPAN)
    told = data(head, "--base", base, *where, "--picture", picture)
    assert [o["node"] for o in told["difference"]["added"]] == ["node-7"]
    assert told["difference"]["spared"] == []
    assert told["difference"]["same"] == 2
    assert "node-7" in picture.read_text(encoding="utf-8")
    comment = backtest(head, "--base", base, *where, "--output", "markdown").stdout
    assert "**1 newly taken out, 0 no longer" in comment


def test_only_stdout_has_the_answer(tmp_path: Path, prometheus: PrometheusServer) -> None:
    done = backtest(policies(tmp_path / "a"), "--prometheus", prometheus.url, *SPAN)
    assert "2 of 12 machines would have been taken out" in done.stdout
    assert "100%" in done.stderr
    assert "100%" not in done.stdout


def test_labels_come_from_kube_state_metrics_where_it_is_scraped(tmp_path: Path) -> None:
    with PrometheusServer() as server:
        write(server.url, [*fleet(hot={"node-0": HOT["node-3"], "node-1": HOT["node-3"]}, nodes=6), *kube_state()])
        told = data(policies(tmp_path / "a"), "--prometheus", server.url, *SPAN)
    assert [o["node"] for o in told["outages"]] == ["node-1"]
    assert [(h["node"], h["held_by"]) for h in told["held"]] == [("node-0", "not-in-pool")]


def nodes_file(folder: Path, *names: str) -> Path:
    labels = {"nvidia.com/gpu.present": "true"}
    items = [
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels},
            "spec": {"unschedulable": True},  # today, which says nothing about then
            "status": {"capacity": {"nvidia.com/gpu": "4"}},
        }
        for name in names
    ]
    listed = folder / "nodes.json"
    listed.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    return listed


def test_machines_may_be_given(tmp_path: Path, prometheus: PrometheusServer) -> None:
    listed = nodes_file(tmp_path, "node-3", "node-99")
    told = data(policies(tmp_path / "a"), "--nodes", listed, "--prometheus", prometheus.url, *SPAN)
    assert [o["node"] for o in told["outages"]] == ["node-3"]
    assert [(h["node"], h["held_by"]) for h in told["held"]] == [("node-5", "no-such-node")]
    assert told["unseen"] == {"gpu-hot": ["node-99"]}


def test_a_time_without_data_is_no_time_of_health(tmp_path: Path, prometheus: PrometheusServer) -> None:
    listed = nodes_file(tmp_path, "node-3")
    earlier = ("--start", (START - timedelta(hours=2)).isoformat(), "--end", END.isoformat())
    done = backtest(policies(tmp_path / "a"), "--nodes", listed, "--prometheus", prometheus.url, *earlier)
    told = " ".join(done.stdout.split())
    assert "Not everything could be seen" in told
    assert "gpu-hot saw nothing from 10-31 22:00 to 11-01 00:00 UTC" in told


def test_a_machine_that_was_away_for_a_while_is_said(tmp_path: Path) -> None:
    away = {"node-2": "60x100 _x160 60x100"}
    with PrometheusServer() as server:
        gone = {"DCGM_FI_DEV_GPU_TEMP"}
        whole = [s for s in fleet(nodes=6) if s.labels["Hostname"] != "node-2" or s.labels["__name__"] not in gone]
        write(server.url, [*whole, gpu("DCGM_FI_DEV_GPU_TEMP", "node-2", 0, away["node-2"])])
        done = backtest(policies(tmp_path / "a"), "--prometheus", server.url, *SPAN)
    told = " ".join(done.stdout.split())
    assert "Not everything could be seen" in told
    assert "seen by gpu-hot for a part of the 3h 01m only: node-2 (1h" in told


def test_faults_of_the_files_are_told_as_by_the_check(tmp_path: Path, prometheus: PrometheusServer) -> None:
    done = backtest(policies(tmp_path / "a", above=780), "--prometheus", prometheus.url, *SPAN, code=1)
    assert "all.yaml:" in done.stderr


def test_where_nothing_was_seen_at_all_nothing_is_known(tmp_path: Path, prometheus: PrometheusServer) -> None:
    listed = nodes_file(tmp_path, "node-3")
    long_ago = ("--start", "2026-10-01", "--end", "2026-10-02")
    done = backtest(policies(tmp_path / "a"), "--nodes", listed, "--prometheus", prometheus.url, *long_ago, code=3)
    assert "nothing is known" in done.stderr


def test_the_trail_says_how_often_a_policy_was_right(tmp_path: Path, prometheus: PrometheusServer) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    upgrade(url)
    told = data(policies(tmp_path / "a"), "--database-url", url, "--prometheus", prometheus.url, *SPAN)
    (score,) = told["trail"]["policies"]
    assert (told["trail"]["cases"], score["unknown"], score["precision"]) == (0, 2, None)


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (("--start", "yesterday"), 2, "--start 'yesterday' is no time"),
        (("--start", "2026-11-02", "--end", "2026-11-01"), 2, "is not before --end"),
        (("--end", "2999-01-01"), 2, "is in the future"),
        (("--step", "5"), 2, "--step '5' is no duration"),
        (("--step", "1ms"), 2, "looks from 2026-11-01 to 2026-11-01 are too many"),
        (("--start", "0001-01-01"), 2, "are too many"),
        (("--picture", "/no/such/place/x.svg"), 2, "there is no directory"),
        (("--policy", "gpu-cold"), 2, "there is no such policy"),
        (("--nodes", "missing.json"), 2, "No such file"),
        (("--picture", "x.gif"), 2, "ends in .svg"),
        (("--prometheus", "http://127.0.0.1:1"), 3, "127.0.0.1:1"),
        (("--start", "2026-10-01", "--end", "2026-10-02"), 3, "no machine is known"),
    ],
)
def test_mistakes_end_in_a_sentence(
    tmp_path: Path, prometheus: PrometheusServer, args: tuple[str, ...], code: int, sentence: str
) -> None:
    done = backtest(policies(tmp_path / "a"), "--prometheus", prometheus.url, *SPAN, *args, code=code)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
