"""Builders for the core's tests: a small fleet, policies as people write them, answers as Prometheus gives."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from quarantine.core.case import Effect, EffectState, EffectStatus
from quarantine.core.decision import Action, Decision, Kind, PendingEffect, Request, RequestKind, State
from quarantine.core.fleet import FleetSpec
from quarantine.core.marks import mark
from quarantine.core.model import (
    Answer,
    Failed,
    FailureKind,
    Machine,
    Mode,
    Node,
    PolicyAnswers,
    Sample,
    Samples,
)
from quarantine.core.planner import plan
from quarantine.core.policy import LoadedPolicy, PolicySpec, Rules
from quarantine.core.signal import SignalSpec
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import fold

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TEMP = "dcgm-exporter/DCGM_FI_DEV_GPU_TEMP"
DOWNED = "node-exporter/node_infiniband_link_downed_total"

GPU_TEMPERATURE = SignalSpec.model_validate(
    {
        "description": "temperature",
        "unit": "°C",
        "device": "gpu",
        "type": "gauge",
        "plausible": {"min": 1, "max": 129},
        "interval": "30s",
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "metrics": ["DCGM_FI_DEV_GPU_TEMP"],
                "node": {"first": ["Hostname", "hostname"]},
                "device": {"first": ["UUID", "uuid"], "index": "gpu"},
                "heartbeat": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            }
        ],
    }
)
TENSOR = SignalSpec.model_validate(
    {
        "description": "tensor activity",
        "unit": "ratio",
        "device": "gpu",
        "type": "gauge",
        "plausible": {"min": 0, "max": 1},
        "interval": "30s",
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "metrics": ["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"],
                "node": {"first": ["Hostname", "hostname"]},
                "device": {"first": ["UUID", "uuid"], "index": "gpu"},
            }
        ],
    }
)
LINK_DOWNED = SignalSpec.model_validate(
    {
        "description": "link downed",
        "unit": "events",
        "device": "ib_port",
        "type": "counter",
        "plausible": {"min": 0, "max": 255},
        "saturates": 255,
        "interval": "15s",
        "sources": [
            {
                "exporter": "node-exporter",
                "metrics": ["node_infiniband_link_downed_total"],
                "node": {"first": ["instance"], "means": "address"},
                "device": {"join": ["device", "port"]},
                "gate": 'node_scrape_collector_success{collector="infiniband"} == 1',
            }
        ],
    }
)
THROUGHPUT = SignalSpec.model_validate(
    {
        "description": "bytes received",
        "unit": "B/s",
        "device": "ib_port",
        "type": "gauge",
        "plausible": {"min": 0, "max": 1e12},
        "interval": "15s",
        "sources": [
            {
                "exporter": "node-exporter",
                "expr": "rate(node_infiniband_port_data_received_bytes_total[2m])",
                "node": {"first": ["instance"], "means": "address"},
                "device": {"join": ["device", "port"]},
            }
        ],
    }
)
NVLINK = SignalSpec.model_validate(
    {
        "description": "NVLink errors",
        "unit": "errors",
        "device": "gpu",
        "type": "counter",
        "plausible": {"min": 0, "max": 1e15},
        "interval": "30s",
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "metrics": ["NVLINK_REPLAY", "NVLINK_CRC"],
                "node": {"first": ["Hostname", "hostname"]},
                "device": {"first": ["UUID", "uuid"], "index": "gpu"},
                "heartbeat": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            }
        ],
    }
)
SIGNALS = {
    "gpu.nvlink": NVLINK,
    "gpu.temperature": GPU_TEMPERATURE,
    "gpu.tensor": TENSOR,
    "ib.downed": LINK_DOWNED,
    "ib.throughput": THROUGHPUT,
}


def policy(name: str = "gpu-hot", **changes: object) -> LoadedPolicy:
    """`gpu-hot` in enforce mode, unless `changes` (of the spec) say otherwise."""
    spec: dict[str, object] = {
        "description": "A warm GPU drags the whole collective.",
        "owner": "infrastructure",
        "severity": "critical",
        "mode": "enforce",
        "signal": "gpu.temperature",
        "trigger": {"above": 78, "for": "5m"},
        "recovery": {"below": 72, "for": "30m", "load": {"signal": "gpu.tensor", "above": 0.1}},
        "response": {"ticket": "report"},
        **changes,
    }
    text = repr(sorted(spec.items()))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return LoadedPolicy(name, PolicySpec.model_validate(spec), digest, text, "abc123", f"{name}.yaml:1")


def flapping(**changes: object) -> LoadedPolicy:
    """An events policy on InfiniBand ports."""
    fields: dict[str, object] = {
        "signal": "ib.downed",
        "trigger": {"events": 2, "within": "10m"},
        "recovery": {"for": "30m", "load": {"signal": "ib.throughput", "above": 1000}},
        **changes,
    }
    return policy("ib-flapping", **fields)


def nvlink(**changes: object) -> LoadedPolicy:
    """An events policy with two readings of the same devices."""
    fields: dict[str, object] = {
        "signal": "gpu.nvlink",
        "trigger": {"events": 10, "within": "10m"},
        "recovery": {"for": "30m", "load": {"signal": "gpu.tensor", "above": 0.1}},
        **changes,
    }
    return policy("nvlink", **fields)


def rules(*policies: LoadedPolicy, pools: Sequence[Mapping[str, object]] = (), **fleet: object) -> Rules:
    """Rules over one pool of nodes labelled gpu=yes, with generous budgets unless `pools` says otherwise."""
    budget = {"quarantined": "50%", "unavailable": "60%", "perHour": "50%"}
    default = [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget, "provider": "acme"}]
    spec = FleetSpec.model_validate({"pools": list(pools) or default, **fleet})
    return Rules(policies or (policy(),), SIGNALS, spec)


def node(name: str, **changes: object) -> Node:
    """A healthy, ready GPU node."""
    number = int(name.rsplit("-", 1)[1]) if name.rsplit("-", 1)[-1].isdigit() else 0
    base = Node(
        name=name,
        machine=Machine(f"uid-{name}", f"acme://{name}", f"sys-{name}", f"boot-{name}"),
        resource_version="7",
        labels={"gpu": "yes"},
        annotations={},
        taints=(),
        unschedulable=False,
        ready=True,
        addresses=(f"10.0.0.{number}",),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def fleet(count: int = 20) -> dict[str, Node]:
    """node-0 … node-(count-1)."""
    return {name: node(name) for name in (f"node-{n}" for n in range(count))}


def hot(node_name: str, gpu: int = 3, value: float = 84.0) -> Sample:
    """A sample of the temperature trigger's answer."""
    labels = {"Hostname": node_name, "UUID": f"GPU-{node_name}-{gpu}", "gpu": str(gpu)}
    return Sample(labels, value, NOW, query="bad(temperature)")


