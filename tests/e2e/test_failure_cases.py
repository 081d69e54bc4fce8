"""Failure cases from the field, 1 to 16, as situations: the numbers are those that the project's issue list uses.

Each drives the real controller with its real adapters, in simulated time: a real Prometheus, the emulated API server.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from quarantine.core.case import Effect, EffectStatus, HeldBy, Phase
from quarantine.core.decision import Action, RequestKind
from quarantine.core.errors import Superseded
from quarantine.sandbox.kubeapi.faults import Fault
from tests.e2e.situations import Begin, hot

ALL = {"budget": {"quarantined": "100%", "unavailable": "100%", "perHour": "100%"}}


def no_patch(method: str, _: str) -> Fault | None:
    """No node can be written."""
    return Fault(status=500) if method == "PATCH" else None


def no_write(method: str, _: str) -> Fault | None:
    """Nothing can be written."""
    return None if method == "GET" else Fault(status=503)


GANG = [{"name": "pretrain", "nodes": ["node-1", "node-2"]}]


def test_failure_case_01_a_person_uncordons_before_the_drain_starts(begin: Begin) -> None:
    response = {"drain": {"when": "when-idle", "deadline": "10m", "then": "now"}}
    now = begin(faults=[hot(1)], gangs=GANG, edits={"gpu-hot": {"response": response}})
    now.minutes(12)
    assert now.out == {"node-1"}
    now.happens(uncordons=["node-1"])
    now.minutes(28)
    assert now.held(HeldBy.UNCORDONED), "people are asked"
    assert now.stage.evicted == 0, "the drain whose deadline passed did not begin"
    assert now.out == {"node-1"}, "the taint is the truth, and nobody took it away"
    assert not now.node("node-1")["spec"].get("unschedulable"), "and nobody cordons it against a person's word"


def test_failure_case_02_a_cordon_that_was_there_before_stays(begin: Begin) -> None:
    now = begin(faults=[hot(1)], nodes={"node-1": {"unschedulable": True}})
    now.minutes(12)
    assert now.out == {"node-1"}
    now.ask(RequestKind.RELEASE, "node-1")
    now.minutes(14)
    assert now.out == set()
    assert now.stage.leftovers("node-1") == ["unschedulable"], "somebody else's cordon, and nothing of ours"


def test_failure_case_03_another_writer_rewrites_the_taints_and_ours_is_gone(begin: Begin) -> None:
    now = begin(faults=[hot(1)])
    now.minutes(12)
    assert now.out == {"node-1"}
    for minute in range(13, 22):
        now.happens(untaints={"node-1": "node-labeller"})
        now.minutes(minute)
    put_back = len(now.decided(Action.REMARK, "node-1"))
    assert 1 <= put_back <= 3, "a few times, and then no more"
    assert now.held(HeldBy.REWRITTEN), "people are told who does it"
    case = now.case("node-1")
    assert case is not None, "no person said that the machine is sound"
    assert case.phase is Phase.QUARANTINED


def test_failure_case_03_what_a_person_takes_away_is_a_word(begin: Begin) -> None:
    now = begin(faults=[hot(1)])
    now.minutes(12)
    now.happens(untaints={"node-1": "kubectl-taint"})
    now.minutes(28)
    assert now.out == set(), "it is never fought"
    assert now.case("node-1") is None or now.phase("node-1") is Phase.SUSPECTED
    assert now.decided(Action.DISMISS, "node-1")


def test_failure_case_04_the_node_is_deleted_in_the_middle_of_a_case(begin: Begin) -> None:
    now = begin(faults=[hot(1)], edits={"gpu-hot": {"response": {"ticket": "none"}}})
    now.stage.api.fault = no_patch
    now.minutes(12)
    assert now.pending > 0, "the mark could not be set"
    now.happens(gone=["node-1"])
    now.stage.api.fault = None
    now.minutes(30)
    assert now.held(HeldBy.GONE), "a machine that is mended may come back: it is waited for, and that is told"
    reports = now.minutes(8 * 60, every=timedelta(minutes=20))
    assert now.case("node-1") is None, "and not for ever"
    assert now.pending == 0, "nothing is stranded"
    assert all(not report.executed.postponed for report in reports[-3:] if report.executed), "nothing is tried again"


@pytest.mark.parametrize("marked", [True, False])
def test_failure_case_04_the_node_is_deleted_when_its_provider_is_told(begin: Begin, *, marked: bool) -> None:
    now = begin(faults=[hot(1)])
    now.stage.api.fault = None if marked else no_patch  # and the ticket waits for the mark
    now.minutes(12)
    now.happens(gone=["node-1"])
    now.stage.api.fault = None
    now.minutes(30)
    assert now.held(HeldBy.GONE), "another machine may come under its name"
    now.minutes(9 * 24 * 60, every=timedelta(hours=12))
    assert now.case("node-1") is None
    assert now.pending == 0
    assert len(now.stage.tickets()) == int(marked), "what never was out of service is reported to nobody"


def test_failure_case_05_every_node_fails_at_once(begin: Begin) -> None:
    everywhere = {"what": "hot everywhere", "at": "5m", "series": {"DCGM_FI_DEV_GPU_TEMP": "84..."}}
    now = begin(traps=[everywhere], pool=ALL)
    now.minutes(25)
    assert now.out == set(), "the policy is held, and not the fleet emptied"
    assert now.held(HeldBy.BREAKER)


def test_failure_case_06_held_findings_do_not_go_out_all_at_once(begin: Begin) -> None:
    pool = {"budget": {"quarantined": "100%", "unavailable": "100%", "perHour": "40%"}}
    machines = {"count": 20, "gpus": 4, "ports": 1, "links": 0}
    now = begin(faults=[hot(n) for n in range(1, 7)], pool=pool, machines=machines, lasts="60m")
    now.ask(RequestKind.PAUSE, scope="all", lasts="20m")
    now.minutes(19)
    assert now.out == set(), "a person said that nothing is to be done"
    out = []
    for minute in range(20, 50):
        now.minutes(minute)
        out.append(len(now.out))
    assert out[-1] == 6, "they are judged afresh, and go out"
    assert max(after - before for before, after in pairwise([0, *out])) <= 2, "in a trickle: a quarter of the pace"
    assert out[9] < 6, "and not all within ten minutes"
    assert now.was_held(HeldBy.TRICKLE)


def test_failure_case_07_a_tripped_breaker_blocks_no_release_and_a_restart_grants_nothing(begin: Begin) -> None:
    later = {"what": "hot everywhere", "at": "15m", "series": {"DCGM_FI_DEV_GPU_TEMP": "84..."}}
    now = begin(faults=[hot(1)], traps=[later], pool=ALL)
    now.minutes(12)
    assert now.out == {"node-1"}
    now.minutes(23)
    assert now.held(HeldBy.BREAKER)
    now.ask(RequestKind.RELEASE, "node-1")
    now.minutes(25)
    assert now.out == set(), "the release went through"
    with now.another() as started:
        for _ in range(3):
            now.stage.time.at += timedelta(minutes=1)
            assert started.cycle().error is None
    assert now.out == set(), "a fresh process counts as the old one did"


def test_failure_case_08_a_restart_replays_nothing(begin: Begin) -> None:
    now = begin(faults=[hot(1, values="84x10m 60...")], lasts="40m")
    now.minutes(12)
    now.ask(RequestKind.RELEASE, "node-1")
    now.minutes(20)
    before = [d for d in now.stage.trail() if d.case is not None]
    for _ in range(3):
        with now.another() as started:
            now.stage.time.at += timedelta(minutes=1)
            assert started.cycle().error is None
    assert [d for d in now.stage.trail() if d.case is not None] == before, "what has ended stays ended"
    assert len(now.stage.tickets()) == 1
    assert now.out == set()


def test_failure_case_09_a_late_end_of_an_earlier_case_does_not_touch_the_next_one(begin: Begin) -> None:
    now = begin(lasts="40m")
    now.ask(RequestKind.OPEN, "node-1")
    now.minutes(2)
    [first] = now.cases("node-1")
    assert now.out == {"node-1"}
    # The end of the first case cannot be carried out, and a second one is opened meanwhile.
    now.stage.api.fault = no_patch
    now.ask(RequestKind.RELEASE, "node-1")
    now.minutes(4)
    now.ask(RequestKind.OPEN, "node-1")
    now.minutes(6)
    now.stage.api.fault = None
    now.minutes(20)
    [taint] = [t for t in now.node("node-1")["spec"]["taints"] if t["key"] == "quarantine.gpu/suspect"]
    second = now.case("node-1")
    assert second is not None
    assert taint["value"] == second.id != first.id, "the mark is the second case's, and stays"
    assert now.node("node-1")["metadata"]["annotations"]["quarantine.gpu/case"] == second.id


def test_failure_case_10_two_faults_in_one_instant_lose_nothing(begin: Begin) -> None:
    memory = hot(1, gpu=3) | {"series": {'DCGM_FI_DEV_MEMORY_TEMP{UUID="GPU-1-3"}': "99..."}}
    now = begin(faults=[hot(1), memory], policies=["gpu-hot", "gpu-memory-hot"])
    now.stage.api.patch_merge("Node", "node-1", {"spec": {"taints": [{"key": "other.io/x", "effect": "NoSchedule"}]}})
    now.minutes(12)
    case = now.case("node-1")
    assert case is not None
    assert {finding.policy for finding in case.findings} == {"gpu-hot", "gpu-memory-hot"}
    assert len(now.cases("node-1")) == 1, "they are of one machine, and so of one case"
    keys = [taint["key"] for taint in now.node("node-1")["spec"]["taints"]]
    assert sorted(keys) == ["other.io/x", "quarantine.gpu/suspect"]


def test_failure_case_11_a_transient_error_of_the_api_drops_no_decision(begin: Begin) -> None:
    now = begin(faults=[hot(1)])
    now.stage.api.fault = no_write
    now.minutes(15)
    assert now.out == set()
    assert now.phase("node-1") is Phase.QUARANTINED, "decided, and recorded"
    now.stage.api.fault = None
    now.minutes(25)
    assert now.out == {"node-1"}
    assert now.pending == 0


def test_failure_case_12_two_at_the_same_time_file_no_duplicates(begin: Begin) -> None:
    now = begin(faults=[hot(1)])
    now.minutes(10)
    with now.another() as second, now.another() as third:
        superseded = 0
        for minute in range(11, 18):
            now.stage.time.at = now.stage.start + timedelta(minutes=minute)
            for one in (now.stage.controller, second, third):
                try:
                    one.cycle()
                except Superseded:
                    superseded += 1
        assert superseded > 0, "only the last one to come writes"
    assert now.out == {"node-1"}
    assert len(now.stage.tickets()) == 1
    assert len(now.cases("node-1")) == 1


def test_failure_case_13_a_fault_after_a_repair_is_not_stranded(begin: Begin) -> None:
    now = begin(faults=[hot(1, values="84x8m 60x10m 84...")], lasts="60m")
    now.minutes(12)
    assert len(now.stage.tickets()) == 1
    now.ask(RequestKind.REPAIRED, "node-1")
    now.minutes(15)
    assert now.phase("node-1") is Phase.PROBATION
    assert now.out == {"node-1"}, "until it has proven itself"
    now.minutes(35)
    assert now.phase("node-1") is Phase.QUARANTINED, "the fault is back, while the old request is still open"
    assert now.out == {"node-1"}
    case = now.case("node-1")
    assert case is not None
    assert case.effects[Effect.TICKET].status is EffectStatus.DONE


def test_failure_case_14_the_exporter_dies_and_the_node_is_not_released(begin: Begin) -> None:
    proof = {"gpu-hot": {"response": {"ticket": "none", "release": {"when": "on-proof", "probation": "10m"}}}}
    dead = {"what": "a dead exporter", "at": "15m", "silent": ['{Hostname="node-1"}']}
    now = begin(faults=[hot(1)], traps=[dead], edits=proof, lasts="2h")
    now.minutes(120, every=timedelta(minutes=2))
    assert now.out == {"node-1"}
    assert now.decided(Action.RECOVER) == []
    assert now.decided(Action.RELEASE) == []


def test_failure_case_15_service_discovery_drops_all_targets(begin: Begin) -> None:
    proof = {"gpu-hot": {"response": {"ticket": "none", "release": {"when": "on-proof", "probation": "10m"}}}}
    nothing = {"what": "no targets", "at": "15m", "silent": ['{__name__=~".+"}']}
    now = begin(faults=[hot(1)], traps=[nothing], edits=proof, lasts="2h", pool=ALL)
    now.minutes(120, every=timedelta(minutes=2))
    assert now.out == {"node-1"}, "neither released nor joined by others"
    assert now.decided(Action.RECOVER) == []
    assert now.was_held(HeldBy.NO_COVERAGE) or now.was_held(HeldBy.BREAKER), "it is told that nothing is seen"


def blank(gpu: str, value: str) -> dict[str, Any]:
    """A GPU whose temperatures read this."""
    return {"what": value, "at": "5m", "series": {f'{{__name__=~"DCGM_FI_DEV_.*TEMP",UUID="{gpu}"}}': f"{value}..."}}


def test_failure_case_16_sentinels_and_garbage_quarantine_nobody(begin: Begin) -> None:
    values = ["345", "82505", "9223372036854775794", "2147483632", "140737488355328", "0"]
    blanks = [blank(f"GPU-{n}-0", value) for n, value in enumerate(values, start=1)]
    now = begin(traps=blanks, pool=ALL, policies=["gpu-hot", "gpu-memory-hot", "gpu-warmer-than-siblings"])
    now.minutes(25, every=timedelta(minutes=2))
    assert now.out == set()
    assert now.stage.open_cases() == {}
