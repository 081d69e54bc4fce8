"""Budgets, breakers, what fails together, and people's words (invariants 5, 6, 7, 9 and 12)."""

from __future__ import annotations

from quarantine.core import pauses
from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State
from quarantine.core.model import Mode, Node, Severity
from quarantine.core.waivers import BY_ANNOTATION
from tests.core.invariants.cycle import ACTS, HOUR, SHOWS, Cycle, pool_of, taken
from tests.core.invariants.laws import DOMAIN

# --- 5 ----------------------------------------------------------------------------------------------------------------


def budgets_hold(c: Cycle) -> None:
    """What we took out, all that is out, and the pace; from the cluster and the ledger alone (invariant 5)."""
    for state, d in c.decided:
        if d.action is not Action.QUARANTINE or not c.ours(d) or d.policy is None:
            continue
        node = c.look.nodes[d.node or ""]
        budget = d.budget
        assert budget is not None
        trail = [e for e in c.world.book.trail if e.action is Action.QUARANTINE and e.kind is Kind.DECIDED]
        trail += [e for e in c.made.decisions[: c.made.decisions.index(d)] if e in trail or taken(e)]
        recent = sum(1 for e in trail if e.pool == d.pool and e.at > c.look.now - HOUR)
        assert recent < budget.limit_recent, "the pace is exceeded, whatever was restarted"
        if node.ready is False:
            continue
        pool = [n for n in c.look.nodes.values() if pool_of(n) == d.pool]
        marked = {case.node for case in state.cases.values() if case.marked and not case.gate}
        ours = [n for n in pool if n.name in marked and n.ready is not False]
        assert len(ours) < budget.limit_ours, "too many are out by our doing"
        coming = {
            case.node for case in state.cases.values() if case.marked and case.gate
        }  # that a pool grows costs none
        out = {n.name for n in pool if n.name in marked or n.unschedulable or not n.ready} - coming
        out |= {n.name for n in pool if _stranded(c, n, pool, out)} - coming
        # What is of no use for now since others of its domain are still to be let in, costs nothing while that is so.
        if node.name not in out and not _stranded(c, node, pool, out | coming):
            assert len(out) < budget.limit_out, "too many are out for any reason"
            spares = budget.spares
            assert spares is None or d.severity is Severity.FATAL or len(out) < spares, "no spare is left"


def _stranded(c: Cycle, node: Node, pool: list[Node], out: set[str]) -> bool:
    """Whether too few of its domain are left for any job."""
    rule = next(p.domain for p in c.law.fleet.pools if p.name == pool_of(node))
    if rule is None:
        return False
    usable = [n for n in pool if n.labels[DOMAIN] == node.labels[DOMAIN] and n.name not in out]
    return len(usable) < rule.machines


def releases_are_never_blocked(c: Cycle) -> None:
    """Neither a budget nor a breaker, a pause or the observing mode keeps a person from releasing a machine."""
    for request in c.look.requests:
        if request.kind is not RequestKind.RELEASE or request.id in c.before.answered:
            continue
        answers = [(state, d) for state, d in c.steps if d.request == request.id]
        assert len(answers) == 1, "every request gets one answer"
        state, d = answers[0]
        was = state.open_case_of(request.node)
        if was is not None and request.at < was.opened_at:
            assert d.case is None, "a word about an earlier case touches a later one (invariant 16)"
            continue
        assert was is None or not c.after.cases[was.id].open, f"{request.node} was to be released"
        assert was is None or d.phase in (Phase.RELEASED, Phase.DISMISSED)


# --- 6 and 7 ----------------------------------------------------------------------------------------------------------


def a_policy_that_finds_too_much_takes_nobody_out(c: Cycle) -> None:
    """The breaker of a policy (invariant 6)."""
    for _, d in c.decided:
        policy = c.law.policy(d.policy) if d.policy is not None else None
        if d.action is not Action.QUARANTINE or policy is None or not c.ours(d):
            continue
        found = [place for place in c.world.prom.devices(policy) if c.finds(policy, place)]
        seen = [place for place in c.world.prom.devices(policy) if place[0] in c.world.prom.seen()]
        if len({node for node, _ in found}) > 1:
            assert len(found) <= policy.spec.breaker.max_share * len(seen), f"{policy.name} empties the fleet"


