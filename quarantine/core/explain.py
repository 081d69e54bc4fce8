"""The trail of a node, told in sentences, each tied to its evidence. Needs no Prometheus (invariant 13)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from quarantine.core.case import Case, Evidence, Phase, Proof, Purpose, Run, RunOutcome
from quarantine.core.decision import Decision, Kind, State
from quarantine.core.model import Verdict
from quarantine.core.reasons import disagreement
from quarantine.core.record.trace import Trace
from quarantine.core.signs import in_utc
from quarantine.core.state import MOST_PUT_BACK
from quarantine.core.units import format_number


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing that happened. `evidence` lines are for the reader who wants to check."""

    at: datetime
    seq: int
    text: str
    evidence: tuple[str, ...]


QUERY = "query "  # begins the line of evidence that is PromQL as it was sent

_STANDING = {
    Phase.SUSPECTED: "is suspected and in service",
    Phase.QUARANTINED: "is quarantined",
    Phase.DRAINING: "is being drained",
    Phase.DRAINED: "is drained",
    Phase.REMEDY: "is being repaired",
    Phase.SWAP_REQUESTED: "waits for its replacement",
    Phase.SWAPPED: "was replaced",
    Phase.PROBATION: "is on probation",
}

PROCEDURES = {
    Purpose.EVIDENCE: "the taking of evidence",
    Purpose.RESET: "the reset",
    Purpose.REBOOT: "the reboot",
    Purpose.BURN_IN: "the burn-in",
}
_BECAME = {
    RunOutcome.RUNNING: "runs",
    RunOutcome.SUCCEEDED: "succeeded",
    RunOutcome.FAILED: "failed",
    RunOutcome.LATE: "had not ended in time",
    RunOutcome.LOST: "is not known to have ended",
}


def standing(node: str, state: State) -> str:
    """Where a node stands now, in one sentence; what else holds it, `holding.held` says."""
    case = state.open_case_of(node)
    if case is not None:
        held = f", held back by {case.held_by}" if case.held_by else ""
        when = f"{case.phase_since:%Y-%m-%d %H:%M:%S} UTC"
        now = "".join(f"; {said}" for said in treatment(case))
        return f"{node} {_STANDING[case.phase]} since {when} in case {case.id}{held}{now}"
    ended = sorted((c for c in state.cases.values() if c.node == node), key=lambda c: c.phase_since)
    if ended:
        return f"{node} is in service; its last case, {ended[-1].id}, was {ended[-1].phase}"
    return f"nothing is held against {node}"


def treatment(case: Case) -> list[str]:
    """What is done about a machine that is out, and was tried: phrases, the present first."""
    said = []
    if case.gate:
        said.append("it is new in its pool")
    if (run := case.run) is not None:
        begun = f", begun at {in_utc(run.started_at)}" if run.started_at is not None else ""
        said.append(f"{PROCEDURES[run.purpose]} by {run.procedure} runs until {in_utc(run.until)} at the latest{begun}")
    if case.phase is Phase.PROBATION:
        said.append(_probation(case.proving))
    if case.phase is Phase.DRAINING and case.leaving:
        pods = {pod for leaving in case.leaving for pod in leaving.pods}
        number = f"{len(pods)} pod{'' if len(pods) == 1 else 's'}"
        said.append(f"{number} asked to leave so far, the last at {in_utc(case.leaving[-1].at)}")
    if case.rungs:
        said.append("tried: " + ", then ".join(f"{rung.step} ({in_utc(rung.at)})" for rung in case.rungs))
    said += [f"{PROCEDURES[r.purpose]} by {r.procedure} {_BECAME[r.outcome]}" for r in case.runs if r is not run]
    if case.sent_away is not None:
        said.append("another machine, or part, is in the place of the one that was taken out")
    if case.put_back:
        times = "once" if len(case.put_back) == 1 else f"{len(case.put_back)} times"
        more = "at least " if len(case.put_back) >= MOST_PUT_BACK else ""
        said.append(f"its taint was put back {more}{times}")
    return said


def _probation(proof: Proof) -> str:
    match proof.verdict:
        case Verdict.GOOD:
            return f"its quiet counts since {in_utc(proof.since)}"
        case Verdict.BAD:
            return f"it is found bad since {in_utc(proof.at)}, and its quiet counts from when it is not any more"
        case Verdict.UNKNOWN:
            return f"it is not seen since {in_utc(proof.at)}, and what is not seen proves nothing"
        case verdict:
            assert_never(verdict)


