"""A case's tickets and what is to be added to them, after a decision."""

from __future__ import annotations

from dataclasses import replace

from quarantine.core.case import Case, Effect, EffectState, EffectStatus
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.tickets import Filing, Remark


def followed(case: Case, decision: Decision) -> Case:
    """The case with what the decision says of its tickets, of what they are to be told, and of its next request."""
    if decision.ticket is not None:
        case = replace(case, filings=_with(case.filings, decision.ticket))
    if decision.remark is not None:
        case = _remarked(case, decision.remark)
    if decision.kind is Kind.DONE and decision.effect is Effect.NOTIFY:
        return replace(case, told_at=decision.at)
    if decision.kind is not Kind.DECIDED:
        return case
    if decision.action is Action.APPROVE:
        return replace(case, approved_at=decision.at, approved_by=decision.approves, deferred_until=None)
    if decision.action is Action.DEFER:
        return replace(case, approved_at=None, approved_by=(), deferred_until=decision.until)
    renewed = decision.action is Action.SWAP or (decision.action is Action.PROVE and decision.request is not None)
    if renewed and (case.approved_at is not None or case.deferred_until is not None):
        return replace(case, approved_at=None, approved_by=(), deferred_until=None)  # it was of what is there no more
    return case


def _remarked(case: Case, remark: Remark) -> Case:
    """With a new remark, or with what became of one. A comment that has nothing left to say is not asked for."""
    known = any(one.key == remark.key for one in case.remarks)
    if not known:
        return replace(case, remarks=(*case.remarks, remark))
    case = replace(case, remarks=tuple(remark if one.key == remark.key else one for one in case.remarks))
    if case.is_pending(Effect.COMMENT) and not unsaid(case):
        return replace(case, effects={**case.effects, Effect.COMMENT: EffectState(EffectStatus.OVERTAKEN)})
    return case


def unsaid(case: Case) -> tuple[Remark, ...]:
    """What is still to be added to its tickets, oldest first."""
    return tuple(remark for remark in case.remarks if not remark.said)


def _with(known: tuple[Filing, ...], filing: Filing) -> tuple[Filing, ...]:
    """In the order of filing; one that is known already is replaced in its place."""
    same = [(one.target, one.ref) == (filing.target, filing.ref) for one in known]
    if not any(same):
        return (*known, filing)
    return tuple(filing if this else one for this, one in zip(same, known, strict=True))
