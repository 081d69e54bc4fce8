"""What is said to people: the provider's tickets, and the message that asks for the swap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from quarantine.core import letters
from quarantine.core.case import Case, Effect, EffectStatus, Phase, Step
from quarantine.core.decision import State
from quarantine.core.errors import Conflict, TicketsRefused, TicketsUncertain
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.tickets import Answerable, Ticket, Update
from quarantine.core.workload import Pod
from quarantine.execute.outcome import Outcome
from quarantine.ports import Notifier, Tickets

_NO_TICKETS = "no ticket system is configured (tickets.kind)"
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


def ticket(
    tickets: Tickets | None, rules: Rules, state: State, case: Case, cluster: str, *, in_doubt: bool = False
) -> Outcome:
    """Report the machine to its provider. `in_doubt`: an earlier attempt began, and nobody knows how it ended."""
    if tickets is None:
        return Outcome(f"{_NO_TICKETS}, so none was filed", done=False)
    # Looked up at every attempt: an earlier one may have been filed without its answer reaching us.
    report = replace(letters.report(case, cluster, rules, state=state), key=report_key(case))
    if (lost := _lost(tickets, case, in_doubt=in_doubt)) is not None:
        return lost
    try:
        filed = _found(tickets, report.key) or tickets.open(report)
    except TicketsUncertain as error:
        return _uncertain(tickets, case, error)
    return Outcome(f"ticket {filed.ref} reports {case.node}{_beside(filed)}", filed.ref)


def replacement(
    tickets: Tickets | None,
    rules: Rules,
    state: State,
    case: Case,
    cluster: str,
    training: list[Pod],
    *,
    still: Callable[[], None],
    in_doubt: bool = False,
) -> Outcome:
    """Ask the provider for another machine. `training`: what runs on this one, which the swap would destroy.

    Raises Conflict where anything does. `still`: raises where it must not be asked for any more; called last of all.
    `in_doubt` as for `ticket`.
    """
    if training:
        names = in_words([str(pod.ref) for pod in training])
        raise Conflict(f"another machine for {case.node} is not asked for while training runs on it: {names}")
    if tickets is None:
        return Outcome(f"{_NO_TICKETS}, so no other machine was asked for", done=False)
    asked = letters.report(case, cluster, rules, state=state, ask=Step.REPLACE)
    report = replace(asked, key=replacement_key(case))
    if (lost := _lost(tickets, case, in_doubt=in_doubt)) is not None:
        return lost
    try:
        filed = _found(tickets, report.key)
        if filed is None:
            still()
            filed = tickets.open(report)
    except TicketsUncertain as error:
        return _uncertain(tickets, case, error)
    return Outcome(f"ticket {filed.ref} asks for another machine in place of {case.node}{_beside(filed)}", filed.ref)


def message(notifier: Notifier | None, rules: Rules, state: State, case: Case, cluster: str) -> Outcome:
    """Ask people for the swap."""
    if notifier is None:
        return Outcome("no Slack is configured (slack.token and slack.channel), so nobody was told", done=False)
    report = letters.report(case, cluster, rules, state=state)
    ref = notifier.find(case.id, report.channel) or notifier.post(report, _ticket_of(case))
    return Outcome(f"Slack message {ref} asks for the swap of {case.node}", ref)


def close(tickets: Tickets | None, case: Case) -> Outcome:
    """End the case's tickets that are still open, since it has ended."""
    if tickets is None:
        return Outcome(f"{_NO_TICKETS}, so there is none to close", done=False)
    asked = [rung.step for rung in case.rungs]
    keys = [report_key(case, number) for number in range(1, max(1, asked.count(Step.REPORT)) + 1)]
    keys += [replacement_key(case, number) for number in range(1, max(1, asked.count(Step.REPLACE)) + 1)]
    why = f"case {case.id} on {case.node} has ended: {_ENDED.get(case.phase, 'nothing is asked for any more')}"
    closed, refused = [], []
    for found in [one for key in keys for one in tickets.find(key) if one.open]:
        try:
            tickets.update(found.ref, Update(f"{case.id}-ended", why, close=True))
        except TicketsRefused as error:
            refused.append(str(error))
        else:
            closed.append(found.ref)
    if refused:
        return Outcome(f"the provider's side closes no ticket of {case.node}: {refused[0]}", done=False)
    if not closed and tickets.answerable is Answerable.BLIND:
        return Outcome(f"what was sent about {case.node} cannot be taken back by itself: tell its provider", done=False)
    if not closed:
        return Outcome(f"no ticket of case {case.id} on {case.node} is open any more")
    said = f"ticket {closed[0]} of {case.node} is" if len(closed) == 1 else f"{in_words(closed)} of {case.node} are"
    return Outcome(f"{said} closed", closed[-1])


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


def _ticket_of(case: Case) -> str:
    """What people are to look for: the request for another machine, else the report."""
    states = (case.effects.get(effect) for effect in (Effect.REPLACE, Effect.TICKET))
    return next((state.ref for state in states if state is not None and state.status is EffectStatus.DONE), "")
