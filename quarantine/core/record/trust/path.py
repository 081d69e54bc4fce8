"""The path itself: observe, read, backtest, enforce in one pool, widen. Where a policy stands on it, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from quarantine.core.budget import limit
from quarantine.core.decision import Census
from quarantine.core.fleet import FleetSpec, Pool
from quarantine.core.model import Mode
from quarantine.core.policy import LoadedPolicy, PolicySpec, Rules
from quarantine.core.record.milestones import Fate
from quarantine.core.record.trust.material import Found, Sweep, Trail
from quarantine.core.record.trust.observed import Day, days, is_within, observed, run, unproven
from quarantine.core.record.trust.share import interval


class Step(StrEnum):
    """Where a policy stands. Each is reached once all that is asked before it is done."""

    OBSERVE = "observe"  # it has not observed for long enough
    READ = "read"  # what it found waits for people's word, or was judged false
    BACKTEST = "backtest"  # nothing speaks against it: to be tried on history, then enforced in one pool
    ONE_POOL = "one-pool"  # it enforces in one of the pools in which it observed
    WIDEN = "widen"  # it enforces in some of them
    FULL = "full"  # it enforces wherever it observed

    @property
    def rank(self) -> int:
        """0 for the first."""
        return list(Step).index(self)


class Rank(StrEnum):
    """Whose turn it is; in this order they are told."""

    BACK = "back"  # it acts, or would, and the trail does not bear it out
    PEOPLE = "people"  # people are to do something
    TIME = "time"  # time is to pass
    DONE = "done"


_TURN: Mapping[Step, Rank] = {
    Step.OBSERVE: Rank.TIME,
    Step.READ: Rank.PEOPLE,
    Step.BACKTEST: Rank.PEOPLE,
    Step.ONE_POOL: Rank.PEOPLE,
    Step.WIDEN: Rank.PEOPLE,
    Step.FULL: Rank.DONE,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was found is looked at from `since` to `now`; a policy is to observe for as long, with answers."""

    since: datetime
    now: datetime
    until: datetime  # when a controller was last at work

    @property
    def length(self) -> timedelta:
        """How long that is."""
        return self.now - self.since


@dataclass(frozen=True, slots=True)
class Overflow:
    """The largest number found in one cycle, and how many the pool's budget lets out within an hour.

    `allowed` None: how large the pool is, is not known.
    """

    sweep: Sweep
    allowed: int | None

    @property
    def exceeds(self) -> bool:
        """Whether the budget would have held some of them back."""
        return self.allowed is not None and self.sweep.machines > self.allowed


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy on the path of trust."""

    policy: LoadedPolicy
    step: Step
    wanted: timedelta  # for how long it is to observe
    since: datetime | None  # since when what it finds is the same; None: the ledger has never seen that
    observed: timedelta  # with answers
    blind: timedelta  # besides, without any
    unproven: timedelta  # besides, of which nothing shows that a controller was at work
    days: tuple[Day, ...]  # of the window
    found: Found
    pools: tuple[str, ...]  # that its nodeSelector leaves
    seen_in: tuple[str, ...]  # in which it has observed for long enough
    overflow: Overflow | None  # of the pool in which most were found together
    tripped: int  # times that its breaker held it, in the window

    @property
    def enforces(self) -> bool:
        """Whether it says so."""
        return self.policy.spec.mode is Mode.ENFORCE

    @property
    def ahead(self) -> bool:
        """Whether it acts before the trail bears it out."""
        return self.enforces and self.step.rank < Step.BACKTEST.rank

    @property
    def sent_back(self) -> bool:
        """Whether something that it found was judged false, which nothing outweighs."""
        return self.step is Step.READ and self.found.of(Fate.REFUTED) > 0

    @property
    def turn(self) -> Rank:
        """Whose turn it is."""
        if self.ahead or self.sent_back:
            return Rank.BACK
        reads = self.step is Step.OBSERVE and (self.found.waits or self.found.of(Fate.REFUTED))
        return Rank.PEOPLE if reads else _TURN[self.step]

    @property
    def judged(self) -> int:
        """Cases of which somebody has said what they were."""
        return self.found.of(Fate.CONFIRMED) + self.found.of(Fate.REFUTED)

    @property
    def right(self) -> tuple[float, float]:
        """Between which shares of what it finds it is right, with 95 % confidence."""
        return interval(self.found.of(Fate.CONFIRMED), self.judged)


def standings(
    rules: Rules, trails: Mapping[str, Trail], found: Mapping[str, Found], sizes: Mapping[str, Census], wanted: Wanted
) -> tuple[Standing, ...]:
    """All policies in force, those first that people are to do something about."""
    made = (
        standing(policy, rules.fleet, trails.get(policy.name, Trail()), found.get(policy.name, Found()), sizes, wanted)
        for policy in rules.policies
    )
    turns = list(Rank)
    return tuple(sorted(made, key=lambda one: (turns.index(one.turn), -one.step.rank, one.policy.name)))


def standing(
    policy: LoadedPolicy, fleet: FleetSpec, trail: Trail, found: Found, sizes: Mapping[str, Census], wanted: Wanted
) -> Standing:
    """Where this policy stands, as it is written: in force, or in a file that is to be.

    `found` is of what finds the same, in the window.
    """
    spec = policy.spec
    of = run(trail, spec, wanted.until)
    seen = observed(of, trail, spec.node_selector)
    absent = unproven(of, trail, spec.node_selector)
    enough = tuple(known for known in of.selectors if observed(of, trail, known) >= wanted.length)
    return Standing(
        policy=policy,
        step=_step(spec, seen >= wanted.length, enough, found, fleet),
        wanted=wanted.length,
        since=of.since,
        observed=seen,
        blind=sum((over - at for at, over in of.stretches(spec.node_selector)), timedelta(0)) - seen - absent,
        unproven=absent,
        days=days(of, trail, spec.node_selector, wanted.since, found),
        found=found,
        pools=pools_of(spec.node_selector, fleet),
        seen_in=_met(enough, fleet),
        overflow=_overflow(found.sweeps, fleet, sizes),
        tripped=sum(1 for one in trail.tripped if one.until is None or one.until >= wanted.since),
    )


def counted_since(trail: Trail, spec: PolicySpec, wanted: Wanted) -> datetime | None:
    """From when on what happened to a policy's cases says something of what it finds now; None: nothing does."""
    since = run(trail, spec, wanted.until).since
    return None if since is None else max(since, wanted.since)


