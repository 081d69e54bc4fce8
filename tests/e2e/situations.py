"""Situations in simulated time: the real controller and its adapters, a real Prometheus and the emulated API server.

What Prometheus shows is written before, as in the scenario set (`tests/scenarios`); a test says when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from quarantine import app
from quarantine.controller import Controller, CycleReport
from quarantine.core.case import Case, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, RequestKind
from quarantine.sandbox.remotewrite import write
from quarantine.settings import load
from tests.scenarios.format import Asked, Event, Scenario
from tests.scenarios.play import APART, FIRST
from tests.scenarios.proxy import Proxy
from tests.scenarios.shown import shown
from tests.scenarios.stage import Stage, stage

CYCLE = timedelta(minutes=1)
THERMAL = ("gpu-hot", "blind-node")
WIDE = {"budget": {"quarantined": "50%", "unavailable": "60%", "perHour": "50%"}}
_numbers = count()


@dataclass
class Situation:
    """A cluster, its controller, and a time that a test moves."""

    stage: Stage
    proxy: Proxy

    def minutes(self, until: float, *, every: timedelta = CYCLE) -> list[CycleReport]:
        """Cycle after cycle, up to so many minutes after the beginning."""
        reports = []
        while (now := self.stage.time.at + every) <= self.stage.start + timedelta(minutes=until):
            self.stage.time.at = now
            self.stage.live()
            reports.append(self.stage.controller.cycle())
            self.stage.count()
        return reports

    def happens(self, **what: Any) -> None:
        """An event of the cluster, now."""
        event = Event.model_validate({"at": "1m", **what})
        self.proxy.mood = event.prometheus or self.proxy.mood
        self.stage.happens(event)

    def ask(self, kind: RequestKind, node: str = "", **more: Any) -> None:
        """What a person asks, now."""
        self.happens(asks=Asked.model_validate({"kind": kind, **({"node": node} if node else {}), **more}))

    @contextmanager
    def another(self) -> Iterator[Controller]:
        """A further process, on the same ledger and cluster."""
        folder = self.stage.folder
        environ = {"QUARANTINE_DATABASE_URL": f"sqlite:///{folder / 'ledger.db'}"}
        with app.parts(load(folder / "quarantine.yaml", {}, environ), watch=False, acts=True) as parts:
            yield app.controller(parts)

    def case(self, node: str) -> Case | None:
        """The open case of a node."""
        return self.stage.open_cases().get(node)

    def phase(self, node: str) -> Phase | None:
        """Of its open case."""
        case = self.case(node)
        return case.phase if case is not None else None

    def cases(self, node: str) -> list[Case]:
        """All that are remembered, oldest first."""
        every = self.stage.ledger.load().state.cases.values()
        return sorted((case for case in every if case.node == node), key=lambda case: case.opened_at)

    def decided(self, action: Action, node: str | None = None) -> list[Decision]:
        """Decisions of this action, of one node or of all."""
        rows = self.stage.trail()
        return [d for d in rows if d.kind is Kind.DECIDED and d.action is action and node in (None, d.node)]

    def held(self, by: HeldBy) -> bool:
        """Whether anything is held by this now."""
        return any(hold.held_by is by for hold in self.stage.ledger.load().state.holds.values())

    def was_held(self, by: HeldBy) -> bool:
        """Whether anything ever was."""
        return any(decision.held_by is by for decision in self.stage.trail())

    def node(self, name: str) -> Mapping[str, Any]:
        """The Node object."""
        return self.stage.api.get("Node", name)

    @property
    def out(self) -> set[str]:
        """The nodes that carry our taint."""
        return self.stage.out()

    @property
    def pending(self) -> int:
        """Effects that are still to be carried out."""
        return len(self.stage.ledger.load().pending)


@contextmanager
def situation(folder: Path, prometheus: str, database: str | None = None, **fields: Any) -> Iterator[Situation]:
    """A scenario begins; `fields` are as in its file. Left out: half an hour, gpu-hot, ten small machines.

    `database`: the URL of its ledger; left out, a file.
    """
    machines = {"count": 10, "gpus": 4, "ports": 1, "links": 0}
    usual = {"title": folder.name, "kind": "life", "lasts": "30m", "policies": THERMAL, "machines": machines}
    scenario = Scenario.model_validate({**usual, **fields})
    start: datetime = FIRST + next(_numbers) * APART
    write(prometheus, shown(scenario, start))
    with Proxy(prometheus, needed=True) as proxy, stage(scenario, folder, proxy.url, start, database) as made:
        made.controller.cycle()
        yield Situation(made, proxy)


def hot(node: int, gpu: int = 0, *, at: str = "5m", values: str = "84...") -> dict[str, Any]:
    """A GPU that is hot from `at` on."""
    return {
        "what": "a hot GPU",
        "machine": f"node-{node}",
        "at": at,
        "outBy": "never",
        "series": {f'DCGM_FI_DEV_GPU_TEMP{{UUID="GPU-{node}-{gpu}"}}': values},
    }


Begin = Callable[..., Situation]  # of the fixture `begin`: with a scenario's fields
