"""What is said to people: the provider's tickets, and the message that asks for the swap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from quarantine.core import cards, letters
from quarantine.core.case import Case, Effect, Step
from quarantine.core.decision import State
from quarantine.core.errors import Conflict, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.tickets import Answerable, Attachment, Filing, Ticket, TicketState
from quarantine.core.workload import Pod
from quarantine.execute.outcome import Outcome
from quarantine.execute.places import Place
from quarantine.ports import Notifier, Tickets

NO_TICKETS = "no ticket system is configured (tickets.targets and tickets.default)"
_MAYBE = "the provider of {} was perhaps told, and is not told again by itself, since nothing can be looked up there"


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
    desk: Place | None  # where it is filed; None: no target is configured
    at: datetime
    in_doubt: bool = False  # an earlier attempt began, and nobody knows how it ended
    elsewhere: Sequence[Place] = ()  # where an earlier attempt may have filed it as well
    attached: Callable[[], Sequence[Attachment]] = tuple  # what goes with a ticket; asked where one is filed

    def filed(self, ticket: Ticket, target: str, key: str, ask: Step) -> Filing:
        """The record of a ticket that is there now."""
        seen = None if ticket.state is TicketState.FILED else self.at
        state, status, url = ticket.state, ticket.status, ticket.url
        known = {"state": state, "status": status, "url": url, "open": ticket.open, "acknowledged_at": seen}
        return Filing(ticket.ref, key, target, ask.value, self.at, **known)  # type: ignore[arg-type]


def ticket(errand: Errand, *, still: Callable[[], object]) -> Outcome:
    """Report the machine to its provider. `still`: raises where it must not be any more; called last of all."""
    case = errand.case
    report = letters.report(case, errand.cluster, errand.rules, state=errand.state)
    report = replace(report, key=report_key(case))
    return _file(errand, report, Step.REPORT, f"reports {case.node}", still)


def replacement(errand: Errand, training: list[Pod], *, still: Callable[[], object]) -> Outcome:
    """Ask the provider for another machine. `training`: what runs on this one, which the swap would destroy.

    Raises Conflict where anything does. `still` as for `ticket`.
    """
    case = errand.case
    if training:
        names = in_words([str(pod.ref) for pod in training])
        raise Conflict(f"another machine for {case.node} is not asked for while training runs on it: {names}")
    asked = letters.report(case, errand.cluster, errand.rules, state=errand.state, ask=Step.REPLACE)
    report = replace(asked, key=replacement_key(case))
    return _file(errand, report, Step.REPLACE, f"asks for another machine in place of {case.node}", still)


def _file(errand: Errand, report: CaseReport, ask: Step, what: str, still: Callable[[], object]) -> Outcome:
    """File it, unless it is there. Looked up at every attempt: an earlier one's answer may not have reached us."""
    there = _found(errand, report.key)
    if there is None:
        if errand.desk is None:
            none = "none was filed" if ask is Step.REPORT else "no other machine was asked for"
            return Outcome(f"{NO_TICKETS}, so {none}", done=False)
        target, tickets = errand.desk
        if (lost := _lost(tickets, errand.case, in_doubt=errand.in_doubt)) is not None:
            return lost
        pictures = errand.attached()
        still()
        try:
            there = target, tickets.open(report, pictures)
        except TicketsUncertain as error:
            return _uncertain(tickets, errand.case, error)
    target, filed = there
    told = errand.filed(filed, target, report.key, ask)
    return Outcome(f"ticket {filed.ref} {what}{_beside(filed)}", filed.ref, ticket=told)


def message(
    notifier: Notifier | None, rules: Rules, state: State, case: Case, cluster: str, *, still: Callable[[], object]
) -> Outcome:
    """Ask people for the swap: by a message of its own, or by the one that tells of all that went out with it.

    `still` as for `ticket`: a look for what is there already may take long.
    """
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
        ref = notifier.find(key, channel)
        if ref is None:
            still()
            ref = notifier.fold(cards.Fold(key, cluster, channel, untold))
        return Outcome(f"Slack message {ref} tells of {case.node} and of others that went out with it", ref)
    if ref is None:
        still()
        ref = notifier.post(mine)
    return Outcome(f"Slack message {ref} asks for the swap of {case.node}", ref)


def _found(errand: Errand, key: str) -> tuple[str, Ticket] | None:
    """The oldest that is open; where none is, the last that was: what the provider has closed is not filed again."""
    places = dict([*([errand.desk] if errand.desk is not None else []), *errand.elsewhere])
    there = [(target, ticket) for target, tickets in places.items() for ticket in tickets.find(key)]
    return next((one for one in there if one[1].open), there[-1] if there else None)


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
