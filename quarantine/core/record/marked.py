"""The moments of a case that a chart marks: found, held, taken out, marked, drained, reported, exchanged, back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import Effect, Phase, RunOutcome
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Device

_PHASES = {
    Phase.QUARANTINED: "quarantined",
    Phase.DRAINING: "drain begins",
    Phase.DRAINED: "drained",
    Phase.REMEDY: "repair begins",
    Phase.SWAP_REQUESTED: "replacement wanted",
    Phase.SWAPPED: "swapped",
    Phase.PROBATION: "probation begins",
    Phase.RELEASED: "released",
    Phase.DISMISSED: "dismissed",
    Phase.RETIRED: "left the fleet",
}
_ENDED = {
    RunOutcome.SUCCEEDED: "succeeded",
    RunOutcome.FAILED: "failed",
    RunOutcome.LATE: "ran out of time",
    RunOutcome.LOST: "is lost",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened, by the decision that tells of it."""

    at: datetime
    seq: int
    text: str
    number: int = 0  # as a chart names it


def marks(rows: Iterable[tuple[int, Decision]]) -> list[Mark]:
    """What happened in a case, oldest first; that what is said twice in a row is said once."""
    found: list[Mark] = []
    phase: Phase | None = None
    for seq, decision in rows:
        for at, text in _said(decision, phase):
            if not found or found[-1].text != text:
                found.append(Mark(at, seq, text))
        if decision.phase is not None and decision.kind in (Kind.DECIDED, Kind.HELD):
            phase = decision.phase
    return sorted(found, key=lambda mark: (mark.at, mark.seq))


def _said(d: Decision, before: Phase | None) -> Iterator[tuple[datetime, str]]:
    if d.kind is Kind.DONE:
        text = _done(d)
        if text:
            yield d.at, text
        return
    if d.kind is Kind.FAILED:
        if d.effect in (Effect.MARK, Effect.UNMARK, Effect.TICKET, Effect.REPLACE):
            yield d.at, f"given up: {d.effect}"
        return
    if d.evidence is not None and d.action in (Action.QUARANTINE, Action.JOIN) and before is None:
        yield d.evidence.at, "found bad"
    elif d.action is Action.JOIN and d.device is not None and d.kind is Kind.DECIDED:
        yield d.at, f"also bad: {_short(d.device)}"
    if d.held_by is not None and d.action is Action.QUARANTINE:
        yield d.at, f"held by {d.held_by}"
    if d.action is Action.RECOVER and d.device is not None and d.kind is Kind.DECIDED:
        yield d.at, f"good again: {_short(d.device)}"
    if d.run is not None and d.run.outcome in _ENDED:
        yield d.at, f"{d.run.purpose} {_ENDED[d.run.outcome]}"
    elif d.run is not None and d.kind is Kind.DECIDED:
        yield d.at, f"{d.run.purpose} begun"
    if d.phase is not None and d.phase is not before and d.phase in _PHASES and d.kind is Kind.DECIDED:
        again = d.phase is Phase.QUARANTINED and d.action is Action.PROVE  # from probation
        yield d.at, ("bad again: quarantined" if again else _PHASES[d.phase]) + _by(d)


def _short(device: Device) -> str:
    """Without the name in brackets, which stands in full above its finding."""
    return str(device).partition(" (")[0]


def _by(d: Decision) -> str:
    return "" if d.actor.startswith("controller") else f" by {d.actor}"


def _done(d: Decision) -> str:
    named = f" {d.ref}" if d.ref else ""
    match d.effect:
        case Effect.MARK:
            return "tainted" if d.cordoned_by_us is False else "cordoned and tainted"
        case Effect.UNMARK:
            return "marks taken off"
        case Effect.TICKET:
            return f"ticket{named}"
        case Effect.REPLACE:
            return f"replacement asked for{f':{named}' if named else ''}"
        case Effect.CLOSE:
            return "ticket closed"
        case _:
            return ""
