"""A ledger older than the marks on the cluster, restored from a backup: it observes only, until a person says.

The ledger records before anything is marked. So a mark with a date that no decision of the ledger reaches, for a case
that it does not know, was made by a ledger that is no more. What this one believes of other machines may be as old: who
was released meanwhile must not be marked again, and who was quarantined must not be released for want of a finding.
"""

from __future__ import annotations

import re

from quarantine.core.answers import person, refuse
from quarantine.core.case import Case, Effect, HeldBy, Phase
from quarantine.core.decision import Action, Kind, Request
from quarantine.core.draft import Draft, case_key
from quarantine.core.marks import case_on, machine_matches, marked_since
from quarantine.core.model import Mode, Node, Verdict
from quarantine.core.ownership import mark_vanished
from quarantine.core.reasons import in_words

_KEY = "restored"
_CASE_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def watch(draft: Draft) -> None:
    """Lower the mode where the cluster carries marks that are younger than the ledger's newest decision."""
    found = awaiting(draft)
    if found:
        names = in_words([node.name for node, _ in found])
        reason = (
            f"the ledger is older than the marks on {names}, as after a restore from a backup, so nothing is done to "
            "any machine: look at them, then take the marks over (quarantine adopt)"
        )
        held = {"held_by": HeldBy.RESTORED, "hold_key": _KEY, "verdict": Verdict.UNKNOWN}
        draft.hold(draft.decision(Kind.HELD, Action.ADOPT, reason, **held))
    elif draft.nodes and not _ended_now(draft):
        draft.lift(_KEY, "the ledger knows every mark on the cluster")
    if stands(draft):
        draft.mode = Mode.OBSERVE


def _ended_now(draft: Draft) -> bool:
    """Whether a person ended what such a mark is about in this very cycle: planned again, that yields nothing new."""
    said = {case_on(node, draft.rules.prefix) for node in draft.nodes.values()}
    cases = (case for key in said if key is not None and (case := draft.state.cases.get(key)) is not None)
    return any(not case.open and case.phase_since >= draft.now for case in cases)


def stands(draft: Draft) -> bool:
    """Whether the ledger is taken to be older than the cluster: then no case ends, and none acts, by what it says."""
    return _KEY in draft.state.holds


def awaiting(draft: Draft) -> list[tuple[Node, str]]:
    """The marks that are taken over only when a person says so, with the cases they name.

    Once one is younger than the ledger, all that it does not know and that bear a date wait: what is recorded of it
    makes the ledger's newest decision one of now.
    """
    newest, sure = draft.snapshot.state.recorded_until, stands(draft)
    found = []
    for node in draft.nodes.values():
        said = case_on(node, draft.rules.prefix)
        since = marked_since(node, draft.rules.prefix)
        if said is None or since is None or not adoptable(draft, node, said):
            continue
        if sure or newest is None or since > newest:
            found.append((node, said))
    return found


def adoptable(draft: Draft, node: Node, case_id: str) -> bool:
    """Whether a taint names a case that the ledger does not know, or knows only as a suspicion on this very node."""
    if not _CASE_ID.fullmatch(case_id) or case_id in draft.state.ended:
        return False
    case = draft.state.cases.get(case_id)
    return case is None or (case.node == node.name and case.phase is Phase.SUSPECTED)


def adopt(draft: Draft, request: Request) -> None:
    """Take the marks over, as a person asks: the cluster is right about what is, the ledger has lost why."""
    found, actor = awaiting(draft), person(request)
    if not found:
        return refuse(draft, request, "the ledger knows every mark on the cluster that it can take over")
    draft.mode = draft.snapshot.mode
    _end_overtaken(draft, {node.name for node, _ in found}, actor)
    for node, case_id in found:
        take_over(draft, node, case_id, actor)
    names = in_words([node.name for node, _ in found])
    said = f"{request.actor} has the marks on {names} taken over: {request.reason}"
    answer = {"actor": actor, "request": request.id, "hold_key": _KEY}
    draft.emit(draft.decision(Kind.DECIDED, Action.ANSWER, said, **answer))
    return None


def take_over(draft: Draft, node: Node, case_id: str, actor: str | None = None) -> None:
    """Go on with a mark that is there, without a finding: it is no evidence, and its case is released by hand."""
    prefix = draft.rules.prefix
    reason = f"{node.name} carries our taint for case {case_id}, which the ledger does not know: it is adopted as it is"
    shown = node.suspect == "True" or draft.mode is Mode.OBSERVE
    fields = {
        "case": case_id,
        "node": node.name,
        "machine": node.machine,
        "phase": Phase.QUARANTINED,
        "cordoned_by_us": node.annotations.get(f"{prefix}/cordoned-by") == "quarantine",
        "effects": () if shown else (Effect.CONDITION,),
        "hold_key": case_key(case_id),
        **({"actor": actor} if actor is not None else {}),
    }
    draft.emit(draft.decision(Kind.DECIDED, Action.ADOPT, reason, pool=draft.pool_name(node), **fields))


def _end_overtaken(draft: Draft, nodes: set[str], actor: str) -> None:
    """Cases that went on, or ended, after the backup: where the cluster shows another case, or none, they are over."""
    prefix = draft.rules.prefix
    for case in draft.open_cases():
        node = draft.nodes.get(case.node)
        if node is None or case_on(node, prefix) == case.id:
            continue
        effects: tuple[Effect, ...]
        if case.node in nodes:  # of whatever machine: there is one open case of a node
            why, effects = f"{case.node} carries the mark of another case", ()
        elif machine_matches(node, case.machine) and mark_vanished(node, case, prefix):
            # What its ticket came to is not known: it is not closed.
            why, effects = f"{case.node} carries no mark of it any more", (Effect.UNMARK, Effect.CONDITION)
        else:
            continue
        _over(draft, case, f"case {case.id} ended after the ledger's backup was made: {why}", effects, actor)


def _over(draft: Draft, case: Case, reason: str, effects: tuple[Effect, ...], actor: str) -> None:
    fields = {"phase": Phase.DISMISSED, "effects": effects, "hold_key": case_key(case.id), "actor": actor}
    draft.emit(draft.about_case(Kind.DECIDED, Action.DISMISS, case, reason, **fields))
