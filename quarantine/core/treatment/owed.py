"""What a case's policies ask for, together: of several findings, the strongest response wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from quarantine.core.case import Case, Effect, EffectStatus, Finding, HeldBy, Phase, Purpose, Step
from quarantine.core.draft import Draft, policy_fields
from quarantine.core.model import Mode, Verdict
from quarantine.core.obstacles import Claim, Common, common_causes_of, hindrance, takes_out
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.response import Drain, LadderStep, Moment, Release
from quarantine.core.treatment import repeat
from quarantine.core.treatment.ladder import answered, climbed, taken

GATE_PROBATION = timedelta(minutes=1)  # what proves a new machine is its burn-in
_WORKED_ON = (Phase.QUARANTINED, Phase.DRAINING, Phase.DRAINED)
_HALTING = (HeldBy.UNCORDONED, HeldBy.REWRITTEN, HeldBy.RESTORED)  # of one machine
_REPORT = (LadderStep(do=Step.REPORT),)


@dataclass(frozen=True, slots=True)
class Owed:
    """What is to be done about one case's machine."""

    drain: Drain  # the least patient
    steps: tuple[LadderStep, ...]  # the ladder of the most severe finding that has one
    release: Release  # by hand where any policy says so; else the longest probation
    evidence: str = ""  # the procedure that goes before everything; empty: none
    notify: bool = False
    repeat: bool = False  # out so often that only the last rung of the ladder is left
    by: Mapping[str, LoadedPolicy] = field(default_factory=dict)  # by a field's name: whose word it is, where one's

    def word(self, what: str) -> dict[str, object]:
        """What the trail says of the policy that asks for this; nothing where it is no policy's."""
        policy = self.by.get(what)
        return {} if policy is None else policy_fields(policy)


def owed(draft: Draft) -> Mapping[str, Owed]:
    """By case id: of the cases about whose machines something is to be done now.

    These are quarantined, being drained or drained. What would not take a machine out by itself asks for nothing: a
    policy that observes or only tells, too few findings, what may be a group's doing or was.
    """
    if hands_off(draft):
        return {}
    halted = _halted(draft)
    open_cases = [case for case in draft.open_cases() if case.phase in _WORKED_ON and case.id not in halted]
    cases = [case for case in open_cases if not _let_be(draft, case) and _something_left(case, draft.rules)]
    claims = {case.id: _claims(draft, case) for case in cases}
    common = common_causes_of(draft, (claim for of_case in claims.values() for claim, _ in of_case))
    due = {}
    for case in cases:
        suspects = dict(draft.suspects)
        found = _unhindered(draft, claims[case.id], common)
        if found:
            draft.suspects = suspects  # what another of its findings shares with a group keeps it from nothing
        # A drain that no policy asks for any more is not begun again, and ends once the machine is empty.
        forsaken = case.phase is Phase.DRAINING and not claims[case.id]
        if found or case.by_person or forsaken:
            due[case.id] = _together(draft, case, found)
    return due


def hands_off(draft: Draft) -> bool:
    """Whether nothing is begun or ended by itself: the installation observes, or what it sees is not believed."""
    return draft.mode is Mode.OBSERVE or draft.disbelieved


def enforcing(case: Case, rules: Rules) -> list[LoadedPolicy]:
    """The policies that found this case's machine bad and take machines out."""
    found = (rules.policy(f.policy) for f in case.findings)
    return [policy for policy in found if policy is not None and takes_out(policy)]


def _found_by(case: Case, rules: Rules) -> list[LoadedPolicy]:
    """The policies that found this case's machine bad and would take it out, also where they observe for a while."""
    found = (rules.policy(f.policy) for f in case.findings)
    return [policy for policy in found if policy is not None and policy.spec.response.taint]


def cordons(case: Case, rules: Rules) -> bool:
    """Whether its mark comes with a cordon. Where no policy acts (a person opened it, it was adopted), it does."""
    found = enforcing(case, rules)
    return not found or any(policy.spec.response.cordon for policy in found)


def needs_pods(case: Case, rules: Rules) -> bool:
    """Whether it matters what runs on this case's machine: a drain, a remedy or a burn-in may follow from it."""
    if not case.marked:
        return False
    responses = [policy.spec.response for policy in enforcing(case, rules)]
    if release_of(case, rules).burn_in is not None:
        return True
    return any(
        response.drain.when is not Moment.NEVER or any(step.do is not Step.REPORT for step in response.steps)
        for response in responses
    )


def release_of(case: Case, rules: Rules) -> Release:
    """How this case's machine comes back: by the strictest of the policies that found it bad, and of its gate.

    A policy that only observes keeps its word here, since it may have been made to after it took the machine out: a
    changed policy is, for its first cycles. But where all of them only observe, a person releases.
    """
    asked = [policy.spec.response.release for policy in _by_severity(_found_by(case, rules))]
    acting = bool(enforcing(case, rules))
    pool = next((pool for pool in rules.fleet.pools if pool.name == case.pool), None)
    if case.gate and pool is not None:
        burn_in = pool.gate.burn_in if pool.gate is not None else None
        asked.append(Release(when="on-proof", probation=GATE_PROBATION, burn_in=burn_in))
        acting = True
    if not asked:
        return Release()
    by_hand = case.by_person or not acting or any(release.when == "by-hand" for release in asked)
    return Release(
        when="by-hand" if by_hand else "on-proof",
        probation=max(release.probation for release in asked),
        burn_in=next((release.burn_in for release in asked if release.burn_in is not None), None),
    )