def story(rows: Iterable[tuple[int, Decision]]) -> list[Sentence]:
    """The decisions in order, as sentences."""
    return [Sentence(d.at, seq, told(d), _evidence(d)) for seq, d in rows]


def told(decision: Decision) -> str:
    """A decision in one sentence, with what it is about first."""
    match decision.kind:
        case Kind.FAILED:
            return f"given up: {decision.reason}"
        case Kind.DONE:
            return f"done: {decision.reason}"
        case Kind.DECIDED | Kind.HELD:
            return f"{decision.action}{' held' if decision.kind is Kind.HELD else ''}: {decision.reason}"
        case _:
            assert_never(decision.kind)


def _evidence(decision: Decision) -> tuple[str, ...]:
    found = _measured(decision.evidence) if decision.evidence is not None else []
    if decision.policy is not None and decision.evidence is not None:
        text = f"text {decision.policy_hash[:12]}" if decision.policy_hash else "its text is not known"
        revision = f", revision {decision.policy_revision}" if decision.policy_revision else ""
        found.append(f"by policy {decision.policy} ({text}{revision})")
    if decision.budget is not None:
        b = decision.budget
        found.append(
            f"pool {b.pool}: {b.ours} of {b.limit_ours} quarantined, {b.out} of {b.limit_out} out for any reason, "
            f"{b.recent} of {b.limit_recent} within the hour, {b.size} in all"
            + ("" if b.spares is None else f", {b.spares} in reserve")
        )
    if decision.run is not None:
        found.append(_procedure(decision.run))
    if decision.leaving is not None:
        pods = ", ".join(f"{pod} (uid {pod.uid})" for pod in decision.leaving.pods)
        found.append(f"pods{f' of {decision.leaving.gang}' if decision.leaving.gang else ''}: {pods}")
    if decision.rung is not None:
        found.append(f"step {decision.rung.number + 1} of its policy's ladder: {decision.rung.step}")
    if not decision.actor.startswith("controller"):
        found.append(f"by {decision.actor}")
    return tuple(found)


def _procedure(run: Run) -> str:
    output = f", output: {run.output}" if run.output else ""
    return f"procedure {run.procedure} as {run.name}, time limit {in_utc(run.until)}{output}"


def _measured(evidence: Evidence) -> list[str]:
    found = []
    if evidence.value is not None:
        value = f"{format_number(evidence.value)} {evidence.unit}"
        found.append(f"measured {value} at {evidence.at:%H:%M:%S} UTC, threshold {evidence.threshold}{_seen(evidence)}")
    elif evidence.threshold:
        found.append(f"{evidence.threshold}, as seen at {evidence.at:%H:%M:%S} UTC{_seen(evidence)}")
    found += [said.removeprefix(", and ") for said in (disagreement(evidence),) if said]
    if evidence.source:
        labels = ", ".join(f"{name}={value}" for name, value in sorted(evidence.labels.items()))
        found.append(f"read from {evidence.source}{f' ({labels})' if labels else ''}")
    if evidence.query:
        found.append(f"{QUERY}{evidence.query}")
    if evidence.trace is not None:
        found.append(_series(evidence.trace))
    return found


def _seen(evidence: Evidence) -> str:
    if evidence.covered is None:
        return ""
    bad = "" if evidence.offenders is None else f", {evidence.offenders} of them bad"
    return f"; the policy saw {evidence.covered} devices{bad}"


def _series(trace: Trace) -> str:
    if not trace.points:
        return f"no series was kept: {trace.note or 'it had no values'}"
    first, last = trace.points[0][0], trace.points[-1][0]
    return f"series kept: {len(trace.points)} points from {first:%Y-%m-%d %H:%M:%S} to {last:%H:%M:%S} UTC"


def findings(case: Case) -> list[str]:
    """What is held against a machine, one sentence each."""
    return [
        f"{f.device}: {f.verdict} by policy {f.policy} since {f.since:%Y-%m-%d %H:%M:%S} UTC"
        + ("" if f.evidence.value is None else f", {format_number(f.evidence.value)} {f.evidence.unit} when found")
        for f in case.findings
    ]