def what_is_new_settles(c: Cycle) -> None:
    """A finding is not acted on before others had time to join it (invariant 7)."""
    for state, d in c.decided:
        policy = c.law.policy(d.policy) if d.policy is not None else None
        if d.action is not Action.QUARANTINE or policy is None or not c.ours(d):
            continue
        assert policy.spec.mode is Mode.ENFORCE
        assert policy.spec.response.taint
        rule, case = policy.spec.correlation, state.open_case_of(d.node or "")
        if rule is not None and rule.settle is not None:
            since = [f.since for f in case.findings if f.key == (d.policy, d.device)] if case is not None else []
            assert since, "it is acted on in the cycle in which it is found"
            assert c.look.now >= min(since) + rule.settle


def machines_that_fail_together_are_not_taken_out(c: Cycle) -> None:
    """A rack that fails at once, while nothing fails elsewhere, is the suspect and not its machines (invariant 7)."""
    watch = c.world.watch
    for policy in c.law.policies:
        rule = policy.spec.correlation
        begun = watch.begins.setdefault(policy.name, {})
        bad = {name for name in c.bad_nodes(policy) if pool_of(c.look.nodes[name])}
        for name in bad - begun.keys():
            begun[name] = c.look.now
        if rule is None or c.maintained:
            continue
        for rack in range(3):
            members = {f"node-{n}" for n in range(3 * rack, 3 * rack + 3)} & c.look.nodes.keys()
            fresh = {name for name in bad & members if begun[name] == c.look.now}
            if len(fresh) < rule.machines or begun.keys() - members or any(c.before.dismissals):
                continue
            acts = [d for _, d in c.decided if d.node in fresh and d.policy == policy.name and taken(d) and c.ours(d)]
            excused = {n for n in fresh if n == "node-6" or c.look.nodes[n].labels.get(f"{c.law.prefix}/ignore")}
            assert len(fresh - excused) < rule.machines or not acts, "a rack that fails at once is itself the suspect"


# --- 9 ----------------------------------------------------------------------------------------------------------------


def people_outrank_us(c: Cycle) -> None:
    """Planned work, pauses and the opt-out label suspend what we would do (invariant 9)."""
    for state, d in c.decided:
        if not c.ours(d) or d.node is None:
            continue
        case = c.after.cases.get(d.case or "")
        new = d.action in ACTS or (d.action is Action.RUN and Effect.RUN in d.effects) or d.phase is Phase.DRAINING
        if d.node in c.maintained:
            assert not new, f"{d.action} during planned work"
            assert d.action not in (Action.QUARANTINE, Action.JOIN) or (case is not None and case.by_person)
        if new or taken(d):
            pool = case.pool if case is not None else d.pool
            assert pauses.pause(c.after.words, c.look.now, pool=pool) is None, f"{d.action} under a pause"
        if taken(d) and d.policy is not None:
            node = c.look.nodes[d.node]
            assert node.labels.get(f"{c.law.prefix}/ignore") != "true"
            assert node.name not in c.law.fleet.never_touch
            assert pool_of(node), "a machine of no pool is taken out"
            word = pauses.pause(c.after.words, c.look.now, policy=d.policy)
            assert word is None, "a policy acts that is paused"
            _not_waived(c, state, d)


def _not_waived(c: Cycle, state: State, d: Decision) -> None:
    """A waiver covers all that is not fatal, and what it was given for."""
    node = c.look.nodes[d.node or ""]
    case = state.open_case_of(node.name)
    for word in state.dismissals:
        if word.node != node.name or word.until <= c.look.now or word.by == BY_ANNOTATION:
            continue
        if word.machine.node_uid != node.machine.node_uid or (case is not None and case.by_person):
            continue
        assert d.evidence is not None
        assert (d.evidence.signal, d.device) not in word.findings, "a person's word on this finding is not heeded"
        assert not word.waiver or d.severity is Severity.FATAL, "a waived machine is taken out"


# --- 12 ---------------------------------------------------------------------------------------------------------------


def observing_does_nothing(c: Cycle) -> None:
    """Neither where the installation only observes, nor where its ledger is too old (invariant 12)."""
    if c.look.mode is Mode.OBSERVE:
        assert c.made.observe_only
        for _, d in c.steps:
            # What was marked before stays so: its mark follows it to another Node object once it may be written.
            if d.action not in (Action.ADOPT, Action.FOLLOW, Action.SWAP):
                assert set(d.effects) <= SHOWS, f"{d.action} asks for {d.effects} while the installation observes"
    if "restored" in c.after.holds:
        for _, d in c.steps:
            assert set(d.effects) <= SHOWS, f"{d.action} asks for {d.effects} while the ledger is too old"
