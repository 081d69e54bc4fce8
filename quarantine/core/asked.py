"""What people ask, decided: a human outranks the controller (invariant 9), and every request gets one answer."""

from __future__ import annotations

from typing import assert_never

from quarantine.core import pauses, waivers, words
from quarantine.core.answers import of_another, person, refuse
from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Action, Kind, Request, RequestKind
from quarantine.core.draft import Draft, case_key
from quarantine.core.marks import machine_matches
from quarantine.core.model import Mode, Node, Severity
from quarantine.core.obstacles import Obstacle, observing
from quarantine.core.treatment import approval
from quarantine.core.triage import MARKING


def requests(draft: Draft) -> None:
    """Oldest first; one that was answered already is passed over. Then what people say by annotations of nodes."""
    words.over(draft)
    for request in draft.snapshot.requests:
        if request.id in draft.state.answered:
            continue
        match request.kind:
            case RequestKind.OPEN:
                _open(draft, request)
            case RequestKind.RELEASE:
                _release(draft, request)
            case RequestKind.WAIVE | RequestKind.PAUSE | RequestKind.RESUME | RequestKind.MAINTAIN:
                words.decide(draft, request)
            case RequestKind.REPAIRED | RequestKind.ADOPT:
                words.decide(draft, request)
            case RequestKind.APPROVE | RequestKind.DEFER:
                approval.decide(draft, request)
            case RequestKind.UNKNOWN:
                refuse(draft, request, "this version of the controller does not know such a request")
            case _:
                assert_never(request.kind)
    waivers.annotated(draft)


def waiting(draft: Draft) -> None:
    """What people asked for while the installation only observed, or was paused, is done once it enforces."""
    if draft.mode is Mode.OBSERVE:
        return
    for case in draft.open_cases():
        node = draft.nodes.get(case.node)
        if node is None or not machine_matches(node, case.machine):
            continue  # it is away, or another machine has its name: `upkeep` says what becomes of the case
        if case.phase is Phase.SUSPECTED and case.by_person and draft.paused(case) is None:
            reason = f"{case.node} is taken out as {case.opened_by} asked"
            pool = draft.pool_name(node)  # pools may have been renamed since it was asked
            fields = {"phase": Phase.QUARANTINED, "hold_key": case_key(case.id), "effects": MARKING, "pool": pool}
            draft.emit(draft.about_case(Kind.DECIDED, Action.QUARANTINE, case, reason, **fields))


def _open(draft: Draft, request: Request) -> None:
    node = draft.nodes.get(request.node)
    case = draft.open_case(request.node)
    if node is None:
        return refuse(draft, request, f"no node of this cluster is called {request.node}")
    if case is not None and case.marked:
        return refuse(draft, request, f"case {case.id} is open on {node.name} already ({case.phase})")
    if node.name in draft.rules.fleet.never_touch:
        return refuse(draft, request, f"the fleet file says never to touch {node.name}")
    case_id = case.id if case is not None else draft.new_case_id(node)
    held = _in_the_way(draft, node)
    reason = f"{request.actor} asks for {node.name} to be taken out: {request.reason}"
    if held is not None:
        reason += f"; held because {held.why}"
    draft.emit(
        draft.decision(
            Kind.DECIDED if held is None else Kind.HELD,
            Action.QUARANTINE,
            reason,
            actor=person(request),
            node=node.name,
            machine=node.machine,
            case=case_id,
            phase=Phase.QUARANTINED if held is None else Phase.SUSPECTED,
            severity=Severity.CRITICAL,
            held_by=None if held is None else held.held_by,
            hold_key=case_key(case_id),
            effects=MARKING if held is None else (),
            request=request.id,
            budget=draft.budgets.get(draft.pool_name(node)),
            pool=draft.pool_name(node),
        )
    )
    return None


def _in_the_way(draft: Draft, node: Node) -> Obstacle | None:
    """What keeps even a person's own finding from being acted on: another person's word, and the weightier one."""
    if draft.mode is Mode.OBSERVE:
        return observing(draft)
    word = draft.pause(pool=draft.pool_name(node))
    return None if word is None else Obstacle(HeldBy.PAUSED, pauses.told(word))


def _release(draft: Draft, request: Request) -> None:
    case = draft.open_case(request.node)
    if case is None:
        return refuse(draft, request, f"no case is open on {request.node}")
    if (why := of_another(case, request)) is not None:
        return refuse(draft, request, why)
    reason = f"{request.actor} puts {case.node} back in service: {request.reason}"
    until = draft.now + draft.rules.dismissal
    return waivers.put_back(draft, case, reason, actor=person(request), until=until, request=request.id)
