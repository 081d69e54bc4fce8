"""Failure cases from the field, 17 to 32; see test_failure_cases.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Action, RequestKind
from tests.e2e.situations import WIDE, Begin, hot

WRITES = {"POST", "PUT", "PATCH", "DELETE"}


def response(**words: Any) -> dict[str, Any]:
    """What gpu-hot asks for."""
    return {"gpu-hot": {"response": words}}


def gang(*nodes: int, name: str = "pretrain", **more: Any) -> dict[str, Any]:
    """A training job over these machines."""
    return {"name": name, "nodes": [f"node-{n}" for n in nodes], **more}


def test_failure_case_17_no_nvlink_is_no_nvlink_that_is_down(begin: Begin) -> None:
    now = begin(policies=["nvlink-down", "nvlink-errors"], without=['{__name__=~"DCGM_FI_DEV_NVLINK_.*"}'])
    now.minutes(25, every=timedelta(minutes=4))
    assert now.out == set()
    assert now.stage.open_cases() == {}, "what is not monitored is no fault"


def test_failure_case_18_the_monitor_is_broken_and_not_the_node(begin: Begin) -> None:
    broken = {
        "what": "one unreadable device ends the collector",
        "at": "5m",
        "series": {'node_scrape_collector_success{instance="10.0.0.1:9100"}': "0..."},
    }
    gone = {"what": "its series", "at": "5m", "silent": ['{instance="10.0.0.1:9100",device=~"mlx5.*"}']}
    now = begin(policies=["infiniband-link-down", "infiniband-link-flapping"], traps=[broken, gone])
    now.minutes(25, every=timedelta(minutes=2))
    assert now.out == set()


def test_failure_case_18_a_check_that_cannot_look_reports_no_success(begin: Begin) -> None:
    frozen = {"what": "the exporter serves its cache", "at": "16m", "frozen": ['{Hostname="node-1"}']}
    proof = response(ticket="none", release={"when": "on-proof", "probation": "10m"})
    faults = [hot(1, values="84x10m30s 60...")]
    now = begin(faults=faults, traps=[frozen], edits=proof, lasts="2h")
    now.minutes(120, every=timedelta(minutes=2))
    assert now.out == {"node-1"}, "good and frozen is no evidence"
    assert now.decided(Action.RECOVER) == []


def test_failure_case_19_one_check_that_passes_does_not_clear_anothers_failure(begin: Begin) -> None:
    memory = hot(1, gpu=3) | {"series": {'DCGM_FI_DEV_MEMORY_TEMP{UUID="GPU-1-3"}': "99..."}}
    edit = {"response": {"ticket": "none", "release": {"when": "on-proof", "probation": "10m"}}}
    edits = {"gpu-hot": edit, "gpu-memory-hot": edit}
    faults = [hot(1, values="84x10m 60..."), memory]
    now = begin(faults=faults, policies=["gpu-hot", "gpu-memory-hot"], edits=edits, lasts="2h")
    now.minutes(120, every=timedelta(minutes=2))
    case = now.case("node-1")
    assert case is not None
    assert {f.policy: f.verdict.value for f in case.findings} == {"gpu-hot": "good", "gpu-memory-hot": "bad"}
    assert now.out == {"node-1"}
    assert case.phase is Phase.QUARANTINED


def test_failure_case_20_a_node_that_is_gone_holds_no_slot_of_the_drains(begin: Begin) -> None:
    now = begin(
        faults=[hot(1), hot(2)],
        pool={**WIDE, "drain": {"machinesAtOnce": 1}},
        edits=response(drain="now"),
        gangs=[gang(1, name="first"), gang(2, name="second")],
        lasts="60m",
    )
    now.stage.api.dead_kubelets.update({"node-1", "node-2"})
    now.minutes(14)
    draining = [node for node in ("node-1", "node-2") if now.phase(node) is Phase.DRAINING]
    assert len(draining) == 1, "one at once"
    now.happens(gone=draining)
    now.minutes(20)
    [other] = {"node-1", "node-2"} - set(draining)
    assert now.phase(other) in (Phase.DRAINING, Phase.DRAINED), "the slot is free at once"


def test_failure_case_21_a_pod_that_comes_back_under_its_name_makes_no_loop(begin: Begin) -> None:
    now = begin(faults=[hot(1)], edits=response(drain="now"), lasts="90m")
    api = now.stage.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inference"}})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": True}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "inference", "ownerReferences": [owner]},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "web", "image": "registry.example.com/web:1"}],
            "tolerations": [{"operator": "Exists"}],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "web", "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}
            ],
        },
    }
    now.stage.run(pod)
    came = 0
    for minute in range(1, 80):
        now.minutes(minute)
        if not [p for p in api.list("Pod", "inference") if p["metadata"]["name"] == "web-0"]:
            came += 1
            now.stage.run(pod)
    assert 1 <= came <= 3, "it is asked again at most twice"
    assert now.held(HeldBy.DRAIN), "then people are told that it comes back"
    assert now.out == {"node-1"}


def test_failure_case_22_a_budget_that_is_lowered_below_its_use_evicts_and_releases_nobody(begin: Begin) -> None:
    now = begin(faults=[hot(1), hot(2), hot(3, at="18m")], pool=WIDE, gangs=[gang(1, 2)])
    now.minutes(13)
    assert now.out == {"node-1", "node-2"}
    file = now.stage.folder / "policies" / "fleet.yaml"
    text = file.read_text(encoding="utf-8")
    assert '"quarantined": "50%"' in text
    file.write_text(text.replace('"quarantined": "50%"', '"quarantined": 1'), encoding="utf-8")
    now.minutes(28)
    assert now.out == {"node-1", "node-2"}, "those that are out stay out, and no other follows"
    assert now.stage.evicted == 0
    assert now.held(HeldBy.BUDGET)


def test_failure_case_23_a_new_generation_has_other_devices_and_none_is_missing(begin: Begin) -> None:
    small = [f"node-{n}" for n in range(6, 11)]
    now = begin(
        policies=["gpu-lost", "infiniband-link-down", "nvlink-down"],
        nodes={name: {"gpus": 4, "labels": {"nvidia.com/gpu.count": "4"}} for name in small},
        without=[
            f'{{Hostname=~"{"|".join(small)}",gpu=~"[45]"}}',
            '{instance=~"10.0.0.(6|7|8|9|10):9100",device="mlx5_1"}',
        ],
        pool=WIDE,
        machines={"count": 10, "gpus": 6, "ports": 2, "links": 0},
        lasts="60m",
    )
    now.minutes(60, every=timedelta(minutes=5))
    assert now.out == set()
    assert now.stage.open_cases() == {}


def test_failure_case_24_no_replacement_is_asked_for_while_a_job_runs_on_the_machine(begin: Begin) -> None:
    now = begin(faults=[hot(1)], edits=response(ticket="replace"), gangs=[gang(1, 2)], lasts="60m")
    now.minutes(25)
    assert now.out == {"node-1"}
    assert now.stage.tickets() == [], "what is on it would be destroyed"
    assert now.phase("node-1") is Phase.QUARANTINED
    now.stage.api.delete("Pod", "pretrain-node-1", "training")
    now.minutes(35)
    assert len(now.stage.tickets()) == 1
    assert now.phase("node-1") is Phase.SWAP_REQUESTED


def test_failure_case_25_a_release_leaves_nothing_behind(begin: Begin) -> None:
    now = begin(faults=[hot(1)], edits=response(drain="now"), gangs=[gang(1)])
    before = now.node("node-1")
    now.minutes(15)
    assert len(now.stage.leftovers("node-1")) > 4
    now.ask(RequestKind.RELEASE, "node-1")
    now.minutes(18)
    after = now.node("node-1")
    for part in ("labels", "annotations"):
        assert after["metadata"].get(part) == before["metadata"].get(part)
    assert after["spec"] == before["spec"]
    suspect = [c for c in after["status"]["conditions"] if c["type"] == "HardwareSuspect"]
    assert all(condition["status"] == "False" for condition in suspect)
    assert now.pending == 0


def test_failure_case_26_observing_writes_nothing_at_all(begin: Begin) -> None:
    now = begin(faults=[hot(1)], edits={"gpu-hot": {"mode": "observe", "response": {"drain": "now"}}}, gangs=[gang(1)])
    now.stage.api.requests.clear()
    now.minutes(25)
    assert now.phase("node-1") is Phase.SUSPECTED
    assert [(r.method, r.path) for r in now.stage.api.requests if r.method in WRITES] == []
    assert now.stage.evicted == 0
    assert now.stage.tickets() == []


def test_failure_case_27_one_bad_file_stops_no_other(begin: Begin) -> None:
    now = begin(faults=[hot(1, at="12m")])
    now.minutes(3)
    (now.stage.folder / "policies" / "broken.yaml").write_text("kind: Policy\n\tthis: is none", encoding="utf-8")
    reports = now.minutes(22)
    assert all(report.error is None for report in reports)
    assert now.out == {"node-1"}
    assert now.held(HeldBy.BROKEN_FILE)


def test_failure_case_27_one_bad_series_ends_no_cycle(begin: Begin) -> None:
    labels = 'Hostname="node-2",UUID="\\u0000\\n\U0001f600",gpu="0",modelName="<!channel>"'
    now = begin(
        faults=[hot(1)],
        without=['{UUID="GPU-2-0"}'],
        more={
            f"DCGM_FI_DEV_GPU_TEMP{{{labels}}}": "84...",
            f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}}": "0+15000000...",
        },
        pool=WIDE,
    )
    reports = now.minutes(14)
    assert all(report.error is None for report in reports)
    assert "node-1" in now.out
    assert [d for d in now.stage.trail() if d.node == "node-2" and d.policy == "gpu-hot"], "the odd one is told too"


def test_failure_case_28_a_node_that_starts_has_its_grace(begin: Begin) -> None:
    booted = {"what": "a boot", "at": "5m", "series": {'node_boot_time_seconds{instance="10.0.0.1:9100"}': "t+5m..."}}
    now = begin(
        faults=[hot(1, values="84x12m 60...")],
        traps=[booted],
        fleet={"uptime": "node.uptime"},
        edits={"gpu-hot": {"grace": {"boot": "20m"}}},
    )
    now.minutes(25)
    assert now.out == set()
    assert now.was_held(HeldBy.GRACE)


@pytest.mark.parametrize(("count", "out"), [(2, 1), (10, 1)])
def test_failure_case_29_a_small_pool_is_neither_stranded_nor_emptied(begin: Begin, count: int, out: int) -> None:
    pool = {"budget": {"quarantined": "20%", "unavailable": "20%", "perHour": "10%"}}
    faults = [hot(1), hot(2)]
    wide = {"gpu-hot": {"breaker": {"maxShare": "50%"}}}
    now = begin(faults=faults, pool=pool, edits=wide, machines={"count": count, "gpus": 6, "ports": 1, "links": 0})
    # Machines without GPUs are no part of the pool, however many there are.
    for number in range(20):
        now.stage.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"cpu-{number}"}})
    now.minutes(20)
    assert len(now.out) == out
    assert now.held(HeldBy.BUDGET)


def test_failure_case_30_what_an_address_showed_before_is_not_its_new_nodes_fault(begin: Begin) -> None:
    flap = {
        "what": "links that go down, of the machine that had the address",
        "series": {'node_infiniband_link_downed_total{instance="10.0.0.3:9100",device="mlx5_0"}': "3x2m 4x1m 5x30s"},
    }
    gone = {"what": "nothing answers there any more", "at": "4m", "silent": ['{instance="10.0.0.3:9100"}']}
    now = begin(policies=["infiniband-link-flapping"], traps=[flap, gone], nodes={})
    now.happens(gone=["node-3"])
    now.minutes(4.5)
    # The address belongs to another machine from now on; its own exporter has not been scraped yet.
    status = {"addresses": [{"type": "InternalIP", "address": "10.0.0.3"}]}
    now.stage.api.patch_merge("Node", "node-4", {"status": status}, subresource="status")
    now.minutes(25)
    assert now.out == set()


def test_failure_case_31_somebody_is_told_of_a_machine_whose_case_does_not_end(begin: Begin) -> None:
    now = begin(faults=[hot(1, values="84x10m 60x5m")], lasts="30m")
    now.minutes(12)
    assert now.out == {"node-1"}
    now.minutes(40 * 24 * 60, every=timedelta(days=2))
    assert now.held(HeldBy.OVERDUE), "it does not stay out for ever with nobody told"
    case = now.case("node-1")
    assert case is not None
    now.ask(RequestKind.RELEASE, "node-1")
    now.minutes(41 * 24 * 60, every=timedelta(hours=12))
    assert now.out == set(), "a person's word always ends it"


def test_failure_case_32_a_budget_is_not_what_a_process_remembers(begin: Begin) -> None:
    now = begin(faults=[hot(1), hot(2)])
    now.minutes(12)
    assert len(now.out) == 1
    for _ in range(3):
        with now.another() as started:
            for _ in range(2):
                now.stage.time.at += timedelta(minutes=1)
                assert started.cycle().error is None
    assert len(now.out) == 1, "neither a restart nor a cache grants another machine"
    assert now.held(HeldBy.BUDGET)
