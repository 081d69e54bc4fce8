"""Ledger and cluster brought together: the ledger is right about why and who, the cluster about what is.

ledger            cluster                         what is decided
open case         node gone, or another uid       retire: the machine left
marked case       our taint is not there          dismiss: a person put the node back, and is not fought;
                                                  while planned work is under way on the node, nothing
no such case      our taint is there              adopt: never removed on sight
ended case        its taint is there again        held, and told
"""

from __future__ import annotations

import re
from datetime import timedelta

from quarantine.core.asked import enforcing
from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import JUDGE, NO_CASE, NODE, STRAY, Draft, case_key
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.marks import case_on, machine_matches, same_hardware
from quarantine.core.model import Node, Verdict
from quarantine.core.reasons import in_words

GONE_FOR = timedelta(minutes=10)  # a node that is not listed for so long has left
MARK_LATE = timedelta(minutes=10)  # evidence older than this no longer marks by itself
MANY = 3  # so many cases whose node or mark is gone at once, if they are most: our sight is suspect
_SIGHT, _GONE, _MARK, _OVERDUE = "sight", "gone/", "mark/", "overdue/"
_CASE_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def cases(draft: Draft) -> None:
    """Every open case against its node. When many are gone at once, it is our sight that is suspect."""
    lost, back = [], []
    for case in draft.open_cases():
        node = draft.nodes.get(case.node)
        if node is None:
            lost.append(case)
        elif not same_hardware(node, case.machine):
            _end(draft, case, Action.RETIRE, Phase.RETIRED, f"{case.node} is another machine under the same name now")
        elif not machine_matches(node, case.machine):
            _follow(draft, case, node)
        elif case.node not in draft.maintained and _put_back(case, node, draft.rules.prefix):
            back.append(case)
    if _too_many(draft, len(lost) + len(back)):
        return
    for case in back:
        _dismiss(draft, case)
    for case in lost:
        _lost(draft, case)
    for key in [k for k in draft.state.holds if k.startswith(_GONE) and k not in {_gone_key(case) for case in lost}]:
        draft.lift(key, "its node is there again")


def _too_many(draft: Draft, count: int) -> bool:
    """Another cluster's nodes, an empty list or another prefix look as if everything had been put back or had left."""
    total = len(draft.open_cases())
    blind = total > 0 and not draft.nodes
    if not blind and (count < MANY or 2 * count <= total):
        draft.lift(_SIGHT, "the nodes and marks of the open cases are seen again")
        return False
    seen = "the cluster shows no nodes at all" if blind else f"nodes or marks of {count} of {total} open cases are gone"
    reason = f"{seen} at once, so no case is ended: is this the right cluster and prefix? release them by hand if so"
    held = {"held_by": HeldBy.SIGHT, "hold_key": _SIGHT, "verdict": Verdict.UNKNOWN}
    draft.hold(draft.decision(Kind.HELD, Action.RETIRE, reason, **held))
    return True


def _lost(draft: Draft, case: Case) -> None:
    """A node that is not listed is given some time before its case is ended: ending is for good."""
    key = _gone_key(case)
    standing = draft.state.holds.get(key)
    if standing is None:
        reason = f"{case.node} is no node of the cluster; its case is retired unless it is back within 10 minutes"
        held = {"held_by": HeldBy.GONE, "hold_key": key}
        draft.hold(draft.about_case(Kind.HELD, Action.RETIRE, case, reason, **held))
    elif draft.now >= standing.since + GONE_FOR:
        _end(draft, case, Action.RETIRE, Phase.RETIRED, f"{case.node} left the cluster: no node is called so any more")
        draft.lift(key, f"case {case.id} is retired")


def _follow(draft: Draft, case: Case, node: Node) -> None:
    """The same machine under a new Node object: its case goes with it, and its marks are put back."""
    effects = (Effect.MARK,) if case.marked else ()
    reason = f"{case.node} was made again for the same machine: case {case.id} goes with it"
    draft.emit(draft.about_case(Kind.DECIDED, Action.FOLLOW, case, reason, machine=node.machine, effects=effects))


def marks(draft: Draft) -> None:
    """Every taint of ours against the ledger."""
    for node in draft.nodes.values():
        said = case_on(node, draft.rules.prefix)
        key = f"{_MARK}{node.name}"
        case = draft.state.cases.get(said) if said else None
        if said is None or (case is not None and case.node == node.name and (case.open or _unmarking(case))):
            draft.lift(key, f"the mark on {node.name} is explained")
        elif _unknown(draft, said) and draft.open_case(node.name) is None and _CASE_ID.fullmatch(said):
            _adopt(draft, node, said)
        else:
            reason = f"{node.name} carries our taint for case {said}, over or another node's: remove it by hand"
            held = {"held_by": HeldBy.FOREIGN_MARK, "hold_key": key, "node": node.name, "machine": node.machine}
            draft.hold(draft.decision(Kind.HELD, Action.ADOPT, reason, **held))


def _unknown(draft: Draft, case_id: str) -> bool:
    return case_id not in draft.state.cases and case_id not in draft.state.ended


