"""What is said to people: the provider's tickets, and the message that asks for the swap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from quarantine.core import cards, letters
from quarantine.core.case import Case, Effect, Phase, Step
from quarantine.core.decision import State
from quarantine.core.errors import Conflict, TicketsRefused, TicketsUncertain
from quarantine.core.filings import unsaid
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.tickets import Answerable, Attachment, Filing, Ticket, TicketState, Update
from quarantine.core.workload import Pod
from quarantine.execute.outcome import Outcome
from quarantine.ports import Desks, Notifier, Tickets

_NO_TICKETS = "no ticket system is configured (tickets.targets and tickets.default)"
_MAYBE = "the provider of {} was perhaps told, and is not told again by itself, since nothing can be looked up there"
_ENDED = {
    Phase.RELEASED: "the machine is back in service",
    Phase.DISMISSED: "a person put the machine back in service, or no fault was found",
    Phase.RETIRED: "the machine has left the cluster",
}


def replacement_key(case: Case, number: int | None = None) -> str:
    """The key of a ticket that asks for another machine: one of its own for each time that the case asks for it.

    A comment on the ticket that reported the machine would not do: comments have no key, so one whose answer was lost
    could not be looked up before it is made again.
    """
    count = max(1, sum(1 for rung in case.rungs if rung.step is Step.REPLACE)) if number is None else number
    return f"{case.id}-replace" if count == 1 else f"{case.id}-replace-{count}"


def report_key(case: Case, number: int | None = None) -> str:
    """The key of a ticket that reports the machine: one of its own for each machine that is reported in the case."""
    count = max(1, sum(1 for rung in case.rungs if rung.step is Step.REPORT)) if number is None else number
    return case.id if count == 1 else f"{case.id}-report-{count}"


@dataclass(frozen=True, slots=True)
class Errand:
    """What is to be said to a case's provider, and where."""

    case: Case
    cluster: str
    rules: Rules
    state: State
    desk: tuple[str, Tickets] | None  # the name of the target and the target; None: none is configured
    at: datetime
    in_doubt: bool = False  # an earlier attempt began, and nobody knows how it ended
    attached: Callable[[], Sequence[Attachment]] = tuple  # what goes with a ticket; asked where one is filed

    def filed(self, ticket: Ticket, key: str, ask: Step) -> Filing:
        """The record of a ticket that is there now."""
        assert self.desk is not None  # noqa: S101  (it was filed there)
        seen = None if ticket.state is TicketState.FILED else self.at
        state, status, url = ticket.state, ticket.status, ticket.url
        known = {"state": state, "status": status, "url": url, "open": ticket.open, "acknowledged_at": seen}
        return Filing(ticket.ref, key, self.desk[0], ask.value, self.at, **known)  # type: ignore[arg-type]


def ticket(errand: Errand) -> Outcome:
    """Report the machine to its provider."""
    if errand.desk is None:
        return Outcome(f"{_NO_TICKETS}, so none was filed", done=False)
    # Looked up at every attempt: an earlier one may have been filed without its answer reaching us.
    case, tickets = errand.case, errand.desk[1]
    report = letters.report(case, errand.cluster, errand.rules, state=errand.state)
    report = replace(report, key=report_key(case))
    if (lost := _lost(tickets, case, in_doubt=errand.in_doubt)) is not None:
        return lost
    try:
        filed = _found(tickets, report.key) or tickets.open(report, errand.attached())
    except TicketsUncertain as error:
        return _uncertain(tickets, case, error)
    told = errand.filed(filed, report.key, Step.REPORT)
    return Outcome(f"ticket {filed.ref} reports {case.node}{_beside(filed)}", filed.ref, ticket=told)


def replacement(errand: Errand, training: list[Pod], *, still: Callable[[], None]) -> Outcome:
    """Ask the provider for another machine. `training`: what runs on this one, which the swap would destroy.

    Raises Conflict where anything does. `still`: raises where it must not be asked for any more; called last of all.
    """
    case = errand.case
    if training:
        names = in_words([str(pod.ref) for pod in training])
        raise Conflict(f"another machine for {case.node} is not asked for while training runs on it: {names}")
    if errand.desk is None:
        return Outcome(f"{_NO_TICKETS}, so no other machine was asked for", done=False)
    tickets = errand.desk[1]
    asked = letters.report(case, errand.cluster, errand.rules, state=errand.state, ask=Step.REPLACE)
    report = replace(asked, key=replacement_key(case))
    if (lost := _lost(tickets, case, in_doubt=errand.in_doubt)) is not None:
        return lost
    try:
        filed = _found(tickets, report.key)
        if filed is None:
            pictures = errand.attached()
            still()
            filed = tickets.open(report, pictures)
    except TicketsUncertain as error:
        return _uncertain(tickets, case, error)
    told = errand.filed(filed, report.key, Step.REPLACE)
    said = f"ticket {filed.ref} asks for another machine in place of {case.node}{_beside(filed)}"
    return Outcome(said, filed.ref, ticket=told)


