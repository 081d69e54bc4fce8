"""One cause or many? Machines that share something and fail together make that the suspect, not them (invariant 7).

A group falls under suspicion when two things are true of the findings that began together. They are on at least as many
machines of it as the policy says. And the share of its machines that are bad is at least three times that of all
others: what is spread evenly is no group's doing. A group of more than half the machines is the fleet, which is the
breaker's matter.

From then on the suspicion stands by itself: what begins in the group meanwhile belongs to it, and no machine that
leaves it lets the others go. It ends when fewer than two of its machines count any more. A machine counts as long as it
is bad, and for the rule's `within` after it left: good again, put back by a person, under work, or taken out, since
what is idle cannot recover.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby

from quarantine.core.model import Node
from quarantine.core.response import Correlation

TIMES = 3  # so many times the share of all others
_NEVER = datetime.min.replace(tzinfo=UTC)
_ALWAYS = datetime.max.replace(tzinfo=UTC)
Group = tuple[str, str]  # topology name and label value


@dataclass(frozen=True, slots=True)
class Suspect:
    """What machines that are bad at once have in common."""

    what: str  # the topology's name in the fleet file: rack
    which: str  # the value of its label: r7
    machines: tuple[str, ...]  # of this group, sorted

    def __str__(self) -> str:
        return f"{len(self.machines)} machines of {self.what} {self.which} at once: the {self.what} is the suspect"

    @property
    def group(self) -> Group:
        """What and which."""
        return (self.what, self.which)


@dataclass(frozen=True, slots=True)
class Onset:
    """One time that a machine was found bad."""

    node: str
    at: datetime
    left: datetime | None = None  # since when it no more counts by itself; None: it is bad, and may still recover
    shared: bool = False  # the trail says that it was held for what it shares with others

    def until(self, rule: Correlation) -> datetime:
        """How long it counts."""
        return _ALWAYS if self.left is None else self.left + rule.within


@dataclass(frozen=True, slots=True)
class Groups:
    """The machines that one policy looks after, by what they share."""

    covered: frozenset[str]
    members: Mapping[Group, frozenset[str]]
    groups: Mapping[str, tuple[Group, ...]]  # of a machine

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        rule: Correlation,
        topology: Mapping[str, str],
        shared: Mapping[Group, frozenset[str]] | None = None,
    ) -> Groups:
        """`topology`: the fleet's, name → node label. A node without the label is in no group of that name.

        `shared`: groups that no label says, such as the machines of one job, with their machines.
        """
        labels = [(what, topology[what]) for what in rule.by if what in topology]
        groups = {n.name: [(what, n.labels[key]) for what, key in labels if n.labels.get(key)] for n in nodes}
        for group, names in (shared or {}).items():
            for name in (names & groups.keys()) if group[0] in rule.by else ():
                groups[name].append(group)
        members: dict[Group, set[str]] = {}
        for name, keys in groups.items():
            for key in keys:
                members.setdefault(key, set()).add(name)
        covered = frozenset(groups)
        return cls(
            covered,
            {key: frozenset(names) for key, names in members.items()},
            {name: tuple(keys) for name, keys in groups.items()},
        )

    def stands_out(self, group: Group, bad: int, everywhere: int) -> bool:
        """Whether `bad` of the group's machines are far more than its share of those bad `everywhere`."""
        size = len(self.members[group])
        others = len(self.covered) - size
        if others < size:
            return False
        # Both shares times both sizes: whole numbers, and no rounding at the edge.
        return bad * others >= TIMES * (everywhere - bad) * size


@dataclass(slots=True, eq=False)
class Incident:
    """A group that fell under suspicion, and what of it was bad."""

    group: Group
    rule: Correlation
    machines: dict[str, datetime] = field(default_factory=dict)  # each with how long it counts
    carried: dict[str, set[datetime]] = field(default_factory=dict)  # onsets that are known from the trail alone
    _last: tuple[datetime, str] = (_NEVER, "")  # who counts longest
    _next: datetime = _NEVER  # and how long the one after it does

    @property
    def until(self) -> datetime:
        """When fewer than two count any more: one alone stands for itself, unless the rule is content with one."""
        return self._last[0] if self.rule.machines == 1 else self._next

    def take(self, onset: Onset) -> None:
        """It belongs to it."""
        until, node = onset.until(self.rule), onset.node
        if until <= self.machines.get(node, _NEVER):
            return
        self.machines[node] = until
        last, longest = self._last
        if node == longest:
            self._last = (until, node)
        elif until > last:
            self._last, self._next = (until, node), last
        else:
            self._next = max(self._next, until)


