"""Ledger and cluster brought together: the ledger is right about why and who, the cluster about what is.

Every row of the table in docs/ownership.md is decided here, or in the modules beside: `ownership` (who took a mark
away), `putback` (and what then), `restored` (a ledger that is older than the cluster).
"""

from __future__ import annotations

from datetime import timedelta

from quarantine.core import putback, restored
from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import JUDGE, NO_CASE, NODE, SIGHT, STRAY, Draft, case_key
from quarantine.core.judge import selects
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.marks import case_on, machine_matches, same_hardware, was_marked
from quarantine.core.model import DeviceKind, Node, Verdict
from quarantine.core.ownership import Remover, mark_vanished, remover
from quarantine.core.reasons import in_words
from quarantine.core.treatment import swap
from quarantine.core.treatment.endings import ending_effects
from quarantine.core.treatment.overdue import overdue_at
from quarantine.core.treatment.owed import enforcing, provider_word
from quarantine.core.units import format_duration

GONE_FOR = timedelta(minutes=10)  # a node that is not listed for so long has left
AWAY_FOR = timedelta(hours=6)  # and so long if it is marked: many clouds delete the Node of a machine that is down
SWAP_TAKES = TRANSITIONS[Phase.SWAP_REQUESTED].deadline or timedelta(days=7)  # and so long where it is to be replaced
MARK_LATE = timedelta(minutes=10)  # evidence older than this no longer marks by itself
MANY = 3  # so many cases whose node or mark is gone at once, if they are most: our sight is suspect
_GONE, _MARK, _OVERDUE = "gone/", "mark/", "overdue/"


def cases(draft: Draft) -> None:
    """Every open case against its node. When many are gone at once, it is our sight that is suspect."""
    if restored.stands(draft):
        return
    lost: list[Case] = []
    strangers: list[tuple[Case, Node]] = []
    vanished: list[tuple[Case, Node, Remover]] = []
    for case in draft.open_cases():
        node = draft.nodes.get(case.node)
        if node is None:
            lost.append(case)
        elif not machine_matches(node, case.machine):
            if same_hardware(node, case.machine):
                _follow(draft, case, node)
            else:
                strangers.append((case, node))
        elif case.node not in draft.maintained:  # planned work takes marks away: they are looked into afterwards
            if mark_vanished(node, case, draft.rules.prefix):
                vanished.append((case, node, remover(node, case, draft.rules.fleet.automata)))
            else:
                putback.watch_cordon(draft, case, node)
    unexplained = sum(1 for entry in vanished if not _explained(draft, *entry))
    if not _too_many(draft, len(lost) + len(strangers) + unexplained):
        for case, node in strangers:
            _made_again(draft, case, node)
        for case, node, by in vanished:
            _unmarked(draft, case, node, by)
        _left(draft, lost)


def _unmarked(draft: Draft, case: Case, node: Node, by: Remover) -> None:
    """A person who takes our taint away puts the node back in service, and is not fought.

    Nor are we ourselves: who takes the taint alone leaves the rest of the mark, and a release takes all of it.
    """
    if by is Remover.PERSON:
        removed = f"our taint was removed from {case.node} by hand"
        _dismiss(draft, case, f"{removed}, so it is back in service; its findings are left alone")
    elif by is Remover.OURS and not was_marked(node, case, draft.rules.prefix):
        lost = f"{case.node} was released, and the ledger has lost that, as after a restore from a backup"
        _dismiss(draft, case, f"{lost}: it stays in service; its findings are left alone")
    else:
        putback.put_back(draft, case, node, by)


def _left(draft: Draft, lost: list[Case]) -> None:
    for case in lost:
        _lost(draft, case)
    gone = {_gone_key(case) for case in lost}
    for key in [k for k in draft.state.holds if k.startswith(_GONE) and k not in gone]:
        draft.lift(key, "its node is there again")


def _made_again(draft: Draft, case: Case, node: Node) -> None:
    """Another machine's Node object under the name: one that the provider was asked for, or none.

    A ledger that says nothing of the hardware knows no machine again.
    """
    if case.told_provider:
        swap.exchanged(draft, case, node)
    else:
        _end(draft, case, Action.RETIRE, Phase.RETIRED, f"{case.node} is another machine under the same name now")


