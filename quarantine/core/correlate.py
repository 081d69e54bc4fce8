"""One cause or many? Machines that share something and fail together make that the suspect, not them (invariant 7).

A group is suspected when two things are true of the findings that began together. They are on at least as many machines
of it as the policy says. And the share of its machines that are bad is at least three times that of all others: what is
spread evenly is no group's doing. A group of more than half the machines is the fleet, which is the breaker's matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarantine.core.model import Node
from quarantine.core.response import Correlation

TIMES = 3  # so many times the share of all others


@dataclass(frozen=True, slots=True)
class Suspect:
    """What machines that are bad at once have in common."""

    what: str  # the topology's name in the fleet file: rack
    which: str  # the value of its label: r7
    machines: tuple[str, ...]  # of this group, sorted

    def __str__(self) -> str:
        return f"{len(self.machines)} machines of {self.what} {self.which} at once: the {self.what} is the suspect"


@dataclass(frozen=True, slots=True)
class Onsets:
    """When machines' findings began, in order of time."""

    times: tuple[datetime, ...]
    names: tuple[str, ...]  # of the machines, in the same order

    @classmethod
    def of(cls, known: Mapping[str, Iterable[datetime]]) -> Onsets:
        """`known`: by machine; one may have several findings."""
        ordered = sorted((time, name) for name, times in known.items() for time in times)
        return cls(tuple(time for time, _ in ordered), tuple(name for _, name in ordered))

    def around(self, at: datetime, within: timedelta) -> frozenset[str]:
        """The machines of which a finding began at most `within` before or after `at`."""
        return frozenset(self.names[bisect_left(self.times, at - within) : bisect_right(self.times, at + within)])


@dataclass(frozen=True, slots=True)
class Groups:
    """The machines that one policy looks after, by what they share."""

    covered: frozenset[str]
    members: Mapping[tuple[str, str], frozenset[str]]  # by topology name and label value
    groups: Mapping[str, tuple[tuple[str, str], ...]]  # of a machine

    @classmethod
    def of(cls, nodes: Iterable[Node], rule: Correlation, topology: Mapping[str, str]) -> Groups:
        """`topology`: the fleet's, name → node label. A node without the label is in no group of that name."""
        labels = [(what, topology[what]) for what in rule.by if what in topology]
        groups = {n.name: tuple((what, n.labels[key]) for what, key in labels if n.labels.get(key)) for n in nodes}
        members: dict[tuple[str, str], set[str]] = {}
        for name, keys in groups.items():
            for key in keys:
                members.setdefault(key, set()).add(name)
        return cls(frozenset(groups), {key: frozenset(names) for key, names in members.items()}, groups)

    def suspect(self, node: str, at: datetime, onsets: Onsets, rule: Correlation) -> Suspect | None:
        """What `node`, found bad since `at`, fails together with; None where it stands for itself.

        Of several groups, the one with the largest share of bad machines is told.
        """
        together = onsets.around(at, rule.within) & self.covered
        found = []
        for what, which in self.groups.get(node, ()):
            members = self.members[what, which]
            bad = together & members
            if len(bad) >= rule.machines and self._stands_out(bad, members, together):
                found.append((len(bad) / len(members), Suspect(what, which, tuple(sorted(bad)))))
        return max(found, key=lambda pair: (pair[0], pair[1].what))[1] if found else None

    def _stands_out(self, bad: frozenset[str], members: frozenset[str], together: frozenset[str]) -> bool:
        others = len(self.covered) - len(members)
        if others < len(members):
            return False
        # Both shares times both sizes: whole numbers, and no rounding at the edge.
        return len(bad) * others >= TIMES * (len(together) - len(bad)) * len(members)