class Incidents:
    """Which onsets belong to an incident, of now or of before. Each group is gone through once, when it is asked for:
    many cases are remembered, and few are asked about.
    """

    def __init__(self, onsets: Mapping[str, Sequence[Onset]], groups: Groups, rule: Correlation, now: datetime) -> None:
        """`onsets`: by node name, of every machine that a case is remembered of."""
        self._onsets = onsets
        self._groups = groups
        self._rule = rule
        self._now = now
        self._found: dict[Group, dict[tuple[str, datetime], list[Incident]]] = {}

    def of(self, node: str, at: datetime) -> list[Incident]:
        """The incidents that what began on `node` at `at` belongs to, be they over or not."""
        by_their_onsets = [
            i for group in self._groups.groups.get(node, ()) for i in self._in(group).get((node, at), ())
        ]
        return by_their_onsets or [i for i in self._held_on if at in i.carried.get(node, ())]

    def suspect(self, node: str, at: datetime, now: datetime) -> Suspect | None:
        """What `node`, bad since `at`, fails together with; None where it stands for itself, or does so by now.

        Of several groups, the one with the largest share of bad machines is told.
        """
        standing = [i for i in self.of(node, at) if now < i.until]
        if not standing:
            return None
        most = max(standing, key=lambda i: (len(i.machines) / len(self._groups.members[i.group]), i.group))
        return Suspect(*most.group, tuple(sorted(most.machines)))

    def _in(self, group: Group) -> dict[tuple[str, datetime], list[Incident]]:
        """A group's incidents by onset: in order of time, seeing at each onset only what was known then."""
        if group in self._found:
            return self._found[group]
        found: dict[tuple[str, datetime], list[Incident]] = {}
        standing: Incident | None = None
        lately: deque[Onset] = deque()
        theirs = sorted((o for name in self._groups.members[group] for o in self._onsets.get(name, ())), key=_in_time)
        for at, together in groupby(theirs, key=lambda o: o.at):
            fresh = list(together)
            lately.extend(fresh)
            while lately[0].at < at - self._rule.within:
                lately.popleft()
            if standing is None or at >= standing.until:
                if not self._falls_under_suspicion(group, lately, at):
                    continue
                standing = Incident(group, self._rule)
                fresh = list(lately)
            for onset in fresh:
                standing.take(onset)
                known = found.setdefault((onset.node, onset.at), [])
                if standing not in known:
                    known.append(standing)
        self._found[group] = found
        return found

    def _falls_under_suspicion(self, group: Group, lately: Iterable[Onset], at: datetime) -> bool:
        bad = len({onset.node for onset in lately})
        if bad < self._rule.machines:
            return False
        first, end = bisect_left(self._begun[0], at - self._rule.within), bisect_right(self._begun[0], at)
        return self._groups.stands_out(group, bad, len(set(self._begun[1][first:end])))

    @cached_property
    def _begun(self) -> tuple[list[datetime], list[str]]:
        """When anything began in the whole fleet, in order of time, and on which machines."""
        pairs = sorted((o.at, name) for name in self._groups.covered for o in self._onsets.get(name, ()))
        return [at for at, _ in pairs], [name for _, name in pairs]

    @cached_property
    def _held_on(self) -> list[Incident]:
        """What the trail says was held stays so, though what made it so is no more seen: nodes that left, labels.

        What a node that is not listed shared with others is not known; it counts with each of them.
        """
        carried: dict[Group, list[Onset]] = {}
        unlisted: list[Onset] = []
        for name, onsets in self._onsets.items():
            groups = self._groups.groups.get(name)
            for onset in onsets:
                if not onset.shared or self._now >= onset.until(self._rule):
                    continue
                if groups is None:
                    unlisted.append(onset)
                elif not any((name, onset.at) in self._in(group) for group in groups):
                    for group in groups:
                        carried.setdefault(group, []).append(onset)
        found = []
        for group, those in carried.items():
            incident = Incident(group, self._rule)
            for onset in (*those, *unlisted):
                incident.take(onset)
            for onset in those:
                incident.carried.setdefault(onset.node, set()).add(onset.at)
            found.append(incident)
        return found


def _in_time(onset: Onset) -> tuple[datetime, str]:
    return (onset.at, onset.node)
