"""What speaks for a machine on probation at this moment, what does not, and when its time there is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from quarantine.core import absence, budget
from quarantine.core.case import Case, Phase
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import QUIET, Draft
from quarantine.core.marks import machine_matches
from quarantine.core.model import DeviceKind, Node, Verdict
from quarantine.core.obstacles import takes_out
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.treatment.owed import release_of

LAG = timedelta(minutes=2)  # between what happens on a machine and the answers that know of it


def watch(draft: Draft, case: Case) -> None:
    """Record that the time on probation does not count any more, or that it does again.

    The first loss is over as soon as the machine is seen. What comes and goes after it is recorded less often.
    """
    proof = case.proving
    if (against := doubt(draft, case)) is not None:
        verdict, why = against
        if proof.verdict not in (verdict, Verdict.BAD):
            draft.emit(draft.about_case(Kind.DECIDED, Action.PROVE, case, why, verdict=verdict))
        return
    if proof.verdict is Verdict.GOOD or (proof.since > case.stay_since and draft.now < proof.at + QUIET):
        return
    after = replace(case, proof=proof.then(Verdict.GOOD, draft.now))
    reason = f"{case.node} is seen and quiet again: its probation lasts until {when(end(after, draft.rules))}"
    draft.emit(draft.about_case(Kind.DECIDED, Action.PROVE, case, reason, verdict=Verdict.GOOD))


def doubt(draft: Draft, case: Case) -> tuple[Verdict, str] | None:
    """Why this moment does not speak for the machine, in words; None where it does."""
    if (bad := bad_in(draft, case)) is not None:
        return Verdict.BAD, f"{case.node} is bad on probation ({bad}): once it is not, its probation begins anew"
    unseen = _unseen(draft, case)
    if unseen is None:
        return None
    return Verdict.UNKNOWN, f"{unseen}: as long as that lasts, its time on probation does not count"


def bad_in(draft: Draft, case: Case) -> str | None:
    """What is found bad now and counts: by a policy that acts, or by one that found something before."""
    mine = {finding.policy for finding in case.findings}
    for name, device in sorted(draft.bad_now.get(case.node, frozenset()), key=str):
        policy = draft.rules.policy(name)
        if policy is None or not (name in mine or takes_out(policy)):
            continue
        of_before = any(f.key == (name, device) and f.since <= case.stay_since for f in case.findings)
        looks_back = draft.now < case.stay_since + memory(policy)
        if not (case.phase is Phase.PROBATION and of_before and looks_back):
            return f"{device} by policy {name}"
    return None


def _unseen(draft: Draft, case: Case) -> str | None:
    """Why it cannot be told whether the machine is bad; None where it can."""
    node = draft.nodes.get(case.node)
    if node is None or draft.disbelieved:
        return f"{case.node} is not seen in the cluster"
    if not machine_matches(node, case.machine):
        return f"{case.node} is not the machine of case {case.id}"
    if node.ready is not True:
        return f"{case.node} is not ready"
    if case.node in draft.unjudged:
        work = draft.maintained.get(case.node)
        return f"nothing is judged on {case.node} ({work or 'it, or its driver, started a moment ago'})"
    unseen = (_not_whole(draft, node, case, policy) for policy in found(case, draft.rules))
    return next((why for why in unseen if why is not None), None)


def _not_whole(draft: Draft, node: Node, case: Case, policy: LoadedPolicy) -> str | None:
    """Why this policy cannot say that nothing on the machine is bad: a device that is gone is never found bad."""
    judgement = draft.judgement(policy.name)
    if judgement is None or not draft.knows([policy.name]):
        return f"policy {policy.name}, which found {case.node} bad, cannot be judged"
    kind, seen = draft.rules.signal_of(policy).device, judgement.covered_by.get(node.name, 0)
    known = len(case.machine.gpus) if kind is DeviceKind.GPU else 0
    wanted = absence.wanted(node, kind, budget.pool_of(node, draft.rules), seen, known)
    if seen >= wanted:
        return None
    return f"policy {policy.name}, which found {case.node} bad, sees {seen} of its {wanted} devices"


def end(case: Case, rules: Rules) -> datetime:
    """When the time on probation is over, if nothing disturbs it: no sooner than every trigger could find it bad."""
    proof = case.proving
    seen_again = LAG if proof.at > case.stay_since else timedelta(0)
    looks_back = max((memory(policy) for policy in found(case, rules)), default=seen_again)
    return max(proof.since + release_of(case, rules).probation, proof.at + looks_back)


def found(case: Case, rules: Rules) -> list[LoadedPolicy]:
    """The policies that found something on this machine and are still there, each once."""
    standing = (rules.policy(name) for name in dict.fromkeys(finding.policy for finding in case.findings))
    return [policy for policy in standing if policy is not None]


def memory(policy: LoadedPolicy) -> timedelta:
    """For how long after it is good something is found bad, and how long something bad is not found, at most."""
    return policy.spec.trigger.window + LAG


def when(at: datetime) -> str:
    """For people."""
    return f"{at:%Y-%m-%d %H:%M} UTC"
