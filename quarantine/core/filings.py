"""A case's tickets and what is to be added to them, after a decision."""

from __future__ import annotations

from dataclasses import replace

from quarantine.core.case import Case, Effect
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.tickets import Filing, Remark


def followed(case: Case, decision: Decision) -> Case:
    """The case with what the decision says of its tickets, of what they are to be told, and of its next request."""
    if decision.ticket is not None:
        case = replace(case, filings=_with(case.filings, decision.ticket))
    if decision.remark is not None and all(known.key != decision.remark.key for known in case.remarks):
        case = replace(case, remarks=(*case.remarks, decision.remark))
    if decision.kind in (Kind.DONE, Kind.FAILED) and decision.effect is Effect.COMMENT:
        case = replace(case, remarks=tuple(replace(remark, said=True) for remark in case.remarks))
    if decision.kind is not Kind.DECIDED:
        return case
    if decision.action is Action.APPROVE:
        return replace(case, approved_at=decision.at, deferred_until=None)
    if decision.action is Action.DEFER:
        return replace(case, approved_at=None, deferred_until=decision.until)
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
