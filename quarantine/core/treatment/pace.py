"""How fast the machines of a pool are emptied: evictions a minute, and machines at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, Phase, PodRef
from quarantine.core.decision import State
from quarantine.core.draft import Draft
from quarantine.core.fleet import DrainPace
from quarantine.core.policy import Rules
from quarantine.core.response import Moment
from quarantine.core.treatment.gangs import interruptions
from quarantine.core.treatment.leavers import first_asked
from quarantine.core.treatment.owed import Owed
from quarantine.core.treatment.sites import Site, wanted

MINUTE = timedelta(minutes=1)
BLOCKED = timedelta(minutes=2)  # a request that is under way for so long leaves its machine's place to others
ATTEMPTS = 2  # and so does one that was tried so often


def pace_of(rules: Rules, pool: str) -> DrainPace:
    """A pool's; that of a machine that is in none is the usual one."""
    return next((known.drain for known in rules.fleet.pools if known.name == pool), DrainPace())


def evictions_left(state: State, rules: Rules, pool: str, now: datetime) -> int:
    """How many pods of a pool may be asked to leave now.

    A gang leaves at once, however large it is, and is paid for afterwards: for as many minutes as it would have taken.
    """
    rate = pace_of(rules, pool).evictions_per_minute
    unpaid = (count - rate * max(0, (now - at) // MINUTE) for at, count in _asked(state, pool).items())
    return max(0, rate - sum(max(0, count) for count in unpaid))


def paid_at(state: State, rules: Rules) -> frozenset[datetime]:
    """When pods that were asked to leave count no more: for whoever must know when a plan may change by time alone."""
    found: set[datetime] = set()
    for pool in {case.pool for case in state.cases.values() if case.leaving}:
        rate = pace_of(rules, pool).evictions_per_minute
        for at, count in _asked(state, pool).items():
            found.update(at + MINUTE * (n + 1) for n in range(-(-count // rate)))
    return frozenset(found)


def places_left(draft: Draft, due: Mapping[str, Owed], sites: Mapping[str, Site], pool: str) -> int:
    """How many further machines, or gangs, of a pool may begin to be emptied."""
    cases = [case for case in draft.open_cases() if case.pool == pool and _takes_place(draft, due, sites, case)]
    return pace_of(draft.rules, pool).machines_at_once - interruptions(cases)


def has_place(draft: Draft, site: Site) -> bool:
    """Whether a machine that is being emptied still gets emptier: one that is stuck holds nobody else up."""
    case, seen = site.case, site.leavers()
    if seen.asked:
        return not _blocked(draft, case)
    asked = (first_asked(case, pod.ref) for pod in seen.ending)
    if any(at is not None and draft.now < at + site.drain.blocked for at in asked):
        return True
    waiting = site.waiting
    return any(pod.ref not in waiting for pod in seen.fresh)


def _takes_place(draft: Draft, due: Mapping[str, Owed], sites: Mapping[str, Site], case: Case) -> bool:
    if case.phase is not Phase.DRAINING or case.node not in draft.nodes:
        return False
    drain = wanted(case, due)
    if drain is None or drain.when is Moment.NEVER:
        return False  # a person stopped it
    site = sites.get(case.node)
    return site is None or has_place(draft, site)  # what is not seen in this cycle is taken to go on


def _blocked(draft: Draft, case: Case) -> bool:
    tried = (p.attempts for p in draft.snapshot.pending if p.case == case.id and p.effect is Effect.EVICT)
    return draft.now >= case.leaving[-1].at + BLOCKED or any(attempts >= ATTEMPTS for attempts in tried)


def _asked(state: State, pool: str) -> dict[datetime, int]:
    """How many pods of a pool were asked to leave, by when."""
    found: dict[datetime, set[PodRef]] = {}
    for case in state.cases.values():
        if case.pool == pool:
            for leaving in case.leaving:
                found.setdefault(leaving.at, set()).update(leaving.pods)
    return {at: len(pods) for at, pods in found.items()}
