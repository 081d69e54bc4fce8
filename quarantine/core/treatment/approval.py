"""A person's yes before another machine is asked for, where the policy wants one: asked once, checked again when given.

A yes is of the machine as it stands: it is good for the next request alone, and for `STANDS`. A later no undoes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quarantine.core.answers import of_another, person, refuse
from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase, Step
from quarantine.core.decision import Action, Kind, Request, RequestKind
from quarantine.core.draft import Draft
from quarantine.core.model import Verdict
from quarantine.core.policy import Rules
from quarantine.core.signs import in_utc
from quarantine.core.treatment.ladder import next_rung
from quarantine.core.treatment.owed import Owed, enforcing, hands_off
from quarantine.core.units import format_duration

APPROVAL = "approval/"  # of hold keys: a case
STANDS = timedelta(days=1)
LONGEST = timedelta(days=30)  # that a swap may be put off by one word
ANYBODY = "*"  # of whose yes it is: somebody's who needs no group
_LEDGER = "cli"  # who asks by this way may write to the ledger
_WAITS = (Phase.QUARANTINED, Phase.DRAINING, Phase.DRAINED)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the policies that hold something against a machine want together."""

    groups: frozenset[str]  # who says it on Slack is in all of them
    within: timedelta | None  # how long it is waited for before people are told; None: for ever
    goes_on: timedelta | None  # after how long it is asked for all the same; None: never

    def __str__(self) -> str:
        """Who may approve."""
        if not self.groups:
            return "a person"
        return f"one of the Slack user group{'s' if len(self.groups) > 1 else ''} {' and '.join(sorted(self.groups))}"


def wanted(case: Case, rules: Rules) -> Asked | None:
    """Of every policy that takes machines out and holds something against this one, whatever stands in its own way.

    A policy that is paused or held, or cannot be judged, asks for nothing by itself; what it asks of people stands.
    """
    bad = replace(case, findings=tuple(f for f in case.findings if f.verdict is not Verdict.GOOD))
    policies = enforcing(bad, rules) or enforcing(case, rules)
    asked = [one for policy in policies if (one := policy.spec.response.approval) is not None]
    if not asked:
        return None
    ends = [one.within for one in asked if one.then == "replace" and one.within is not None]
    return Asked(
        groups=frozenset(one.by for one in asked if one.by is not None),
        within=min((one.within for one in asked if one.within is not None), default=None),
        goes_on=max(ends) if len(ends) == len(asked) else None,
    )


def given(draft: Draft, case: Case) -> bool:
    """Whether another machine may be asked for now. Where it may not, people are asked, or were."""
    if _deferred(case, draft.now):
        return False
    asked = wanted(case, draft.rules)
    if asked is None or _approved(case, asked, draft.now):
        draft.lift(_key(case), f"whether {case.node} is swapped is decided")
        return True
    if _unanswered(draft, case, asked):
        within = format_duration(asked.goes_on or timedelta(0))
        draft.lift(_key(case), f"nobody answered within {within}, so another machine for {case.node} is asked for")
        return True
    reason = f"another machine for {case.node} is asked for once {asked} approves it"
    held = {"held_by": HeldBy.APPROVAL, "hold_key": _key(case)}
    draft.hold(draft.about_case(Kind.HELD, Action.APPROVE, case, reason, **held))
    return False


def over(draft: Draft, due: Mapping[str, Owed]) -> None:
    """What is not waited for any more; and who is told that nobody answers."""
    for case in draft.open_cases():
        hold = draft.state.holds.get(_key(case))
        if hold is None:
            continue
        asked = wanted(case, draft.rules)
        if case.phase not in _WAITS or not _asks(draft, case, due.get(case.id)):
            draft.lift(_key(case), f"no approval of a swap of {case.node} is waited for any more")
        elif asked is not None and asked.within is not None:
            _late(draft, case, _since(case, hold.since), asked.within)
    for key in [key for key in draft.state.holds if key.startswith(_LATE)]:
        if f"{APPROVAL}{key.removeprefix(_LATE)}" not in draft.state.holds:
            draft.lift(key, "it was answered")


def decide(draft: Draft, request: Request) -> None:
    """A person's yes, or not now."""
    case = draft.open_case(request.node)
    if case is None:
        return refuse(draft, request, f"no case is open on {request.node}")
    why = of_another(case, request) or _of_what_went(case, request) or _may_not(draft, case, request)
    if why is not None:
        return refuse(draft, request, why)
    if request.kind is RequestKind.APPROVE:
        return _approve(draft, case, request)
    return _defer(draft, case, request)


