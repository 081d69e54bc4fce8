"""Probation: after a remedy, a swap or positive evidence under load, until the machine is released or is bad again.

What was found before a remedy is answered by the remedy where it is not found after it. That is never concluded from
silence: the policies that found it must be judged, and see the machine in full number. Time in which they do not is
recorded, once for each loss, and does not count; where anything is found bad, the probation begins anew after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, Finding, HeldBy, Phase, Purpose, RunOutcome, Step
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import QUIET, Draft, case_key, policy_fields
from quarantine.core.judge import Judgement
from quarantine.core.model import Failed, Verdict
from quarantine.core.obstacles import Claim, common_causes_of, hindrance, takes_out
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.response import Release
from quarantine.core.treatment import proof, runs
from quarantine.core.treatment.endings import ending_effects, shown
from quarantine.core.treatment.owed import claim_of, hands_off, release_of
from quarantine.core.treatment.swap import SAME
from quarantine.core.units import format_duration

FRESH = timedelta(days=1)  # older evidence under load begins no probation: much may have happened since
READY = "ready/"  # of hold keys: a case whose machine has proven itself, and waits for a person
_BEFORE = (Phase.QUARANTINED, Phase.DRAINING, Phase.DRAINED)
_UNPROVEN = (RunOutcome.FAILED, RunOutcome.LATE, RunOutcome.LOST)


def releases(draft: Draft) -> None:
    """End what has proven itself. Before new findings are acted on: its budget is there in the same plan."""
    if hands_off(draft):
        return
    for case in draft.open_cases():
        if case.phase is not Phase.PROBATION or not _proven(draft, case):
            continue
        why = _by_hand(draft, case)
        if why is None:
            _release(draft, case)
            continue
        since = proof.when(case.proving.since)
        reason = f"{case.node} has proven itself since {since}, and {why}: say quarantine release {case.node}"
        held = {"held_by": HeldBy.READY, "hold_key": f"{READY}{case.id}"}
        draft.hold(draft.about_case(Kind.HELD, Action.RELEASE, case, reason, **held))


def turns(draft: Draft, fit: Sequence[Judgement]) -> None:
    """Send back what is bad again, begin probation on evidence, and begin burn-ins. After new findings have joined.

    What disturbs a probation is recorded whether anything may be done or not.
    """
    if not hands_off(draft):
        _send_back(draft, frozenset(judgement.policy.name for judgement in fit))
        for case in draft.open_cases():
            if _recovered(draft, case):
                reason = f"everything found on {case.node} is good again under load, and its provider was told nothing"
                _move(draft, case, Phase.PROBATION, f"{reason}; {_until(release_of(case, draft.rules), draft.now)}")
    for case in draft.open_cases():
        if case.phase is Phase.PROBATION:
            proof.watch(draft, case)
    if hands_off(draft):
        return
    for case in draft.open_cases():
        if case.phase is Phase.PROBATION:
            _burn_in(draft, case)


def over(draft: Draft) -> None:
    """Lift what was told of machines that are not on probation any more."""
    for key in [key for key in draft.state.holds if key.startswith(READY)]:
        case = draft.state.cases.get(key.removeprefix(READY))
        if case is None or case.phase is not Phase.PROBATION or case.proving.verdict is Verdict.BAD:
            draft.lift(key, "what it was about is over")


def waits(case: Case, rules: Rules) -> Iterator[datetime]:
    """When time alone may change what becomes of a case on probation."""
    if case.phase is not Phase.PROBATION:
        return
    yield proof.end(case, rules)
    yield case.proving.at + QUIET
    yield from (case.stay_since + proof.memory(policy) for policy in proof.found(case, rules))


# --- The end ----------------------------------------------------------------------------------------------------------


def _proven(draft: Draft, case: Case) -> bool:
    if case.run is not None or not _burnt_in(case, release_of(case, draft.rules)):
        return False
    if case.proving.verdict is not Verdict.GOOD or draft.now < proof.end(case, draft.rules):
        return False
    return proof.doubt(draft, case) is None and not _disputed(draft, case)


def _burnt_in(case: Case, release: Release) -> bool:
    if release.burn_in is None:
        return True
    run = case.last_run(Purpose.BURN_IN)
    return run is not None and run.asked_at >= case.stay_since and run.outcome is RunOutcome.SUCCEEDED


def _disputed(draft: Draft, case: Case) -> bool:
    """Whether something is told about this case that only a person can clear up: the same machine came back, say."""
    clearing = (HeldBy.PROCEDURE, HeldBy.SAME_MACHINE)
    holds = draft.state.holds.values()
    return any(hold.held_by in clearing and hold.key.rpartition("/")[2] == case.id for hold in holds)


def _by_hand(draft: Draft, case: Case) -> str | None:
    """Why a person releases it, in words; None where it is released by itself."""
    if case.by_person:
        return f"{case.opened_by} had it taken out"
    if release_of(case, draft.rules).when == "by-hand":
        return "its policies leave the release to a person"
    if case.told_provider and not _answered(case):
        return "its provider was told, and has not been heard to have done anything"
    return None


def _answered(case: Case) -> bool:
    """Whether the machine was swapped, or repaired by a person's word, after the provider was told last."""
    told = max((rung.at for rung in case.rungs if rung.step in (Step.REPORT, Step.REPLACE)), default=case.taken_out_at)
    return case.renewed_at is not None and case.renewed_at >= told


