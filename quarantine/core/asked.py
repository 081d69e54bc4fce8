"""What people ask, decided: a human outranks the controller (invariant 9), and every request gets one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from quarantine.core import words
from quarantine.core.case import Case, Effect, HeldBy, Phase
from quarantine.core.decision import Action, Kind, Request, RequestKind
from quarantine.core.draft import Draft, case_key
from quarantine.core.model import Mode, Severity, Verdict
from quarantine.core.obstacles import Claim, Common, common_causes_of, hindrance, takes_out
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.triage import MARKING


def requests(draft: Draft) -> None:
    """Oldest first; one that was answered already is passed over."""
    for request in draft.snapshot.requests:
        if request.id in draft.state.answered:
            continue
        match request.kind:
            case RequestKind.OPEN:
                _open(draft, request)
            case RequestKind.RELEASE:
                _release(draft, request)
            case RequestKind.WAIVE | RequestKind.PAUSE | RequestKind.RESUME | RequestKind.MAINTAIN:
                words.decide(draft, request)
            case RequestKind.REPAIRED | RequestKind.ADOPT:
                words.decide(draft, request)
            case RequestKind.UNKNOWN:
                _refuse(draft, request, "this version of the controller does not know such a request")
            case _:
                assert_never(request.kind)


def waiting(draft: Draft) -> None:
    """What people asked for while the installation only observed is done once it enforces."""
    if draft.snapshot.mode is Mode.OBSERVE:
        return
    for case in draft.open_cases():
        if case.phase is Phase.SUSPECTED and case.by_person:
            reason = f"{case.node} is taken out as {case.opened_by} asked"
            fields = {"phase": Phase.QUARANTINED, "hold_key": case_key(case.id), "effects": MARKING}
            draft.emit(draft.about_case(Kind.DECIDED, Action.QUARANTINE, case, reason, **fields))


def _open(draft: Draft, request: Request) -> None:
    node = draft.nodes.get(request.node)
    case = draft.open_case(request.node)
    if node is None:
        return _refuse(draft, request, f"no node of this cluster is called {request.node}")
    if case is not None and case.marked:
        return _refuse(draft, request, f"case {case.id} is open on {node.name} already ({case.phase})")
    if node.name in draft.rules.fleet.never_touch:
        return _refuse(draft, request, f"the fleet file says never to touch {node.name}")
    case_id = case.id if case is not None else draft.new_case_id(node)
    observing = draft.snapshot.mode is Mode.OBSERVE
    reason = f"{request.actor} asks for {node.name} to be taken out: {request.reason}"
    if observing:
        reason += "; held because the installation only observes"
    draft.emit(
        draft.decision(
            Kind.HELD if observing else Kind.DECIDED,
            Action.QUARANTINE,
            reason,
            actor=_actor(request),
            node=node.name,
            machine=node.machine,
            case=case_id,
            phase=Phase.SUSPECTED if observing else Phase.QUARANTINED,
            severity=Severity.CRITICAL,
            held_by=HeldBy.OBSERVE_MODE if observing else None,
            hold_key=case_key(case_id),
            effects=() if observing else MARKING,
            request=request.id,
            budget=draft.budgets.get(draft.pool_name(node)),
            pool=draft.pool_name(node),
        )
    )
    return None


def _release(draft: Draft, request: Request) -> None:
    case = draft.open_case(request.node)
    if case is None:
        return _refuse(draft, request, f"no case is open on {request.node}")
    marked = case.marked
    draft.emit(
        draft.about_case(
            Kind.DECIDED,
            Action.RELEASE if marked else Action.DISMISS,
            case,
            f"{request.actor} puts {case.node} back in service: {request.reason}",
            actor=_actor(request),
            phase=Phase.RELEASED if marked else Phase.DISMISSED,
            hold_key=case_key(case.id),
            effects=(Effect.UNMARK,) if marked else (),
            until=draft.now + draft.rules.dismissal,
            request=request.id,
        )
    )
    return None


def _refuse(draft: Draft, request: Request, why: str) -> None:
    draft.emit(
        draft.decision(
            Kind.DECIDED,
            Action.ANSWER,
            f"{request.actor} asked to {request.kind} {request.node}; not done, since {why}",
            actor=_actor(request),
            node=request.node,
            request=request.id,
        )
    )


def _actor(request: Request) -> str:
    return f"{request.actor} ({request.channel})"


def swaps(draft: Draft) -> None:
    """What follows a quarantine: the ticket, then the message that asks for the swap. Each once per case."""
    if draft.snapshot.mode is Mode.OBSERVE:
        return
    cases = [case for case in draft.open_cases() if case.phase is Phase.QUARANTINED]
    asking = {case.id: _asking(draft, case) for case in cases}
    common = common_causes_of(draft, (claim for claims in asking.values() for claim in claims))
    for case in cases:
        ticket, notify = _wanted(draft, case, asking[case.id], common)
        if ticket and Effect.TICKET not in case.effects:
            reason = f"{case.node} is to be reported to its provider"
            draft.emit(draft.about_case(Kind.DECIDED, Action.TICKET, case, reason, effects=(Effect.TICKET,)))
        if notify and Effect.NOTIFY not in case.effects:
            reason = f"people are to be asked for the swap of {case.node}"
            draft.emit(draft.about_case(Kind.DECIDED, Action.NOTIFY, case, reason, effects=(Effect.NOTIFY,)))


def enforcing(case: Case, rules: Rules) -> list[LoadedPolicy]:
    """The policies that found this case's machine bad and take machines out."""
    found = (rules.policy(f.policy) for f in case.findings)
    return [policy for policy in found if policy is not None and takes_out(policy)]


def _asking(draft: Draft, case: Case) -> list[Claim]:
    """The findings by which something would be asked for that was not asked for yet."""
    found = []
    for finding in case.findings:
        policy = draft.rules.policy(finding.policy)
        # What joined a machine that was out already, and is good again, was never acted on.
        passing = finding.verdict is Verdict.GOOD and finding.since > case.phase_since
        if policy is None or passing or case.by_person:
            continue
        response = policy.spec.response
        ticket = response.ticket != "none" and Effect.TICKET not in case.effects
        if ticket or (response.notify and Effect.NOTIFY not in case.effects):
            at = max(finding.since, case.phase_since)
            found.append(Claim(policy, case.node, case.machine, finding.device, finding.since, at))
    return found


def cordons(case: Case, rules: Rules) -> bool:
    """Whether its mark comes with a cordon. Where no policy acts (a person opened it, it was adopted), it does."""
    found = enforcing(case, rules)
    return not found or any(policy.spec.response.cordon for policy in found)


def _wanted(draft: Draft, case: Case, asking: list[Claim], common: Mapping[str, Common]) -> tuple[bool, bool]:
    if case.by_person:
        return True, True
    # What would not take a machine out by itself asks for nothing: a policy that observes or only tells, too few
    # findings, what may be a group's doing or was. An adopted mark without a finding is no evidence for anybody.
    found = [c.policy for c in asking if hindrance(draft, c, common.get(c.policy.name)) is None]
    return any(p.spec.response.ticket != "none" for p in found), any(p.spec.response.notify for p in found)
