"""People's standing words, asked for by request: waivers, pauses and planned work; and what people say was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from quarantine.core import maintenance, pauses, restored, waivers
from quarantine.core.answers import of_another, person, refuse
from quarantine.core.case import Phase
from quarantine.core.decision import Action, Kind, Request, RequestKind, Word, WordKind
from quarantine.core.draft import Draft
from quarantine.core.pauses import ALL, POLICY, POOL
from quarantine.core.reasons import in_words
from quarantine.core.signs import in_utc
from quarantine.core.treatment.endings import shown

LONGEST = timedelta(days=366)  # of any word: a year that was mistyped must not stand for ever


def decide(draft: Draft, request: Request) -> None:
    """Answer a request that begins or ends a standing word, or says what was done."""
    _ANSWERS[request.kind](draft, request)


def over(draft: Draft) -> None:
    """A word whose time is up ends by a decision, so that the trail tells of it."""
    for word in [w for w in draft.state.words.values() if not pauses.stands(w, draft.now)]:
        until = f" at {in_utc(word.until)}" if word.until is not None else ""
        reason = f"{_called(word)} ended{until}, as {word.by} had said"
        draft.emit(draft.decision(Kind.DECIDED, Action.RESUME, reason, unword=word.key))


# --- Waivers ----------------------------------------------------------------------------------------------------------


def _waive(draft: Draft, request: Request) -> None:
    node, case = draft.nodes.get(request.node), draft.open_case(request.node)
    if node is None:
        return refuse(draft, request, f"no node of this cluster is called {request.node}")
    if (wrong := _wrong_end(draft, request)) is not None or request.until is None:
        return refuse(draft, request, wrong or "a waiver needs an end")
    reason = f"{request.actor} keeps {node.name} in service until {in_utc(request.until)}: {request.reason}"
    if case is not None:
        said = {"actor": person(request), "until": request.until, "request": request.id}
        return waivers.put_back(draft, case, reason, waive=True, **said)  # type: ignore[arg-type]
    draft.emit(
        draft.decision(
            Kind.DECIDED,
            Action.WAIVE,
            reason,
            actor=person(request),
            node=node.name,
            machine=node.machine,
            pool=draft.pool_name(node),
            until=request.until,
            request=request.id,
        )
    )
    return None


# --- Pauses -----------------------------------------------------------------------------------------------------------


def _pause(draft: Draft, request: Request) -> None:
    scope, wrong = _scope(draft, request.scope.strip())
    wrong = wrong or (_wrong_end(draft, request) if request.until is not None else None)
    if wrong is not None:
        return refuse(draft, request, wrong)
    until = f" until {in_utc(request.until)}" if request.until is not None else " until it is resumed"
    reason = f"{request.actor} pauses {pauses.about(scope)}{until}: {request.reason}"
    return _stand(draft, request, Action.PAUSE, WordKind.PAUSE, scope, reason)


def _scope(draft: Draft, said: str) -> tuple[str, str | None]:
    """The scope that is meant, or why none is: a name alone is a policy's or a pool's."""
    policies = [policy.name for policy in draft.rules.policies]
    pools = [pool.name for pool in draft.rules.fleet.pools]
    if said in ("", ALL):
        return ALL, None
    known = [f"{POLICY}{name}" for name in policies] + [f"{POOL}{name}" for name in pools]
    found = [scope for scope in known if said in (scope, scope.partition("/")[2])]
    if len(found) == 1:
        return found[0], None
    if found:
        return "", f"{said} is the name of a policy and of a pool: say {found[0]} or {found[1]}"
    return "", f"no policy or pool is called {said} (policies: {_listed(policies)}; pools: {_listed(pools)})"


def _resume(draft: Draft, request: Request) -> None:
    """Names are those of what stands: a policy may have been removed since it was paused. So does planned work end."""
    said = request.scope.strip() or ALL
    names = {said, *_as_selector(said)}
    found = [
        word
        for word in draft.state.words.values()
        if word.scope in names or (word.kind is WordKind.PAUSE and word.scope in (f"{POLICY}{said}", f"{POOL}{said}"))
    ]
    if len(found) != 1:
        stand = _listed(sorted(word.key for word in draft.state.words.values()))
        which = f"nothing that stands is called {said}" if not found else f"{said} may mean several"
        return refuse(draft, request, f"{which} (what stands: {stand})")
    word = found[0]
    reason = f"{request.actor} ends {_called(word)} by {word.by}: {request.reason}"
    said_by = {"actor": person(request), "unword": word.key, "request": request.id}
    draft.emit(draft.decision(Kind.DECIDED, Action.RESUME, reason, **said_by))
    if word.kind is WordKind.MAINTENANCE:
        draft.work_changed()
    return None


# --- Planned work -----------------------------------------------------------------------------------------------------


def _maintain(draft: Draft, request: Request) -> None:
    try:
        scope = maintenance.selector(request.scope or request.node)
    except ValueError as error:
        return refuse(draft, request, f"{request.scope or request.node!r} is no selector: {error}")
    nodes = maintenance.meant(draft.nodes, scope)
    if not nodes:
        return refuse(draft, request, f"{scope} means no node of this cluster")
    if (wrong := _wrong_end(draft, request)) is not None or request.until is None:
        return refuse(draft, request, wrong or "planned work needs an end")
    number = f"{len(nodes)} of {len(draft.nodes)} nodes ({in_words(sorted(nodes))})"
    reason = (
        f"{request.actor} plans work on {scope} until {in_utc(request.until)}, and nothing is judged on {number} "
        f"meanwhile: {request.reason}"
    )
    _stand(draft, request, Action.MAINTAIN, WordKind.MAINTENANCE, scope, reason)
    return draft.work_changed()


# --- What was done ----------------------------------------------------------------------------------------------------


def _repaired(draft: Draft, request: Request) -> None:
    case = draft.open_case(request.node)
    if case is None or not case.marked:
        return refuse(draft, request, f"{request.node} is not out of service by any case")
    if (why := of_another(case, request)) is not None:
        return refuse(draft, request, why)
    draft.emit(
        draft.about_case(
            Kind.DECIDED,
            Action.PROVE,
            case,
            f"{request.actor} says that {case.node} is repaired, so it proves itself: {request.reason}",
            actor=person(request),
            phase=Phase.PROBATION,
            effects=shown(case),
            request=request.id,
        )
    )
    return None


def _adopt(draft: Draft, request: Request) -> None:
    restored.adopt(draft, request)


# --- Pieces -----------------------------------------------------------------------------------------------------------


def _stand(draft: Draft, request: Request, action: Action, kind: WordKind, scope: str, reason: str) -> None:
    """A word begins to stand; one about the same is replaced by it."""
    word = Word(f"{kind}/{scope}", kind, scope, person(request), request.reason, draft.now, request.until)
    said = {"actor": person(request), "word": word, "until": request.until, "request": request.id}
    draft.emit(draft.decision(Kind.DECIDED, action, reason, **said))


def _wrong_end(draft: Draft, request: Request) -> str | None:
    """Why a word cannot end then. One that was asked for long ago may have been over before it was read."""
    if request.until is None:
        return None
    if request.until <= draft.now:
        return f"its end, {in_utc(request.until)}, has passed"
    if request.until > draft.now + LONGEST:
        return f"its end, {in_utc(request.until)}, is more than {LONGEST.days} days away"
    return None


def _called(word: Word) -> str:
    match word.kind:
        case WordKind.PAUSE:
            return f"the pause of {pauses.about(word.scope)}"
        case WordKind.MAINTENANCE:
            return f"the planned work on {word.scope}"


def _as_selector(said: str) -> tuple[str, ...]:
    try:
        return (maintenance.selector(said),)
    except ValueError:
        return ()


def _listed(names: list[str]) -> str:
    return in_words(names, most=20) if names else "none"


_ANSWERS: Mapping[RequestKind, Callable[[Draft, Request], None]] = {
    RequestKind.WAIVE: _waive,
    RequestKind.PAUSE: _pause,
    RequestKind.RESUME: _resume,
    RequestKind.MAINTAIN: _maintain,
    RequestKind.REPAIRED: _repaired,
    RequestKind.ADOPT: _adopt,
}