def message(notifier: Notifier | None, rules: Rules, state: State, case: Case, cluster: str) -> Outcome:
    """Ask people for the swap: by a message of its own, or by the one that tells of all that went out with it."""
    if notifier is None:
        return Outcome("no Slack is configured (slack.token and slack.channel), so nobody was told", done=False)
    holds = cards.holds_of(state)

    def card(of: Case) -> cards.Card:
        return cards.card(of, cluster, rules, state, holds=holds.get(of.id, ()))

    mine = card(case)
    channel = mine.report.channel
    ref = notifier.find(case.id, channel)
    together = cards.storm(state, case, rules) if ref is None else ()
    if together:
        key = cards.storm_key(case)
        untold = tuple(card(other) for other in together if other.is_pending(Effect.NOTIFY))
        ref = notifier.find(key, channel) or notifier.fold(cards.Fold(key, cluster, channel, untold))
        return Outcome(f"Slack message {ref} tells of {case.node} and of others that went out with it", ref)
    ref = ref or notifier.post(mine)
    return Outcome(f"Slack message {ref} asks for the swap of {case.node}", ref)


def comment(desks: Desks | None, case: Case, *, in_doubt: bool) -> Outcome:
    """Add to the case's tickets what they have not been told yet. `in_doubt` as for an `Errand`.

    What one ticket refuses keeps nothing from the others.
    """
    if desks is None:
        return Outcome(f"{_NO_TICKETS}, so there is none to add to", done=False)
    told, refused = [], []
    for remark in unsaid(case):
        try:
            tickets = desks.named(remark.target)
            if not in_doubt or tickets.answerable is not Answerable.BLIND:
                tickets.update(remark.ref, Update(remark.key, remark.text, close=bool(remark.close)))
                told.append(remark.ref)
            else:
                refused.append(f"{remark.ref} was perhaps told already, and is not told again by itself")
        except TicketsUncertain as error:
            if tickets.answerable is not Answerable.BLIND:
                raise
            refused.append(str(error))
        except TicketsRefused as error:
            refused.append(str(error))
    if refused:
        return Outcome(f"a ticket of {case.node} takes no addition: {refused[0]}", done=False)
    named = in_words(list(dict.fromkeys(told)))
    return Outcome(f"ticket {named} of {case.node} was told what is new", told[-1] if told else "")


def close(desks: Desks | None, desk: tuple[str, Tickets] | None, case: Case, *, in_doubt: bool) -> Outcome:
    """End the case's tickets that are still open, since it has ended: those on record, and what can be found.

    `desk`: where its provider takes tickets now, as of an `Errand`.
    """
    if desks is None or (desk is None and not case.filings):
        return Outcome(f"{_NO_TICKETS}, so there is none to close", done=False)
    why = f"case {case.id} on {case.node} has ended: {_ENDED.get(case.phase, 'nothing is asked for any more')}"
    closed, refused, blind = [], [], False
    for target in dict.fromkeys([*([desk[0]] if desk is not None else []), *(f.target for f in case.filings)]):
        try:
            tickets = desks.named(target)
            blind = blind or tickets.answerable is Answerable.BLIND
            for ref in _to_close(tickets, target, case, in_doubt=in_doubt):
                tickets.update(ref, Update(f"{case.id}-ended", why, close=True))
                closed.append(ref)
        except TicketsRefused as error:
            refused.append(str(error))
        except TicketsUncertain as error:
            if not blind:
                raise
            refused.append(str(error))
    if refused:
        return Outcome(f"the provider's side closes no ticket of {case.node}: {refused[0]}", done=False)
    if not closed and blind:
        return Outcome(f"what was sent about {case.node} cannot be taken back by itself: tell its provider", done=False)
    if not closed:
        return Outcome(f"no ticket of case {case.id} on {case.node} is open any more")
    said = f"ticket {closed[0]} of {case.node} is" if len(closed) == 1 else f"{in_words(closed)} of {case.node} are"
    return Outcome(f"{said} closed", closed[-1])


def _to_close(tickets: Tickets, target: str, case: Case, *, in_doubt: bool) -> list[str]:
    """What of the case may be open there. Where nothing can be looked up, what is on record, unless it was told."""
    if tickets.answerable is Answerable.BLIND:
        return [] if in_doubt else [filing.ref for filing in case.filings if filing.target == target]
    asked = [rung.step for rung in case.rungs]
    keys = [report_key(case, number) for number in range(1, max(1, asked.count(Step.REPORT)) + 1)]
    keys += [replacement_key(case, number) for number in range(1, max(1, asked.count(Step.REPLACE)) + 1)]
    found = [one.ref for key in keys for one in tickets.find(key) if one.open]
    # A key is a label or a line of text there, which people may have taken away.
    lost = [filing.ref for filing in case.filings if filing.target == target and filing.ref not in found]
    known = [(ref, tickets.read(ref)) for ref in lost]
    return found + [ref for ref, ticket in known if ticket is not None and ticket.open]


def _found(tickets: Tickets, key: str) -> Ticket | None:
    """The oldest that is open; where none is, the last that was: what the provider has closed is not filed again."""
    there = tickets.find(key)
    return next((one for one in there if one.open), there[-1] if there else None)


def _lost(tickets: Tickets, case: Case, *, in_doubt: bool) -> Outcome | None:
    """Of an attempt that nobody saw end, where nothing can be looked up."""
    if not in_doubt or tickets.answerable is not Answerable.BLIND:
        return None
    return Outcome(f"{_MAYBE.format(case.node)}: this process was ended while it was sent", done=False)


def _uncertain(tickets: Tickets, case: Case, error: TicketsUncertain) -> Outcome:
    """What is looked up by the next attempt; where that cannot be, a person has to."""
    if tickets.answerable is not Answerable.BLIND:
        raise error
    return Outcome(f"{_MAYBE.format(case.node)}: {error}", done=False)


def _beside(ticket: Ticket) -> str:
    return f" ({ticket.note})" if ticket.note else ""
