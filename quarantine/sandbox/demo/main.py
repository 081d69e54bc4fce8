"""Play the demo: set the stage, start the controller, let things happen, and take stock."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from rich.console import Console

from quarantine.core.case import Effect, EffectStatus
from quarantine.core.errors import QuarantineError, Unavailable
from quarantine.ports import LedgerView, TrailRow
from quarantine.sandbox.child import BoundChild
from quarantine.sandbox.demo.outcome import Outcome, take_stock
from quarantine.sandbox.demo.plot import Scene, scenes
from quarantine.sandbox.demo.stage import Options, Stage, set_up
from quarantine.sandbox.demo.view import View, closing
from quarantine.sandbox.faults import GhostNode
from quarantine.sandbox.fleet import wall_clock

LONGEST_S = 150.0
WARM_UP_S = 60.0  # at most, until every exporter was scraped and every policy sees its devices
_TICK_S = 0.4


def play(options: Options, console: Console) -> bool:
    """The whole demo; True where the outcome is exactly right. Raises QuarantineError where it cannot be played."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _unwind)  # whatever was made on a cluster or in a temporary folder is taken away
    console.print(f"Setting up {options.nodes} nodes × 8 GPUs, their exporters and a real Prometheus …")
    with set_up(options) as stage:
        console.print(f"Prometheus is at {stage.prometheus.url}, and everything is written to {options.folder}/.")
        console.print("The overlay on the shipped policies (all windows shortened by one factor, mode enforce):")
        console.print("\n".join(f"    {line}" for line in stage.overlay.splitlines()), highlight=False, markup=False)
        player = _Player(stage, console)
        outcome = player.play()
        closing(console, outcome)
        if options.picture is not None:
            player.view.picture(options.picture, outcome)
        _look_around(stage, console)
        console.print(outcome.last_line, highlight=False, markup=False)
        return outcome.right


def _unwind(number: int, _: object) -> None:
    raise SystemExit(128 + number)


class _Player:
    """One performance."""

    def __init__(self, stage: Stage, console: Console) -> None:
        self._stage = stage
        uuids = {(sim.name, gpu.index): gpu.uuid for sim in stage.fleet.nodes for gpu in sim.gpus}
        heat = stage.rules.policy("gpu-hot")
        if heat is None:
            raise QuarantineError("the shipped policies have no gpu-hot any more, on which the demo is built")
        self._window_s = heat.spec.trigger.window.total_seconds()
        prefix = stage.fleet.nodes[0].name.removesuffix("00")
        self._scenes = scenes(prefix, uuids, self._window_s)
        self.view = View(console, [sim.name for sim in stage.fleet.nodes])
        self._asked_at: dict[str, datetime] = {}
        self._seen = 0

    def play(self) -> Outcome:
        stage = self._stage
        with self.view, stage.ledger() as ledger:
            self._warm_up()
            self.view.say("the controller starts: quarantine run", "cyan")
            controller = stage.controller()
            try:
                self._perform(controller, lambda: self._follow(ledger.load(), list(ledger.decisions())))
            finally:
                controller.stop(grace_s=20)
        return take_stock(stage, self._scenes, self._asked_at)

    def _warm_up(self) -> None:
        """Until Prometheus has scraped every exporter for a while, so that every policy sees its devices."""
        self.view.say(f"{len(self._stage.exporters.targets())} exporters are scraped every second", "cyan")
        wanted = len(self._stage.exporters.targets())
        until = time.monotonic() + WARM_UP_S
        while not self._up(wanted):
            if time.monotonic() > until:
                raise Unavailable(
                    f"Prometheus did not reach all {wanted} exporters in time: is this machine very busy?"
                )
            _pause()

    def _up(self, wanted: int) -> bool:
        found = self._stage.prometheus.query("sum(count_over_time(up[5s]) >= bool 3) == bool " + str(wanted))
        return bool(found) and found[0]["value"][1] == "1"

    def _perform(self, controller: BoundChild, follow: Callable[[], LedgerView]) -> None:
        """Inject, watch, and end when everything is done and every decoy had time to be mistaken."""
        start = time.monotonic()
        waiting = sorted(self._scenes, key=lambda scene: scene.at_s)
        to_ask = [scene for scene in self._scenes if not scene.caught_by]
        last = max(scene.at_s + scene.ask_s for scene in self._scenes) + 1.5 * self._window_s
        while True:
            elapsed = time.monotonic() - start
            if controller.exited.is_set():
                raise QuarantineError(
                    f"the controller ended with status {controller.returncode}; "
                    f"{self._stage.options.folder}/controller.log says why"
                )
            while waiting and waiting[0].at_s <= elapsed:
                self._begin(waiting.pop(0))
            for scene in [s for s in to_ask if s.at_s + s.ask_s <= elapsed]:
                self._asked_at[scene.title] = wall_clock()
                to_ask.remove(scene)
            view = follow()
            if elapsed > LONGEST_S or (elapsed > last and self._all_done(view)):
                return
            _pause()

    def _begin(self, scene: Scene) -> None:
        kind = "fault" if scene.caught_by else "decoy"
        self.view.say(f"{kind}: {scene.node}: {scene.title}", "cyan")
        self._stage.fleet.inject(scene.fault)
        if isinstance(scene.fault, GhostNode):
            self._stage.follow_targets()

    def _follow(self, view: LedgerView, rows: list[TrailRow]) -> LedgerView:
        new = [row for row in rows if row.seq > self._seen]
        self._seen = rows[-1].seq if rows else 0
        self.view.update(view, new)
        return view

    def _all_done(self, view: LedgerView) -> bool:
        wanted = {scene.node for scene in self._scenes if scene.caught_by}
        complete = {
            case.node
            for case in view.state.cases.values()
            if (state := case.effects.get(Effect.NOTIFY)) is not None and state.status is EffectStatus.DONE
        }
        return wanted <= complete and not view.pending


def _pause() -> None:
    threading.Event().wait(_TICK_S)


def _look_around(stage: Stage, console: Console) -> None:
    where = f"--database-url {stage.database_url}"
    if stage.options.database_url is not None:  # it may hold a password, and the cluster has a name of its own there
        where = f"--config {stage.config} --database-url YOUR_URL"
    hot = next(sim.name for sim in stage.fleet.nodes if sim.name.endswith("07"))
    lines = [
        "Look around:",
        f"    export PATH={Path(sys.executable).parent}:$PATH",
        f"    quarantine explain {hot} {where}",
        f"    quarantine status {where}",
        f"    ls {stage.options.folder}/tickets     (what the provider gets)",
        f"    less {stage.options.folder}/controller.log",
    ]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
