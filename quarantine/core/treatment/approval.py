"""A person's yes before another machine is asked for, where the policy wants one: asked once, checked again when given.

A yes is of the machine as it stands: it is good for the next request alone, and for `STANDS`. A later no undoes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from quarantine.core.answers import of_another, person, refuse
from quarantine.core.case import Case, HeldBy, Phase, Step
from quarantine.core.decision import Action, Kind, Request, RequestKind
from quarantine.core.draft import Draft
from quarantine.core.policy import Rules
from quarantine.core.response import Approval
from quarantine.core.signs import in_utc
from quarantine.core.treatment.owed import Owed, enforcing
from quarantine.core.units import format_duration

APPROVAL = "approval/"  # of hold keys: a case
STANDS = timedelta(days=1)
LONGEST = timedelta(days=30)  # that a swap may be put off by one word
_WAITS = (Phase.QUARANTINED, Phase.DRAINING, Phase.DRAINED)


def given(draft: Draft, case: Case, owed: Owed) -> bool:
    """Whether another machine may be asked for now. Where it may not, people are asked, or were."""
    if case.deferred_until is not None and draft.now < case.deferred_until:
        return False
    if owed.approval is None or _approved(case, draft.now):
        draft.lift(_key(case), f"whether {case.node} is swapped is decided")
        return True
    if unanswered(draft, case, owed.approval):
        within = format_duration(owed.approval.within or timedelta(0))
        draft.lift(_key(case), f"nobody answered within {within}, so another machine for {case.node} is asked for")
        return True
    reason = f"another machine for {case.node} is asked for once {who(owed.approval)} approves it"
    held = {"held_by": HeldBy.APPROVAL, "hold_key": _key(case), **owed.word("approval")}
    draft.hold(draft.about_case(Kind.HELD, Action.APPROVE, case, reason, **held))
    return False


def unanswered(draft: Draft, case: Case, asked: Approval) -> bool:
    """Whether nobody has answered in time, and the policy says that it is to go on then."""
    hold = draft.state.holds.get(_key(case))
    return (
        asked.then == "replace"
        and asked.within is not None
        and hold is not None
        and draft.now >= hold.since + asked.within
    )


def over(draft: Draft, due: Mapping[str, Owed]) -> None:
    """What is not waited for any more; and who is told that nobody answers."""
    for case in draft.open_cases():
        hold = draft.state.holds.get(_key(case))
        if hold is None:
            continue
        owed = due.get(case.id)
        if case.phase not in _WAITS or (owed is not None and owed.approval is None):
            draft.lift(_key(case), f"no approval of a swap of {case.node} is waited for any more")
        elif owed is not None and owed.approval is not None and owed.approval.within is not None:
            _late(draft, case, hold.since, owed.approval.within)
    for key in [key for key in draft.state.holds if key.startswith(_LATE)]:
        if f"{APPROVAL}{key.removeprefix(_LATE)}" not in draft.state.holds:
            draft.lift(key, "it was answered")


def decide(draft: Draft, request: Request) -> None:
    """A person's yes, or not now."""
    case = draft.open_case(request.node)
    if case is None:
        return refuse(draft, request, f"no case is open on {request.node}")
    if (why := of_another(case, request)) is not None:
        return refuse(draft, request, why)
    if request.kind is RequestKind.APPROVE:
        return _approve(draft, case, request)
    return _defer(draft, case, request)


def waits(case: Case) -> Iterator[datetime]:
    """When time alone may change whether a swap is asked for."""
    if case.deferred_until is not None:
        yield case.deferred_until
    if case.approved_at is not None:
        yield case.approved_at + STANDS


def spans(rules: Rules) -> Iterator[timedelta]:
    """All times that are counted from when people were asked."""
    asked = (policy.spec.response.approval for policy in rules.policies)
    yield from (one.within for one in asked if one is not None and one.within is not None)


def wanted(case: Case, rules: Rules) -> Approval | None:
    """What the policies that found this case's machine bad want; None where they want no approval."""
    asked = (policy.spec.response.approval for policy in enforcing(case, rules))
    return next((one for one in asked if one is not None), None)


def who(asked: Approval) -> str:
    """Who may approve, for people."""
    return f"one of the Slack user group {asked.by}" if asked.by is not None else "a person"


_LATE = "unapproved/"  # of hold keys: a case whose approval nobody has given in time


def _late(draft: Draft, case: Case, since: datetime, within: timedelta) -> None:
    if draft.now < since + within:
        return
    reason = f"nobody has said within {format_duration(within)} whether another machine for {case.node} is asked for"
    held = {"held_by": HeldBy.OVERDUE, "hold_key": f"{_LATE}{case.id}"}
    draft.hold(draft.about_case(Kind.HELD, Action.APPROVE, case, reason, **held))


def _approve(draft: Draft, case: Case, request: Request) -> None:
    if _key(case) not in draft.state.holds and not _deferred(case, draft.now):
        return refuse(draft, request, f"no swap of {case.node} waits for an approval")
    asked = wanted(case, draft.rules)
    group = asked.by if asked is not None else None
    if group is not None and request.channel == "slack" and group not in request.groups:
        return refuse(draft, request, f"a swap of {case.node} is approved by the Slack user group {group}")
    reason = f"{request.actor} approves that another machine is asked for in place of {case.node}"
    reason += f": {request.reason}" if request.reason else ""
    said = {"actor": person(request), "request": request.id, "hold_key": _key(case)}
    draft.emit(draft.about_case(Kind.DECIDED, Action.APPROVE, case, reason, **said))
    return None


def _defer(draft: Draft, case: Case, request: Request) -> None:
    if case.phase not in _WAITS:
        return refuse(draft, request, f"case {case.id} on {case.node} is {case.phase}: no swap of it is to be put off")
    if request.until is None or request.until <= draft.now:
        return refuse(draft, request, "the time until which it would be put off has passed, or none was given")
    if request.until > draft.now + LONGEST:
        return refuse(draft, request, f"a swap is put off for {LONGEST.days} days at most")
    reason = f"{request.actor} says that no other machine is asked for in place of {case.node} before "
    reason += f"{in_utc(request.until)}" + (f": {request.reason}" if request.reason else "")
    said = {"actor": person(request), "request": request.id, "until": request.until, "hold_key": _key(case)}
    draft.emit(draft.about_case(Kind.DECIDED, Action.DEFER, case, reason, **said))
    return None


def _approved(case: Case, now: datetime) -> bool:
    """Whether a person has said yes since the machine was last asked to be replaced, and not too long ago."""
    if case.approved_at is None or now >= case.approved_at + STANDS:
        return False
    asked = max((rung.at for rung in case.rungs if rung.step is Step.REPLACE), default=None)
    return asked is None or case.approved_at > asked


def _deferred(case: Case, now: datetime) -> bool:
    return case.deferred_until is not None and now < case.deferred_until


def _key(case: Case) -> str:
    return f"{APPROVAL}{case.id}"
