"""What of the state stands beside the cases, after a decision: holds, people's words, versions, sizes of pools."""

from __future__ import annotations

from quarantine.core.case import Case
from quarantine.core.copying import replace
from quarantine.core.decision import RECORDS, Action, Decision, Dismissal, Hold, Kind, State, Version
from quarantine.core.marks import same_machine


def stood(state: State, decision: Decision) -> State:
    """The state once the decision holds, as far as it needs no case."""
    state = _ruled(_worded(_answered(_held(state, decision), decision), decision), decision)
    return state if decision.action in RECORDS else replace(state, recorded_until=decision.at)


def dismissed(state: State, case: Case, decision: Decision) -> State:
    """A person's word that nothing of what was found is acted on again begins to stand."""
    return replace(state, dismissals=(*_standing(state, decision), _dismissal(case, decision)))


def waived(state: State, case: Case | None, decision: Decision) -> State:
    """A waiver is of the findings of its case, and of whatever is not fatal.

    The later one of a machine replaces the earlier, and goes on covering what that was given for.
    """
    if decision.node is None or decision.machine is None or decision.until is None:
        raise ValueError("a waiver needs its node, its machine and its end")
    words = _standing(state, decision)
    earlier = [w for w in words if w.waiver and w.node == decision.node]
    known = [key for w in earlier if same_machine(decision.machine, w.machine) for key in w.findings]
    keys = tuple(dict.fromkeys([*known, *((f.evidence.signal, f.device) for f in (case.findings if case else ()))]))
    reason, by = decision.reason, decision.actor
    new = Dismissal(decision.node, decision.machine, keys, decision.until, reason, waiver=True, by=by)
    return replace(state, dismissals=(*(w for w in words if w not in earlier), new))


def _ruled(state: State, decision: Decision) -> State:
    """Which versions are in force and how large the pools are, from the decision that says so to the next one."""
    if decision.kind is not Kind.DECIDED:
        return state
    if decision.action is Action.POLICY and decision.policy is not None:
        versions = {name: known for name, known in state.versions.items() if name != decision.policy}
        if decision.policy_hash is not None:  # None: it is no more
            versions[decision.policy] = Version(decision.policy_hash, decision.policy_revision, decision.at)
        return replace(state, versions=versions)
    if decision.action is Action.COUNT and decision.census is not None:
        return replace(state, pools={**state.pools, decision.pool: decision.census})
    return state


def _worded(state: State, decision: Decision) -> State:
    """A person's word stands until the decision that ends it."""
    if decision.word is None and not decision.unword:
        return state
    words = {key: word for key, word in state.words.items() if key != decision.unword}
    if decision.word is not None:
        words[decision.word.key] = decision.word
    return replace(state, words=words)


def _answered(state: State, decision: Decision) -> State:
    if decision.request is None:
        return state
    return replace(state, answered=state.answered | {decision.request})


def _held(state: State, decision: Decision) -> State:
    """A hold stands from the decision that records it to the next one, of any outcome, under the same key."""
    if not decision.hold_key:
        return state
    holds = {key: hold for key, hold in state.holds.items() if key != decision.hold_key}
    if decision.held_by is not None:
        policy = decision.policy or ""
        holds[decision.hold_key] = Hold(decision.hold_key, decision.held_by, decision.reason, decision.at, policy)
    return replace(state, holds=holds)


def _standing(state: State, decision: Decision) -> tuple[Dismissal, ...]:
    return tuple(d for d in state.dismissals if d.until > decision.at)


def _dismissal(case: Case, decision: Decision) -> Dismissal:
    assert decision.until is not None  # noqa: S101
    keys = tuple((f.evidence.signal, f.device) for f in case.findings)
    return Dismissal(case.node, case.machine, keys, decision.until, decision.reason, by=decision.actor)
