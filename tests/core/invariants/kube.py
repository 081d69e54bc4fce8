"""An API server in memory, with its scheduler, its kubelets and the controller that follows cordons.

It keeps the promises of the port: conditional writes, evictions by uid, budgets that refuse. It may be down, lose the
answer to a write that it has done, or let somebody else write between our look and ours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from quarantine.core.case import PodRef
from quarantine.core.errors import ClusterUnavailable, Conflict, EvictionBlocked, EvictionImpossible, NodeGone
from quarantine.core.marks import NodeCondition, NodeEvent, NodePatch, taint_key
from quarantine.core.model import Node, Taint
from quarantine.core.rehearsal import written
from quarantine.core.workload import Class, Gang, Pod, PodRules, Workloads

PREFIX = "quarantine.gpu"
FOLLOWER = "kube-controller-manager"
CORDONED = "node.kubernetes.io/unschedulable"


class Crash(BaseException):
    """The process is killed at this very point."""


@dataclass
class Trouble:
    """What is to go wrong with calls of these names: `down`, `lost` (done, and not answered), `crash`, `crashed`.

    `crash`: killed before the call is made; `crashed`: after it, so that its answer is recorded nowhere.
    """

    of: dict[str, str] = field(default_factory=dict)

    def before(self, call: str, error: Exception) -> None:
        """To be called first."""
        if self.of.get(call) == "down":
            raise error
        if self.of.get(call) == "crash":
            raise Crash(call)

    def after(self, call: str, error: Exception) -> None:
        """To be called once it is done."""
        if self.of.get(call) == "lost":
            raise error
        if self.of.get(call) == "crashed":
            raise Crash(call)


def _nobody(_: NodePatch, __: Node, ___: Node) -> None: ...


@dataclass
class Kube:
    """Nodes and pods. `seen` is called with every write of ours to a Node: the patch, and the node before and after."""

    held: dict[str, Node]
    trouble: Trouble
    pods: dict[str, Pod] = field(default_factory=dict)  # by uid
    homeless: list[Pod] = field(default_factory=list)  # that no node takes yet
    protected: set[str] = field(default_factory=set)  # names of pods that a disruption budget keeps
    doomed: set[str] = field(default_factory=set)  # of those that several budgets cover
    unseen: set[str] = field(default_factory=set)  # nodes of which an answer about pods does not tell
    blind: bool = False  # pods cannot be asked about at all
    seen: Callable[[NodePatch, Node, Node], None] = _nobody
    evicting: Callable[[Pod], None] = lambda _: None
    meanwhile: Callable[[], None] | None = None  # what happens, once, between a look at the nodes and our next write
    events: set[str] = field(default_factory=set)
    _uid: int = 0

    # --- The port -----------------------------------------------------------------------------------------------------

    def identity(self) -> str:
        return "uid-of-this-cluster"

    def nodes(self) -> Mapping[str, Node]:
        return dict(self.held)

    def patch_node(self, patch: NodePatch) -> Node:
        self._interrupt()
        self.trouble.before("patch", ClusterUnavailable("the API server does not answer"))
        node = self._exact(patch.node, patch.uid)
        if node.resource_version != patch.resource_version:
            raise Conflict(f"{patch.node} changed since it was read")
        new = written(node, patch)
        if patch.taints is not None:
            new = replace(new, tainted_by="quarantine" if patch.taints else "")
        self.seen(patch, node, new)
        self._store(new)
        self.trouble.after("patch", ClusterUnavailable("the answer was lost"))
        return self.held[patch.node]

    def create_event(self, event: NodeEvent) -> None:
        self.trouble.before("event", ClusterUnavailable("the API server does not answer"))
        self.events.add(event.name)
        self.trouble.after("event", ClusterUnavailable("the answer was lost"))

    def set_condition(self, condition: NodeCondition) -> None:
        self._interrupt()
        self.trouble.before("condition", ClusterUnavailable("the API server does not answer"))
        node = self._exact(condition.node, condition.uid)
        self._store(replace(node, suspect=str(condition.status)))
        self.trouble.after("condition", ClusterUnavailable("the answer was lost"))

    def workloads(self, nodes: Collection[str], rules: PodRules) -> Workloads:
        assert rules.prefix == PREFIX
        if self.blind:
            raise ClusterUnavailable("pods may not be listed")
        here = {name: self.on(name) for name in nodes if name not in self.unseen and name in self.held}
        keys = {pod.gang for pods in here.values() for pod in pods if pod.gang}
        return Workloads(here, {key: self.gang(key) for key in keys})

    def evict(self, pod: PodRef) -> bool:
        self._interrupt()
        self.trouble.before("evict", ClusterUnavailable("the API server does not answer"))
        found = self.pods.get(pod.uid)
        if found is None or found.ref != pod:
            return False
        if pod.name in self.doomed:
            raise EvictionImpossible("more than one PodDisruptionBudget covers it")
        if pod.name in self.protected:
            raise EvictionBlocked("its PodDisruptionBudget allows no disruption")
        self.evicting(found)
        self.pods[pod.uid] = replace(found, terminating=True, running=False)
        self.trouble.after("evict", ClusterUnavailable("the answer was lost"))
        return True

    def _interrupt(self) -> None:
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()

    def _exact(self, name: str, uid: str) -> Node:
        node = self.held.get(name)
        if node is None or node.machine.node_uid != uid:
            raise NodeGone(f"there is no node {name} of this uid")
        return node

    def _store(self, node: Node) -> None:
        self._uid += 1
        self.held[node.name] = replace(node, resource_version=str(self._uid))

    # --- What others do -----------------------------------------------------------------------------------------------

    def change(self, name: str, **fields: object) -> None:
        """Somebody writes to a node."""
        self._store(replace(self.held[name], **fields))  # type: ignore[arg-type]

    def create(self, node: Node) -> None:
        """A Node object comes to be."""
        self._store(node)

    def retaint(self, name: str, taints: Iterable[Taint], manager: str) -> None:
        """Somebody writes the list of taints; one that is empty is owned by nobody."""
        new = tuple(taints)
        if new != self.held[name].taints:
            self.change(name, taints=new, tainted_by=manager if new else "")

    def follow_cordons(self) -> None:
        """The controller that taints what is cordoned, and takes that taint away again."""
        for name, node in list(self.held.items()):
            others = [taint for taint in node.taints if taint.key != CORDONED]
            if node.unschedulable and len(others) == len(node.taints):
                self.retaint(name, [*node.taints, Taint(CORDONED)], FOLLOWER)
            elif not node.unschedulable and len(others) != len(node.taints):
                self.retaint(name, others, FOLLOWER)

    # --- Pods ---------------------------------------------------------------------------------------------------------

    def on(self, name: str) -> tuple[Pod, ...]:
        """What runs on a node."""
        return tuple(pod for pod in self.pods.values() if pod.node == name)

    def gang(self, key: str) -> Gang:
        """A gang, wherever it runs."""
        members = [pod for pod in self.pods.values() if pod.gang == key]
        checkpoints = [pod.checkpoint_at for pod in members if pod.checkpoint_at is not None]
        return Gang(
            key,
            pods=len(members),
            running=sum(pod.running for pod in members),
            nodes=frozenset(pod.node for pod in members),
            checkpoint_at=min(checkpoints) if len(checkpoints) == len(members) and checkpoints else None,
            youngest=max((p.started_at for p in members if p.started_at is not None), default=None),
            members=frozenset(pod.ref for pod in members),
        )

    def place(self, pod: Pod, now: datetime, number: int = 0) -> None:
        """The scheduler: a pod of a new uid on a node that takes it; where none does, it waits."""
        fit = [name for name, node in self.held.items() if self._takes(node, pod)]
        if not fit:
            self.homeless.append(pod)
            return
        home = pod.node if pod.node in fit and pod.tolerates else sorted(fit)[number % len(fit)]
        self._uid += 1
        ref = replace(pod.ref, uid=f"pod-{self._uid}")
        made = replace(
            pod, ref=ref, node=home, terminating=False, running=True, started_at=now, created_at=now, checkpoint_at=None
        )
        self.pods[ref.uid] = made

    def _takes(self, node: Node, pod: Pod) -> bool:
        if pod.tolerates:
            return node.ready is not False
        free = not any(taint.effect in ("NoSchedule", "NoExecute") for taint in node.taints)
        return free and not node.unschedulable and node.ready is not False

    def kubelets(self, now: datetime) -> None:
        """What was told to end is gone; its owner makes it again. A gang that lost a pod starts anew as a whole."""
        gone = [pod for pod in self.pods.values() if pod.terminating or pod.node not in self.held]
        down = {pod.gang for pod in gone if pod.gang}
        again = [*self.homeless, *gone, *(p for p in self.pods.values() if p.gang in down and p not in gone)]
        self.homeless = []
        for pod in again:
            self.pods.pop(pod.ref.uid, None)
        for number, pod in enumerate(sorted(again, key=lambda p: p.ref.name)):
            if pod.owner or pod.kind is Class.TRAINING:
                self.place(pod, now, number)

    def tainted(self, name: str, case: str) -> bool:
        """Whether a node carries our taint for this case."""
        return any(t.key == taint_key(PREFIX) and t.value == case for t in self.held[name].taints)
