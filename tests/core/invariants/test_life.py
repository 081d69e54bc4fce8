"""Random fleets, faults and interleavings: after every step, every invariant of the design that can be stated."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from quarantine.core.case import RunOutcome
from quarantine.core.decision import RequestKind, State
from quarantine.core.model import Mode, Taint
from quarantine.core.policy import Rules
from quarantine.core.state import fold
from tests.core.invariants import provider
from tests.core.invariants.checks import nothing_waits_for_ever
from tests.core.invariants.kube import PREFIX
from tests.core.invariants.laws import laws
from tests.core.invariants.prom import FAILED, PARTIAL
from tests.core.invariants.swapping import Swapping, bounded, found_by, long_waits, nodes, picks, spans, waits
from tests.core.invariants.world import GPUS, NAMES, World

PEOPLE = ["kubectl-taint", "kubectl"]
PROGRAMS = ["driver-manager", "rewriter", "rewriter"]
GUARD = "karpenter.sh/do-not-disrupt"


pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Fleet(Swapping):
    """Each rule is something that happens; then time passes, and a controller has a cycle."""

    @initialize(
        law=laws,
        settles=st.sampled_from([timedelta(0), timedelta(minutes=5), timedelta(minutes=30)]),
        served=st.sets(nodes, max_size=6),
        jobs=st.lists(st.sets(nodes, min_size=1), max_size=3),
        out=st.sets(st.tuples(st.sampled_from(NAMES[:6]), found_by), max_size=3),
    )
    def begin(
        self, law: Rules, settles: timedelta, served: set[str], jobs: list[set[str]], out: set[tuple[str, str]]
    ) -> None:
        """A fleet at work; some of it has been bad for some minutes."""
        self.world = self.made(law)
        self.world.desk.settles = settles
        for name in sorted(served):
            self.world.service(name)
        for over in jobs:
            self.world.job(tuple(sorted(over)))
        for name, policy in sorted(out):
            self.bad(policy).add(self.device(name, policy, 0))
        self.world.cycle()
        if out:
            self.then(timedelta(minutes=6))

    # --- Faults -------------------------------------------------------------------------------------------------------

    @rule(name=nodes, policy=found_by, gpu=st.integers(0, GPUS - 1), wait=waits)
    def fails(self, name: str, policy: str, gpu: int, wait: timedelta) -> None:
        self.bad(policy).add(self.device(name, policy, gpu))
        self.then(wait)

    @rule(name=nodes, gpu=st.integers(0, GPUS - 1))
    def runs_hot(self, name: str, gpu: int) -> None:
        """Seen twice, a while apart: so that what settles has settled."""
        self.bad("gpu-hot").add(self.world.gpus[name][gpu])
        self.then(timedelta(minutes=6), 2)
        self.then(timedelta(minutes=6), 2)

    @rule(rack=st.integers(0, 2), policy=found_by, wait=waits)
    def a_rack_fails(self, rack: int, policy: str, wait: timedelta) -> None:
        for number in range(3 * rack, 3 * rack + 3):
            self.bad(policy).add(self.device(f"node-{number}", policy, 0))
        self.then(wait)

    @rule(name=nodes, wait=waits)
    def warms(self, name: str, wait: timedelta) -> None:
        self.world.prom.warm.setdefault("gpu-hot", set()).add(self.world.gpus[name][0])
        self.then(wait)

    @rule(pick=picks, wait=waits, loaded=st.booleans())
    def is_good_again(self, pick: int, wait: timedelta, loaded: bool) -> None:
        name = self.out(pick)
        for found in self.world.prom.bad.values():
            found -= {name, *self.world.gpus[name]}
        (self.world.prom.loaded.add if loaded else self.world.prom.loaded.discard)(name)
        self.then(wait)

    @rule(wait=waits)
    def all_is_good(self, wait: timedelta) -> None:
        self.world.prom.bad.clear()
        self.world.prom.loaded |= set(NAMES)
        self.then(wait)

    # --- What is seen -------------------------------------------------------------------------------------------------

    @rule(what=st.sets(st.sampled_from(["trigger", "recovery", "coverage"])), how=st.sampled_from([FAILED, PARTIAL]))
    def prometheus(self, what: set[str], how: object) -> None:
        self.world.prom.failing = dict.fromkeys(what, how)  # type: ignore[arg-type]
        self.then(timedelta(minutes=1))

    @rule(dark=st.sets(nodes, max_size=4), empty=st.booleans(), wait=waits)
    def exporters(self, dark: set[str], empty: bool, wait: timedelta) -> None:
        self.world.prom.dark, self.world.prom.empty = dark, empty and not dark
        self.then(wait)

    @rule(blind=st.booleans(), runs=st.booleans(), hardware=st.booleans(), unseen=st.sets(nodes, max_size=2))
    def sight(self, blind: bool, runs: bool, hardware: bool, unseen: set[str]) -> None:
        self.world.kube.blind, self.world.runner.blind, self.world.hardware_fails = blind, runs, hardware
        self.world.kube.unseen = unseen
        self.then(timedelta(minutes=1))

    @rule()
    def all_is_seen(self) -> None:
        self.world.prom.failing, self.world.prom.dark, self.world.prom.empty = {}, set(), False
        self.world.kube.blind = self.world.runner.blind = self.world.hardware_fails = False
        self.world.kube.unseen = set()
        self.then(timedelta(minutes=1), 2)

    @rule(ghosts=st.integers(0, 3))
    def ghosts(self, ghosts: int) -> None:
        self.world.prom.ghosts = ghosts
        self.then(timedelta(minutes=1))

    # --- Machines -----------------------------------------------------------------------------------------------------

    @rule(name=nodes, ready=st.sampled_from([True, False, None]), wait=waits)
    def readiness(self, name: str, ready: bool | None, wait: timedelta) -> None:
        if self.there(name):
            self.world.kube.change(name, ready=ready)
        self.then(wait)

    @rule(pick=picks)
    def reboots(self, pick: int) -> None:
        if self.there(self.out(pick)):
            self.world.reboot(self.out(pick))
        self.then(timedelta(minutes=1))

    @rule(pick=picks, wait=waits)
    def leaves(self, pick: int, wait: timedelta) -> None:
        self.world.leave(self.out(pick))
        self.then(wait)

    @rule(name=nodes, wait=waits)
    def is_made_again(self, name: str, wait: timedelta) -> None:
        self.world.join(name)
        self.then(wait)

    @rule(pick=picks, same=st.booleans(), untold=st.booleans(), wait=waits)
    def is_swapped(self, pick: int, same: bool, untold: bool, wait: timedelta) -> None:
        self.world.swap(self.out(pick), same_object=same, untold=untold)
        self.then(wait)

    @rule(pick=picks, gpu=st.integers(0, GPUS - 1), wait=waits)
    def a_gpu_is_exchanged(self, pick: int, gpu: int, wait: timedelta) -> None:
        self.world.exchange_gpu(self.out(pick), gpu)
        self.then(wait)

    @rule(pick=picks, source=nodes)
    def a_gpu_comes_back(self, pick: int, source: str) -> None:
        """One that was here, or elsewhere, is in this machine again."""
        name = self.out(pick)
        if name != source:
            self.world.gpus[name] = (f"GPU-{source}-0", *self.world.gpus[name][1:])
            self.world.swapped[name] = self.world.swapped[source] = self.world.now
            others = self.world.gpus[source]
            self.world.gpus[source] = (f"GPU-z-{source}-0", *others[1:]) if f"GPU-{source}-0" in others else others
        self.then(timedelta(minutes=1))

    # --- People -------------------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from([RequestKind.OPEN, RequestKind.RELEASE, RequestKind.REPAIRED]), pick=picks, wait=waits)
    def ask_about_a_case(self, kind: RequestKind, pick: int, wait: timedelta) -> None:
        self.world.ask(kind, self.out(pick))
        self.then(wait)

    @rule(name=nodes, wait=waits)
    def open(self, name: str, wait: timedelta) -> None:
        self.world.ask(RequestKind.OPEN, name)
        self.then(wait)

    @rule(pick=picks, until=spans)
    def waive(self, pick: int, until: timedelta) -> None:
        self.world.ask(RequestKind.WAIVE, self.out(pick), until=until)
        self.then(timedelta(minutes=1))

    @rule(scope=st.sampled_from(["all", "gpu", "gpu-hot", "pool/small", "nonsense"]), until=st.none() | spans)
    def pause(self, scope: str, until: timedelta | None) -> None:
        self.world.ask(RequestKind.PAUSE, scope=scope, until=until)
        self.then(timedelta(minutes=1))

    @rule(scope=st.sampled_from(["all", "gpu", "gpu-hot", "dc/rack=r0"]))
    def resume(self, scope: str) -> None:
        self.world.ask(RequestKind.RESUME, scope=scope)
        self.then(timedelta(minutes=1))

    @rule(scope=st.sampled_from(["dc/rack=r0", "node-2", "gpu=yes"]), until=spans)
    def maintain(self, scope: str, until: timedelta) -> None:
        self.world.ask(RequestKind.MAINTAIN, scope=scope, until=until)
        self.then(timedelta(minutes=1))

    @rule(kinds=st.lists(st.sampled_from(RequestKind), min_size=2, max_size=4), pick=picks)
    def ask_much_at_once(self, kinds: list[RequestKind], pick: int) -> None:
        name = self.out(pick)
        for kind in kinds:
            scope = "node-2" if kind is RequestKind.MAINTAIN else "all"
            self.world.ask(kind, name, until=timedelta(hours=1), scope=scope)
        self.then(timedelta(minutes=1))

    @rule(pick=picks, key=st.sampled_from(["waived-until", "maintenance-until"]), until=st.none() | spans)
    def annotate(self, pick: int, key: str, until: timedelta | None) -> None:
        name = self.out(pick)
        if self.there(name):
            said = "next week" if until is None else (self.world.now + until).isoformat()
            self.world.annotate(name, f"{PREFIX}/{key}", said)
        self.then(timedelta(minutes=1))

    @rule(name=nodes)
    def annotations_go(self, name: str) -> None:
        if self.there(name):
            for key in ("waived-until", "maintenance-until"):
                self.world.annotate(name, f"{PREFIX}/{key}", None)
        self.then(timedelta(minutes=1))

    @rule(pick=picks, to=st.booleans(), wait=waits)
    def cordon(self, pick: int, to: bool, wait: timedelta) -> None:
        if self.there(self.out(pick)):
            self.world.kube.change(self.out(pick), unschedulable=to)
        self.then(wait)

    @rule(pick=picks, managers=st.lists(st.sampled_from(PEOPLE), min_size=1, max_size=2), uncordon=st.booleans())
    def a_person_takes_our_taint(self, pick: int, managers: list[str], uncordon: bool) -> None:
        name = self.out(pick)
        if self.there(name):
            self.world.untaint(name, managers[0])
            if uncordon:
                self.world.kube.change(name, unschedulable=False)
        self.then(timedelta(minutes=1), 2)

    @rule(pick=picks, manager=st.sampled_from(PROGRAMS), wait=waits)
    def a_program_takes_our_taint(self, pick: int, manager: str, wait: timedelta) -> None:
        name = self.out(pick)
        if self.there(name):
            # It keeps a taint of its own, so that the list has an owner.
            self.world.kube.retaint(name, [*_without(self.world, name), Taint("x.io/driver")], manager)
            self.world.untaint(name, manager)
        self.then(wait, 2)

    @rule(pick=picks, with_ours=st.booleans())
    def a_program_rewrites_the_list(self, pick: int, with_ours: bool) -> None:
        """With all that it found there, or with what it remembers."""
        name = self.out(pick)
        if self.there(name):
            if not with_ours:
                self.world.untaint(name, "rewriter")
            taints = [t for t in self.world.kube.held[name].taints if t.key != "y.io/net"]
            self.world.kube.retaint(name, [Taint("y.io/net", "v", "NoExecute"), *taints], "rewriter")
        self.then(timedelta(minutes=1))

    @rule(name=nodes, key=st.sampled_from(["ops/work", f"{PREFIX}/ignore", "gpu"]), on=st.booleans())
    def label(self, name: str, key: str, on: bool) -> None:
        if self.there(name):
            value = ("yes" if key == "gpu" else "true") if on else None
            self.world.label(name, key, value)
        self.then(timedelta(minutes=1))

    @rule(pick=picks, on=st.booleans(), value=st.sampled_from(["true", "mine"]))
    def guard(self, pick: int, on: bool, value: str) -> None:
        if self.there(self.out(pick)):
            self.world.annotate(self.out(pick), GUARD, value if on else None)
        self.then(timedelta(minutes=1))

    # --- What runs ----------------------------------------------------------------------------------------------------

    @rule(pick=picks, tolerates=st.booleans(), kept=st.sampled_from(["", "", "", "protected", "doomed"]))
    def service(self, pick: int, tolerates: bool, kept: str) -> None:
        self.world.service(self.out(pick), tolerates=tolerates)
        if kept:
            names = self.world.kube.protected if kept == "protected" else self.world.kube.doomed
            names.add(f"web-{self.world.number}")
        self.then(timedelta(seconds=15))

    @rule(over=st.lists(nodes, min_size=1, max_size=4), wait=waits)
    def job(self, over: list[str], wait: timedelta) -> None:
        self.world.job(tuple(over))
        self.then(wait)

    @rule(pick=picks, finish=st.booleans())
    def checkpoint(self, pick: int, finish: bool) -> None:
        gangs = self.world.gangs()
        if gangs:
            (self.world.finish if finish else self.world.checkpoint)(gangs[pick % len(gangs)])
        self.then(timedelta(minutes=1))

    @rule()
    def budgets_allow(self) -> None:
        self.world.kube.protected.clear()
        self.world.kube.doomed.clear()
        self.then(timedelta(minutes=2), 2)

    @rule(outcome=st.sampled_from([RunOutcome.SUCCEEDED, RunOutcome.SUCCEEDED, RunOutcome.FAILED]), wait=waits)
    def procedures_end(self, outcome: RunOutcome, wait: timedelta) -> None:
        for order in self.world.runner.running:
            self.world.procedure_ends(order, outcome)
        self.then(wait, 2)

    @rule(fate=st.sampled_from([RunOutcome.SUCCEEDED, RunOutcome.FAILED, None]), cures=st.booleans())
    def procedures_go(self, fate: RunOutcome | None, cures: bool) -> None:
        self.world.fate, self.world.cures = fate, cures
        self.then(timedelta(minutes=1))

    @rule()
    def procedures_are_lost(self) -> None:
        self.world.runner.forgotten |= {order.run.name for order in self.world.runner.running}
        self.then(timedelta(minutes=6))

    # --- Ourselves ----------------------------------------------------------------------------------------------------

    @rule(minutes=st.integers(5, 40))
    def minutes_pass(self, minutes: int) -> None:
        for _ in range(0, minutes, 5):
            self.then(timedelta(minutes=5))

    @rule(wait=waits, count=st.integers(1, 5))
    def time_passes(self, wait: timedelta, count: int) -> None:
        for _ in range(count):
            self.then(wait)

    @rule(wait=long_waits)
    def days_pass(self, wait: timedelta) -> None:
        self.then(wait, 2)

    @rule(mode=st.sampled_from(Mode))
    def mode(self, mode: Mode) -> None:
        self.world.mode = mode
        self.then(timedelta(minutes=1))

    @rule(law=laws)
    def the_policies_are_edited(self, law: Rules) -> None:
        self.world.law = law
        self.then(timedelta(minutes=1))

    @rule(which=st.integers(0, 1))
    def a_process_restarts(self, which: int) -> None:
        assert fold(State(), self.world.book.trail) == self.world.state, "a restart forgets nothing"
        self.world.restart(which)
        self.then(timedelta(minutes=1))

    @rule()
    def the_other_replica_takes_over(self) -> None:
        self.world.pass_(timedelta(seconds=15))
        self.world.cycle(1)
        self.world.cycle(0)

    @rule(
        calls=st.dictionaries(
            st.sampled_from(
                [
                    "patch",
                    "event",
                    "condition",
                    "evict",
                    "run",
                    "stop",
                    "ticket",
                    "read",
                    "comment",
                    "post",
                    "attempt",
                    "settle",
                ]
            ),
            st.sampled_from(["down", "lost", "crash", "crashed"]),
            min_size=1,
            max_size=4,
        ),
        wait=waits,
    )
    def calls_go_wrong(self, calls: dict[str, str], wait: timedelta) -> None:
        self.world.pass_(wait)
        self.world.trouble.of = dict(calls)
        self.world.cycle()
        self.then(timedelta(minutes=6))

    @rule(
        pick=picks,
        what=st.sampled_from(["other", "untaint", "cordon", "rewrite", "leave", "release"]),
        anew=st.booleans(),
    )
    def something_happens_in_the_midst_of_a_cycle(self, pick: int, what: str, anew: bool) -> None:
        """Between our look at the nodes and our next write. `anew`: to a machine that is marked in this very cycle."""
        name = NAMES[pick] if anew else self.out(pick)
        if anew:
            self.bad("nvlink").add(self.device(name, "nvlink", 0))
        self.world.pass_(timedelta(minutes=1))
        self.world.kube.meanwhile = lambda: self._meanwhile(name, what)
        self.world.cycle()
        self.then(timedelta(minutes=1))

    def _meanwhile(self, name: str, what: str) -> None:
        trying, look = self.world.book.trying, self.world.watch.look
        if what in ("other", "release"):
            if what == "release":
                self.world.ask(RequestKind.RELEASE, name)
            self.world.cycle(1)
        elif what == "leave":
            self.world.leave(name)
        elif self.there(name) and what == "cordon":
            self.world.kube.change(name, unschedulable=not self.world.kube.held[name].unschedulable)
        elif self.there(name):
            self.world.untaint(name, "kubectl-taint" if what == "untaint" else "rewriter")
        self.world.book.trying, self.world.watch.look = trying, look

    @precondition(lambda self: len(self.world.book.trail) > 5)
    @rule(back=st.integers(1, 12))
    def the_ledger_is_restored(self, back: int) -> None:
        self.world.book.restore(max(0, len(self.world.book.trail) - back))
        self.world.restores.append(self.world.now)
        for which in (0, 1):
            self.world.restart(which)
        self.then(timedelta(minutes=1), 2)

    @rule()
    def all_trouble_is_over(self) -> None:
        """Everything answers, and nobody stands in the way: what was asked for is done before long."""
        world = self.world
        world.prom.failing, world.prom.dark, world.prom.empty = {}, set(), False
        world.kube.blind = world.runner.blind = world.hardware_fails = False
        world.kube.unseen, world.mode, world.desk.down = set(), Mode.ENFORCE, False
        world.kube.protected.clear()
        world.kube.doomed.clear()
        for _ in range(8):
            self.then(timedelta(minutes=15))
        nothing_waits_for_ever(world)
        provider.all_is_said_and_one_ticket_is_open(world)

    @rule()
    def marks_are_taken_over(self) -> None:
        self.world.ask(RequestKind.ADOPT)
        self.then(timedelta(minutes=1))


def _without(world: World, name: str) -> list[Taint]:
    return [taint for taint in world.kube.held[name].taints if taint.key != "x.io/driver"]


TestFleet = Fleet.TestCase
TestFleet.settings = settings(bounded(110), stateful_step_count=30)
