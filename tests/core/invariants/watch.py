"""What is remembered of a world beside it, and what must hold of every single call that we make to the outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, ParamSpec

from quarantine.core import pauses
from quarantine.core.case import Case, Effect, EffectStatus, Phase, Purpose
from quarantine.core.letters import CaseReport
from quarantine.core.marks import NodePatch, case_on, taint_key, was_marked
from quarantine.core.model import Machine, Mode, Node, Taint
from quarantine.core.snapshot import Snapshot
from quarantine.core.workload import Class, Pod
from quarantine.ports import Order
from tests.core.invariants.kube import PREFIX

if TYPE_CHECKING:
    from tests.core.invariants.world import World

OF_MARKS = tuple(f"{PREFIX}/{name}" for name in ("case", "reason", "cordoned-by", "since", "guards"))


P = ParamSpec("P")


@dataclass
class Watch:
    """`look` is that of the cycle under way."""

    world: World
    look: Snapshot | None = None
    machines: dict[str, Machine] = field(default_factory=dict)  # the last one seen behind each name
    cordons: dict[str, bool] = field(default_factory=dict)  # by node uid: the cordon there is ours
    guards: dict[str, dict[str, str]] = field(default_factory=dict)  # by node uid: annotations that we added
    told: dict[str, datetime] = field(default_factory=dict)  # by case: when its provider was last told
    broken: list[AssertionError] = field(default_factory=list)
    unmarked: set[str] = field(default_factory=set)
    begins: dict[str, dict[str, datetime]] = field(default_factory=dict)  # by policy and node: when first found bad

    def kept(self, check: Callable[P, None]) -> Callable[P, None]:
        """The same check, whose complaint is kept: a controller does not fall over by a defect in one effect."""

        def kept(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                check(*args, **kwargs)
            except AssertionError as error:
                self.broken.append(error)
                raise

        return kept

    # --- Nodes --------------------------------------------------------------------------------------------------------

    def wrote(self, patch: NodePatch, before: Node, after: Node) -> None:
        """Called with every write of ours to a Node."""
        case, effect = self._due(Effect.MARK, Effect.UNMARK, Effect.PHASE)
        assert patch.node == case.node
        assert before.machine.node_uid == case.machine.node_uid, "an effect of one machine reaches another"
        assert [t for t in after.taints if not _ours(t)] == [t for t in before.taints if not _ours(t)], "foreign taints"
        assert not any(t.effect == "NoExecute" for t in after.taints if t not in before.taints)
        self._labels(before, after)
        self._annotations(effect, before, after)
        self._cordon(effect, before, after)
        mine = [t.value for t in after.taints if _ours(t)]
        match effect:
            case Effect.MARK:
                assert self._look.mode is Mode.ENFORCE
                assert case.marked
                assert mine == [case.id]
                self._not_fought(case, before)
                self._not_stolen(case, before)
            case Effect.UNMARK:
                assert not case.open
                assert mine == [v for v in (t.value for t in before.taints if _ours(t)) if v != case.id]
            case _:
                assert after.taints == before.taints
                assert case_on(before, PREFIX) == case.id

    def _not_fought(self, case: Case, before: Node) -> None:
        """What a person took away is not put back (invariant 4)."""
        gone = was_marked(before, case, PREFIX) and case_on(before, PREFIX) != case.id
        by_person = not before.tainted_by or before.tainted_by.startswith("kubectl")
        assert not (gone and by_person), f"{before.name}: a person's word is fought"

    def _not_stolen(self, case: Case, before: Node) -> None:
        other = case_on(before, PREFIX)
        known = self.world.state.cases.get(other or "")
        assert other in (None, case.id) or (known is not None and not known.open), (
            "the mark of another case is replaced"
        )

    def _labels(self, before: Node, after: Node) -> None:
        own = f"{PREFIX}/phase"
        assert {k: v for k, v in after.labels.items() if k != own} == {
            k: v for k, v in before.labels.items() if k != own
        }

    def _annotations(self, effect: Effect, before: Node, after: Node) -> None:
        uid, guards = before.machine.node_uid, self.world.law.fleet.guards
        ours = self.guards.setdefault(uid, {})
        for key in before.annotations.keys() | after.annotations.keys():
            was, is_ = before.annotations.get(key), after.annotations.get(key)
            if was == is_ or key in OF_MARKS:
                continue
            if effect is Effect.MARK:
                assert was is None, f"{key} was there"
                assert is_ is not None
                assert guards.get(key) == is_, f"{key} is none of ours"
                ours[key] = is_
            else:
                assert effect is Effect.UNMARK, f"{key} changes with {effect}"
                assert is_ is None
                # Whoever gives a guard of ours the value that it has already leaves no trace of it.
                assert ours.pop(key, None) == was, f"{key} is taken away, and was not ours"

    def _cordon(self, effect: Effect, before: Node, after: Node) -> None:
        uid = before.machine.node_uid
        if before.unschedulable == after.unschedulable:
            return
        if after.unschedulable:
            assert effect is Effect.MARK
            self.cordons[uid] = True
        else:
            assert effect is Effect.UNMARK
            assert self.cordons.pop(uid, False), "a cordon that was found in place is taken away"

    # --- The machine --------------------------------------------------------------------------------------------------

    def evicted(self, pod: Pod) -> None:
        """Called with every eviction that is granted."""
        case, _ = self._due(Effect.EVICT)
        assert case.phase is Phase.DRAINING
        assert pod.ref in case.leaving[-1].pods
        assert pod.node == case.node, "a pod is evicted that is not on the machine"
        self._acts(case)
        node = self.world.kube.held[case.node]
        assert not case.cordoned_by_us or node.unschedulable or self.world.kube.meanwhile is None

    def begun(self, order: Order) -> None:
        """Called with every procedure that is begun."""
        case, _ = self._due(Effect.RUN)
        assert case.run is not None
        assert (case.run.name, case.id, case.node) == (order.run.name, order.case, order.node)
        assert [run.outcome for run in case.runs].count(case.run.outcome) == 1, "one procedure at a time"
        if not self.world.restores:
            assert order.run.name not in self.world.runner.starts, f"{order.run.name} is begun twice"
        self._acts(case)
        pods = self.world.kube.on(case.node)
        if order.run.purpose in (Purpose.RESET, Purpose.REBOOT):
            assert not pods, "a machine is restarted under what runs there"

    def filed(self, report: CaseReport) -> None:
        """Called with every ticket."""
        case, effect = self._due(Effect.TICKET, Effect.REPLACE)
        self._acts(case, taint=effect is Effect.REPLACE)
        assert report.node == case.node
        if effect is Effect.REPLACE:
            assert report.ask == "replace"
            training = [pod for pod in self.world.kube.on(case.node) if pod.kind is Class.TRAINING]
            assert not training, "another machine is asked for while training runs on this one"
        self.told[case.id] = self.world.now

    # --- Afterwards ---------------------------------------------------------------------------------------------------

    def looked_over(self) -> None:
        """After each cycle: of cases whose marks are taken away, nothing is left."""
        self.machines |= {name: node.machine for name, node in self.world.kube.held.items()}
        for case in self.world.state.cases.values():
            state = case.effects.get(Effect.UNMARK)
            if case.open or case.id in self.unmarked or state is None or state.status is not EffectStatus.DONE:
                continue
            self.unmarked.add(case.id)
            node = self.world.kube.held.get(case.node)
            if node is not None and node.machine.node_uid == case.machine.node_uid:
                self._nothing_left(case, node)

    def _nothing_left(self, case: Case, node: Node) -> None:
        assert case_on(node, PREFIX) != case.id
        assert not was_marked(node, case, PREFIX)
        if any(other.node == case.node and other.marked for other in self.world.state.cases.values()):
            return
        if case_on(node, PREFIX) is not None:
            return  # another's mark, which people are told of
        assert f"{PREFIX}/phase" not in node.labels
        assert not [key for key in OF_MARKS if key in node.annotations], f"{node.annotations}"
        left = {k for k, v in self.guards.get(node.machine.node_uid, {}).items() if node.annotations.get(k) == v}
        assert not left, f"guards are left: {left}"
        assert not (self.cordons.get(node.machine.node_uid) and node.unschedulable), "our cordon is left"

    # --- Pieces -------------------------------------------------------------------------------------------------------

    @property
    def _look(self) -> Snapshot:
        assert self.look is not None
        return self.look

    def _due(self, *may: Effect) -> tuple[Case, Effect]:
        """The effect that is being carried out: recorded before, and of a case that stands so (invariants 8 and 16)."""
        trying = self.world.book.trying
        assert trying is not None
        case, effect = self.world.state.cases[trying[0]], trying[1]
        assert effect in may, f"{effect} does what it should not"
        return case, effect

    def _acts(self, case: Case, *, taint: bool = True) -> None:
        """What is done about a machine needs the word of the installation, and no person in its way."""
        assert case.open
        assert self._look.mode is Mode.ENFORCE
        word = pauses.pause(self.world.state.words, self._look.now, pool=case.pool)
        assert word is None, f"it is paused: {word}"
        if taint and self.world.kube.held[case.node].machine.node_uid == case.machine.node_uid:
            assert "restored" not in self.world.state.holds


def _ours(taint: Taint) -> bool:
    return taint.key == taint_key(PREFIX)
