"""What the provider does about a machine: heard and recorded, answered, and asked for again where it is late.

what is heard of a ticket                        what follows
it is seen, worked on                            HEAR
it was replaced, another machine is coming       HEAR; the exchange itself is seen on the node (`swap`), and where it is
                                                 not within `ARRIVES`, a person is told
no fault found, refused, closed, gone            HEAR, and a person is told, unless the machine was exchanged or
                                                 repaired by then
another ticket of the same key is worked on      it is closed, citing the first, while that one is open
not seen, or not replaced, by the provider's     the ticket is reminded, and a person is told
deadline
more is found on the machine                     a comment
what came back is what was sent away             a comment

Nothing is concluded from what was not heard: a ticket system that does not answer changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quarantine.core import letters, restored
from quarantine.core.case import Case, Effect, Finding, HeldBy, Phase, Step
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft
from quarantine.core.marks import shorten
from quarantine.core.model import Mode, Verdict
from quarantine.core.policy import Rules
from quarantine.core.providers import spec_of
from quarantine.core.signs import in_utc
from quarantine.core.tickets import Filing, Heard, Remark, Ticket, TicketState
from quarantine.core.treatment.swap import SAME
from quarantine.core.units import format_duration

PROVIDER = "provider/"  # of hold keys: a case, and what its provider has not done
ARRIVES = timedelta(days=1)  # from the provider's word that a machine was replaced until that is seen
# How long after the last change another one is heard: a far side that counts, or flaps, must not fill the trail.
STATES_REST = timedelta(minutes=15)
WORDS_REST = timedelta(hours=1)  # where only the far side's own word for it is another
_FOUND, _REMINDS, _TWICE = "found-", "remind-", "duplicate-"  # of remarks' keys
_ACKNOWLEDGE = "acknowledge"  # of reminders' keys and of holds
_LONGEST_STATUS = 80
_LONGEST_REASON = 500

_SAYS: Mapping[TicketState, str] = {
    TicketState.FILED: "nobody has said yet that they saw it",
    TicketState.ACKNOWLEDGED: "it was seen",
    TicketState.IN_PROGRESS: "it is worked on",
    TicketState.REPLACED: "the machine, or what was bad of it, was replaced",
    TicketState.HOST_RELEASED: "the machine was taken back, and another one is coming",
    TicketState.NO_FAULT_FOUND: "no fault was found",
    TicketState.REFUSED: "the provider will not do it",
    TicketState.CLOSED: "it is closed, and how it ended is not said",
}
_COMES = (TicketState.REPLACED, TicketState.HOST_RELEASED)


@dataclass(frozen=True, slots=True)
class _Late:
    what: str  # of the hold's key
    reason: str


def heard(draft: Draft) -> None:
    """Record what the tickets of open cases say now and did not before."""
    if restored.stands(draft):
        return
    for case in draft.open_cases():
        for filing in case.filings:
            said = draft.snapshot.tickets.get((filing.target, filing.ref))
            if isinstance(said, Heard):
                _hear(draft, case, filing, said)


def answered(draft: Draft) -> None:
    """Tell the tickets what is new, and people what the provider leaves undone. After all that is found and begun."""
    if restored.stands(draft) or draft.disbelieved:
        return
    standing = set()
    for case in [case for case in draft.open_cases() if case.filings]:
        _found(draft, case)
        _came_back(draft, case)
        for late in (*_late(draft, draft.state.cases[case.id]), *_untold(draft.state.cases[case.id])):
            key = f"{PROVIDER}{case.id}/{late.what}"
            standing.add(key)
            held = {"held_by": HeldBy.PROVIDER, "hold_key": key}
            draft.hold(draft.about_case(Kind.HELD, Action.HEAR, case, late.reason, **held))
    for key in [key for key in draft.state.holds if key.startswith(PROVIDER) and key not in standing]:
        if not _unheard(draft, key):
            draft.lift(key, "the provider has done it, or it is not asked for any more")


def waits(case: Case, rules: Rules) -> Iterator[datetime]:
    """When time alone may change what is told of a case's tickets."""
    spec = spec_of(case, rules)
    for filing in case.filings:
        if filing.heard_at is not None:
            yield from (filing.heard_at + span for span in (ARRIVES, STATES_REST, WORDS_REST))
        spans = (spec.acknowledge, spec.replace) if spec is not None else ()
        yield from (filing.at + span for span in spans if span is not None)