def seen(nodes: Mapping[str, Node], devices: int = 8, by: str = "Hostname") -> Samples:
    """A coverage answer: every node with so many devices."""
    said = {name: name if by == "Hostname" else f"{n.addresses[0]}:9100" for name, n in nodes.items()}
    return Samples(tuple(Sample({by: said[name]}, float(devices), NOW) for name in nodes), "coverage")


def answers(
    nodes: Mapping[str, Node],
    *bad: Sample,
    good: Sequence[Sample] = (),
    trigger: Answer | None = None,
    coverage: Answer | None = None,
    key: str = TEMP,
) -> PolicyAnswers:
    """What Prometheus says for one policy."""
    by = "Hostname" if key == TEMP else "instance"
    return PolicyAnswers(
        trigger={key: trigger or Samples(tuple(bad), "trigger")},
        recovery={key: Samples(tuple(good), "recovery")} if good else {},
        coverage={key: coverage or seen(nodes, by=by)},
        coverage_at=NOW,
    )


FAILED = Failed(FailureKind.UNREACHABLE, "http://prometheus:9090 refused the connection: is Prometheus up?", "q")


def snapshot(
    nodes: Mapping[str, Node] | None = None,
    *bad: Sample,
    state: State | None = None,
    mode: Mode = Mode.ENFORCE,
    now: datetime = NOW,
    requests: Sequence[Request] = (),
    given: Mapping[str, PolicyAnswers] | None = None,
    pending: Sequence[PendingEffect] = (),
) -> Snapshot:
    """A snapshot in which `gpu-hot` found `bad`, unless `given` has other answers."""
    known = fleet() if nodes is None else nodes
    said = {"gpu-hot": answers(known, *bad)} if given is None else given
    return Snapshot(
        now, "test", mode, "controller test", known, said, state or State(), tuple(requests), tuple(pending)
    )


def after(state: State, plan: Plan) -> State:
    """The state once a plan is recorded."""
    return fold(state, plan.decisions)


def carried_out(state: State, nodes: Mapping[str, Node], at: datetime = NOW) -> tuple[State, dict[str, Node]]:
    """The state and the nodes once every pending effect has been done, as an executor without trouble would."""
    changed = dict(nodes)
    for case in list(state.cases.values()):
        for effect, status in list(case.effects.items()):
            if status.status is not EffectStatus.PENDING:
                continue
            if effect is Effect.MARK and case.node in changed:
                changed[case.node] = marked(changed[case.node], state, case.id)
            by_us = True if effect is Effect.MARK else None
            outcome = Decision(at, Kind.DONE, Action.QUARANTINE, "done", "t", case=case.id, effect=effect, ref="r")
            outcome = replace(outcome, cordoned_by_us=by_us)
            state = fold(state, [outcome])
    return state, changed


def marked(before: Node, state: State, case_id: str) -> Node:
    """A node as it reads after our mark was written."""
    patch = mark(before, state.cases[case_id], prefix="quarantine.gpu", reason="r", cordon=True, phase="quarantined")
    added = {k: v for k, v in patch.annotations.items() if v is not None}
    return replace(before, taints=patch.taints or (), unschedulable=True, annotations={**before.annotations, **added})


DONE = EffectState(EffectStatus.DONE, "r")
MINUTE = timedelta(minutes=1)


def told(made: Plan) -> list[tuple[str, str | None, str | None]]:
    """The decisions at a glance: action, node, hold."""
    return [(d.action.value, d.node, d.held_by.value if d.held_by else None) for d in made.decisions]


def ask(kind: RequestKind, name: str, number: int = 1) -> Request:
    """A person's request."""
    return Request(f"r{number}", kind, name, "the provider says so", "an engineer", "cli", NOW)


def quarantined(*names: str) -> tuple[State, dict[str, Node]]:
    """These nodes (node-3, unless said otherwise) quarantined for heat, everything carried out."""
    known = fleet()
    made = plan(snapshot(known, *(hot(name) for name in names or ("node-3",))), rules())
    return carried_out(after(State(), made), known)


def suspected(*names: str) -> State:
    """These nodes (node-3, unless said otherwise) suspected for heat, in an installation that observes."""
    return after(State(), plan(snapshot(None, *(hot(n) for n in names or ("node-3",)), mode=Mode.OBSERVE), rules()))