def _explained(draft: Draft, case: Case, node: Node, by: Remover) -> bool:
    """Whether nothing but a program took the taint away: what else we wrote is there, so that this is our node."""
    return by is not Remover.PERSON and was_marked(node, case, draft.rules.prefix)


def _too_many(draft: Draft, count: int) -> bool:
    """Another cluster's nodes, an empty list or another prefix look as if everything had been put back or had left, or
    as if other machines had come under the same names.
    """
    total = len(draft.open_cases())
    blind = total > 0 and not draft.nodes
    if not blind and (count < MANY or 2 * count <= total):
        draft.lift(SIGHT, "the nodes and marks of the open cases are seen again")
        return False
    seen = "the cluster shows no nodes at all" if blind else f"nodes or marks of {count} of {total} open cases are gone"
    reason = f"{seen} at once, so no case is ended: is this the right cluster and prefix? release them by hand if so"
    held = {"held_by": HeldBy.SIGHT, "hold_key": SIGHT, "verdict": Verdict.UNKNOWN}
    draft.hold(draft.decision(Kind.HELD, Action.RETIRE, reason, **held))
    return True


def _lost(draft: Draft, case: Case) -> None:
    """A node that is not listed is given some time before its case is ended: ending is for good.

    One that is out of service is waited for longer: a machine that is rebooted or mended comes back without our mark,
    and would be in service again on no evidence. One whose provider was asked for another machine is waited for as long
    as a swap may take, and none is given up while a procedure runs on it.
    """
    key = _gone_key(case)
    standing = draft.state.holds.get(key)
    waits = SWAP_TAKES if case.told_provider else AWAY_FOR if case.marked else GONE_FOR
    if standing is None:
        until = f"unless it is back within {format_duration(waits)}"
        why = f", and {provider_word(case)}" if case.told_provider else ""
        reason = f"{case.node} is no node of the cluster{why}; its case is retired {until}"
        held = {"held_by": HeldBy.GONE, "hold_key": key}
        draft.hold(draft.about_case(Kind.HELD, Action.RETIRE, case, reason, **held))
    elif draft.now >= standing.since + waits and (case.run is None or draft.now >= case.run.until + GONE_FOR):
        _end(draft, case, Action.RETIRE, Phase.RETIRED, f"{case.node} left the cluster: no node is called so any more")
        draft.lift(key, f"case {case.id} is retired")


def _follow(draft: Draft, case: Case, node: Node) -> None:
    """The same machine under a new Node object: its case goes with it, and its marks are put back."""
    effects = (Effect.MARK, Effect.CONDITION) if case.marked else ()
    reason = f"{case.node} was made again for the same machine: case {case.id} goes with it"
    draft.emit(draft.about_case(Kind.DECIDED, Action.FOLLOW, case, reason, machine=node.machine, effects=effects))


def marks(draft: Draft) -> None:
    """Every taint of ours against the ledger."""
    waiting = {node.name for node, _ in restored.awaiting(draft)}
    for node in draft.nodes.values():
        said = case_on(node, draft.rules.prefix)
        key = f"{_MARK}{node.name}"
        case = draft.state.cases.get(said) if said else None
        if said is None or (case is not None and case.node == node.name and (case.open or _unmarking(case))):
            draft.lift(key, f"the mark on {node.name} is explained", node=node.name)
        elif node.name in waiting:
            continue  # told by one hold for all of them
        elif draft.disbelieved or _ended_now(draft, node):
            continue  # another cluster's marks are not taken over
        elif restored.adoptable(draft, node, said) and draft.open_case(node.name) is None:
            restored.take_over(draft, node, said)
        else:
            reason = f"{node.name} carries our taint for case {said}, over or another node's: remove it by hand"
            held = {"held_by": HeldBy.FOREIGN_MARK, "hold_key": key, "node": node.name, "machine": node.machine}
            draft.hold(draft.decision(Kind.HELD, Action.ADOPT, reason, **held))


