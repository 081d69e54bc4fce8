"""Ledger and cluster brought together: the ledger is right about why and who, the cluster about what is.

ledger            cluster                         what is decided
open case         node gone, or another uid       retire: the machine left
marked case       our taint is not there          dismiss: a person put the node back, and is not fought
no such case      our taint is there              adopt: never removed on sight
ended case        its taint is there again        held, and told
"""

from __future__ import annotations

import re

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft, case_key
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.marks import case_on, machine_matches
from quarantine.core.model import Node

_CASE_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def cases(draft: Draft) -> None:
    """Every open case against its node."""
    for case in draft.open_cases():
        node = draft.nodes.get(case.node)
        if node is None or not machine_matches(node, case.machine):
            _retire(draft, case, node)
        elif _put_back(case, node, draft.rules.prefix):
            _dismiss(draft, case)


def marks(draft: Draft) -> None:
    """Every taint of ours against the ledger."""
    for node in draft.nodes.values():
        said = case_on(node, draft.rules.prefix)
        key = f"mark/{node.name}"
        case = draft.state.cases.get(said) if said else None
        if said is None or (case is not None and (case.open or _unmarking(case))):
            draft.lift(key, f"the mark on {node.name} is explained")
        elif case is None and draft.open_case(node.name) is None and _CASE_ID.fullmatch(said):
            _adopt(draft, node, said)
        else:
            reason = f"{node.name} carries our taint for case {said}, over or another node's: remove it by hand"
            held = {"held_by": HeldBy.FOREIGN_MARK, "hold_key": key, "node": node.name, "machine": node.machine}
            draft.hold(draft.decision(Kind.HELD, Action.ADOPT, reason, **held))


def deadlines(draft: Draft) -> None:
    """Every phase ends: a suspicion that was never confirmed is dropped, anything else is told to a person."""
    for case in draft.open_cases():
        rule = TRANSITIONS[case.phase]
        if rule.deadline is None or draft.now < case.phase_since + rule.deadline:
            continue
        if case.phase is Phase.SUSPECTED:
            if not _judged_bad_now(draft, case):
                reason = f"{case.node} was neither acted on nor found bad again within {rule.deadline.days} days"
                _end(draft, case, Action.DISMISS, Phase.DISMISSED, reason)
            continue
        reason = f"case {case.id} on {case.node} is {case.phase} since {case.phase_since:%Y-%m-%d}: {rule.overdue}"
        held = {"held_by": HeldBy.OVERDUE, "hold_key": f"overdue/{case.id}/{case.phase}"}
        draft.hold(draft.about_case(Kind.HELD, Action.RELEASE, case, reason, **held))


def _judged_bad_now(draft: Draft, case: Case) -> bool:
    bad = draft.bad_now.get(case.node, frozenset())
    return any(finding.key in bad for finding in case.findings)


def _retire(draft: Draft, case: Case, node: Node | None) -> None:
    gone = "no node is called so any more" if node is None else "the node was made again under the same name"
    _end(draft, case, Action.RETIRE, Phase.RETIRED, f"{case.node} left the cluster: {gone}")


def _put_back(case: Case, node: Node, prefix: str) -> bool:
    mark = case.effects.get(Effect.MARK)
    return case.marked and mark is not None and mark.status is EffectStatus.DONE and case_on(node, prefix) != case.id


def _dismiss(draft: Draft, case: Case) -> None:
    reason = f"our taint was removed from {case.node} by hand, so it is back in service; its findings are left alone"
    until = draft.now + draft.rules.dismissal
    _end(draft, case, Action.DISMISS, Phase.DISMISSED, reason, until=until, effects=(Effect.UNMARK,))


def _end(draft: Draft, case: Case, action: Action, phase: Phase, reason: str, **fields: object) -> None:
    draft.emit(draft.about_case(Kind.DECIDED, action, case, reason, phase=phase, hold_key=case_key(case.id), **fields))


def _unmarking(case: Case) -> bool:
    state = case.effects.get(Effect.UNMARK)
    return state is not None and state.status is EffectStatus.PENDING


def _adopt(draft: Draft, node: Node, case_id: str) -> None:
    reason = f"{node.name} carries our taint for case {case_id}, which the ledger does not know: it is adopted as it is"
    fields = {"case": case_id, "node": node.name, "machine": node.machine, "phase": Phase.QUARANTINED}
    draft.emit(draft.decision(Kind.DECIDED, Action.ADOPT, reason, pool=draft.pool_name(node), **fields))
