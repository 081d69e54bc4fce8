"""Emptying machines, gently: when, in which order, how fast, and a gang's machines all at once (invariant 10).

Nothing is deleted and nothing is evicted by a taint. A decision names the pods, by uid, that were seen on the machine
in this very cycle; whoever carries it out asks for them by the Eviction API, which respects disruption budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import timedelta

from quarantine.core.case import Case, Effect, Leaving, Phase, PodRef
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft
from quarantine.core.model import Failed
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.response import Moment
from quarantine.core.treatment.endings import shown
from quarantine.core.treatment.gangs import awaited
from quarantine.core.treatment.leavers import AGAIN, SEPARATOR
from quarantine.core.treatment.moment import TOLD_AFTER, Job, why_now
from quarantine.core.treatment.owed import Owed, enforcing
from quarantine.core.treatment.pace import BLOCKED, MINUTE, evictions_left, has_place, places_left
from quarantine.core.treatment.sites import EMPTIED, Site, ready, seen_on, wanted
from quarantine.core.treatment.told import Told
from quarantine.core.workload import Pod


def drains(draft: Draft, due: Mapping[str, Owed]) -> None:
    """Begin, go on with and end the drains that are due.

    What ends comes first and what has begun goes on before anything begins: the pace is the same for all.
    """
    told = Told(draft)
    sites = _survey(draft, due, told)
    work = _Work(draft, due, sites)
    before = -1
    while before != len(draft.decisions):  # a machine that is drawn in by one gang may be ready for another of its own
        before = len(draft.decisions)
        for site in [s for s in sites.values() if s.draining]:
            work.go_on(site)
        for site in [s for s in sites.values() if not s.draining]:
            work.begin(site)
    for site in sites.values():
        told.waiting(site)
        if site.draining:
            told.troubles(site)
    told.lift_others()


def drain_waits(rules: Rules) -> frozenset[timedelta]:
    """Every time that drains count, from a quarantine, from the beginning of a drain or from a request to leave."""
    found = {MINUTE, BLOCKED, AGAIN, TOLD_AFTER}
    for policy in rules.policies:
        drain = policy.spec.response.drain
        found.update([drain.blocked] if drain.deadline is None else [drain.blocked, drain.deadline])
    return frozenset(found)


def _survey(draft: Draft, due: Mapping[str, Owed], told: Told) -> dict[str, Site]:
    """By node: the machines whose pods may be asked to leave. Those that are empty are done."""
    works = draft.snapshot.workloads
    found: dict[str, Site] = {}
    for case in draft.open_cases():
        drain = wanted(case, due)
        if drain is None:
            if case.phase in EMPTIED and _asks(draft, case):
                told.keep(case)  # it is put off, by a pause say, and what was told is true still
            continue
        pods = seen_on(works, case.node)
        if not ready(draft, case) or (pods is None and drain.when is Moment.NEVER):
            told.keep(case)
        elif pods is None:
            told.keep(case)
            if isinstance(works, Failed) or works.nodes:  # a plan that is made without any look at pods says nothing
                told.unknown(case)
        elif not pods:
            _empty(draft, case)
        elif drain.when is not Moment.NEVER and not isinstance(works, Failed):
            found[case.node] = Site(draft, case.id, drain, pods, works.gangs)
    return found


def _asks(draft: Draft, case: Case) -> bool:
    drains = (policy.spec.response.drain for policy in enforcing(case, draft.rules))
    return any(drain.when is not Moment.NEVER for drain in drains)


def _empty(draft: Draft, case: Case) -> None:
    reason = f"{case.node} is empty: no pod is left on it that has to leave"
    fields = {"phase": Phase.DRAINED, "effects": shown(case)}
    draft.emit(draft.about_case(Kind.DECIDED, Action.DRAIN, case, reason, **fields))


class _Work:
    """One cycle's drains. Lives only inside `drains()`."""

    def __init__(self, draft: Draft, due: Mapping[str, Owed], sites: Mapping[str, Site]) -> None:
        self._draft = draft
        self._due = due
        self._sites = sites
        self._of: dict[str, list[Site]] = {}  # by gang: where its pods are
        for site in sites.values():
            for key in {pod.gang for pod in site.pods if pod.gang}:
                self._of.setdefault(key, []).append(site)
        self._counted: tuple[int, dict[tuple[str, str], int]] = (-1, {})

    def go_on(self, site: Site) -> None:
        """The next pods of a machine that is being emptied; a gang whose moment has come now leaves everywhere."""
        come = _gangs(site, (job for job in site.jobs if site.waits_for(job) is None))
        new = [key for key in sorted(come - site.interrupted) if not self._awaited(site, [key])]
        if new and self._may(members := self._members(site, new)):
            self._together(site, members, new)
        else:
            self._ask(site, [])

    def begin(self, site: Site) -> None:
        """A machine for all of whose jobs the moment has come, with all other machines of its gangs."""
        if site.draining or not self._may([site]) or any(site.waits_for(job) is not None for job in site.jobs):
            return
        keys = sorted(_gangs(site, site.jobs))
        if not self._awaited(site, keys) and self._may(members := self._members(site, keys)):
            self._together(site, members, keys)

    def _awaited(self, site: Site, keys: Iterable[str]) -> bool:
        nodes = {key: site.gangs[key].nodes.union(s.case.node for s in self._of[key]) for key in keys}
        return any(awaited(self._draft, self._due, self._sites, of) for of in nodes.values())

    def _members(self, first: Site, keys: Iterable[str]) -> list[Site]:
        others = {s.case_id: s for key in keys for s in self._of[key] if s is not first and s.has(key)}
        return [first, *(s for s in self._sites.values() if s.case_id in others)]

    def _may(self, members: Sequence[Site]) -> bool:
        """Whether the pace of every pool allows it: together they take one place, and some eviction must be left."""
        beginning = {site.case.pool for site in members if not site.draining}
        held = {site.case.pool for site in members if site.draining and has_place(self._draft, site)}
        if any(self._places(pool) < 1 for pool in beginning - held):
            return False
        asking = {site.case.pool for site in members if site.leavers().fresh}
        return all(self._left(pool) > 0 for pool in asking)

    def _left(self, pool: str) -> int:
        draft = self._draft
        return self._once("left", pool, lambda: evictions_left(draft.state, draft.rules, pool, draft.now))

    def _places(self, pool: str) -> int:
        return self._once("places", pool, lambda: places_left(self._draft, self._due, self._sites, pool))

    def _once(self, what: str, pool: str, count: Callable[[], int]) -> int:
        """Counted anew only after something was decided: in most cycles hundreds of machines only wait."""
        if self._counted[0] != len(self._draft.decisions):
            self._counted = (len(self._draft.decisions), {})
        known = self._counted[1]
        if (what, pool) not in known:
            known[what, pool] = count()
        return known[what, pool]

    def _together(self, first: Site, members: Iterable[Site], keys: Sequence[str]) -> None:
        for site in members:
            waiting = site.waiting  # by the moments as they were before its drain began
            if not site.draining:
                why = why_now(site.drain, site.moment, site.jobs)
                why = why if site is first else f"{in_words(list(keys))} leaves all its quarantined machines at once"
                reason = f"{site.case.node} is being drained: {why}"
                fields = {"phase": Phase.DRAINING, "effects": shown(site.case), **self._word(site)}
                self._draft.emit(self._draft.about_case(Kind.DECIDED, Action.DRAIN, site.case, reason, **fields))
            self._ask(site, keys, waiting)

    def _ask(self, site: Site, keys: Sequence[str], waiting: Container[PodRef] | None = None) -> None:
        """The next batch of a machine; `keys`: the gangs that are interrupted by it."""
        case = site.case
        alone, falling = self._batch(site, keys, site.waiting if waiting is None else waiting)
        if not alone and not falling:
            return
        pods = [pod.ref for pod in (*alone, *falling)]
        gang = SEPARATOR.join(sorted({pod.gang for pod in falling}))
        reason = (
            f"{in_words([str(ref) for ref in pods])} {'is' if len(pods) == 1 else 'are'} asked to leave {case.node}"
        )
        reason += f", which interrupts {gang}" if gang else ""
        leaving = Leaving(self._draft.now, tuple(pods), gang)
        fields = {"leaving": leaving, "effects": (Effect.EVICT,), **self._word(site)}
        self._draft.emit(self._draft.about_case(Kind.DECIDED, Action.EVICT, case, reason, **fields))

    def _word(self, site: Site) -> dict[str, object]:
        owed = self._due.get(site.case.id)
        return {} if owed is None else owed.word("drain")

    def _batch(
        self, site: Site, keys: Sequence[str], waiting: Container[PodRef]
    ) -> tuple[Sequence[Pod], Sequence[Pod]]:
        """What is alone, services first, as far as the pace goes; then what is of gangs that fall, whole.

        One batch at a time is under way for a machine. A gang that falls is not kept waiting by it, or half of it would
        be out: what is still asked of the batch before goes along with it.
        """
        case, seen, left = site.case, site.leavers(), self._left(site.case.pool)
        whole = {job.gang.key for job in site.jobs if job.gang is not None and not job.alone}
        falls = whole & {*keys, *site.interrupted}
        falling = [pod for pod in seen.fresh if pod.gang in falls]
        if case.is_pending(Effect.EVICT):
            return (seen.asked, falling) if keys and falling else ((), ())
        return [pod for pod in seen.fresh if pod.gang not in whole and pod.ref not in waiting][:left], falling


def _gangs(site: Site, jobs: Iterable[Job]) -> frozenset[str]:
    """Those of several pods, of which some are to be asked to leave the machine."""
    found = (job.gang.key for job in jobs if job.gang is not None and not job.alone)
    return frozenset(key for key in found if site.has(key))
