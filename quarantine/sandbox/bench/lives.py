"""Decisions as the controller takes them of machines that fail: what benchmarks of the ledger write.

A machine is found hot, taken out, drained, reported, and put back once it is repaired. Texts are as long as those that
the demo leaves in its ledger (queries as they are sent, labels of the source, forty points of the signal), and a life
is about as many decisions as in the scenarios.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, count, islice

from quarantine.core.case import Effect, Evidence, HeldBy, Phase
from quarantine.core.decision import Action, BudgetState, Decision, Kind
from quarantine.core.model import Device, DeviceKind, Machine, Severity, Verdict
from quarantine.core.record.trace import Trace

START = datetime(2026, 1, 1, tzinfo=UTC)
ACTOR = "controller 0.1.0"
GPUS = 8
POINTS = 40  # of a trace
_AGO = timedelta(seconds=15)
_BY = "Hostname, hostname, UUID, uuid"
_HOT = (
    "(quantile_over_time(0.1, (max by ({by}) (last_over_time(DCGM_FI_DEV_GPU_TEMP{{{labels}}}[2m]) > 0 < 150))"
    "[5m:30s]) > 78) and on ({by}) (count_over_time((max by ({by}) (last_over_time(DCGM_FI_DEV_GPU_TEMP{{{labels}}}"
    "[2m]) > 0 < 150))[5m:30s]) >= 8)"
)
_SIGNAL = "max by ({by}) (last_over_time(DCGM_FI_DEV_GPU_TEMP{{{labels}}}[2m]) > 0 < 150)"


def lives(of: str, first: int = 0) -> Iterator[Decision]:
    """Without an end, one machine after the other; `of` makes the names of one cluster its own."""
    return chain.from_iterable(life(of, number) for number in count(first))


def life(of: str, number: int, *, traced: bool = True) -> Sequence[Decision]:
    """All that is decided of a machine, from the finding to the release."""
    at = START + number * timedelta(minutes=7)
    taken = out(of, number, at, traced=traced)
    hours = timedelta(hours=1)
    held = _about(taken, at + hours, Action.DRAIN, "a disruption budget keeps a pod on it", effects=())
    key = f"drain/{taken.case}"
    steps = [
        taken,
        _about(taken, at, Action.TICKET, "reported to the provider", effects=(Effect.TICKET,)),
        _about(taken, at, Action.NOTIFY, "told in the channel of its owners", effects=(Effect.NOTIFY,)),
        _about(taken, at + _AGO, Action.IDENTIFY, "its hardware is known", machine=_machine(of, number, gpus=True)),
        *_done(taken, at + _AGO, Effect.MARK, Effect.EVENT, Effect.CONDITION, Effect.TICKET, Effect.NOTIFY),
        _about(taken, at + _AGO, Action.DRAIN, "its pods leave", phase=Phase.DRAINING, effects=(Effect.PHASE,)),
        *_done(taken, at + 2 * _AGO, Effect.PHASE),
        replace(held, kind=Kind.HELD, held_by=HeldBy.DRAIN, hold_key=key),
        replace(held, at=at + 2 * hours, phase=Phase.DRAINED, effects=(Effect.PHASE,), hold_key=key),
        *_done(taken, at + 2 * hours, Effect.PHASE),
        _recovered(taken, at + 30 * hours),
        _about(
            taken,
            at + 31 * hours,
            Action.RELEASE,
            "put back in service: the provider replaced the GPU",
            phase=Phase.RELEASED,
            effects=(Effect.UNMARK, Effect.NOTIFY, Effect.CLOSE, Effect.CONDITION),
        ),
        *_done(taken, at + 31 * hours, Effect.UNMARK, Effect.NOTIFY, Effect.CLOSE, Effect.CONDITION),
    ]
    return tuple(steps)


def taken_out(of: str, first: int, many: int) -> list[Decision]:
    """As many machines at once, in one cycle: the worst that a budget without a limit lets happen."""
    return [out(of, number, START) for number in islice(count(first), many)]


def out(of: str, number: int, at: datetime, *, traced: bool = True) -> Decision:
    """A machine is taken out: opens its case."""
    node = f"gpu-node-{number:05}"
    device = Device(DeviceKind.GPU, f"GPU-{_uuid(of, number, 'gpu', number % GPUS)}", index=str(number % GPUS))
    return Decision(
        at=at,
        kind=Kind.DECIDED,
        action=Action.QUARANTINE,
        reason=f"GPU {device.index} ({device.name}) on {node} is above 78 °C for 5m, 10 % tolerated (91.5 °C)",
        actor=ACTOR,
        node=node,
        machine=_machine(of, number, gpus=False),
        case=f"q-{_hex(of, number, 'case')[:10]}",
        phase=Phase.QUARANTINED,
        device=device,
        policy="gpu-hot",
        policy_hash=_hex("gpu-hot"),
        policy_revision=_hex("revision")[:40],
        severity=Severity.CRITICAL,
        verdict=Verdict.BAD,
        hold_key=f"case/q-{_hex(of, number, 'case')[:10]}",
        evidence=_evidence(device, node, at, traced=traced),
        budget=BudgetState("gpu", 1000, 3, 5, 1, 50, 100, 20),
        effects=(Effect.MARK, Effect.EVENT, Effect.CONDITION),
        pool="gpu",
        provider="the-provider",
    )


def _evidence(device: Device, node: str, at: datetime, *, traced: bool) -> Evidence:
    labels = f'Hostname="{node}",hostname="",UUID="{device.name}",uuid=""'
    points = tuple((at - (POINTS - n) * _AGO, 62.0 + n % 7 + (n > POINTS // 2) * 22.0) for n in range(POINTS))
    query = _SIGNAL.format(by=_BY, labels=labels)
    trace = Trace(query, points, raw=False, bound=78.0, since=at - timedelta(minutes=5))
    return Evidence(
        query=_HOT.format(by=_BY, labels=labels),
        value=91.5,
        unit="°C",
        threshold="above 78 °C for 5m, 10 % tolerated",
        at=at,
        signal="gpu.temperature",
        source="dcgm-exporter/DCGM_FI_DEV_GPU_TEMP",
        labels={
            "DCGM_FI_DRIVER_VERSION": "570.172.08",
            "Hostname": node,
            "UUID": device.name,
            "device": f"nvidia{device.index}",
            "exported_container": "pytorch",
            "exported_namespace": "training",
            "exported_pod": "pretrain-vv56b-worker-5",
            "gpu": device.index,
            "instance": "10.20.0.14:9400",
            "job": "dcgm-exporter",
            "modelName": "NVIDIA H100 80GB HBM3",
            "namespace": "gpu-operator",
            "pci_bus_id": "00000000:AB:00.0",
            "pod": "nvidia-dcgm-exporter-grff2",
        },
        covered=8000,
        offenders=1,
        trace=trace if traced else None,
    )


def _about(
    taken: Decision,
    at: datetime,
    action: Action,
    said: str,
    *,
    effects: tuple[Effect, ...] = (),
    phase: Phase | None = None,
    machine: Machine | None = None,
) -> Decision:
    return Decision(
        at=at,
        kind=Kind.DECIDED,
        action=action,
        reason=f"{taken.node}: {said}",
        actor=ACTOR,
        node=taken.node,
        machine=machine or taken.machine,
        case=taken.case,
        phase=phase,
        effects=effects,
        pool=taken.pool,
        provider=taken.provider,
    )


def _done(taken: Decision, at: datetime, *effects: Effect) -> list[Decision]:
    return [
        Decision(
            at=at,
            kind=Kind.DONE,
            action=Action.QUARANTINE,
            reason=f"the effect {effect} is done for {taken.node}",
            actor=ACTOR,
            node=taken.node,
            machine=taken.machine,
            case=taken.case,
            effect=effect,
            ref=f"{effect}-{taken.case}",
            cordoned_by_us=True if effect is Effect.MARK else None,
            pool=taken.pool,
            provider=taken.provider,
        )
        for effect in effects
    ]


def _recovered(taken: Decision, at: datetime) -> Decision:
    assert taken.device is not None  # noqa: S101
    return Decision(
        at=at,
        kind=Kind.DECIDED,
        action=Action.RECOVER,
        reason=f"{taken.node}: GPU {taken.device.index} is below 72 °C for 30m, under load",
        actor=ACTOR,
        node=taken.node,
        machine=taken.machine,
        case=taken.case,
        device=taken.device,
        policy=taken.policy,
        policy_hash=taken.policy_hash,
        verdict=Verdict.GOOD,
        evidence=_evidence(taken.device, taken.node or "", at, traced=False),
        pool=taken.pool,
        provider=taken.provider,
    )


def _machine(of: str, number: int, *, gpus: bool) -> Machine:
    return Machine(
        node_uid=_uuid(of, number, "node"),
        provider_id=f"provider://zone-a/m-{_hex(of, number, 'machine')[:16]}",
        system_uuid=_uuid(of, number, "system"),
        boot_id=_uuid(of, number, "boot"),
        gpus=tuple(f"GPU-{_uuid(of, number, 'gpu', index)}" for index in range(GPUS)) if gpus else (),
    )


def _uuid(*of: object) -> str:
    text = _hex(*of)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def _hex(*of: object) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()
