"""The story of a case as people read it beside its message: one line for each decision that changed something.

What Kubernetes is shown, what was looked up and what a lifted hold says is left out: `quarantine explain` has it all.
"""

from __future__ import annotations

from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.tickets import TicketState

_TOLD = frozenset(
    {
        *(Action.QUARANTINE, Action.JOIN, Action.ADOPT, Action.DRAIN, Action.RUN, Action.STEP, Action.SWAP),
        *(Action.PROVE, Action.RELEASE, Action.DISMISS, Action.RETIRE, Action.WAIVE, Action.APPROVE, Action.DEFER),
        *(Action.HEAR, Action.WITHDRAW),
    }
)
_TOLD_ONCE_DONE = frozenset({Effect.TICKET, Effect.REPLACE, Effect.UNMARK, Effect.CLOSE})

# For those who are told nothing of what the decision was taken on: by the phase that it leads to.
_PHASES = {
    Phase.QUARANTINED: "the machine is out of service",
    Phase.DRAINED: "what ran there has left",
    Phase.REMEDY: "a remedy is tried",
    Phase.SWAP_REQUESTED: "another machine is asked for",
    Phase.SWAPPED: "another machine is in its place",
    Phase.PROBATION: "it is on probation: it proves itself",
    Phase.RELEASED: "it is back in service",
    Phase.DISMISSED: "it is back in service",
    Phase.RETIRED: "it has left the cluster",
}
_HEARD = {
    TicketState.FILED: "is filed",
    TicketState.ACKNOWLEDGED: "is acknowledged",
    TicketState.IN_PROGRESS: "is worked on",
    TicketState.REPLACED: "says that the machine was replaced",
    TicketState.HOST_RELEASED: "says that the machine was taken back",
    TicketState.NO_FAULT_FOUND: "says that no fault was found",
    TicketState.REFUSED: "says that the machine is not replaced",
    TicketState.CLOSED: "is closed",
}


def line(decision: Decision, *, shared: bool = False) -> str:
    """A decision as a line of the story, raw; empty where it is not told.

    `shared`: others than our own people read it, so it says what became of the machine, and nothing of why.
    """
    if shared:
        return _to_others(decision)
    match decision.kind:
        case Kind.HELD:
            return f"held: {decision.reason}"
        case Kind.FAILED:
            return f"given up: {decision.reason}"
        case Kind.DONE:
            return decision.reason if decision.effect in _TOLD_ONCE_DONE else ""
        case Kind.DECIDED:
            return decision.reason if decision.action in _TOLD else ""


def heard(state: TicketState) -> str:
    """How far a ticket has come, as a predicate: `is acknowledged`."""
    return _HEARD[state]


def _to_others(decision: Decision) -> str:
    if decision.kind is Kind.DONE and decision.effect in (Effect.TICKET, Effect.REPLACE) and decision.ref:
        return f"ticket {decision.ref} is filed"
    if decision.kind is not Kind.DECIDED:
        return ""
    if decision.action is Action.HEAR and decision.ticket is not None:
        return f"ticket {decision.ticket.ref} {heard(decision.ticket.state)}"
    return _PHASES.get(decision.phase, "") if decision.phase is not None else ""