def _ended_now(draft: Draft, node: Node) -> bool:
    """Whether a case of this node ended in this very cycle: who has the node next is seen in the next one."""
    return any(c.node == node.name and not c.open and c.phase_since >= draft.now for c in draft.state.cases.values())


def late_marks(draft: Draft) -> None:
    """What could not be marked for long is not marked on old evidence (the API was down, the switch was thrown)."""
    if restored.stands(draft) or draft.disbelieved:
        return
    for case in draft.open_cases():
        if not case.waits_for_mark or case.by_person:
            continue
        if not enforcing(case, draft.rules):
            reason = f"{case.node} is not marked yet, and no policy that found it bad enforces any more"
        elif draft.now >= case.phase_since + MARK_LATE and _judged_not_bad(draft, case):
            reason = f"{case.node} could not be marked for long, and is not found bad now"
        else:
            continue
        # It may have been written all the same, by a process that did not live to record it.
        _end(draft, case, Action.DISMISS, Phase.DISMISSED, reason, effects=ending_effects(case))


def deadlines(draft: Draft) -> None:
    """Every phase ends: a suspicion that was never confirmed is dropped, anything else is told to a person.

    So is a suspicion of which nobody knows whether it still stands: no end is made of what is unknown (invariant 1).
    """
    if restored.stands(draft) or draft.disbelieved:
        return
    for case in draft.open_cases():
        rule = TRANSITIONS[case.phase]
        overdue = overdue_at(case, draft.rules)
        if rule.deadline is None or overdue is None or draft.now < overdue:
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
        if key.startswith((JUDGE, STRAY)):
            stale = key.split("/")[1] not in policies
        elif key.startswith((_MARK, NODE)):
            stale = key.partition("/")[2] not in draft.nodes
        else:
            about = key.split("/")[1:]
            stale = any(part in draft.state.ended for part in about) or _of_an_earlier_phase(draft, key)
        if stale:
            gone = key.partition("/")[2] if key.startswith((_MARK, NODE)) else ""
            draft.lift(key, "what it was about is no more", node=gone)


def _of_an_earlier_phase(draft: Draft, key: str) -> bool:
    if not key.startswith(_OVERDUE):
        return False
    case_id, _, phase = key.removeprefix(_OVERDUE).rpartition("/")
    case = draft.state.cases.get(case_id)
    return case is None or case.phase != phase


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
    if blind:
        return f"{'policy' if len(blind) == 1 else 'policies'} {in_words(blind)} cannot be judged"
    missed = [name for name in found if not _seen(draft, case, name)]
    if missed:
        return f"{'policy' if len(missed) == 1 else 'policies'} {in_words(missed)} cannot see all of the machine"
    return None


def _seen(draft: Draft, case: Case, name: str) -> bool:
    """Whether a policy that is judged sees the machine with all its GPUs; one that does not look there need not.

    An exporter that died, or a GPU that fell off the bus, finds nothing bad.
    """
    policy, judgement, node = draft.rules.policy(name), draft.judgement(name), draft.nodes.get(case.node)
    if policy is None:
        return True
    if judgement is None or node is None:
        return False
    if not selects(policy.spec.node_selector, node):
        return True
    wanted = node.gpus if draft.rules.signal_of(policy).device is DeviceKind.GPU else None
    return judgement.covered_by.get(node.name, 0) >= (wanted or 1)


def _dismiss(draft: Draft, case: Case, reason: str) -> None:
    until = draft.now + draft.rules.dismissal
    _end(draft, case, Action.DISMISS, Phase.DISMISSED, reason, until=until, effects=ending_effects(case))


def _gone_key(case: Case) -> str:
    return f"{_GONE}{case.id}"


def _end(draft: Draft, case: Case, action: Action, phase: Phase, reason: str, **fields: object) -> None:
    draft.emit(draft.about_case(Kind.DECIDED, action, case, reason, phase=phase, hold_key=case_key(case.id), **fields))


def _unmarking(case: Case) -> bool:
    state = case.effects.get(Effect.UNMARK)
    return state is not None and state.status is EffectStatus.PENDING