def claim_of(case: Case, finding: Finding, policy: LoadedPolicy) -> Claim:
    """A finding that stands in a case, as it is held against the machine."""
    at = max(finding.since, case.taken_out_at)
    return Claim(policy, case.node, case.machine, finding.device, finding.since, at)


def _halted(draft: Draft) -> set[str]:
    """Cases about which nothing new is done, since somebody else has a hand in what marks the machine."""
    return {hold.key.rpartition("/")[2] for hold in draft.state.holds.values() if hold.held_by in _HALTING}


def _let_be(draft: Draft, case: Case) -> bool:
    """Whether planned work, or a person's word, leaves the machine as it is."""
    return case.node in draft.maintained or draft.paused(case) is not None


def _something_left(case: Case, rules: Rules) -> bool:
    """Whether anything may still be owed: most cases only wait for a person, and are not asked about every time."""
    if Effect.NOTIFY not in case.effects or (case.rungs and case.rungs[-1].step is not Step.REPORT):
        return True
    responses = [policy.spec.response for policy in enforcing(case, rules)]
    if case.phase is Phase.DRAINING or (case.rungs and answered(case, case.rungs[-1])):
        return True
    if case.phase is Phase.QUARANTINED and any(response.drain.when is not Moment.NEVER for response in responses):
        return True
    unexamined = case.last_run(Purpose.EVIDENCE) is None
    ladders = [response.steps for response in responses] + ([_REPORT] if case.by_person else [])
    return any(climbed(taken(case), steps) < len(steps) for steps in ladders) or any(
        response.evidence is not None and unexamined for response in responses
    )


def _claims(draft: Draft, case: Case) -> list[tuple[Claim, Finding]]:
    found = []
    for finding in case.findings:
        policy = draft.rules.policy(finding.policy)
        # What joined a machine that was out already, and is good again, was never acted on.
        passing = finding.verdict is Verdict.GOOD and finding.since > case.taken_out_at
        if policy is not None and takes_out(policy) and not passing:
            found.append((claim_of(case, finding, policy), finding))
    return found


def _unhindered(
    draft: Draft, claims: list[tuple[Claim, Finding]], common: Mapping[str, Common]
) -> list[tuple[LoadedPolicy, Finding]]:
    """Those that may be acted on, the most severe first, then the oldest."""
    free = [(c.policy, f) for c, f in claims if hindrance(draft, c, common.get(c.policy.name)) is None]
    return sorted(free, key=lambda pair: (-pair[0].spec.severity.rank, pair[1].since, pair[1].policy))


def _together(draft: Draft, case: Case, found: list[tuple[LoadedPolicy, Finding]]) -> Owed:
    policies = [policy for policy, _ in found]
    wants = {
        "drain": min(policies, key=lambda policy: _patience(policy.spec.response.drain), default=None),
        "steps": next((policy for policy in policies if policy.spec.response.steps), None),
        "evidence": next((policy for policy in policies if policy.spec.response.evidence is not None), None),
        "notify": next((policy for policy in policies if policy.spec.response.notify), None),
    }
    by = {what: policy for what, policy in wants.items() if policy is not None}
    said = {what: policy.spec.response for what, policy in by.items()}
    ladder = said.get("steps")
    often = ladder.repeat if ladder is not None else None
    return Owed(
        drain=said["drain"].drain if said else Drain(),
        steps=ladder.steps if ladder is not None else _REPORT if case.by_person else (),
        release=release_of(case, draft.rules),
        evidence=(said["evidence"].evidence or "") if "evidence" in said else "",
        notify=case.by_person or "notify" in said,
        repeat=often is not None and repeat.too_often(draft.state, case, often, draft.now),
        by=by,
    )


def _patience(drain: Drain) -> tuple[int, timedelta, bool]:
    """Less for a drain that waits less."""
    return (-drain.when.rank, drain.deadline or timedelta.max, drain.then == "hold")


def _by_severity(policies: list[LoadedPolicy]) -> list[LoadedPolicy]:
    return sorted(policies, key=lambda policy: -policy.spec.severity.rank)


def provider_word(case: Case) -> str:
    """What the provider knows of a case of which it was, or is about to be, told (`Case.told_provider`)."""
    states = [state for effect in (Effect.TICKET, Effect.REPLACE) if (state := case.effects.get(effect)) is not None]
    if any(state.status is EffectStatus.DONE for state in states):
        return "its provider was told"
    if any(state.status is EffectStatus.PENDING for state in states):
        return "its provider is about to be told"
    return "its replacement is waited for"
