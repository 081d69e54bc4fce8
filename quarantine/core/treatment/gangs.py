"""A gang is one thing: all its quarantined machines in one interruption (invariant 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quarantine.core.case import Case, Effect, HeldBy, Phase
from quarantine.core.draft import Draft
from quarantine.core.model import Verdict
from quarantine.core.obstacles import takes_out
from quarantine.core.response import Moment
from quarantine.core.treatment.leavers import batches, gangs_in
from quarantine.core.treatment.owed import Owed
from quarantine.core.treatment.sites import Site, examined, wanted
from quarantine.core.upkeep import MARK_LATE


def awaited(draft: Draft, due: Mapping[str, Owed], sites: Mapping[str, Site], nodes: Iterable[str]) -> bool:
    """Whether another of a gang's machines is about to be one of those that are emptied: it falls once and not twice.

    `nodes`: where the gang has pods. Each wait ends by itself: a finding settles, a machine's turn comes among those
    that were held, a mark is written or late, evidence has its time limit.
    """
    cases = (draft.open_case(node) for node in nodes)
    return any(_comes(draft, due, sites, case) for case in cases if case is not None)


def _comes(draft: Draft, due: Mapping[str, Owed], sites: Mapping[str, Site], case: Case) -> bool:
    if case.phase is Phase.SUSPECTED:
        return _settles(draft, case) or _has_its_turn(draft, case)
    drain = wanted(case, due)
    if drain is None or drain.when is Moment.NEVER or case.node in sites:
        return False
    if case.is_pending(Effect.MARK):
        asked = max((case.phase_since, *case.put_back))
        return draft.now < asked + MARK_LATE
    # Its evidence is being taken, or what runs on it was not seen in this cycle.
    return examined(draft, case) or (case.node in draft.nodes and not _stopped(draft, case))


def _stopped(draft: Draft, case: Case) -> bool:
    """Whether somebody took our cordon away: such a machine is not waited for."""
    return bool(case.cordoned_by_us) and not draft.nodes[case.node].unschedulable


def _settles(draft: Draft, case: Case) -> bool:
    for finding in case.findings:
        policy = draft.rules.policy(finding.policy)
        if policy is None or finding.verdict is not Verdict.BAD or not takes_out(policy):
            continue
        rule = policy.spec.correlation
        if rule is not None and rule.settle is not None and draft.now < finding.since + rule.settle:
            return True
    return False


def _has_its_turn(draft: Draft, case: Case) -> bool:
    """Whether it only waits for those that were held as well, and go out before it: it is bad now, and goes next."""
    bad = draft.bad_now.get(case.node, frozenset())
    return case.held_by is HeldBy.TRICKLE and any(finding.key in bad for finding in case.findings)


def interruptions(cases: Iterable[Case]) -> int:
    """How many things these drains bring down: machines that are drained for one gang count as one."""
    groups: list[frozenset[str]] = []
    alone = 0
    for case in cases:
        keys = frozenset(key for leaving in batches(case) for key in gangs_in(leaving))
        if not keys:
            alone += 1
            continue
        touching = [group for group in groups if group & keys]
        groups = [group for group in groups if not group & keys]
        groups.append(keys.union(*touching))
    return alone + len(groups)