def late_marks(draft: Draft) -> None:
    """What could not be marked for long is not marked on old evidence (the API was down, the switch was thrown)."""
    for case in draft.open_cases():
        if not case.waits_for_mark or case.by_person:
            continue
        if not enforcing(case, draft.rules):
            reason = f"{case.node} is not marked yet, and no policy that found it bad enforces any more"
        elif draft.now >= case.phase_since + MARK_LATE and _judged_not_bad(draft, case):
            reason = f"{case.node} could not be marked for long, and is not found bad now"
        else:
            continue
        _end(draft, case, Action.DISMISS, Phase.DISMISSED, reason)


def deadlines(draft: Draft) -> None:
    """Every phase ends: a suspicion that was never confirmed is dropped, anything else is told to a person.

    So is a suspicion of which nobody knows whether it still stands: no end is made of what is unknown (invariant 1).
    """
    for case in draft.open_cases():
        rule = TRANSITIONS[case.phase]
        if rule.deadline is None or draft.now < case.phase_since + rule.deadline:
            continue
        told = rule.overdue
        if case.phase is Phase.SUSPECTED and not case.by_person and not _judged_bad_now(draft, case):
            unknown = _unknown_since(draft, case)
            if unknown is None:
                reason = f"{case.node} was neither acted on nor found bad again within {rule.deadline.days} days"
                _end(draft, case, Action.DISMISS, Phase.DISMISSED, reason)
                continue
            told = f"whether it is still bad is not known, since {unknown}"
        reason = f"case {case.id} on {case.node} is {case.phase} since {case.phase_since:%Y-%m-%d}: {told}"
        held = {"held_by": HeldBy.OVERDUE, "hold_key": f"{_OVERDUE}{case.id}/{case.phase}"}
        draft.hold(draft.about_case(Kind.HELD, Action.RELEASE, case, reason, **held))


def sweep(draft: Draft) -> None:
    """Lift the holds whose subject is gone: a case that ended, a policy that is no more, a node that left."""
    policies = {policy.name for policy in draft.rules.policies}
    for key in list(draft.state.holds):
        if key.startswith(_OVERDUE):
            case_id, _, phase = key.removeprefix(_OVERDUE).rpartition("/")
            case = draft.state.cases.get(case_id)
            stale = case is None or not case.open or case.phase != phase
        elif key.startswith((JUDGE, STRAY)):
            stale = key.split("/")[1] not in policies
        elif key.startswith((_MARK, NODE)):
            stale = key.partition("/")[2] not in draft.nodes
        elif key.startswith(_GONE):
            case = draft.state.cases.get(key.removeprefix(_GONE))
            stale = case is None or not case.open
        else:
            stale = False
        if stale:
            draft.lift(key, "what it was about is no more")


def _judged_bad_now(draft: Draft, case: Case) -> bool:
    bad = draft.bad_now.get(case.node, frozenset())
    return any(finding.key in bad for finding in case.findings)


def _judged_not_bad(draft: Draft, case: Case) -> bool:
    return not _judged_bad_now(draft, case) and _unknown_since(draft, case) is None


def _unknown_since(draft: Draft, case: Case) -> str | None:
    """Why it is not known whether what was found bad is not bad any more; None where it is.

    Only the policies that found it matter: that another one sees nothing says nothing of this machine.
    """
    if case.node in draft.maintained:
        return f"planned work is under way on the node: {draft.maintained[case.node]}"
    if case.node in draft.unjudged:
        return NO_CASE[HeldBy.GRACE]
    found = dict.fromkeys(f.policy for f in case.findings if f.verdict is not Verdict.GOOD)
    blind = [name for name in found if not draft.knows([name])]
    if not blind:
        return None
    return f"{'policy' if len(blind) == 1 else 'policies'} {in_words(blind)} cannot be judged"


def _put_back(case: Case, node: Node, prefix: str) -> bool:
    mark = case.effects.get(Effect.MARK)
    return case.marked and mark is not None and mark.status is EffectStatus.DONE and case_on(node, prefix) != case.id


def _dismiss(draft: Draft, case: Case) -> None:
    reason = f"our taint was removed from {case.node} by hand, so it is back in service; its findings are left alone"
    until = draft.now + draft.rules.dismissal
    _end(draft, case, Action.DISMISS, Phase.DISMISSED, reason, until=until, effects=(Effect.UNMARK,))


def _gone_key(case: Case) -> str:
    return f"{_GONE}{case.id}"


def _end(draft: Draft, case: Case, action: Action, phase: Phase, reason: str, **fields: object) -> None:
    draft.emit(draft.about_case(Kind.DECIDED, action, case, reason, phase=phase, hold_key=case_key(case.id), **fields))


def _unmarking(case: Case) -> bool:
    state = case.effects.get(Effect.UNMARK)
    return state is not None and state.status is EffectStatus.PENDING


def _adopt(draft: Draft, node: Node, case_id: str) -> None:
    reason = f"{node.name} carries our taint for case {case_id}, which the ledger does not know: it is adopted as it is"
    fields = {"case": case_id, "node": node.name, "machine": node.machine, "phase": Phase.QUARANTINED}
    draft.emit(draft.decision(Kind.DECIDED, Action.ADOPT, reason, pool=draft.pool_name(node), **fields))