def waits(case: Case, rules: Rules) -> Iterator[datetime]:
    """When time alone may change whether a swap is asked for."""
    if case.told_at is not None:
        yield from (case.told_at + span for span in spans(rules))
    if case.deferred_until is not None:
        yield case.deferred_until
    if case.approved_at is not None:
        yield case.approved_at + STANDS


def spans(rules: Rules) -> Iterator[timedelta]:
    """All times that are counted from when people were asked."""
    asked = (policy.spec.response.approval for policy in rules.policies)
    yield from (one.within for one in asked if one is not None and one.within is not None)


_LATE = "unapproved/"  # of hold keys: a case whose approval nobody has given in time


def _asks(draft: Draft, case: Case, owed: Owed | None) -> bool:
    """Whether a swap is still what comes next, and needs a yes. Where nothing is owed for now, by the policies alone:
    what keeps their hands off ends, and they may have been edited meanwhile.
    """
    if owed is None:
        return hands_off(draft) or wanted(case, draft.rules) is not None
    number = next_rung(draft.state, case, owed.steps, last_only=owed.repeat)
    swaps = number < len(owed.steps) and owed.steps[number].do is Step.REPLACE
    return swaps and wanted(case, draft.rules) is not None


def _late(draft: Draft, case: Case, since: datetime, within: timedelta) -> None:
    if draft.now < since + within:
        return
    reason = f"nobody has said within {format_duration(within)} whether another machine for {case.node} is asked for"
    held = {"held_by": HeldBy.OVERDUE, "hold_key": f"{_LATE}{case.id}"}
    draft.hold(draft.about_case(Kind.HELD, Action.APPROVE, case, reason, **held))


def _approve(draft: Draft, case: Case, request: Request) -> None:
    if _key(case) not in draft.state.holds and not _deferred(case, draft.now):
        return refuse(draft, request, f"no swap of {case.node} waits for an approval")
    reason = f"{request.actor} approves that another machine is asked for in place of {case.node}"
    reason += f": {request.reason}" if request.reason else ""
    said = {"actor": person(request), "request": request.id, "hold_key": _key(case)}
    approves = (ANYBODY,) if request.channel == _LEDGER else tuple(sorted(request.groups))
    draft.emit(draft.about_case(Kind.DECIDED, Action.APPROVE, case, reason, approves=approves, **said))
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


def _of_what_went(case: Case, request: Request) -> str | None:
    """Why a word about the machine that was there before does not mean the one that is there now (invariant 16)."""
    if case.renewed_at is None or request.at >= case.renewed_at:
        return None
    return f"it was said before {case.node} was renewed at {in_utc(case.renewed_at)}: look, and say it again"


def _may_not(draft: Draft, case: Case, request: Request) -> str | None:
    """Why this person has no say in it; None where they have. Who may write to the ledger always has."""
    asked = wanted(case, draft.rules)
    if request.channel == _LEDGER or asked is None or asked.groups <= frozenset(request.groups):
        return None
    return f"whether {case.node} is swapped is said by {asked}"


def _unanswered(draft: Draft, case: Case, asked: Asked) -> bool:
    """Whether nobody has answered in time, and every policy says that it is to go on then. Who was not told is silent
    for no reason of theirs.
    """
    hold, notify = draft.state.holds.get(_key(case)), case.effects.get(Effect.NOTIFY)
    if asked.goes_on is None or hold is None or notify is None or notify.status is not EffectStatus.DONE:
        return False
    return draft.now >= _since(case, hold.since) + asked.goes_on


def _since(case: Case, held: datetime) -> datetime:
    """Since when people know that they are asked."""
    return max(held, case.told_at or held)


def _approved(case: Case, asked: Asked, now: datetime) -> bool:
    """Whether those who have to have said yes since the machine was last asked to be replaced, and not too long ago."""
    if case.approved_at is None or now >= case.approved_at + STANDS:
        return False
    if ANYBODY not in case.approved_by and not asked.groups <= frozenset(case.approved_by):
        return False  # another group has to say it by now
    before = max((rung.at for rung in case.rungs if rung.step is Step.REPLACE), default=None)
    return before is None or case.approved_at > before


def _deferred(case: Case, now: datetime) -> bool:
    return case.deferred_until is not None and now < case.deferred_until


def _key(case: Case) -> str:
    return f"{APPROVAL}{case.id}"
