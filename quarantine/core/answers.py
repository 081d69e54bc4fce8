"""The answer to a person's request: each gets exactly one decision."""

from __future__ import annotations

from quarantine.core.case import Case
from quarantine.core.decision import Action, Kind, Request
from quarantine.core.draft import Draft
from quarantine.core.signs import in_utc


def refuse(draft: Draft, request: Request, why: str) -> None:
    """Record that it is not done. `why` ends the sentence."""
    what = f"{request.kind} {request.node or request.scope}".rstrip()
    draft.emit(
        draft.decision(
            Kind.DECIDED,
            Action.ANSWER,
            f"{request.actor} asked to {what}; not done, since {why}",
            actor=person(request),
            node=request.node or None,
            request=request.id,
        )
    )


def of_another(case: Case, request: Request) -> str | None:
    """Why a word about a case does not mean this one; None where it does (invariant 16)."""
    if request.case:
        meant = request.case == case.id
        return None if meant else f"it is about case {request.case}, and case {case.id} is open on {case.node} now"
    if request.at >= case.opened_at:
        return None
    asked, opened = in_utc(request.at), in_utc(case.opened_at)
    return f"it was asked at {asked}, and case {case.id} on {case.node} was opened at {opened}: look, and ask again"


def person(request: Request) -> str:
    """Who asks, and by which way, as the trail's actor."""
    return f"{request.actor} ({request.channel})"
