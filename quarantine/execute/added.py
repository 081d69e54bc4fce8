"""What is added to tickets that are there: remarks, and that their case has ended.

Each is told by itself, and what one ticket refuses keeps nothing from another. What was refused is tried again: a token
may have expired, a secret may be in the middle of being changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from quarantine.core.case import Case, Phase, Step
from quarantine.core.decision import PendingEffect
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.filings import unsaid
from quarantine.core.reasons import in_words
from quarantine.core.tickets import Answerable, Remark, Update
from quarantine.execute import places
from quarantine.execute.outcome import Outcome
from quarantine.execute.people import NO_TICKETS, replacement_key, report_key
from quarantine.ports import Desks, Tickets

REFUSED_FOR = timedelta(hours=1)  # what a ticket that has ended refuses for so long, it will not take
_ENDED = {
    Phase.RELEASED: "the machine is back in service",
    Phase.DISMISSED: "a person put the machine back in service, or no fault was found",
    Phase.RETIRED: "the machine has left the cluster",
}

Ends = dict[tuple[str, str], bool]  # by target and reference: True: its end was told; False: perhaps, and not again


def perhaps_said(pending: PendingEffect, case: Case) -> set[str]:
    """The keys of the remarks that were perhaps told by an attempt of which nobody saw the end.

    What came up after it was not. And they are told one after the other: as long as none was put off, the oldest that
    is left is the one.
    """
    last = pending.last_attempt_at
    older = [remark.key for remark in unsaid(case) if last is not None and remark.at <= last]
    return set(older if pending.last_error else older[:1])


def comment(desks: Desks | None, case: Case, remark: Remark, now: datetime, *, in_doubt: bool) -> Outcome:
    """Add one remark to its ticket. `in_doubt`: an earlier attempt may have. Raises as `Tickets.update`."""
    if desks is None:
        return _not_said(case, remark, f"{NO_TICKETS}, so there is none to add to")
    tickets = desks.named(remark.target)
    blind = tickets.answerable is Answerable.BLIND
    if in_doubt and blind:
        return _not_said(case, remark, f"{remark.ref} was perhaps told already, and is not told again by itself")
    try:
        tickets.update(remark.ref, Update(remark.key, remark.text, close=bool(remark.close)))
    except TicketsUncertain as error:
        if not blind:
            raise
        return _not_said(case, remark, str(error))
    except TicketsRefused as error:
        if blind or not _takes_nothing(tickets, remark, now):
            raise
        return _not_said(case, remark, str(error))
    said = f"ticket {remark.ref} of {case.node} was told what is new"
    return Outcome(said, remark.ref, remark=replace(remark, said=True))


def _takes_nothing(tickets: Tickets, remark: Remark, now: datetime) -> bool:
    """Whether what was refused will be refused again: the ticket is gone, or it has ended, and not just now."""
    ticket = tickets.read(remark.ref)
    return ticket is None or (not ticket.open and now >= remark.at + REFUSED_FOR)


def _not_said(case: Case, remark: Remark, why: str) -> Outcome:
    given_up = replace(remark, said=True, given_up=True)
    return Outcome(f"a ticket of {case.node} takes no addition: {why}", done=False, remark=given_up)


def close(
    desks: Desks | None,
    desk: places.Place | None,
    case: Case,
    known: Ends,
    *,
    in_doubt: bool,
    still: Callable[[], object],
) -> Outcome:
    """End the case's tickets that are still open, since it has ended: those on record, and what can be found.

    `desk`: where its provider takes tickets now, as of an `Errand`. `known`: what this process has told already, and
    adds to. `still`: raises where nothing may be ended any more; called before each. Raises what the first target
    raised that did not take it, after all of them were asked.
    """
    if desks is None or (desk is None and not case.filings):
        return Outcome(f"{NO_TICKETS}, so there is none to close", done=False)
    why = f"case {case.id} on {case.node} has ended: {_ENDED.get(case.phase, 'nothing is asked for any more')}"
    update = Update(f"{case.id}-ended", why, close=True)
    asked = [*([desk[0]] if desk is not None else []), *(filing.target for filing in case.filings)]
    failed: list[TicketsRefused | TicketsUnavailable] = []
    blind = False
    for target in dict.fromkeys([*asked, *(name for name, _ in places.searchable(desks))]):
        try:
            tickets = desks.named(target)
            blind = blind or tickets.answerable is Answerable.BLIND
            for ref in _to_close(tickets, target, case, in_doubt=in_doubt):
                still()
                _end(tickets, (target, ref), update, known, failed)
        except (TicketsRefused, TicketsUnavailable) as error:
            failed.append(error)
    if failed:
        raise failed[0]
    closed = [ref for (_, ref), told in known.items() if told]
    if not all(known.values()) or (blind and not closed):
        return Outcome(f"what was sent about {case.node} cannot be taken back by itself: tell its provider", done=False)
    if not closed:
        return Outcome(f"no ticket of case {case.id} on {case.node} is open any more")
    said = f"ticket {closed[0]} of {case.node} is" if len(closed) == 1 else f"{in_words(closed)} of {case.node} are"
    return Outcome(f"{said} closed", closed[-1])


def _end(
    tickets: Tickets,
    at: tuple[str, str],
    update: Update,
    known: Ends,
    failed: list[TicketsRefused | TicketsUnavailable],
) -> None:
    """End one of them."""
    blind = tickets.answerable is Answerable.BLIND
    if blind and at in known:
        return  # a letter is sent once
    try:
        tickets.update(at[1], update)
    except TicketsUncertain as error:
        if blind:
            known[at] = False
        else:
            failed.append(error)
    except (TicketsRefused, TicketsUnavailable) as error:
        failed.append(error)
    else:
        known[at] = True


def _to_close(tickets: Tickets, target: str, case: Case, *, in_doubt: bool) -> list[str]:
    """What of the case may be open there. Where nothing can be looked up, what is on record, unless it was told."""
    if tickets.answerable is Answerable.BLIND:
        return [] if in_doubt else [filing.ref for filing in case.filings if filing.target == target]
    found = [one.ref for key in _keys(case) for one in tickets.find(key) if one.open]
    # A key is a label or a line of text there, which people may have taken away.
    lost = [filing.ref for filing in case.filings if filing.target == target and filing.ref not in found]
    known = [(ref, tickets.read(ref)) for ref in lost]
    return found + [ref for ref, ticket in known if ticket is not None and ticket.open]


def _keys(case: Case) -> Iterator[str]:
    """Those under which its tickets were filed."""
    asked = [rung.step for rung in case.rungs]
    yield from (report_key(case, number) for number in range(1, max(1, asked.count(Step.REPORT)) + 1))
    yield from (replacement_key(case, number) for number in range(1, max(1, asked.count(Step.REPLACE)) + 1))
