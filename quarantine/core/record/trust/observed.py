"""For how long a policy has observed: the time in which what it finds was the same, less that in which it was blind
and that of which nothing shows that a controller was at work.

An edition that differs in words, in mode or in what is done about a finding finds the same. One for fewer machines
finds a part of it, so what was observed holds for it too; one for more machines has not been seen on those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from quarantine.core.policy import PolicySpec
from quarantine.core.record.trust.material import Edition, Found, Stretch, Trail

DAY = timedelta(days=1)
_NONE = timedelta(0)
# Of a policy: what changes nothing about what is found on a machine that it looks at.
_NOT_FOUND_BY = {"description", "owner", "mode", "response", "node_selector"}


def finds_the_same(one: PolicySpec, other: PolicySpec) -> bool:
    """Whether both find the same on a machine that both look at."""
    return _means(one) == _means(other)


def is_within(narrow: Mapping[str, str], wide: Mapping[str, str]) -> bool:
    """Whether every node with the labels of the one has those of the other."""
    return wide.items() <= narrow.items()


def _means(spec: PolicySpec) -> dict[str, object]:
    return spec.model_dump(mode="json", exclude_defaults=True, exclude=_NOT_FOUND_BY)


@dataclass(frozen=True, slots=True)
class Run:
    """The latest editions that find the same as the asked one, without a break; none where the present one differs."""

    editions: tuple[Edition, ...]
    until: datetime  # of what the ledger knows

    @property
    def since(self) -> datetime | None:
        """When the first of them came into force; None: none is."""
        return self.editions[0].at if self.editions else None

    def stretches(self, selector: Mapping[str, str]) -> Iterator[tuple[datetime, datetime]]:
        """When an edition was in force that looks at every machine of this selector."""
        ends = [*(edition.at for edition in self.editions), self.until][1:]
        for edition, end in zip(self.editions, ends, strict=True):
            looks = edition.spec is not None and is_within(selector, edition.spec.node_selector)
            if looks and edition.at < end:
                yield edition.at, end

    @property
    def selectors(self) -> tuple[Mapping[str, str], ...]:
        """Of its editions."""
        return tuple(edition.spec.node_selector for edition in self.editions if edition.spec is not None)


def run(trail: Trail, spec: PolicySpec, until: datetime) -> Run:
    """The run of what this spec finds."""
    found: list[Edition] = []
    for edition in reversed(trail.editions):
        if edition.spec is None or not finds_the_same(edition.spec, spec):
            break
        found.append(edition)
    return Run(tuple(reversed(found)), until)


def observed(of: Run, trail: Trail, selector: Mapping[str, str]) -> timedelta:
    """For how long machines of this selector were looked at with answers."""
    return sum((_seen(begun, over, trail, of.until) for begun, over in of.stretches(selector)), _NONE)


def _seen(begun: datetime, over: datetime, trail: Trail, until: datetime) -> timedelta:
    return over - begun - _covered((*trail.blind, *trail.unproven), begun, over, until)


def unproven(of: Run, trail: Trail, selector: Mapping[str, str]) -> timedelta:
    """For how long they would have been looked at, if a controller was at work then, which nothing shows."""
    spans = of.stretches(selector)
    return sum((_covered(trail.unproven, begun, over, of.until) for begun, over in spans), _NONE)


def _covered(stretches: Iterable[Stretch], begun: datetime, over: datetime, until: datetime) -> timedelta:
    """How much of the time these cover together."""
    total, reached = _NONE, begun
    for stretch in sorted(stretches, key=lambda one: one.since):
        start, end = max(stretch.since, reached), min(stretch.until or until, over)
        if start < end:
            total += end - start
            reached = end
    return total


# --- Day by day -------------------------------------------------------------------------------------------------------


class Day(StrEnum):
    """What a day of the window was."""

    NONE = "none"  # it did not observe, or nothing shows that it did
    BLIND = "blind"  # for half of the time, or more
    QUIET = "quiet"
    FOUND = "found"
    REFUTED = "refuted"  # something that was judged false


def days(of: Run, trail: Trail, selector: Mapping[str, str], since: datetime, found: Found) -> tuple[Day, ...]:
    """Day by day from `since` on; the last one may have just begun. `found` counts its days from there too."""
    bounds = pairwise(_bounds(since, of.until))
    return tuple(_day_with(of, trail, selector, span, found, n) for n, span in enumerate(bounds))


def _day_with(
    of: Run, trail: Trail, selector: Mapping[str, str], span: tuple[datetime, datetime], found: Found, number: int
) -> Day:
    if number in found.refuted_days:
        return Day.REFUTED
    return Day.FOUND if found.days.get(number) else _day(of, trail, selector, *span)


def _bounds(since: datetime, until: datetime) -> Sequence[datetime]:
    bounds = [since]
    while bounds[-1] < until:
        bounds.append(min(bounds[-1] + DAY, until))
    return bounds


def _day(of: Run, trail: Trail, selector: Mapping[str, str], begun: datetime, over: datetime) -> Day:
    parts = [(max(a, begun), min(b, over)) for a, b in of.stretches(selector) if a < over and b > begun]
    there = sum((b - a for a, b in parts), _NONE)
    absent = sum((_covered(trail.unproven, a, b, of.until) for a, b in parts), _NONE)
    if 2 * absent >= there:
        return Day.NONE
    seen = sum((_seen(a, b, trail, of.until) for a, b in parts), _NONE)
    return Day.BLIND if 2 * seen <= there else Day.QUIET
