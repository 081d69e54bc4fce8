"""The trail of a node by its cases: what each came to in one sentence, and the decisions that say so.

Everything is folded from the rows that are given, and nothing else: of rows up to a moment it is what was known then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from quarantine.core.case import Case, Effect, Phase
from quarantine.core.decision import Decision, State
from quarantine.core.model import Machine
from quarantine.core.record.milestones import Milestones, follow
from quarantine.core.signs import in_utc
from quarantine.core.state import evolve

Row = tuple[int, Decision]


@dataclass(frozen=True, slots=True)
class Chapter:
    """A case with its decisions; or decisions of no case that stand together, without `case` and `times`."""

    case: Case | None
    times: Milestones | None
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """A node's trail: its cases as they stood at the end of it, oldest first."""

    state: State
    chapters: tuple[Chapter, ...]
    odd: tuple[int, ...] = ()  # decisions that do not follow from those before them, and change nothing here

    def chapter(self, case: str) -> Chapter | None:
        """The one of this case."""
        return next((c for c in self.chapters if c.case is not None and c.case.id == case), None)


@dataclass(slots=True)
class _Open:
    case: str | None
    times: Milestones | None = None
    rows: list[Row] = field(default_factory=list)


def chapters(rows: Iterable[Row]) -> Told:
    """Fold a node's decisions, which are in order."""
    state, found, odd = State(), list[_Open](), list[int]()
    for seq, decision in rows:
        into = next((c for c in found if c.case == decision.case), None) if decision.case else None
        if into is None and (decision.case or not found or found[-1].case):
            found.append(_Open(decision.case))
        into = into or found[-1]
        into.rows.append((seq, decision))
        try:
            state = evolve(state, decision)
        except ValueError:
            odd.append(seq)
            continue
        if decision.case and decision.case in state.cases:
            into.times = follow(into.times, decision, state.cases[decision.case])
    made = [Chapter(state.cases.get(c.case) if c.case else None, c.times, tuple(c.rows)) for c in found]
    return Told(state, tuple(made), tuple(odd))


# --- In one sentence --------------------------------------------------------------------------------------------------


def headline(chapter: Chapter) -> str:
    """What a case came to: taken out when and why, told to whom, back when. Empty where there is no case."""
    case, times = chapter.case, chapter.times
    if case is None or times is None:
        return ""
    meanwhile = sorted(_meanwhile(case, times), key=lambda said: said[0])
    return "; ".join((_beginning(case, times), *(text for _, text in meanwhile), _end(case, times)))


def _beginning(case: Case, times: Milestones) -> str:
    by = f" by the word of {case.opened_by}" if case.by_person else ""
    if times.out_at is not None:
        late = "" if times.marked_at else ", and never marked" if not case.open else ", and not marked yet"
        return f"{case.node} was taken out at {in_utc(times.out_at)}{by}{late}, because {case.reason}"
    held = f", held by {case.held_by}" if case.held_by is not None else ""
    return f"{case.node} was suspected at {in_utc(times.opened_at)}{by} and not taken out{held}: {case.reason}"


def _meanwhile(case: Case, times: Milestones) -> Iterator[tuple[datetime, str]]:
    told = [case.effects[effect].ref for effect in (Effect.TICKET, Effect.REPLACE) if effect in case.effects]
    refs = ", ".join(dict.fromkeys(filter(None, told)))
    provider = f" ({times.provider})" if times.provider else ""
    for at, text, more in (
        (times.drained_at, "it was empty at", ""),
        (times.ticket_at, f"its provider{provider} was told at", f" (ticket {refs})" if refs else ""),
        (times.asked_at, "another machine was asked for at", ""),
        (times.swapped_at, "another machine, or part, was in its place at", ""),
    ):
        if at is not None:
            yield at, f"{text} {in_utc(at)}{more}"


def _end(case: Case, times: Milestones) -> str:
    ended = in_utc(times.ended_at or case.phase_since)
    if case.open:
        return "the case is open"
    if case.phase is Phase.RETIRED:
        return f"it left the fleet at {ended}"
    if times.out_at is None:
        return f"{case.phase} at {ended}"
    if times.back_at is None:
        return f"{case.phase} at {ended}, and its marks are still to be taken off"
    back = in_utc(times.back_at)
    return f"{case.phase}{f' at {ended}' if ended != back else ''}, and back in service at {back}"


def hardware(machine: Machine) -> str:
    """What is known of the hardware that a case is about, by all of its names."""
    named = (
        ("provider id", machine.provider_id),
        ("system UUID", machine.system_uuid),
        ("Node uid", machine.node_uid),
        ("place", machine.place),
        ("GPUs", ", ".join(machine.gpus)),
    )
    return ", ".join(f"{what} {value}" for what, value in named if value) or "nothing is known of its hardware"
