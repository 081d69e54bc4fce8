"""A fleet with its people, programs and accidents, and one or two controllers that look after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core import seeing
from quarantine.core.case import Case, PodRef, Purpose, RunOutcome
from quarantine.core.decision import Request, RequestKind, State
from quarantine.core.errors import ClusterUnavailable, LedgerUnavailable, Superseded
from quarantine.core.marks import taint_key
from quarantine.core.model import Failed, FailureKind, Machine, Mode, Node
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.core.workload import Class, Pod, RunStatus, Workloads
from quarantine.execute import Executor
from quarantine.observe.tickets import Follower
from quarantine.ports import LedgerView, Order
from tests.core.invariants.book import Book
from tests.core.invariants.checks import check
from tests.core.invariants.cycle import Cycle
from tests.core.invariants.kube import PREFIX, Crash, Kube, Trouble
from tests.core.invariants.laws import DOMAIN, RACK
from tests.core.invariants.outside import Chat, Desk, Runner
from tests.core.invariants.prom import Prometheus
from tests.core.invariants.watch import Watch
from tests.core.world import NOW, node

GPUS = 2
NAMES = tuple(f"node-{n}" for n in range(10))
POOLED = NAMES[:9]  # the last one is in no pool
TAINT = taint_key(PREFIX)
TAKES = timedelta(minutes=4)  # a procedure that does not hang


@dataclass
class Hands:
    """The time."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


@dataclass
class Replica:
    """A process that runs the controller. `term` None: it is yet to take one."""

    name: str
    executor: Executor
    follower: Follower
    term: int | None = None


def _fleet() -> dict[str, Node]:
    found = {}
    for number, name in enumerate(NAMES):
        pool = "yes" if number < 7 else "small"
        labels = {"gpu": pool} if number < 9 else {"role": "storage"}
        rack = {RACK: f"r{number // 3}", "dc/slot": str(number), DOMAIN: f"d{number // 2}"}
        made = node(name, labels={**labels, **rack}, created_at=NOW - timedelta(days=30))
        found[name] = replace(made, gpus=GPUS)
    return found


