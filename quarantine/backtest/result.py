"""What a backtest finds, as records. Times are aware UTC datetimes; `end` None means: to the end of the span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.core.case import Evidence, HeldBy
from quarantine.core.model import Device, Severity
from quarantine.core.series import Grid

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Span:
    """The stretch of history that is looked at, both ends included, and how often it is looked at."""

    start: datetime
    end: datetime
    step: timedelta = timedelta(minutes=1)

    @property
    def grid(self) -> Grid:
        """The moments that are looked at: multiples of the step since 1970. Raises ValueError as `Grid.within`."""
        return Grid.within(self.start, self.end, self.step)


@dataclass(frozen=True, slots=True)
class Outage:
    """A machine out of service: from the decision to quarantine it to the end of its case."""

    node: str
    case: str
    policy: str  # the one that decided
    device: Device
    severity: Severity
    start: datetime
    end: datetime | None
    reason: str  # one sentence for people
    gpus: int  # that the node has, as far as is known; they are out with it
    evidence: Evidence
    also: tuple[str, ...] = ()  # further policies that found the machine bad while its case was open
    good_at: datetime | None = None  # since when no finding of it stands any more; it stays out all the same

    def lasted(self, until: datetime) -> timedelta:
        """How long it was out, looked at from `until`, the end of the span."""
        return (self.end or until) - self.start


@dataclass(frozen=True, slots=True)
class Held:
    """Something that stood in the way of a decision for a while. `node` None: the policy itself was held."""

    node: str | None  # as the series say it, where no node is called so
    policy: str | None
    held_by: HeldBy
    start: datetime
    end: datetime | None
    reason: str  # one sentence for people

    @property
    def stray(self) -> bool:
        """Whether it names a node that is not in the inventory."""
        return self.held_by in (HeldBy.NO_SUCH_NODE, HeldBy.AMBIGUOUS_NODE)


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch for which a policy's question has no answer, or in which it saw nothing: unknown, neither bad nor good.

    Both ends are in it.
    """

    policy: str
    start: datetime
    end: datetime
    detail: str  # one sentence: which question, the URL, what to do


@dataclass(frozen=True, slots=True)
class Result:
    """What one version of the policies would have done over a span."""

    span: Span
    nodes: int  # in the inventory
    gpus: int  # of these, as far as is known
    policies: tuple[str, ...]
    outages: tuple[Outage, ...]  # in order of their start
    held: tuple[Held, ...]  # in order of their start; strays too
    gaps: tuple[Gap, ...]  # by policy, in order of time; neighbours of one reason are joined
    decisions: int  # of all kinds
    queries: int  # range queries asked
    points: int  # values that they answered
    steps: int  # looks at the fleet that were decided upon; the others could not have differed
    assumptions: tuple[str, ...]  # sentences: what this takes for granted
    unseen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by policy: machines that it never saw
    partly: Mapping[str, Mapping[str, timedelta]] = field(default_factory=dict)  # those it saw for a part, and how long

    def gpu_hours_out(self, policy: str | None = None) -> float:
        """GPU-hours out of service, of all outages or of those that one policy decided."""
        return sum(o.gpus * (o.lasted(self.span.end) / HOUR) for o in self.outages if policy in (None, o.policy))

    def machine_hours_out(self, policy: str | None = None) -> float:
        """As `gpu_hours_out`, of machines."""
        return sum(o.lasted(self.span.end) / HOUR for o in self.outages if policy in (None, o.policy))

    def gpu_hours(self) -> float:
        """All GPU-hours of the inventory over the span."""
        return self.gpus * ((self.span.end - self.span.start) / HOUR)

    def by_node(self) -> Mapping[str, tuple[Outage, ...]]:
        """The outages of each machine that had one, by its name."""
        found: dict[str, list[Outage]] = {}
        for outage in self.outages:
            found.setdefault(outage.node, []).append(outage)
        return {node: tuple(found[node]) for node in sorted(found)}

    def unanswered(self, policy: str) -> timedelta:
        """For how long in all a policy had no answer."""
        lasted, until = timedelta(0), None
        for gap in sorted((g for g in self.gaps if g.policy == policy), key=lambda g: g.start):
            start = gap.start if until is None else max(gap.start, until)  # two reasons may overlap
            until = max(gap.end + self.span.step, until or gap.end)
            lasted += max(timedelta(0), until - start)
        return lasted

    @property
    def blind(self) -> bool:
        """Whether no policy was answered at any time: nothing was found, and that means nothing."""
        grid = self.span.grid
        return bool(self.policies) and all(self.unanswered(p) >= grid.count * grid.step for p in self.policies)