# --- What is heard ----------------------------------------------------------------------------------------------------


def _hear(draft: Draft, case: Case, filing: Filing, said: Heard) -> None:
    after = _after(filing, said.ticket, draft.now)
    if after != filing:
        word = f" ({after.status})" if after.status and after.status != after.state else ""
        what = "it is not there any more" if said.ticket is None else f"{_SAYS[after.state]}{word}"
        reason = f"ticket {after.ref} of {case.node}: {what}"
        draft.emit(draft.about_case(Kind.DECIDED, Action.HEAR, case, reason, ticket=after, ref=after.ref))
        _withdraw(draft, case, after)
    for other in said.others:
        case = draft.state.cases[case.id]
        if not any(other.ref in (one.ref, *one.cited) for one in case.filings):
            _second(draft, case, _of(case, after), other)


def _after(filing: Filing, ticket: Ticket | None, now: datetime) -> Filing:
    """As it is now; `filing` itself where nothing of it has changed, or it changes too often to be told each time."""
    if ticket is None:
        after = replace(filing, open=False, state=filing.state if filing.state.is_verdict else TicketState.CLOSED)
    else:
        open_ = filing.open if ticket.open is (filing.open is not False) else ticket.open
        status = shorten(" ".join(ticket.status.split()), _LONGEST_STATUS)
        after = replace(filing, state=ticket.state, status=status, url=ticket.url or filing.url, open=open_)
    if after == filing:
        return filing
    in_words_only = (after.state, after.open) == (filing.state, filing.open)
    if filing.heard_at is not None and now < filing.heard_at + (WORDS_REST if in_words_only else STATES_REST):
        return filing
    seen = filing.acknowledged_at
    if seen is None and ticket is not None and after.state is not TicketState.FILED:
        seen = now
    return replace(after, heard_at=now, acknowledged_at=seen)


def _second(draft: Draft, case: Case, filing: Filing, other: Ticket) -> None:
    """A second ticket of one key. One that nobody has looked at is ours, filed twice: one is enough, and the first one
    is it, as long as it lives. Any other may be what the provider made of it, and is left alone and followed.
    """
    lives = filing.open is not False and not filing.state.is_verdict
    if lives and other.state is TicketState.FILED:
        link = f" ({filing.url})" if filing.url else ""
        text = f"This was filed twice: please see {filing.ref}{link}, which stays open."
        key = f"{_TWICE}{_digest(other.ref)}"
        remark = Remark(key, other.ref, filing.target, text, draft.now, close=True)
        fields = {"ticket": replace(filing, cited=(*filing.cited, other.ref)), "remark": remark, "ref": other.ref}
        reason = f"ticket {other.ref} of {case.node} is filed twice, and closed for {filing.ref}"
        return _comment(draft, case, reason, **fields)
    status = shorten(" ".join(other.status.split()), _LONGEST_STATUS)
    seen = None if other.state is TicketState.FILED else draft.now
    known = {"state": other.state, "status": status, "url": other.url, "open": other.open}
    more = replace(filing, ref=other.ref, at=draft.now, heard_at=draft.now, acknowledged_at=seen, cited=(), **known)  # type: ignore[arg-type]
    reason = f"ticket {other.ref} is about {case.node} too, and is followed beside {filing.ref}"
    return draft.emit(draft.about_case(Kind.DECIDED, Action.HEAR, case, reason, ticket=more, ref=other.ref))