@dataclass
class World:
    """Everything there is. Who reads it: `checks`, with each cycle; `watch`, with each call from us to the outside."""

    law: Rules
    mode: Mode = Mode.ENFORCE
    clock: Hands = field(default_factory=Hands)
    trouble: Trouble = field(default_factory=Trouble)
    gpus: dict[str, tuple[str, ...]] = field(default_factory=dict)
    hardware_fails: bool = False
    number: int = 0  # of the last thing that was made or asked
    removers: dict[str, list[str]] = field(default_factory=dict)  # by node: who took our taint since the last look
    swapped: dict[str, datetime] = field(default_factory=dict)  # by node: when another machine, or GPU, came
    restores: list[datetime] = field(default_factory=list)
    fate: RunOutcome | None = RunOutcome.SUCCEEDED  # of procedures, after some minutes; None: they hang
    settles: timedelta = timedelta(0)  # for how long a new ticket is not found by its key
    checked: bool = True  # False: each plan is only carried out
    cures: bool = True  # whether a reset or a reboot mends what it is meant to

    def __post_init__(self) -> None:
        self.gpus = {name: tuple(f"GPU-{name}-{n}" for n in range(GPUS)) for name in NAMES}
        self.kube = Kube(_fleet(), self.trouble)
        self.book = Book(self.clock, self.trouble)
        self.prom = Prometheus(self._present, lambda name: f"10.0.0.{name.rpartition('-')[2]}")
        self.watch = Watch(self)
        kept = self.watch.kept
        self.kube.seen, self.kube.evicting = kept(self.watch.wrote), kept(self.watch.evicted)
        self.desk = Desk(self.trouble, kept(self.watch.filed), self.clock.now, settles=self.settles)
        self.desk.forgetful, self.desk.check = (lambda: bool(self.restores)), kept(self.desk.check)  # type: ignore[method-assign]
        self.chat = Chat(self.trouble)
        self.runner = Runner(self.trouble, kept(self.watch.begun))
        self.prom.loaded = set(NAMES)
        self.replicas = [Replica(name, self._executor(), self._follower()) for name in ("a", "b")]

    def _present(self) -> Mapping[str, tuple[str, ...]]:
        return {name: uuids for name, uuids in self.gpus.items() if name in self.kube.held}

    def _executor(self) -> Executor:
        # Of the ledger it has what carrying out needs.
        return Executor(self.kube, self.book, self.desk, self.chat, self.clock, self.law, self.runner)  # type: ignore[arg-type]

    def _follower(self) -> Follower:
        return Follower(self.desk, self.clock)

    @property
    def now(self) -> datetime:
        return self.clock.at

    @property
    def state(self) -> State:
        """What the whole trail adds up to."""
        return self.book.state

    def open_cases(self) -> list[Case]:
        """Oldest first."""
        return sorted((case for case in self.state.cases.values() if case.open), key=lambda c: (c.opened_at, c.id))

    # --- Cycles -------------------------------------------------------------------------------------------------------

    def cycle(self, which: int = 0) -> None:
        """One cycle of a replica, checked; it may be killed in the midst of it, and is started anew then."""
        who = self.replicas[which]
        try:
            if who.term is None:
                who.term = self.book.take_term(who.name)
            self.book.record(who.term, ())
            self._cycle(who, who.term)
        except (Superseded, Crash):
            self.restart(which)
        except LedgerUnavailable:
            pass  # nothing more is done in this cycle
        self.trouble.of.clear()
        self.kube.meanwhile = None
        if self.watch.broken:
            raise self.watch.broken[0]
        self.watch.looked_over()

    def _cycle(self, who: Replica, term: int) -> None:
        view = self.book.load()
        look = self.look(view, who.follower)
        made = plan(look, self.law)
        if self.checked:
            after = fold(view.state, made.decisions)
            again = plan(replace(look, state=after), self.law)
            twice = [(str(d.action), d.reason) for d in again.decisions]
            assert again.decisions == (), f"planning twice yields {twice}"
            check(Cycle(self, look, self.law, made, view.state, after))
            self.planned(look, after)
        self.removers.clear()
        if made.decisions:
            self.book.record(term, made.decisions)
        self.watch.look = look
        who.executor.rules = self.law
        executed = who.executor.run(term, look, made)
        assert not [said for said in executed.postponed if "a defect, " in said], executed.postponed

    def planned(self, look: Snapshot, after: State) -> None:
        """Called with each plan: what it was made from, and the state that it leaves."""

    def restart(self, which: int) -> None:
        """A new process: it knows what the ledger knows."""
        self.replicas[which] = Replica(self.replicas[which].name, self._executor(), self._follower())
        self.runner.restart()

    def look(self, view: LedgerView, follower: Follower) -> Snapshot:
        """What a cycle reasons from, gathered as the observer does."""
        nodes = self.kube.nodes()
        cases = (case for case in view.state.cases.values() if case.open)
        found = {(case.node, finding.device.name) for case in cases for finding in case.findings}
        answers = self.prom.answers(self.law, self.now, found)
        return Snapshot(
            now=self.now,
            cluster="test",
            mode=self.mode,
            actor="controller test",
            nodes=nodes,
            answers=answers,
            state=view.state,
            requests=view.requests,
            pending=view.pending,
            workloads=self._workloads(seeing.with_pods(view.state, self.law, answers, nodes)),
            runs=self._runs(view.state),
            hardware=self._hardware(view.state),
            tickets=follower.heard(view.state),
        )

    def _workloads(self, names: frozenset[str]) -> Workloads | Failed:
        if not names:
            return Workloads()
        try:
            return self.kube.workloads(names, seeing.pod_rules(self.law))
        except ClusterUnavailable as error:
            return Failed(FailureKind.UNREACHABLE, str(error))

    def _runs(self, state: State) -> Mapping[str, RunStatus] | Failed:
        try:
            return self.runner.look(seeing.runs_of(state, self.law))
        except ClusterUnavailable as error:
            return Failed(FailureKind.UNREACHABLE, str(error))

    def _hardware(self, state: State) -> Mapping[str, tuple[str, ...]] | Failed:
        if self.hardware_fails:
            return Failed(FailureKind.TIMEOUT, "it took too long")
        names = {case.node for case in state.cases.values() if case.marked} & self.prom.seen()
        return {name: tuple(sorted(self.gpus[name])) for name in names}

    # --- What people do -----------------------------------------------------------------------------------------------

    def ask(self, kind: RequestKind, name: str = "", *, until: timedelta | None = None, scope: str = "") -> None:
        """A person asks for something."""
        self.number += 1
        end = None if until is None else self.now + until
        request = Request(f"r{self.number}", kind, name, "seen to", "an engineer", "cli", self.now, end, scope)
        self.book.asked.append(request)

    def answer(self, kind: RequestKind, name: str, **fields: object) -> None:
        """A person says yes, or not now, to a swap. `fields`: of the request, where it is not by the command line."""
        self.ask(kind, name)
        self.book.asked[-1] = replace(self.book.asked[-1], **fields)  # type: ignore[arg-type]

    def annotate(self, name: str, key: str, value: str | None) -> None:
        """Somebody sets an annotation of a node, or takes it away."""
        others = {k: v for k, v in self.kube.held[name].annotations.items() if k != key}
        self.kube.change(name, annotations=others if value is None else {**others, key: value})

    def label(self, name: str, key: str, value: str | None) -> None:
        """The same of a label."""
        others = {k: v for k, v in self.kube.held[name].labels.items() if k != key}
        self.kube.change(name, labels=others if value is None else {**others, key: value})

    def untaint(self, name: str, manager: str) -> None:
        """Somebody writes the list of taints without ours."""
        taints = self.kube.held[name].taints
        if any(taint.key == TAINT for taint in taints):
            self.kube.retaint(name, [t for t in taints if t.key != TAINT], manager)
            self.removers.setdefault(name, []).append(manager)

    # --- What machines do ---------------------------------------------------------------------------------------------

    def reboot(self, name: str) -> None:
        """The machine starts anew."""
        self.number += 1
        machine = replace(self.kube.held[name].machine, boot_id=f"boot-{self.number}")
        self.kube.change(name, machine=machine)

    def leave(self, name: str) -> None:
        """The Node object is deleted."""
        self.kube.held.pop(name, None)

    def join(self, name: str, machine: Machine | None = None) -> None:
        """A Node object of this name is made, for the machine that was there or for another one."""
        self.number += 1
        old = self.kube.held.get(name) or _fleet()[name]
        was = self.watch.machines.get(name, old.machine)
        made = replace(machine or was, node_uid=f"uid-{self.number}", boot_id=f"boot-{self.number}")
        labels = dict(_fleet()[name].labels)
        self.kube.create(replace(_fleet()[name], machine=made, labels=labels, created_at=self.now))

    def swap(self, name: str, *, same_object: bool, untold: bool = False) -> None:
        """Other hardware stands behind the name; `untold`: without a system UUID."""
        self.number += 1
        new = Machine("", f"acme://x{self.number}", "" if untold else f"sys-x{self.number}", f"boot-{self.number}")
        self.gpus[name] = tuple(f"GPU-x{self.number}-{n}" for n in range(GPUS))
        self.swapped[name] = self.now
        if same_object and name in self.kube.held:
            uid = self.kube.held[name].machine.node_uid
            self.kube.change(name, machine=replace(new, node_uid=uid))
        else:
            self.join(name, new)

    def exchange_gpu(self, name: str, which: int) -> None:
        """One GPU is another one now."""
        self.number += 1
        here = list(self.gpus[name])
        here[which % len(here)] = f"GPU-y{self.number}-{which % len(here)}"
        self.gpus[name] = tuple(here)
        self.swapped[name] = self.now

    # --- What runs ----------------------------------------------------------------------------------------------------

    def service(self, name: str, *, tolerates: bool = False) -> None:
        """A pod that serves, there."""
        self.number += 1
        ref = PodRef("inference", f"web-{self.number}", f"web-{self.number}")
        owner = f"{'StatefulSet' if tolerates else 'ReplicaSet'} inference/web"
        self._start(Pod(ref, name, Class.SERVICE, owner=owner, tolerates=tolerates))

    def job(self, names: tuple[str, ...]) -> None:
        """A gang over these nodes."""
        self.number += 1
        key = f"Job training/job-{self.number}"
        for rank, name in enumerate(names):
            ref = PodRef("training", f"job-{self.number}-{rank}", f"job-{self.number}-{rank}")
            self._start(Pod(ref, name, Class.TRAINING, key))

    def _start(self, pod: Pod) -> None:
        if pod.node in self.kube.held:
            self.kube.pods[pod.ref.uid] = replace(pod, started_at=self.now, created_at=self.now)

    def checkpoint(self, key: str) -> None:
        """A gang writes one."""
        for uid, pod in list(self.kube.pods.items()):
            if pod.gang == key:
                self.kube.pods[uid] = replace(pod, checkpoint_at=self.now)

    def finish(self, key: str) -> None:
        """A gang is done."""
        for uid, pod in list(self.kube.pods.items()):
            if pod.gang == key:
                del self.kube.pods[uid]

    def gangs(self) -> list[str]:
        """Those that run."""
        return sorted({pod.gang for pod in self.kube.pods.values() if pod.gang})

    # --- Time ---------------------------------------------------------------------------------------------------------

    def pass_(self, span: timedelta) -> None:
        """Time passes, and the cluster's own programs do their work."""
        self.clock.at += span
        self.kube.follow_cordons()
        self.kube.kubelets(self.now)
        for order in self.runner.running if self.fate is not None else ():
            if self.now >= order.run.asked_at + TAKES:
                assert self.fate is not None
                self.procedure_ends(order, self.fate)

    def procedure_ends(self, order: Order, outcome: RunOutcome) -> None:
        """What it was meant to mend is well again, where it cures."""
        self.runner.end(order, outcome, self.now)
        remedy = order.run.purpose in (Purpose.RESET, Purpose.REBOOT)
        if remedy and self.cures and outcome is RunOutcome.SUCCEEDED:
            for found in self.prom.bad.values():
                found -= {order.node, *self.gpus[order.node]}
