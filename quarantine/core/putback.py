"""What is done about a mark of ours that somebody took away and that is no person's word: put back, or told."""

from __future__ import annotations

from datetime import timedelta

from quarantine.core.case import Case, Effect, HeldBy
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft
from quarantine.core.marks import case_on
from quarantine.core.model import Mode, Node
from quarantine.core.ownership import Remover, uncordoned

PAUSE = timedelta(minutes=5)  # between two times that it is put back against a program that is known to take it away
WITHIN, MOST = timedelta(hours=1), 3  # against one that is not known, it is put back so often, and then told
# Whoever takes it away, if it was put back so often, people are told of it once, and it is put back more slowly.
DAY, OFTEN, SLOWLY = timedelta(days=1), 24, timedelta(hours=1)
CALM = timedelta(hours=6)  # that is over once it has not been put back for so long, or half as often


def put_back(draft: Draft, case: Case, node: Node, by: Remover) -> None:
    """Mark the machine again, or tell that this does not help. A mark that waits to be written is left to that."""
    if case.is_pending(Effect.MARK) or draft.mode is Mode.OBSERVE:
        return
    key = _rewritten(case)
    often = _within(draft, case, DAY) >= OFTEN
    if often:
        _tell_often(draft, case, node, by)
    if by is not Remover.AUTOMATON and key in draft.state.holds:
        return
    if by is not Remover.AUTOMATON and _within(draft, case, WITHIN) >= MOST:
        _tell(draft, case, node, by)
        return
    pause = SLOWLY if often else PAUSE if by is Remover.AUTOMATON else timedelta(0)
    if case.put_back and draft.now < case.put_back[-1] + pause:
        return
    reason = f"{_who(node, by)} wrote the taints of {case.node} without ours: it is put back"
    draft.emit(draft.about_case(Kind.DECIDED, Action.REMARK, case, reason, effects=(Effect.MARK,), hold_key=key))


def _tell(draft: Draft, case: Case, node: Node, by: Remover) -> None:
    known = "" if by is Remover.OURS else f", or name {node.tainted_by} under automata in the fleet file"
    reason = (
        f"{_who(node, by)} takes our taint off {case.node} again and again, so it is put back no more and the machine "
        f"is in use: release it (quarantine release {case.node}), set the taint by hand{known}"
    )
    held = {"held_by": HeldBy.REWRITTEN, "hold_key": _rewritten(case)}
    draft.hold(draft.about_case(Kind.HELD, Action.REMARK, case, reason, **held))


def _tell_often(draft: Draft, case: Case, node: Node, by: Remover) -> None:
    """It goes on being put back, and whatever else is done about the machine goes on as well."""
    reason = (
        f"{_who(node, by)} takes our taint off {case.node} again and again, so it is put back once an hour at most and "
        f"the machine may be in use meanwhile: keep the program from it, or release it (quarantine release {case.node})"
    )
    held = {"held_by": HeldBy.REWRITTEN, "hold_key": _fought_over(case)}
    draft.hold(draft.about_case(Kind.HELD, Action.REMARK, case, reason, **held))


def _within(draft: Draft, case: Case, span: timedelta) -> int:
    """How often it was put back of late."""
    return sum(1 for at in case.put_back if at > draft.now - span)


def _who(node: Node, by: Remover) -> str:
    if by is Remover.OURS:
        return f"another installation, also called {node.tainted_by},"
    return f"a program that calls itself {node.tainted_by}"


def watch_cordon(draft: Draft, case: Case, node: Node) -> None:
    """A cordon that vanished stops the drain and asks: an uncordon leaves no owner that would tell whose word it is."""
    if case_on(node, draft.rules.prefix) == case.id:
        draft.lift(_rewritten(case), f"our taint is on {case.node} again")
        calm = not case.put_back or draft.now >= case.put_back[-1] + CALM
        if calm or 2 * _within(draft, case, DAY) < OFTEN:
            draft.lift(_fought_over(case), f"our taint stays on {case.node}")
    key = f"uncordoned/{case.id}"
    if node.unschedulable:
        draft.lift(key, f"{case.node} is cordoned again")
    elif uncordoned(node, case, draft.rules.prefix):
        reason = (
            f"somebody uncordoned {case.node} and left our taint, so it is emptied no further: release it "
            f"(quarantine release {case.node}), or cordon it again (kubectl cordon {case.node})"
        )
        draft.hold(draft.about_case(Kind.HELD, Action.DRAIN, case, reason, held_by=HeldBy.UNCORDONED, hold_key=key))


def _rewritten(case: Case) -> str:
    return f"rewritten/{case.id}"


def _fought_over(case: Case) -> str:
    """Not a key that ends with the case: a hold of such a one halts all that is done about the machine."""
    return f"{_rewritten(case)}/often"