def _withdraw(draft: Draft, case: Case, filing: Filing) -> None:
    """What is still to be said and is not true any more: a reminder of what has come, a double of what has ended."""
    ended = filing.open is False or filing.state.is_verdict
    for remark in draft.state.cases[case.id].remarks:
        reminds = remark.ref == filing.ref and remark.key.startswith(_REMINDS)
        void = reminds and (ended or (filing.state is not TicketState.FILED and _ACKNOWLEDGE in remark.key))
        void = void or (ended and remark.key.startswith(_TWICE) and remark.ref in filing.cited)
        if void and not remark.said:
            reason = f"ticket {remark.ref} of {case.node} is not told any more what it was to be: things have moved on"
            fields = {"remark": replace(remark, said=True), "ref": remark.ref}
            draft.emit(draft.about_case(Kind.DECIDED, Action.COMMENT, case, reason, **fields))


# --- What is told -----------------------------------------------------------------------------------------------------


def _found(draft: Draft, case: Case) -> None:
    """More that was found bad since the ticket was filed: each fault once for each ticket, however often it returns."""
    filing = _worked_on(case)
    if filing is None or case.is_pending(Effect.TICKET) or case.is_pending(Effect.REPLACE):
        return
    told = {one for remark in case.remarks if remark.ref == filing.ref for one in remark.about}
    new = [
        f
        for f in case.findings
        if f.verdict is Verdict.BAD and all(began > filing.at for began, _ in f.spells) and _about(f) not in told
    ]
    if not new:
        return
    faults = [letters.fault(finding, draft.rules) for finding in new]
    lines = [f"- {f.device}: {f.value} ({f.threshold}), {f.severity}, since {in_utc(f.since)}" for f in faults]
    text, about = "\n".join(["More was found bad on the machine:", *lines]), tuple(map(_about, new))
    key = f"{_FOUND}{_digest(f'{filing.ref} {about}')}"
    remark = Remark(key, filing.ref, filing.target, text, draft.now, about=about)
    _comment(draft, case, f"ticket {filing.ref} of {case.node} is told what else was found", remark=remark)


def _about(finding: Finding) -> str:
    return _digest(f"{finding.policy} {finding.device}")


def _came_back(draft: Draft, case: Case) -> None:
    """What came in exchange is what was sent away: the ticket that asked for the exchange is told, ended or not."""
    hold = draft.state.holds.get(f"{SAME}{case.id}")
    if hold is None:
        return
    filing, key = case.filings[-1], f"same-{_digest(f'{case.swapped_at}')}"
    if any(remark.key == key for remark in case.remarks):
        return
    remark = Remark(key, filing.ref, filing.target, f"Please look at this again: {hold.reason}.", draft.now)
    _comment(draft, case, f"ticket {filing.ref} of {case.node} is told that the same hardware came back", remark=remark)


def _remind(draft: Draft, case: Case, filing: Filing, what: str, text: str) -> None:
    """Once for each deadline of each ticket."""
    key = f"{_REMINDS}{what}-{_digest(filing.ref)}"
    if all(remark.key != key for remark in case.remarks):
        remark = Remark(key, filing.ref, filing.target, text, draft.now)
        _comment(draft, case, f"ticket {filing.ref} of {case.node} is reminded of: {text}", remark=remark)


def _comment(draft: Draft, case: Case, reason: str, **fields: object) -> None:
    """Where the installation only observes nothing is said: once it enforces it is, where it is true still."""
    if draft.mode is Mode.OBSERVE:
        return
    fields = {"effects": (Effect.COMMENT,), **fields}
    draft.emit(draft.about_case(Kind.DECIDED, Action.COMMENT, case, reason, **fields))


# --- What is late -----------------------------------------------------------------------------------------------------


