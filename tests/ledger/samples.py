"""Builders shared by the ledger's tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quarantine.core.case import Effect, Evidence, HeldBy, Phase
from quarantine.core.decision import Action, BudgetState, Decision, Kind, Request, RequestKind, Word, WordKind
from quarantine.core.model import Device, DeviceKind, Machine, Severity, Verdict
from quarantine.core.policy import LoadedPolicy, PolicySpec

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
CLUSTER = "training-a"
ALL_EFFECTS = (Effect.MARK, Effect.EVENT, Effect.TICKET, Effect.NOTIFY)


def now() -> datetime:
    """The tests' clock stands still."""
    return NOW


def device(number: int = 0) -> Device:
    return Device(DeviceKind.GPU, f"GPU-{number:08x}", index=str(number % 8))


def evidence(value: float | None = 91.5, query: str = "max_over_time(x[5m]) > 78") -> Evidence:
    return Evidence(
        query=query,
        value=value,
        unit="°C",
        threshold="above 78 °C for 5m, 10% tolerated",
        at=NOW,
        labels={"Hostname": "node-1", "UUID": "GPU-1", "gpu": "1"},
        covered=8000,
        offenders=1,
    )


def quarantined(number: int = 1, *, at: datetime = NOW, effects: tuple[Effect, ...] = ALL_EFFECTS) -> Decision:
    """A machine is taken out: opens its case."""
    return Decision(
        at=at,
        kind=Kind.DECIDED,
        action=Action.QUARANTINE,
        reason=f"node-{number}: GPU {number % 8} is at 91.5 °C, above 78 °C for 5m",
        actor="controller 0.1.0",
        node=f"node-{number}",
        machine=Machine(f"uid-{number}", f"provider://{number}", f"system-{number}", f"boot-{number}"),
        case=f"c-{number}",
        phase=Phase.QUARANTINED,
        device=device(number),
        policy="gpu-hot",
        policy_hash="ab" * 32,
        policy_revision="1234567",
        severity=Severity.CRITICAL,
        verdict=Verdict.BAD,
        evidence=evidence(),
        budget=BudgetState("gpu", 1000, 3, 5, 1, 50, 100, 20),
        effects=effects,
        pool="gpu",
    )


def outcome(
    effect: Effect, number: int = 1, *, ref: str = "", kind: Kind = Kind.DONE, by_us: bool | None = None
) -> Decision:
    """A side effect was carried out, or given up."""
    return Decision(
        at=NOW + SECOND,
        kind=kind,
        action=Action.QUARANTINE,
        reason=f"{effect} of node-{number}",
        actor="controller 0.1.0",
        node=f"node-{number}",
        case=f"c-{number}",
        effect=effect,
        ref=ref,
        cordoned_by_us=by_us,
    )


def ended(number: int = 1, *, at: datetime = NOW + 2 * SECOND, request: str | None = None) -> Decision:
    """A person releases the machine."""
    return Decision(
        at=at,
        kind=Kind.DECIDED,
        action=Action.RELEASE,
        reason="repaired",
        actor="a person (cli)",
        node=f"node-{number}",
        case=f"c-{number}",
        phase=Phase.RELEASED,
        effects=(Effect.UNMARK,),
        request=request,
    )


def dismissed(number: int = 1, *, until: datetime = NOW + timedelta(days=7)) -> Decision:
    """A person put the node back."""
    return Decision(
        at=NOW + SECOND,
        kind=Kind.DECIDED,
        action=Action.DISMISS,
        reason="no fault found",
        actor="a person (kubectl)",
        node=f"node-{number}",
        case=f"c-{number}",
        phase=Phase.DISMISSED,
        until=until,
    )


def held(key: str, by: HeldBy | None = HeldBy.BUDGET) -> Decision:
    """A hold; without `by`, its end."""
    return Decision(
        at=NOW,
        kind=Kind.HELD if by else Kind.DECIDED,
        action=Action.JUDGE,
        reason=f"{key} is held" if by else f"{key} is judged again",
        actor="controller 0.1.0",
        held_by=by,
        hold_key=key,
    )


def waived(number: int = 1, *, until: datetime = NOW + timedelta(hours=4), case: str | None = None) -> Decision:
    """A person keeps the machine in service, whatever case it has."""
    return Decision(
        at=NOW,
        kind=Kind.DECIDED,
        action=Action.WAIVE,
        reason="a person keeps it in service: the run ends tonight",
        actor="a person (cli)",
        node=f"node-{number}",
        machine=Machine(f"uid-{number}", f"provider://{number}", f"system-{number}", f"boot-{number}"),
        case=case,
        phase=Phase.RELEASED if case is not None else None,
        effects=(Effect.UNMARK,) if case is not None else (),
        until=until,
    )


def paused(scope: str, *, at: datetime = NOW, until: datetime | None = None) -> Decision:
    """A person says that nothing new is done."""
    word = Word(f"pause/{scope}", WordKind.PAUSE, scope, "a person (cli)", "a roll-out", at, until)
    return Decision(at, Kind.DECIDED, Action.PAUSE, f"{scope} is paused", "a person (cli)", word=word, until=until)


def resumed(scope: str, *, at: datetime = NOW) -> Decision:
    """And that it is again."""
    reason = f"{scope} goes on"
    return Decision(at, Kind.DECIDED, Action.RESUME, reason, "a person (cli)", unword=f"pause/{scope}")


def request(number: int = 1, *, node: str = "node-1", reason: str = "it was repaired") -> Request:
    return Request(f"r-{number}", RequestKind.RELEASE, node, reason, "a person", "cli", NOW + number * SECOND)


def policy(name: str = "gpu-hot", text: str = "kind: Policy\n", revision: str | None = "1234567") -> LoadedPolicy:
    spec = PolicySpec.model_validate(
        {
            "description": "hot",
            "owner": "infra",
            "severity": "critical",
            "signal": "gpu.temperature",
            "trigger": {"above": 78, "for": "5m"},
            "recovery": {"below": 72, "for": "30m", "load": {"signal": "gpu.load", "above": 0.1}},
        }
    )
    return LoadedPolicy(name, spec, f"hash-of-{text}", text, revision, "gpu-hot.yaml:1")