def _release(draft: Draft, case: Case) -> None:
    release, since = release_of(case, draft.rules), case.proving.since
    burnt = f", and its burn-in by {release.burn_in} succeeded" if release.burn_in is not None else ""
    reason = f"nothing was found bad on {case.node} since {proof.when(since)}{burnt}: it is back in service"
    ending = {"phase": Phase.RELEASED, "hold_key": case_key(case.id), "effects": ending_effects(case)}
    draft.emit(draft.about_case(Kind.DECIDED, Action.RELEASE, case, reason, **ending))


# --- Back again -------------------------------------------------------------------------------------------------------


def _send_back(draft: Draft, fit: frozenset[str]) -> None:
    on_probation = [case for case in draft.open_cases() if case.phase is Phase.PROBATION]
    found = {case.id: list(_back(draft, case, fit)) for case in on_probation}
    common = common_causes_of(draft, (claim for claims in found.values() for claim, _ in claims))
    for case in on_probation:
        suspects = dict(draft.suspects)
        bad = [f for claim, f in found[case.id] if hindrance(draft, claim, common.get(claim.policy.name)) is None]
        if bad:
            draft.suspects = suspects  # it goes back by itself, whatever else it shares with a group
            what = in_words(list(dict.fromkeys(f"{finding.device} by policy {finding.policy}" for finding in bad)))
            reason = f"{case.node} is bad again on probation ({what}): it goes on being out of service"
            _move(draft, case, Phase.QUARANTINED, reason, **_found_by(draft, case, bad))


def _found_by(draft: Draft, case: Case, bad: Sequence[Finding]) -> dict[str, object]:
    """What the trail says of the strongest of what is bad again, as it is measured now."""
    first = min(bad, key=lambda finding: (-finding.severity.rank, finding.policy, finding.device.name))
    policy, judgement = draft.rules.policy(first.policy), draft.judgement(first.policy)
    offences = judgement.bad if judgement is not None else ()
    now = next((o.evidence for o in offences if (o.node.name, o.device) == (case.node, first.device)), first.evidence)
    known = policy_fields(policy) if policy is not None else {"policy": first.policy}
    return {**known, "device": first.device, "severity": first.severity, "verdict": Verdict.BAD, "evidence": now}


def _back(draft: Draft, case: Case, fit: frozenset[str]) -> Iterator[tuple[Claim, Finding]]:
    """What is found bad now, and was not there before. A trigger looks back: what was bad before a remedy is found
    for a while after it.
    """
    since, bad = case.stay_since, draft.bad_now.get(case.node, frozenset())
    for finding in case.findings:
        policy = draft.rules.policy(finding.policy)
        if policy is None or policy.name not in fit or finding.key not in bad or not takes_out(policy):
            continue
        if finding.since > since or draft.now >= since + proof.memory(policy):
            yield claim_of(case, finding, policy), finding


# --- The beginning ----------------------------------------------------------------------------------------------------


def _recovered(draft: Draft, case: Case) -> bool:
    """Whether positive evidence under load is there for everything that was found, and nothing else happened."""
    if case.phase not in _BEFORE or case.by_person or case.told_provider or case.run is not None:
        return False
    if f"{SAME}{case.id}" in draft.state.holds:
        return False  # whether what came back is repaired is for a person to say
    if (
        case.waits_for_mark
        or not case.findings
        or case.node in draft.maintained
        or proof.bad_in(draft, case) is not None
    ):
        return False
    burn_in = case.last_run(Purpose.BURN_IN)
    if burn_in is not None and burn_in.outcome in _UNPROVEN:
        return False
    standing = [f for f in case.findings if draft.rules.policy(f.policy) is not None]
    good = bool(standing) and all(finding.verdict is Verdict.GOOD for finding in standing)
    return good and _fresh(draft, case, standing) and release_of(case, draft.rules).when == "on-proof"


def _fresh(draft: Draft, case: Case, good: Sequence[Finding]) -> bool:
    """Whether the evidence is of now: completed a short while ago, or there again for every finding."""
    if draft.now < max(finding.ended[-1] if finding.ended else finding.since for finding in good) + FRESH:
        return True
    return all(
        (judgement := draft.judgement(finding.policy)) is not None and (case.node, finding.device) in judgement.good
        for finding in good
    )


def _burn_in(draft: Draft, case: Case) -> None:
    """Once for each time on probation. It waits until the machine is empty: it would starve whatever runs there."""
    release = release_of(case, draft.rules)
    last = case.last_run(Purpose.BURN_IN)
    done = last is not None and last.asked_at >= case.stay_since
    if release.burn_in is None or done or draft.paused(case) is not None or case.node in draft.maintained:
        return
    spec, node = draft.rules.procedures.get(release.burn_in), runs.able(draft, case)
    workloads = draft.snapshot.workloads
    if spec is None or node is None or node.ready is not True or isinstance(workloads, Failed):
        return
    if workloads.nodes.get(case.node) != ():  # what runs there is not known, or it is not empty
        return
    run = runs.begun(draft, case, Purpose.BURN_IN, release.burn_in, spec)
    reason = f"{case.node} is to prove itself by {release.burn_in}, until {proof.when(run.until)}"
    draft.emit(draft.about_case(Kind.DECIDED, Action.RUN, case, reason, run=run, effects=(Effect.RUN,)))


def _move(draft: Draft, case: Case, phase: Phase, reason: str, **fields: object) -> None:
    moved = {"phase": phase, "effects": shown(case), **fields}
    draft.emit(draft.about_case(Kind.DECIDED, Action.PROVE, case, reason, **moved))


def _until(release: Release, now: datetime) -> str:
    burn_in = f", and until {release.burn_in} has succeeded" if release.burn_in is not None else ""
    span, end = format_duration(release.probation), proof.when(now + release.probation)
    return f"it is on probation for {span}, until {end}{burn_in}"