def _late(draft: Draft, case: Case) -> Iterator[_Late]:
    filing = case.filings[-1]
    if _over(case, filing) or not case.marked:
        return
    if filing.state in _COMES:
        if filing.heard_at is not None and draft.now >= filing.heard_at + ARRIVES:
            yield _Late(
                "arrives",
                f"ticket {filing.ref} says since {in_utc(filing.heard_at)} that {_SAYS[filing.state]}, and {case.node} "
                f"is what it was: once it is another one, or is mended, say quarantine repaired {case.node}",
            )
        return
    if filing.state.is_verdict or filing.open is False:
        state = filing.state if filing.state.is_verdict else TicketState.CLOSED
        yield _Late(
            str(state),
            f"ticket {filing.ref} of {case.node}: {_SAYS[state]}, and the machine is still out: show the provider the "
            f"evidence, or say quarantine release {case.node} or quarantine repaired {case.node}",
        )
        return
    yield from _overdue(draft, case, filing)


def _untold(case: Case) -> Iterator[_Late]:
    """What a ticket could not be told."""
    for remark in case.remarks:
        if remark.given_up:
            what = " ".join(remark.text.split())
            said = f"ticket {remark.ref} of {case.node} could not be told, so tell its provider by hand: {what}"
            yield _Late(f"untold-{remark.key}", shorten(said, _LONGEST_REASON))


def _overdue(draft: Draft, case: Case, filing: Filing) -> Iterator[_Late]:
    spec = spec_of(case, draft.rules)
    if spec is None:
        return
    asked = f"asked at {in_utc(filing.at)}"
    if spec.acknowledge is not None and draft.now >= filing.at + spec.acknowledge and _unseen(draft, filing):
        within = format_duration(spec.acknowledge)
        _remind(draft, case, filing, _ACKNOWLEDGE, f"nobody has answered within the {within} agreed ({asked})")
        yield _Late(_ACKNOWLEDGE, f"{spec.name} has not acknowledged ticket {filing.ref} of {case.node} in {within}")
    waits = filing.ask == Step.REPLACE and case.phase is Phase.SWAP_REQUESTED
    if spec.replace is not None and waits and draft.now >= filing.at + spec.replace:
        within = format_duration(spec.replace)
        _remind(draft, case, filing, "replace", f"the machine was not replaced within the {within} agreed ({asked})")
        yield _Late("replace", f"{spec.name} has not replaced {case.node} within {within} of ticket {filing.ref}")


def _unseen(draft: Draft, filing: Filing) -> bool:
    """Whether it is known that nobody has seen it: of a ticket that cannot be asked about, nothing is."""
    said = draft.snapshot.tickets.get((filing.target, filing.ref))
    return isinstance(said, Heard) and said.ticket is not None and filing.state is TicketState.FILED


def _unheard(draft: Draft, key: str) -> bool:
    """Whether a hold stands for want of an answer: the ticket was not asked about, or its system did not answer."""
    case = draft.state.cases.get(key.split("/")[1])
    if case is None or not case.open or not case.filings or not key.endswith("/acknowledge"):
        return False
    filing = case.filings[-1]
    said = draft.snapshot.tickets.get((filing.target, filing.ref))
    return filing.state is TicketState.FILED and not isinstance(said, Heard) and not _over(case, filing)


def _over(case: Case, filing: Filing) -> bool:
    """Whether what the ticket asked for is there: another machine came, or this one was mended, since it was filed."""
    renewed = case.renewed_at is not None and case.renewed_at >= filing.at
    return renewed or case.phase in (Phase.SWAPPED, Phase.PROBATION)


def _worked_on(case: Case) -> Filing | None:
    """The ticket that is told what is new: the latest, unless it has ended."""
    filing = case.filings[-1]
    return None if filing.open is False or filing.state.is_verdict or _over(case, filing) else filing


def _of(case: Case, filing: Filing) -> Filing:
    return next(one for one in case.filings if (one.target, one.ref) == (filing.target, filing.ref))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
