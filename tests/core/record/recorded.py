"""A trail folded into what is read out of it, as the ledger's writer does it: decision by decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import pairwise

from quarantine.core.case import Phase
from quarantine.core.decision import Decision, State
from quarantine.core.record import milestones, spans
from quarantine.core.record.milestones import Milestones
from quarantine.core.record.spans import HoldSpan
from quarantine.core.state import evolve

TIMES = [field.name for field in fields(Milestones) if field.name.endswith("_at")]


@dataclass
class Record:
    """What a trail adds up to, and every form that each case's milestones had on the way."""

    state: State = field(default_factory=State)
    milestones: dict[str, list[Milestones]] = field(default_factory=dict)  # by case, oldest first
    spans: dict[int, HoldSpan] = field(default_factory=dict)  # by the decision that began them
    standing: Mapping[str, HoldSpan] = field(default_factory=dict)
    seq: int = 0
    behind: bool = False  # whether a clock ever was

    def add(self, trail: Iterable[Decision]) -> Record:
        """Fold these as well."""
        for decision in trail:
            self.seq += 1
            self.behind |= self.state.recorded_until is not None and decision.at < self.state.recorded_until
            after = evolve(self.state, decision)
            before = self.state.cases.get(decision.case) if decision.case else None
            case = after.cases[decision.case] if decision.case else None
            if case is not None:
                known = self.milestones.setdefault(case.id, [])
                known.append(milestones.follow(known[-1] if known else None, decision, case))
            changed = spans.follow(self.standing, self.seq, decision, before, case)
            self.standing = spans.stand(self.standing, changed)
            self.spans |= {span.seq: span for span in changed}
            self.state = after
        return self

    def of(self, node: str) -> Milestones:
        """Of the node's only case."""
        (found,) = (known[-1] for known in self.milestones.values() if known[-1].node == node)
        return found


def record(trail: Iterable[Decision]) -> Record:
    """What this trail adds up to."""
    return Record().add(trail)


def spans_are_sound(found: Record) -> None:
    """Spans of one key do not overlap, none is negative, and what stands is what has no end."""
    last: dict[str, HoldSpan] = {}
    for seq, span in sorted(found.spans.items()):
        assert span.seq == seq
        before = last.get(span.key)
        assert before is None or before.until is not None, "at most one stands under a key"
        assert before is None or before.until is None or before.until <= span.since or found.behind, "no overlap"
        assert span.until is None or span.until >= span.since
        last[span.key] = span
    assert {span.key for span in found.spans.values() if span.until is None} == found.standing.keys()


def times_are_sound(known: Sequence[Milestones]) -> None:
    """Of one case: they are in their order, and none that was said is unsaid."""
    for found in known:
        order = (found.found_at, found.opened_at, found.out_at, found.marked_at, found.back_at)
        in_order([at for at in order if at is not None])
        in_order([at for at in (found.out_at, found.drained_at, found.ended_at) if at is not None])
        in_order([at for at in (found.out_at, found.asked_at, found.swapped_at) if at is not None])
        assert found.out_at is not None or (found.marked_at, found.back_at) == (None, None)
        assert (found.ended_at is not None) is (found.phase in (Phase.RELEASED, Phase.DISMISSED, Phase.RETIRED))
        assert found.back_at is None or found.ended_at is not None
    for before, after in pairwise(known):
        for name in TIMES:
            said = getattr(before, name)
            assert said is None or getattr(after, name) == said, f"{name} does not move"
        assert after.same_returned >= before.same_returned
        assert before.ended_at is None or after.fate is before.fate


def in_order(times: Sequence[datetime]) -> None:
    """None of them is before the one that is said before it."""
    assert list(times) == sorted(times), times
