"""The answer to a person's request: each gets exactly one decision."""

from __future__ import annotations

from quarantine.core.decision import Action, Kind, Request
from quarantine.core.draft import Draft


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


def person(request: Request) -> str:
    """Who asks, and by which way, as the trail's actor."""
    return f"{request.actor} ({request.channel})"
