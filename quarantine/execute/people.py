"""What is said to people: the provider's tickets, and the message that asks for the swap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from quarantine.core import letters
from quarantine.core.case import Case, Effect, EffectStatus, Phase, Step
from quarantine.core.decision import State
from quarantine.core.errors import Conflict, TicketsRefused
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.workload import Pod
from quarantine.execute.outcome import Outcome
from quarantine.ports import Notifier, Tickets

_NO_TICKETS = "no ticket system is configured (tickets.kind)"
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


def ticket(tickets: Tickets | None, rules: Rules, state: State, case: Case, cluster: str) -> Outcome:
    """Report the machine to its provider."""
    if tickets is None:
        return Outcome(f"{_NO_TICKETS}, so none was filed", done=False)
    # Looked up at every attempt: an earlier one may have been filed without its answer reaching us.
    report = replace(letters.report(case, cluster, rules, state=state), key=report_key(case))
    filed = tickets.find(report.key) or tickets.open(report)
    return Outcome(f"ticket {filed.ref} reports {case.node}", filed.ref)


def replacement(
    tickets: Tickets | None,
    rules: Rules,
    state: State,
    case: Case,
    cluster: str,
    training: list[Pod],
    *,
    still: Callable[[], None],
) -> Outcome:
    """Ask the provider for another machine. `training`: what runs on this one, which the swap would destroy.

    Raises Conflict where anything does. `still`: raises where it must not be asked for any more; called last of all.
    """
    if training:
        names = in_words([str(pod.ref) for pod in training])
        raise Conflict(f"another machine for {case.node} is not asked for while training runs on it: {names}")
    if tickets is None:
        return Outcome(f"{_NO_TICKETS}, so no other machine was asked for", done=False)
    asked = letters.report(case, cluster, rules, state=state, ask=Step.REPLACE)
    report = replace(asked, key=replacement_key(case))
    filed = tickets.find(report.key)
    if filed is None:
        still()
        filed = tickets.open(report)
    return Outcome(f"ticket {filed.ref} asks for another machine in place of {case.node}", filed.ref)


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
    for found in filter(None, (tickets.find(key) for key in keys)):
        try:
            tickets.close(found.ref, why)
        except TicketsRefused as error:
            refused.append(str(error))
        else:
            closed.append(found.ref)
    if refused:
        return Outcome(f"the provider's side closes no ticket of {case.node}: {refused[0]}", done=False)
    if not closed:
        return Outcome(f"no ticket of case {case.id} on {case.node} is open any more")
    said = f"ticket {closed[0]} of {case.node} is" if len(closed) == 1 else f"{in_words(closed)} of {case.node} are"
    return Outcome(f"{said} closed", closed[-1])


def _ticket_of(case: Case) -> str:
    """What people are to look for: the request for another machine, else the report."""
    states = (case.effects.get(effect) for effect in (Effect.REPLACE, Effect.TICKET))
    return next((state.ref for state in states if state is not None and state.status is EffectStatus.DONE), "")
