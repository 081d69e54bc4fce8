"""What a case says to the outside, as plain data: tickets and Slack render it, each with its own escaping."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import Case, Finding, Phase, Purpose, Run, RunOutcome, Step
from quarantine.core.decision import State
from quarantine.core.fleet import FleetSpec
from quarantine.core.model import DeviceKind, Machine, Severity
from quarantine.core.policy import Rules
from quarantine.core.providers import provider_of, spec_of
from quarantine.core.treatment import repeat, swap
from quarantine.core.units import format_number

_CATEGORY = {
    DeviceKind.GPU: "GPU",
    DeviceKind.NVLINK: "NVLink",
    DeviceKind.IB_PORT: "InfiniBand",
    DeviceKind.NODE: "node",
}
_RAN = {
    RunOutcome.RUNNING: "is still running",
    RunOutcome.SUCCEEDED: "succeeded",
    RunOutcome.FAILED: "failed",
    RunOutcome.LATE: "did not end in time",
    RunOutcome.LOST: "what became of it is not known",
}
ASKED_FOR = Severity.CRITICAL  # of a case that a person opened and no policy has found anything for


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding, told: what, where, since when, value against threshold."""

    policy: str
    why: str  # the policy's description
    device: str
    category: str
    severity: str
    since: datetime
    value: str  # with its unit; empty where a person opened the case
    threshold: str
    query: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CaseReport:
    """The request to the provider and to people. All text is raw: whoever renders it escapes it."""

    key: str  # the case id
    cluster: str
    node: str
    machine: Machine
    pool: str
    provider: str
    ask: str  # report or replace
    title: str
    reason: str
    done: str  # what the controller did already, in a sentence
    opened_at: datetime
    opened_by: str
    faults: tuple[Fault, ...]
    provider_description: str = ""  # what the fleet file says of the provider, for people
    provider_contact: str = ""  # whom to ask on our side
    channel: str = ""  # where the fleet's routes send the message; empty: to the settings' channel
    history: str = ""  # what is remembered of the machine before this case; empty: nothing
    tried: tuple[str, ...] = ()  # remedies and proofs, each with its outcome, oldest first
    evidence_output: str = ""  # where the evidence is that was taken of the machine
    assets: tuple[tuple[str, str], ...] = ()  # what the provider calls the machine: its name, serial number, rack
    swap: str = ""  # what to know of the exchange: the same machine or GPU came back, or the place is the suspect
    approval: str = ""  # who has to say that another machine may be asked for; empty: nobody is waited for
    earlier: tuple[str, ...] = ()  # tickets about the same machine from before, the oldest first


def fault(finding: Finding, rules: Rules) -> Fault:
    """A finding as the outside reads it."""
    policy = rules.policy(finding.policy)
    evidence = finding.evidence
    return Fault(
        policy=finding.policy,
        why=" ".join(policy.spec.description.split()) if policy else "",
        device=str(finding.device),
        category=_CATEGORY[finding.device.kind],
        severity=finding.severity.value,
        since=finding.since,
        value="" if evidence.value is None else f"{format_number(evidence.value)} {evidence.unit}",
        threshold=evidence.threshold,
        query=evidence.query,
        labels=tuple(sorted(evidence.labels.items())),
    )


def _done(case: Case, ask: Step) -> str:
    cordoned = {
        True: "cordoned and tainted",
        False: "tainted (a cordon on it is not ours)",
        None: "to be cordoned and tainted",
    }
    return f"{case.node} is {cordoned[case.cordoned_by_us]}: nothing new is scheduled there, and {_left(case, ask)}"


def _left(case: Case, ask: Step) -> str:
    """What became of what ran there."""
    if ask is Step.REPLACE:
        return "no training runs there any more: what is left on it may be destroyed"
    match case.phase:
        case Phase.DRAINING:
            return "what runs is being asked to leave"
        case Phase.DRAINED | Phase.REMEDY:
            return "what ran has left"
        case _:
            return "what runs was left alone"


def _title(case: Case, devices: str, ask: Step) -> str:
    if ask is Step.REPLACE:
        return f"{case.node}: please replace the machine, {devices} suspect"
    return f"{case.node}: {devices} suspect, please replace the machine"


def _tried(run: Run) -> str:
    return f"{run.purpose} by {run.procedure}, begun {run.asked_at:%Y-%m-%d %H:%M} UTC: {_RAN[run.outcome]}"


def _evidence(case: Case) -> str:
    """Where the last evidence was put; of a procedure that did not succeed, that it may not be there."""
    run = case.last_run(Purpose.EVIDENCE)
    if run is None or not run.output:
        return ""
    return run.output if run.outcome is RunOutcome.SUCCEEDED else f"{run.output} ({run.procedure}: {_RAN[run.outcome]})"


def channel(case: Case, provider: str, fleet: FleetSpec) -> str:
    """Where the first route that matches sends a case's message; empty where none does."""
    worst = max((finding.severity.rank for finding in case.findings), default=ASKED_FOR.rank)
    for route in fleet.routes:
        elsewhere = route.pool not in (None, case.pool) or route.provider not in (None, provider)
        if not elsewhere and (route.severity is None or worst >= route.severity.rank):
            return route.channel
    return ""


def _earlier(state: State | None, case: Case) -> tuple[str, ...]:
    """Tickets about this machine from before: of the cases that are remembered, and of this one."""
    before = repeat.earlier(state, case) if state is not None else []
    return tuple(filing.ref for known in (*before, case) for filing in known.filings)


def report(
    case: Case, cluster: str, rules: Rules, *, state: State | None = None, ask: Step = Step.REPORT
) -> CaseReport:
    """What is sent when a case's machine is reported, or when another one is asked for.

    `state` tells what is remembered of the machine, and what was told of its exchange. Raises ValueError where `ask` is
    nothing that a provider is asked for.
    """
    if ask not in (Step.REPORT, Step.REPLACE):
        raise ValueError(f"a provider is asked to report or to replace, not to {ask}")
    provider = provider_of(case, rules)
    known = spec_of(case, rules)
    faults = tuple(fault(f, rules) for f in case.findings)
    devices = ", ".join(dict.fromkeys(f.device for f in faults)) or "machine"
    return CaseReport(
        key=case.id,
        cluster=cluster,
        node=case.node,
        machine=case.machine,
        pool=case.pool,
        provider=provider,
        ask=ask.value,
        title=_title(case, devices, ask),
        reason=case.reason,
        done=_done(case, ask),
        opened_at=case.opened_at,
        opened_by=case.opened_by,
        faults=faults,
        provider_description=" ".join(known.description.split()) if known else "",
        provider_contact=(known.contact or "") if known else "",
        channel=channel(case, provider, rules.fleet),
        history=str(repeat.score(state, case)) if state is not None else "",
        tried=tuple(_tried(run) for run in case.runs if run.purpose is not Purpose.EVIDENCE),
        evidence_output=_evidence(case),
        swap=swap.remarks(state, case) if state is not None else "",
        earlier=_earlier(state, case),
    )