def pools_of(selector: Mapping[str, str], fleet: FleetSpec) -> tuple[str, ...]:
    """The pools whose nodes may have these labels: all but those that are chosen by another value of one of them."""
    return tuple(pool.name for pool in fleet.pools if _may_meet(pool, selector))


def _may_meet(pool: Pool, selector: Mapping[str, str]) -> bool:
    return all(pool.node_selector.get(label, value) == value for label, value in selector.items())


def _met(selectors: Iterable[Mapping[str, str]], fleet: FleetSpec) -> tuple[str, ...]:
    met = {name for selector in selectors for name in pools_of(selector, fleet)}
    return tuple(pool.name for pool in fleet.pools if pool.name in met)


def _step(
    spec: PolicySpec, observed_enough: bool, enough: Iterable[Mapping[str, str]], found: Found, fleet: FleetSpec
) -> Step:
    """`enough`: the selectors with which it has observed for long enough."""
    if not observed_enough:
        return Step.OBSERVE
    acts = spec.mode is Mode.ENFORCE
    # Of one that acts, what stands waits for a budget or for others to join it, and for no word.
    if found.of(Fate.REFUTED) or (found.waits and not acts):
        return Step.READ
    if not acts:
        return Step.BACKTEST
    if all(is_within(selector, spec.node_selector) for selector in enough):
        return Step.FULL
    return Step.ONE_POOL if len(pools_of(spec.node_selector, fleet)) == 1 else Step.WIDEN


def _overflow(sweeps: Iterable[Sweep], fleet: FleetSpec, sizes: Mapping[str, Census]) -> Overflow | None:
    """Of the pool whose budget it exceeds most, or else of the most machines."""
    pools = {pool.name: pool for pool in fleet.pools}
    made = [Overflow(sweep, _allowed(pools.get(sweep.pool), sizes.get(sweep.pool))) for sweep in sweeps]
    return max(made, key=lambda one: (one.exceeds, one.sweep.machines, one.sweep.at), default=None)


def _allowed(pool: Pool | None, census: Census | None) -> int | None:
    """How many machines may go out of an intact pool within an hour."""
    size = 0 if pool is None else pool.size or (census.nodes if census is not None else 0)
    if pool is None or not size:
        return None
    budget = pool.budget
    return min(limit(wanted, size) for wanted in (budget.quarantined, budget.unavailable, budget.per_hour))
