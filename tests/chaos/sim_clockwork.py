"""Simulated time: two machines with a replica each, what happens to them when, and a quiet time at the end."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

from quarantine.core.case import HeldBy, PodRef
from quarantine.core.decision import Request, RequestKind
from quarantine.core.errors import Superseded
from quarantine.core.policy import Rules
from quarantine.core.rulefiles import BrokenFile, InForce
from quarantine.core.workload import Class, Pod
from tests.chaos.sim_ledger import Books
from tests.chaos.sim_outside import Outside
from tests.chaos.sim_process import Process
from tests.chaos.sim_trouble import INTERVAL, Accident, Dependency, Episode, Failure, Killed
from tests.chaos.sim_world import GPUS, Channel, Past, Phone, Slack, fleet, law
from tests.core.invariants.kube import Kube, Trouble
from tests.core.invariants.outside import Desk
from tests.core.world import NOW
from tests.test_leadership import Server

EACH = INTERVAL.total_seconds()
LEASE_EVERY = 2.0  # seconds, as `leadership.Terms`
STARTS_AFTER = 5.0  # seconds from the end of a process to the next one's beginning
CUT = Episode(Accident.CUT, 0, 0, Failure.DOWN)


@dataclass
class Files:
    """The policy files: sound, or one of them broken, of which the last sound version stays."""

    law: Rules
    held: InForce = field(init=False)

    def __post_init__(self) -> None:
        self.mend()

    def read(self) -> InForce:
        return self.held

    def mend(self) -> None:
        self.held = InForce(self.law, ())

    def tear(self) -> None:
        self.held = InForce(self.law, (), (BrokenFile("policies/gpu-hot.yaml", "line 3: above is no number", NOW),))


@dataclass(eq=False)
class Simulation:
    """`path`: of a migrated SQLite file, to run on the production ledger; None: on one in memory."""

    rng: Random
    path: Path | None = None
    settles: timedelta = timedelta(0)
    seconds: float = 0.0  # since the beginning, by a steady clock
    skew: list[timedelta] = field(default_factory=lambda: [timedelta(0), timedelta(0)])  # of the machines' clocks
    standing: list[Episode] = field(default_factory=list)
    disk_full: bool = False
    cut: bool = False
    asked_back: set[str] = field(default_factory=set)  # nodes that a person released
    processes: list[Process] = field(default_factory=list)
    ended: int = 0  # processes that ended
    _agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _number: int = 0

    def __post_init__(self) -> None:
        self.law = law()
        self.rulebook = Files(self.law)
        self.outside = outside = Outside(self)
        self.kube = Kube(fleet(), Trouble(), seen=outside.wrote, evicting=outside.evicted)
        gpus = {name: tuple(f"GPU-{name}-{n}" for n in range(GPUS)) for name in self.kube.held}
        present = partial(self._present, gpus)
        self.prom = Past(present, str, law=self.law, shown_good=outside.shown_good)
        self.prom.loaded, self.prom.bad = set(gpus), {policy.name: set() for policy in self.law.policies}
        self.prom.note(NOW - timedelta(days=1))
        self.desk = Desk(Trouble(), outside.filed, lambda: self.true_now, settles=self.settles)
        self.desk.check = lambda *_: None  # type: ignore[method-assign]  # it is counted, at the end
        self.slack, self.channel, self.phone, self.leases = Slack(Trouble()), Channel(), Phone(), Server()
        self.books = Books(self.now, self.path)
        for slot in (0, 1):
            self.processes.append(self._process(slot))
            self._later(1.0 + slot, partial(self._lease, slot))
            self._later(3.0 + slot, partial(self._cycle, slot))
        self._later(EACH, self._tick)

    def _present(self, gpus: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        return {name: uuids for name, uuids in gpus.items() if name in self.kube.held}

    # --- Time ---------------------------------------------------------------------------------------------------------

    @property
    def true_now(self) -> datetime:
        """What a clock says that is right."""
        return self.when(self.seconds)

    def close(self) -> None:
        """All that was opened."""
        self.books.close()

    def now(self) -> datetime:
        return self.true_now

    def when(self, seconds: float) -> datetime:
        """So long after the beginning."""
        return NOW + timedelta(seconds=seconds)

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        """Something happens then."""
        self._number += 1
        heapq.heappush(self._agenda, (seconds, self._number, happens))

    def _later(self, span: float, happens: Callable[[], None]) -> None:
        self.at(self.seconds + span, happens)

    def advance(self, span: float) -> None:
        """Time passes, also within a call of one replica: the other one goes on meanwhile."""
        until = self.seconds + span
        while self._agenda and self._agenda[0][0] <= until:
            at, _, happens = heapq.heappop(self._agenda)
            self.seconds = max(self.seconds, at)
            happens()
        self.seconds = max(self.seconds, until)

    def _tick(self) -> None:
        self.kube.follow_cordons()
        self.kube.kubelets(self.true_now)
        self._later(EACH, self._tick)

    # --- Processes ----------------------------------------------------------------------------------------------------

    def _process(self, slot: int) -> Process:
        return Process(self, slot, f"replica-{'ab'[slot]}-{self.ended}")

    def _lease(self, slot: int) -> None:
        self._later(LEASE_EVERY, partial(self._lease, slot))
        process = self.processes[slot]
        if not (process.dead or process.frozen or process.stepping):
            self._runs(process, process.step)

    def _cycle(self, slot: int) -> None:
        began, process = self.seconds, self.processes[slot]
        if process.frozen or process.busy:
            self._later(1.0, partial(self._cycle, slot))  # a late cycle is run, not dropped
            return
        if not process.dead:
            self._runs(process, process.cycle)
        self.at(max(began + EACH, self.seconds), partial(self._cycle, slot))

    def wake(self, process: Process) -> None:
        """A cycle is run at once, or right after the one that runs."""

        def woken() -> None:
            if process.dead:
                return
            if process.frozen or process.busy:
                self._later(1.0, woken)
            else:
                self._runs(process, process.cycle)

        self._later(0.0, woken)

    def _runs(self, process: Process, what: Callable[[], None]) -> None:
        """One of its threads goes on; another process is begun where this one ends by it."""
        try:
            what()
        except (Killed, Superseded):
            process.dead = True
        if process.dead and self.processes[process.slot] is process and not process.busy:
            self.ended += 1
            self._later(STARTS_AFTER, partial(self._begin, process.slot))

    def _begin(self, slot: int) -> None:
        if self.processes[slot].dead:
            self.processes[slot] = self._process(slot)

    def fail_over(self) -> None:
        """The ledger's last commits are lost; what was acknowledged of them is no more to be looked for."""
        self.books.fail_over()
        kept = {(d.at, d.reason) for d in self.books.trail()}
        there = [d for d in self.outside.acked if (d.at, d.reason) in kept]
        self.outside.forgotten += len(self.outside.acked) - len(there)
        self.outside.acked = there

    # --- What happens -------------------------------------------------------------------------------------------------

    def episode(self, dependency: Dependency) -> Episode | None:
        """How this dependency fails at this moment."""
        if self.cut and dependency in (Dependency.KUBERNETES, Dependency.LEASE):
            return CUT
        return next((one for one in self.standing if one.what is dependency), None)

    def is_bad(self, node: str) -> bool:
        """Whether the machine is, in truth."""
        return any(gpu.startswith(f"GPU-{node}-") for found in self.prom.bad.values() for gpu in found)

    def breaks(self, policy: str, node: str, gpu: int = 0) -> None:
        """A GPU goes bad. What exporters are not there to tell is told once they are."""
        self.prom.bad[policy].add(f"GPU-{node}-{gpu}")
        self.outside.ever_bad.add(node)
        self.outside.good.discard(node)
        self.prom.note(self.true_now)

    def heals(self, node: str) -> None:
        """A machine is well again, without anybody's doing."""
        for found in self.prom.bad.values():
            found -= {f"GPU-{node}-{n}" for n in range(GPUS)}
        self.prom.note(self.true_now)

    def darken(self, nodes: Sequence[str]) -> None:
        """The exporters of these nodes, and of no others, are gone."""
        self.prom.dark = set(nodes)
        self.prom.note(self.true_now)

    def ask(self, kind: RequestKind, node: str = "") -> None:
        """A person asks for something."""
        self._number += 1
        request = Request(f"r{self._number}", kind, node, "seen to", "an engineer", "cli", self.true_now)
        self.books.ask(request)
        if kind is RequestKind.RELEASE:
            self.asked_back.add(node)

    def serves(self, node: str) -> None:
        """Something runs on a node, whose owner makes it again wherever there is room."""
        self._number += 1
        ref = PodRef("inference", f"web-{self._number}", f"web-{self._number}")
        owner, now = "ReplicaSet inference/web", self.true_now
        pod = Pod(ref, node, Class.SERVICE, owner=owner, started_at=now, created_at=now)
        self.kube.pods[ref.uid] = pod

    # --- The quiet time -----------------------------------------------------------------------------------------------

    def quiet(self, most: int) -> int | None:
        """All is well from now on: after how many cycles nothing is left to be done; None: not after `most`."""
        began = self.seconds
        adopted, settled = False, 0
        while (cycles := math.ceil((self.seconds - began) / EACH)) <= most + 1:
            self.advance(EACH)
            if not adopted and any(h.held_by is HeldBy.RESTORED for h in self.books.state().holds.values()):
                self.ask(RequestKind.ADOPT)
                adopted = True
            settled = settled + 1 if self._settled() else 0
            if settled == 2:
                return cycles
        return None

    def mended(self) -> None:
        """Everything is well from now on, and every replica runs."""
        self.standing.clear()
        self.disk_full = self.cut = False
        self.skew = [timedelta(0), timedelta(0)]
        self.rulebook.mend()
        self.darken(())
        for process in self.processes:
            process.kill_in = process.stop_in = None

    def unsettled(self) -> str:
        """What is left, for people."""
        leaders = [one for one in self.processes if not one.dead and one.leadership.leads()]
        reports = [one.report for one in leaders]
        said = [
            f"{r.sentence} [{r.trouble}] {[d.reason for d in r.plan.decisions] if r.plan else ''}" for r in reports if r
        ]
        return f"not settled: {len(leaders)} lead; {said}; {self.books.pending()}"

    def _settled(self) -> bool:
        """Whether the last cycle of who leads found nothing to do, and left nothing."""
        leaders = [one for one in self.processes if not one.dead and one.leadership.leads()]
        if len(leaders) != 1 or (report := leaders[0].report) is None or report.ceded or not report.complete:
            return False
        nothing = report.plan is not None and not report.plan.decisions and not self.books.waits()
        done = report.executed is not None and not report.executed.done
        return nothing and done and not self.outside.overlooked(self.books.state())
