"""How long something was held back, and by what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from quarantine.core.case import Case, HeldBy
from quarantine.core.decision import Action, Decision
from quarantine.core.draft import case_key


@dataclass(frozen=True, slots=True)
class HoldSpan:
    """A hold from the decision that recorded it (`seq`) to the one that changed or lifted it, or to its case's move.

    `key` is the hold's key, or `case/<id>` where it is a case that is held: then `node` is set. `until` None: it
    stands.
    """

    seq: int
    key: str
    held_by: HeldBy
    since: datetime
    until: datetime | None = None
    policy: str = ""
    node: str = ""
    pool: str = ""
    reason: str = ""


def follow(
    standing: Mapping[str, HoldSpan], seq: int, decision: Decision, before: Case | None, after: Case | None
) -> tuple[HoldSpan, ...]:
    """The spans that a decision ends and the one that it begins, in this order; none where it changes no hold.

    `standing` are those that stand, by key: see `stand`. `before` and `after` are the decision's case, before and after
    it was folded. One that is held again by the same goes on as it was. At most one begins, so that its decision's
    `seq` names it.
    """
    over = list(_over(standing, decision, before, after))
    # The clocks of two leaders differ, and no span is negative.
    at = max((decision.at, *(span.since for span in over)))
    changed = [replace(span, until=at) for span in over]
    key = _key(decision)
    if decision.held_by is not None and key and (key not in standing or standing[key] in over):
        changed.append(_begun(seq, key, decision.held_by, at, decision, after))
    return tuple(changed)


def stand(standing: Mapping[str, HoldSpan], changed: Iterable[HoldSpan]) -> Mapping[str, HoldSpan]:
    """The spans that stand, by key, once `follow` has found these to have changed."""
    known = dict(standing)
    for span in changed:
        if span.until is None:
            known[span.key] = span
        else:
            known.pop(span.key, None)
    return known


def _key(decision: Decision) -> str:
    """What is held, or may go on: where a case waits to be taken out, that is the case, whatever the hold is called."""
    if decision.case is not None and decision.action is Action.QUARANTINE:
        return case_key(decision.case)
    return decision.hold_key


def _over(
    standing: Mapping[str, HoldSpan], decision: Decision, before: Case | None, after: Case | None
) -> Iterator[HoldSpan]:
    keys = {key for key in (decision.hold_key, _key(decision)) if key}
    for span in (standing[key] for key in sorted(keys & standing.keys())):
        if span.held_by is not decision.held_by:
            yield span
    case = None if after is None else standing.get(case_key(after.id))
    if case is not None and case.key not in keys and before is not None and after is not None and _moved(before, after):
        yield case


def _moved(before: Case, after: Case) -> bool:
    """Whether what a case was held by is over, though nothing was said of the hold."""
    return before.phase is not after.phase or before.held_by is not after.held_by


def _begun(seq: int, key: str, held_by: HeldBy, at: datetime, decision: Decision, case: Case | None) -> HoldSpan:
    return HoldSpan(
        seq=seq,
        key=key,
        held_by=held_by,
        since=at,
        policy=decision.policy or "",
        node=decision.node or (case.node if case is not None else ""),
        pool=decision.pool or (case.pool if case is not None else ""),
        reason=decision.reason,
    )
