"""Drains, deadlines, and cases that are kept apart (invariants 10, 11 and 16)."""

from __future__ import annotations

from datetime import timedelta

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase, RunOutcome
from quarantine.core.decision import Action, Kind, WordKind
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.marks import case_on
from quarantine.core.model import Failed
from quarantine.core.response import Moment
from tests.core.invariants.cycle import Cycle

# --- 10 ---------------------------------------------------------------------------------------------------------------


def only_what_is_seen_leaves(c: Cycle) -> None:
    """Evictions name pods that are there now, of a machine whose policy lets it be drained (invariant 10)."""
    works = c.look.workloads
    for state, d in c.decided:
        assert not (d.leaving is not None and Effect.EVICT not in d.effects)
        if d.leaving is None:
            continue
        assert not isinstance(works, Failed)
        here = {pod.ref: pod for pod in works.nodes[d.node or ""]}
        assert len(set(d.leaving.pods)) == len(d.leaving.pods) > 0
        assert all(ref in here and not here[ref].terminating for ref in d.leaving.pods)
        case = c.after.cases[d.case or ""]
        assert case.phase is Phase.DRAINING
        assert any(p.spec.response.drain.when != "never" for p in c.acting(state.cases[case.id]))


def a_gang_leaves_all_its_machines_at_once(c: Cycle) -> None:
    """Half a gang is the worst of both: whoever may be emptied at once is, together with the first (invariant 10)."""
    works = c.look.workloads
    batches = [d.leaving for _, d in c.decided if d.leaving is not None]
    falling = {key for leaving in batches for key in leaving.gang.split(", ") if key}
    asked = {ref for leaving in batches for ref in leaving.pods}
    if not falling or isinstance(works, Failed):
        return
    for case in c.before.cases.values():
        if not _may_be_emptied(c, case):
            continue
        earlier = {ref for leaving in case.leaving for ref in leaving.pods}
        for pod in works.nodes.get(case.node, ()):
            if pod.gang in falling and not pod.terminating and pod.ref not in earlier and not case.leaving:
                assert pod.ref in asked, f"{pod.ref} of {pod.gang} stays behind on {case.node}"


def _may_be_emptied(c: Cycle, case: Case) -> bool:
    """Whether nothing at all stands in the way of a drain that waits for no moment."""
    node, now = c.look.nodes.get(case.node), c.after.cases[case.id]
    if node is None or case.phase is not Phase.QUARANTINED or now.phase not in (Phase.QUARANTINED, Phase.DRAINING):
        return False
    policies = [p for p in (c.law.policy(finding.policy) for finding in now.findings) if p is not None]
    plain = all(p.spec.correlation is None and p.spec.escalation is None for p in policies)
    at_once = any(p.spec.response.drain.when is Moment.NOW for p in c.acting(now))
    held = any(hold.key.endswith(case.id) or hold.held_by is HeldBy.SIGHT for hold in c.after.holds.values())
    if not (plain and at_once) or held or "judge/" in "".join(c.after.holds) or case.node in c.maintained:
        return False
    paused = any(word.kind is WordKind.PAUSE for word in c.after.words.values())
    mark = case.effects.get(Effect.MARK)
    marked = mark is not None and mark.status is EffectStatus.DONE and case_on(node, c.law.prefix) == case.id
    return marked and not paused and now.run is None and (node.unschedulable or not case.cordoned_by_us)


# --- 11 ---------------------------------------------------------------------------------------------------------------


def every_case_goes_on_or_is_told(c: Cycle) -> None:
    """Each phase has an exit, a deadline and somebody who is told when it passes (invariant 11)."""
    if {"sight", "restored"} & c.after.holds.keys():
        return
    for case in c.after.cases.values():
        if not case.open:
            continue
        told = [key for key in c.after.holds if case.id in key.split("/")]
        limit = TRANSITIONS[case.phase].deadline
        assert limit is not None
        # What disturbs a probation begins its time anew, and is said.
        trail = [*c.world.book.trail, *c.made.decisions]
        proved = [d.at for d in trail if d.case == case.id and d.action is Action.PROVE]
        since = max([case.phase_since, *proved])
        if c.look.now >= since + max(limit, timedelta(days=2)) + timedelta(days=2):
            assert told, f"{case.node} is {case.phase} since {case.phase_since}, and nobody knows"


# --- 16, and the ledger ----------------------------------------------------------------------------------------------


def a_case_that_ended_never_changes(c: Cycle) -> None:
    """No late message, and no later case, touches it (invariant 16)."""
    for key, case in c.before.cases.items():
        if not case.open:
            assert c.after.cases[key] == case
    for _, d in c.steps:
        assert d.kind in (Kind.DECIDED, Kind.HELD)
        assert not d.effects or d.case is not None
        about = c.after.cases.get(d.case or "")
        assert about is None or d.node == about.node
    assert c.before.ended <= c.after.ended


def a_case_has_one_machine_and_one_procedure(c: Cycle) -> None:
    """At most one open case of a node, one running procedure of a case; none is ever begun again."""
    nodes = [case.node for case in c.after.cases.values() if case.open]
    assert len(nodes) == len(set(nodes)), "two open cases of one node"
    for case in c.after.cases.values():
        assert sum(1 for run in case.runs if run.outcome is RunOutcome.RUNNING) <= 1
        assert len({run.name for run in case.runs}) == len(case.runs)
    for state, d in c.decided:
        if d.run is not None and Effect.RUN in d.effects:
            assert d.run.name not in {run.name for run in state.cases[d.case or ""].runs}, "a run is begun again"
            assert state.cases[d.case or ""].run is None


def every_word_ends(c: Cycle) -> None:
    """Pauses and planned work are over at their ends, and the trail says so."""
    assert all(word.until is None or word.until > c.look.now for word in c.after.words.values())
    for _, d in c.decided:
        if d.held_by is HeldBy.PAUSED:
            raise AssertionError("a decision that is carried out is said to be held")
