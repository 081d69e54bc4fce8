"""When what happened to a machine: one row for each case, from which every report is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from quarantine.core.case import Case, Effect, HeldBy, Phase, Step
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Severity
from quarantine.core.record.subjects import machine_key
from quarantine.core.tickets import TicketState
from quarantine.core.treatment.place import same_chassis
from quarantine.core.waivers import BY_ANNOTATION


class Fate(StrEnum):
    """What the trail says about a case's cause."""

    CONFIRMED = "confirmed"  # the machine was exchanged or repaired, or left the fleet, or a person had reported it
    REFUTED = "refuted"  # a person, or the provider, found no fault
    RETURNED = "returned"  # it was put back; whether something was found and repaired is not in the trail
    OPEN = "open"  # nobody has said yet


def fate(case: Case) -> Fate:
    """What is known of a case: by the machine and by people first, then by the provider's own word."""
    if _exchanged(case) or _said_repaired(case):
        return Fate.CONFIRMED
    return _providers_word(case) or _by_its_end(case)


def _by_its_end(case: Case) -> Fate:
    """What the phase that it has come to says of it."""
    match case.phase:
        case Phase.SWAPPED:
            return Fate.CONFIRMED
        case Phase.RETIRED:
            # An autoscaler takes away suspects too, and machines that only had to prove themselves.
            held_against = case.cordoned_by_us is not None and (bool(case.findings) or not case.gate)
            return Fate.CONFIRMED if case.by_person or held_against else Fate.OPEN
        case Phase.DISMISSED:
            # A suspicion that went by itself was never put to anybody.
            return Fate.REFUTED if case.by_person or case.cordoned_by_us is not None else Fate.OPEN
        case Phase.RELEASED:
            return Fate.RETURNED
        case _:
            return Fate.CONFIRMED if case.by_person else Fate.OPEN


@dataclass(frozen=True, slots=True)
class Milestones:
    """A case by its times (aware, UTC). None: it has not happened, or not yet.

    Every time is the first of its kind, and of the first exchange where there were several. `found_at`, `opened_at`,
    `out_at`, `marked_at` and `back_at` are in this order, `asked_at` is not after `swapped_at`, and nothing is before
    `opened_at` but `found_at`, also where a leader's clock was behind the one before.
    """

    case: str
    node: str
    machine: str  # `subjects.machine_key` of the machine that the case was opened for
    pool: str
    provider: str
    policy: str  # of the finding that it was taken out for, or opened for; empty: a person's, or a gate's
    signal: str
    device: str  # kind:name
    severity: Severity | None
    by_person: bool
    gate: bool
    phase: Phase
    opened_at: datetime
    found_at: datetime  # since when, by its evidence, that was seen what it was opened for
    out_at: datetime | None = None  # it was decided to take it out
    marked_at: datetime | None = None  # the taint was set
    drained_at: datetime | None = None
    ticket_at: datetime | None = None  # the provider was first told
    asked_at: datetime | None = None  # the provider was asked for another machine
    acknowledged_at: datetime | None = None  # the provider said that it had seen that
    swapped_at: datetime | None = None
    back_at: datetime | None = None  # our marks were taken off, or the machine left the fleet
    ended_at: datetime | None = None
    fate: Fate = Fate.OPEN
    same_returned: bool = False  # what came in exchange was what was sent away, or had a part of it that was bad


def follow(before: Milestones | None, decision: Decision, case: Case) -> Milestones:
    """The milestones after a decision, of which `case` is the case as folded. `before`: None for the first one.

    `before` itself where nothing of them changes. Times are those of the decisions: outcomes are decisions too.
    """
    known = before if before is not None else _opened(decision, case)
    at = max(decision.at, _latest(known))
    done = decision.effect if decision.kind is Kind.DONE else None
    adopted = decision.kind is Kind.DECIDED and decision.action is Action.ADOPT  # its mark is there, as it was found
    marks = (done is Effect.MARK or adopted) and known.back_at is None
    out_at = known.out_at or (at if case.marked else None)
    tells = done in (Effect.TICKET, Effect.REPLACE) and bool(decision.ref)
    after: dict[str, Any] = {
        **(_cause(decision) if out_at is not None and known.out_at is None else {}),
        "machine": machine_key(case.sent_away or case.machine),
        "pool": case.pool or known.pool,
        "provider": decision.provider or case.provider or known.provider,
        "by_person": case.by_person,
        "gate": case.gate,
        "phase": case.phase,
        "out_at": out_at,
        "marked_at": known.marked_at or (at if marks else None),
        "drained_at": known.drained_at or (at if case.phase is Phase.DRAINED else None),
        "ticket_at": known.ticket_at or (at if tells else None),
        "asked_at": _asked_at(known, case, at),
        "acknowledged_at": known.acknowledged_at or _acknowledged_at(decision, known),
        # Not `case.swapped_at`: that is also of a machine that came back as it was sent away, which is no exchange.
        "swapped_at": known.swapped_at or (at if case.phase is Phase.SWAPPED else None),
        "back_at": known.back_at or (at if out_at is not None and _back(case) else None),
        "ended_at": known.ended_at or (None if case.open else at),
        "fate": _fate(known, decision, case),
        "same_returned": known.same_returned or decision.held_by is HeldBy.SAME_MACHINE,
    }
    changed = {name: value for name, value in after.items() if getattr(known, name) != value}
    return replace(known, **changed) if changed else known


