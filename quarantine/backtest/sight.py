"""Which machines the policies could see at all: not found is worth something only where something was seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.backtest.piece import Piece
from quarantine.backtest.result import Gap, Held
from quarantine.core.budget import pool_of
from quarantine.core.case import HeldBy
from quarantine.core.identity import Directory
from quarantine.core.judge import selects
from quarantine.core.model import Failed, Node
from quarantine.core.policy import Rules
from quarantine.core.series import Grid

MOST = 0.95  # of the time: a roll-out of an exporter takes a few minutes


@dataclass(slots=True)
class Sight:
    """Grows with the machines, not with the time."""

    rules: Rules
    nodes: Mapping[str, Node]
    _seen: dict[str, dict[str, int]] = field(default_factory=dict)  # by policy and machine: steps at which it was seen

    def look(self, piece: Piece) -> None:
        """Note whom a piece of history shows."""
        directory = Directory.of(self.nodes)
        for policy, known in piece.questions.policies:
            shown: dict[str, int] = {}
            for reading in known:
                lines = piece.coverage[policy.name, reading.key]
                for line in () if isinstance(lines, Failed) else lines:
                    node = directory.node(reading.source.node, line.track.labels)
                    if isinstance(node, Node):
                        steps = min(piece.grid.count, len(line.track.steps) * line.stride)
                        shown[node.name] = max(shown.get(node.name, 0), steps)  # several readings see the same
            seen = self._seen.setdefault(policy.name, {})
            for name, steps in shown.items():
                seen[name] = seen.get(name, 0) + steps

    def partly(self, grid: Grid) -> dict[str, dict[str, timedelta]]:
        """By policy: the machines that it saw for a part of the time only, and for how long."""
        enough = MOST * grid.count
        return {
            policy: {name: steps * grid.step for name, steps in sorted(seen.items()) if steps < enough}
            for policy, seen in self._seen.items()
        }

    def unseen(self) -> dict[str, tuple[str, ...]]:
        """By policy: the machines that it selects, in a pool, and never saw."""
        in_pool = [node for node in self.nodes.values() if pool_of(node, self.rules) is not None]
        return {
            policy.name: tuple(
                sorted(
                    node.name
                    for node in in_pool
                    if selects(policy.spec.node_selector, node) and node.name not in self._seen.get(policy.name, ())
                )
            )
            for policy in self.rules.policies
        }


def darkness(held: Iterable[Held], end: datetime) -> tuple[list[Held], list[Gap]]:
    """What stood in the way, and apart from it the stretches in which a policy saw nothing at all: those are gaps.

    That no machine was found then is no sign of health.
    """
    kept, gaps = [], []
    for hold in held:
        if hold.node is None and hold.policy is not None and hold.held_by is HeldBy.NO_COVERAGE:
            gaps.append(Gap(hold.policy, hold.start, hold.end or end, "no series of its signal was there"))
        else:
            kept.append(hold)
    return kept, gaps
