"""What must hold, told from outside: from the writes that arrive, and from what is true of the machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import Decision, State
from quarantine.core.letters import CaseReport
from quarantine.core.marks import NodePatch, taint_key
from quarantine.core.model import Node
from quarantine.core.workload import Pod
from tests.chaos.sim_world import LINKS, PER_HOUR, QUARANTINED, UNAVAILABLE
from tests.core.invariants.kube import PREFIX

if TYPE_CHECKING:
    from tests.chaos.sim_clockwork import Simulation
    from tests.chaos.sim_process import Process

TAINT = taint_key(PREFIX)
HOUR = timedelta(hours=1)


@dataclass
class Outside:
    """Counts what must never happen, and says each."""

    sim: Simulation
    healthy: list[str] = field(default_factory=list)  # quarantined
    absent: list[str] = field(default_factory=list)  # released on absence
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)  # a budget
    stale: list[str] = field(default_factory=list)
    in_flight: Counter[str] = field(default_factory=Counter)  # sent while their process led, and come when another did
    forgotten: int = 0  # decisions that a failover of the ledger lost
    acked: list[Decision] = field(default_factory=list)  # what the ledger said it has
    ever_bad: set[str] = field(default_factory=set)  # nodes
    good: set[str] = field(default_factory=set)  # nodes that were shown to be good under load since they were last bad
    marks: dict[str, datetime] = field(default_factory=dict)  # by case: when its machine was marked first
    evictions: Counter[str] = field(default_factory=Counter)  # by pod uid
    seen: Counter[str] = field(default_factory=Counter)  # what happened at all, by kind

    @property
    def broken(self) -> list[str]:
        """All of it."""
        return [*self.healthy, *self.absent, *self.lost, *self.doubled, *self.over, *self.stale]

    # --- Each effect --------------------------------------------------------------------------------------------------

    def acts(self, process: Process, call: str, far: str, *, led: bool) -> None:
        """An effect arrives. `led`: whether its process led when it was sent."""
        if process.leadership.leads():
            return
        others = [one for one in self.sim.processes if one is not process and one.leadership.leads()]
        if others and led:
            self.in_flight[call] += 1
        elif others or not led:
            self.stale.append(f"{call} to {far} by {process.name}, which does not lead, at {self._at}")

    def wrote(self, _: NodePatch, before: Node, after: Node) -> None:
        """A write to a Node arrives."""
        was, now = _ours(before), _ours(after)
        if len(now) > 1 or (was and now and was != now):
            self.doubled.append(f"{before.name} carries {was} and then {now} at {self._at}")
        self.seen["marked"] += bool(now and not was)
        self.seen["released"] += bool(was and not now)
        if now and not was:
            self._marked(after, now[0])
        if was and not now:
            self._released(before, was[0])

    def _marked(self, node: Node, case: str) -> None:
        name, now = node.name, self.sim.true_now
        if name not in self.ever_bad:
            self.healthy.append(f"{name} is quarantined at {self._at}, and was never bad")
        self.good.discard(name)
        held = [n for n in self.sim.kube.held.values() if n.name != name]
        marked = sum(bool(_ours(n)) and n.ready is not False for n in held) + 1
        out = sum(bool(_ours(n)) or n.unschedulable or n.ready is not True for n in held) + 1
        if marked > QUARANTINED or out > UNAVAILABLE:
            self.over.append(f"with {name} {marked} are quarantined and {out} are out at {self._at}")
        if case not in self.marks:
            self.marks[case] = now
            if sum(at > now - HOUR for at in self.marks.values()) > PER_HOUR:
                self.over.append(f"{name} is one too many within an hour at {self._at}")

    def _released(self, node: Node, case: str) -> None:
        name, sim = node.name, self.sim
        if name in sim.asked_back:
            return
        if sim.is_bad(name) or name not in self.good:
            self.absent.append(f"{name} is released (case {case}) at {self._at} without evidence")

    def evicted(self, pod: Pod) -> None:
        """An eviction is granted."""
        self.evictions[pod.ref.uid] += 1
        self.seen["evicted"] += 1
        if self.evictions[pod.ref.uid] > 1 and not pod.terminating:
            self.doubled.append(f"{pod.ref} is evicted twice")

    def filed(self, report: CaseReport) -> None:
        """A ticket is made."""
        self.seen[f"ticket ({report.ask})"] += 1
        if report.node not in self.ever_bad:
            self.healthy.append(f"a ticket is filed for {report.node}, which was never bad, at {self._at}")

    def shown_good(self, node: str, gpu: str) -> None:
        """Prometheus says, and it is so, that a GPU is good under load."""
        if not any(gpu in found for found in self.sim.prom.bad.values()):
            self.good.add(node)

    # --- At the end ---------------------------------------------------------------------------------------------------

    def at_the_end(self, state: State) -> None:
        """Nothing is lost and nothing is there twice."""
        sim = self.sim
        self.seen += Counter(replies=len(sim.slack.replies), notices=len(sim.channel.said), alarms=sim.phone.fired)
        self.seen += Counter({"in flight": self.in_flight.total(), "forgotten": self.forgotten, "ended": sim.ended})
        trail = Counter((d.at, d.action, d.kind, d.node, d.reason) for d in sim.books.trail())
        for d in self.acked:
            if not trail[d.at, d.action, d.kind, d.node, d.reason]:
                self.lost.append(f"the trail does not have: {d.reason}")
        self.lost += [f"{name} is bad and in service, and nothing holds it" for name in self.overlooked(state)]
        for case in state.cases.values():
            if case.open:
                self._told(case)
        self._once()

    def overlooked(self, state: State) -> list[str]:
        """Machines that are bad and seen to be, in service, and held by nothing."""
        sim = self.sim
        seen = (name for name in sorted(sim.kube.held) if name not in sim.prom.dark and name not in sim.asked_back)
        return [name for name in seen if sim.is_bad(name) and not self._handled(name, state)]

    def _handled(self, name: str, state: State) -> bool:
        case = state.open_case_of(name)
        if case is not None and case.marked and _ours(self.sim.kube.held[name]) == [case.id]:
            return True
        about = {f"/{name}", *([f"/{case.id}"] if case is not None else [])}
        return any(key.endswith(one) or f"{one}/" in key for key in state.holds for one in about)

    def _told(self, case: Case) -> None:
        if case.marked and not case.filings and any(finding.policy == LINKS for finding in case.findings):
            self.lost.append(f"the provider of {case.node} was not told")
        for effect, status in case.effects.items():
            if status.status is EffectStatus.ABANDONED and effect in (Effect.TICKET, Effect.REPLACE, Effect.NOTIFY):
                self.lost.append(f"{effect} of {case.node} was given up")
        for filing in case.filings:
            if filing.ref not in self.sim.desk.held:
                self.lost.append(f"ticket {filing.ref} of {case.node} is not there")
        told = case.effects.get(Effect.NOTIFY)
        if told is not None and told.status is EffectStatus.DONE and not self.sim.slack.find(told.ref):
            self.lost.append(f"the message {told.ref} of {case.node} is not there")
        # Who takes a mark over as it is, of a case that the ledger lost, knows of it.
        if case.marked and case.findings and told is None:
            self.lost.append(f"nobody was told of {case.node}")

    def _once(self) -> None:
        """What was in flight when its process was succeeded may be there a second time: once for each such request."""
        sim, spare = self.sim, self.in_flight
        tickets = Counter(one.ticket.key for one in sim.desk.held.values())
        self._each_once("ticket", tickets, spare["open"])
        self._each_once("message", sim.slack.posts, spare["post"] + spare["fold"])
        self._each_once("notice", sim.channel.said, spare["tell"])
        self._each_once("reply", {str(key): count for key, count in sim.slack.replies.items()}, spare["tell"])

    def _each_once(self, what: str, counts: Mapping[str, int], spare: int) -> None:
        again = {key: count for key, count in counts.items() if count > 1}
        if sum(count - 1 for count in again.values()) > spare:
            self.doubled += [f"{what} {key} is there {count} times" for key, count in again.items()]

    @property
    def _at(self) -> str:
        return f"{self.sim.seconds:.0f} s"


def _ours(node: Node) -> list[str]:
    return [taint.value for taint in node.taints if taint.key == TAINT]