# --- What became of it ------------------------------------------------------------------------------------------------

_VERDICTS: Mapping[TicketState, Fate] = {
    TicketState.REPLACED: Fate.CONFIRMED,
    TicketState.HOST_RELEASED: Fate.CONFIRMED,
    TicketState.NO_FAULT_FOUND: Fate.REFUTED,
}


def _exchanged(case: Case) -> bool:
    """Whether another machine, or another GPU, is in the place of what was sent away: not what came back as it was."""
    away, now = case.sent_away, case.machine
    if away is None:
        return False
    part = bool(away.gpus) and bool(now.gpus) and away.gpus != now.gpus
    return part or not same_chassis(now, away)


def _providers_word(case: Case) -> Fate | None:
    """The latest of its verdicts; None where there is none. That a ticket was closed, or refused, says nothing."""
    verdicts = [_VERDICTS[filing.state] for filing in case.filings if filing.state in _VERDICTS]
    return verdicts[-1] if verdicts else None


def _said_repaired(case: Case) -> bool:
    """Whether a person said that what is there now was repaired."""
    return case.renewed_at is not None and (case.swapped_at is None or case.renewed_at > case.swapped_at)


def _fate(known: Milestones, decision: Decision, case: Case) -> Fate:
    """As the case tells it, but for a dismissal without a word on the machine: evidence grew old, or a ledger was
    restored, or a waiver began. A person's no leaves the findings alone for a while, also where nothing was marked yet.
    """
    waived = decision.action is Action.WAIVE or decision.actor == BY_ANNOTATION
    dismissed = case.phase is Phase.DISMISSED
    if dismissed and (decision.until is None or waived):
        return known.fate
    told = fate(case)
    return Fate.REFUTED if dismissed and told is Fate.OPEN and decision.request is not None else told


# --- Times ------------------------------------------------------------------------------------------------------------


def _opened(decision: Decision, case: Case) -> Milestones:
    """What the decision that opens a case says of it."""
    return Milestones(
        case=case.id,
        node=case.node,
        machine=machine_key(case.machine),
        pool=case.pool,
        provider=case.provider,
        **_cause(decision),
        by_person=case.by_person,
        gate=case.gate,
        phase=case.phase,
        opened_at=case.opened_at,
        found_at=_found_at(decision, case.opened_at),
    )


def _cause(decision: Decision) -> Mapping[str, Any]:
    """What a machine is suspected of or taken out for; of a person, a gate or a mark that was found, nothing."""
    if decision.policy is None:
        return {"policy": "", "signal": "", "device": "", "severity": None}
    device, evidence = decision.device, decision.evidence
    return {
        "policy": decision.policy,
        "signal": evidence.signal if evidence is not None else "",
        "device": f"{device.kind}:{device.name}" if device is not None else "",
        "severity": decision.severity,
    }


def _found_at(decision: Decision, opened_at: datetime) -> datetime:
    """As early as the evidence shows it, where it does."""
    evidence = decision.evidence
    if evidence is None:
        return opened_at
    shown = evidence.trace.since if evidence.trace is not None else None
    return min(shown or evidence.at, evidence.at, opened_at)


def _latest(known: Milestones) -> datetime:
    """The newest of the times. No later one is before it: clocks of two leaders differ, and no span is negative."""
    times = (
        known.opened_at,
        known.out_at,
        known.marked_at,
        known.drained_at,
        known.ticket_at,
        known.asked_at,
        known.acknowledged_at,
        known.swapped_at,
        known.back_at,
        known.ended_at,
    )
    return max(at for at in times if at is not None)


def _asked_at(known: Milestones, case: Case, at: datetime) -> datetime | None:
    """When the provider was asked first, once that is known: asking may fail for hours.

    Where it is given up, people ask by hand, and when they were told so is the best that is known.
    """
    asked = case.phase is Phase.SWAP_REQUESTED and not case.is_pending(Effect.REPLACE)
    return at if known.asked_at is None and known.swapped_at is None and asked else known.asked_at


def _acknowledged_at(decision: Decision, known: Milestones) -> datetime | None:
    """When it was heard that the request for another machine was seen; heard of late, it counts from then."""
    filing = decision.ticket
    if filing is None or filing.ask != Step.REPLACE or filing.acknowledged_at is None:
        return None
    return max(filing.acknowledged_at, _latest(known))


def _back(case: Case) -> bool:
    """Whether a machine that was out is not so any more because of us. Marks of a machine that left went with it."""
    return not case.open and (case.phase is Phase.RETIRED or not case.is_pending(Effect.UNMARK))
