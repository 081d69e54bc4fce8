"""What a node, a machine or a GPU went through: each of its cases in a line, folded while its decisions stream by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import Case, Phase
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.record.chapters import Chapter, headline
from quarantine.core.record.milestones import Milestones, follow
from quarantine.core.record.subjects import machine_key
from quarantine.core.signs import in_utc
from quarantine.core.state import evolve

_ENDS = (Phase.RELEASED, Phase.DISMISSED, Phase.RETIRED)


@dataclass(frozen=True, slots=True)
class Line:
    """A case, as far as it is about whose history is told.

    `times` is None where what opened it is about other hardware, or was decided before this was known to be there.
    """

    cluster: str
    id: str
    node: str
    since: datetime  # its first decision here
    until: datetime  # and its last
    phase: Phase | None  # as it was told of last
    times: Milestones | None
    text: str  # why, what was done, and how it ended


@dataclass(slots=True)
class _Case:
    node: str
    since: datetime
    until: datetime
    opened: bool  # whether the first decision here is the one that opened it
    came: bool  # whether that one put this hardware in the place of another
    state: State
    times: Milestones | None = None
    exchanged: str = ""  # what came in its place, where that was decided last
    phase: Phase | None = None
    phase_since: datetime | None = None


class Cases:
    """The cases of a history. Told its decisions one by one; keeps none of them."""

    def __init__(self) -> None:
        """None yet."""
        self._found: dict[tuple[str, str], _Case] = {}

    def follow(self, cluster: str, decision: Decision) -> None:
        """Take note of the next decision of a cluster."""
        if decision.case is None:
            return
        known = self._found.get((cluster, decision.case))
        if known is None:
            known = self._found[cluster, decision.case] = _begun(decision)
        known.until = max(known.until, decision.at)
        if decision.phase is not None and decision.phase is not known.phase:
            known.phase, known.phase_since = decision.phase, decision.at
        if not known.opened:
            return
        was = known.state.cases.get(decision.case)
        try:
            known.state = evolve(known.state, decision)
        except ValueError:
            return  # what came between is about other hardware
        now = known.state.cases[decision.case]
        known.times = follow(known.times, decision, now)
        other = was is not None and machine_key(was.machine) != machine_key(now.machine)
        known.exchanged = machine_key(now.machine) if other and decision.action is Action.SWAP else ""

    def lines(self) -> list[Line]:
        """In the order in which they began."""
        made = [
            Line(
                cluster, id_, one.node, one.since, one.until, one.phase, one.times, _text(one, one.state.cases.get(id_))
            )
            for (cluster, id_), one in self._found.items()
        ]
        return sorted(made, key=lambda line: (line.since, line.cluster, line.id))


def _begun(decision: Decision) -> _Case:
    opens = decision.action in (Action.QUARANTINE, Action.ADOPT) or bool(decision.gate)
    return _Case(
        node=decision.node or "",
        since=decision.at,
        until=decision.at,
        opened=opens and decision.kind in (Kind.DECIDED, Kind.HELD),
        came=decision.action is Action.SWAP,
        state=State(),
    )


def _text(known: _Case, case: Case | None) -> str:
    if case is None or known.times is None:
        seen = "came in exchange" if known.came else "was first seen there"
        return f"{known.node} had this case already when this hardware {seen}, at {in_utc(known.since)}{_ended(known)}"
    told = headline(Chapter(case, known.times, ()))
    if not known.exchanged:
        return told
    # How the case ended is told of what came in its place.
    return f"{told.rpartition('; ')[0]}; what came is {known.exchanged}, and the case goes on with that"


def _ended(known: _Case) -> str:
    if known.phase not in _ENDS or known.phase_since is None:
        return ""
    return f"; {known.phase} at {in_utc(known.phase_since)}"
