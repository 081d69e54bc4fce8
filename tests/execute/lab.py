"""A ledger and tickets that are real, and a cluster and a runner with their ports' promises, for the executor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.targets import only
from quarantine.core.cards import Card, Fold, Reply, Thread
from quarantine.core.case import Case, Effect, PodRef, Run
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.errors import Conflict, NodeGone
from quarantine.core.marks import NodeCondition, NodeEvent, NodePatch
from quarantine.core.model import Mode, Node
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.tickets import Attachment
from quarantine.core.workload import Class, Pod, PodRules, RunStatus, Workloads
from quarantine.execute import Executed, Executor
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ports import Order
from tests.core.world import NOW, fleet, hot, policy, rules, snapshot

NODE = "node-3"
RESET = ProcedureSpec.model_validate({"description": "resets the GPUs", "command": ["reset", "{node}"]})
BUG_REPORT = ProcedureSpec.model_validate(
    {"description": "gathers evidence", "job": {"pod": {"containers": [{"name": "a", "image": "b"}]}}}
)


@dataclass
class Kube:
    """Nodes with conditional writes, pods by node, and evictions that answer as `answers` says."""

    held: dict[str, Node] = field(default_factory=fleet)
    pods: dict[str, tuple[Pod, ...]] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)  # nodes of which the answer does not tell
    answers: dict[str, Exception] = field(default_factory=dict)  # by the pod's name
    conditions: list[NodeCondition] = field(default_factory=list)
    events: dict[str, NodeEvent] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    trouble: Exception | None = None
    uid: str = "uid-of-this-cluster"

    def identity(self) -> str:
        return self.uid

    def nodes(self) -> Mapping[str, Node]:
        return dict(self.held)

    def patch_node(self, patch: NodePatch) -> Node:
        node = self.held.get(patch.node)
        if self.trouble is not None:
            raise self.trouble
        if node is None or node.machine.node_uid != patch.uid:
            raise NodeGone(f"there is no such node {patch.node}")
        if node.resource_version != patch.resource_version:
            raise Conflict(f"{patch.node} changed since it was read")
        written = replace(
            node,
            resource_version=str(int(node.resource_version) + 1),
            taints=node.taints if patch.taints is None else patch.taints,
            unschedulable=node.unschedulable if patch.unschedulable is None else patch.unschedulable,
            labels=_merged(node.labels, patch.labels),
            annotations=_merged(node.annotations, patch.annotations),
            tainted_by=node.tainted_by if patch.taints is None else "quarantine",
        )
        self.held[patch.node] = written
        return written

    def change(self, **fields: object) -> None:
        """Somebody else writes to the node."""
        node = self.held[NODE]
        self.held[NODE] = replace(node, resource_version=str(int(node.resource_version) + 1), **fields)  # type: ignore[arg-type]

    def create_event(self, event: NodeEvent) -> None:
        self.events[event.name] = event

    def set_condition(self, condition: NodeCondition) -> None:
        self.conditions.append(condition)
        self.held[condition.node] = replace(self.held[condition.node], suspect=str(condition.status))

    def workloads(self, nodes: Collection[str], rules: PodRules) -> Workloads:
        assert rules.prefix == "quarantine.gpu"
        return Workloads({name: self.pods.get(name, ()) for name in nodes if name not in self.unseen})

    def evict(self, pod: PodRef) -> bool:
        if (error := self.answers.get(pod.name)) is not None:
            raise error
        there = any(p.ref == pod for p in self.pods.get(NODE, ()))
        self.pods[NODE] = tuple(p for p in self.pods.get(NODE, ()) if p.ref != pod)
        self.evicted += [pod.name] if there else []
        return there


def _merged(before: Mapping[str, str], change: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**before, **change}.items() if value is not None}


@dataclass
class Runner:
    """Begins each run once, however often it is told to."""

    begun: dict[str, Order] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    trouble: Exception | None = None

    def start(self, order: Order) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.begun.setdefault(order.run.name, order)

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        raise NotImplementedError

    def stop(self, run: Run, spec: ProcedureSpec) -> None:
        assert spec.description
        if self.trouble is not None:
            raise self.trouble
        self.stopped.append(run.name)


@dataclass
class Chat:
    """Slack: each message once by its key."""

    posted: dict[str, str] = field(default_factory=dict)
    home: str = "C0GPUOPS"

    def find(self, key: str, channel: str = "") -> str | None:
        assert channel == ""
        return key if key in self.posted else None

    def post(self, card: Card) -> str:
        assert card.report.key not in self.posted, "posted twice"
        self.posted[card.report.key] = card.ticket
        return card.report.key

    def fold(self, fold: Fold) -> str:
        raise NotImplementedError(fold.key)

    def show(self, ref: str, what: Card | Fold) -> None:
        raise NotImplementedError(ref)

    def thread(self, ref: str) -> Thread:
        raise NotImplementedError(ref)

    def tell(self, ref: str, reply: Reply) -> None:
        raise NotImplementedError(ref)

    def attach(self, ref: str, picture: Attachment, text: str) -> None:
        raise NotImplementedError(ref)


@dataclass
class Hands:
    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


@dataclass
class Lab:
    """Everything, with the ledger's term taken. `executor` is the process that runs; `restart` makes another."""

    ledger: SqlLedger
    tickets: DirectoryTickets
    rules: Rules
    clock: Hands
    kube: Kube = field(default_factory=Kube)
    runner: Runner = field(default_factory=Runner)
    chat: Chat = field(default_factory=Chat)
    term: int = 0
    mode: Mode = Mode.ENFORCE
    folder: Path = Path()
    executor: Executor = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A new process: it knows what the ledger knows."""
        self.term = self.ledger.take_term("lab", self.kube.uid)
        desk = only("lab", self.tickets)
        self.executor = Executor(self.kube, self.ledger, desk, self.chat, self.clock, self.rules, self.runner)

    @property
    def state(self) -> State:
        return self.ledger.load().state

    @property
    def case(self) -> Case:
        """The newest one."""
        return max(self.state.cases.values(), key=lambda case: case.opened_at)

    def status(self, effect: Effect) -> str:
        return self.case.effects[effect].status.value

    def decide(self, action: Action, reason: str = "as decided", **fields: object) -> None:
        """A decision about the case, recorded."""
        case = self.case
        known: dict[str, object] = {"node": case.node, "machine": case.machine, "case": case.id, "pool": case.pool}
        decision = Decision(self.clock.at, Kind.DECIDED, action, reason, "controller test", **{**known, **fields})  # type: ignore[arg-type]
        self.ledger.record(self.term, [decision])

    def act(self, **changes: object) -> Executed:
        """What the executor does of what is decided, with nothing new."""
        look = self.snapshot()
        made = Plan(look.now, (), "", frozenset({NODE}), observe_only=self.mode is Mode.OBSERVE)
        executed = self.executor.run(self.term, look, replace(made, **changes))  # type: ignore[arg-type]
        assert not [said for said in executed.postponed if "AssertionError" in said], executed.postponed
        return executed

    def snapshot(self) -> Snapshot:
        return snapshot(self.kube.nodes(), state=self.state, mode=self.mode, now=self.clock.at)

    def later(self, **span: float) -> None:
        self.clock.at += timedelta(**span)

    def quarantine(self) -> None:
        """Node 3 is hot, and what that asks for of the node is done."""
        made = plan(snapshot(self.kube.nodes(), hot(NODE), now=self.clock.at), self.rules)
        self.ledger.record(self.term, made.decisions, self.rules.policies)
        self.act()


def lab(database: Path, law: Rules | None = None) -> Lab:
    """Over a migrated ledger, which is to be closed; nothing is asked for but what a test asks for."""
    clock = Hands()
    quiet = rules(policy(response={"notify": False}))
    given = replace(law or quiet, procedures={"reset": RESET, "bug-report": BUG_REPORT})
    ledger = open_ledger(f"sqlite:///{database}", "test", now=clock.now)
    folder = database.parent / "tickets"
    return Lab(ledger, DirectoryTickets(folder, clock.now), given, clock, folder=folder)


def pod(name: str, kind: Class = Class.SERVICE) -> Pod:
    return Pod(PodRef("jobs", name, f"uid-{name}"), NODE, kind)


def refs(names: Sequence[str]) -> Iterator[PodRef]:
    return (pod(name).ref for name in names)
