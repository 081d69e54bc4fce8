"""Policies that never decide anything, since another finds whatever they find, and no later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from quarantine.core.compatible import Limits, limits
from quarantine.core.model import Mode
from quarantine.core.policy import LoadedPolicy, PolicySpec
from quarantine.core.trigger import Form, Trigger


def shadowed(policies: Sequence[LoadedPolicy]) -> Iterator[tuple[LoadedPolicy, LoadedPolicy]]:
    """(a policy, another that makes it needless). Of two that are the same, the later one is needless."""
    for number, policy in enumerate(policies):
        for place, other in enumerate(policies):
            if place == number or not _stands_before(other.spec, policy.spec):
                continue
            if place < number or not _stands_before(policy.spec, other.spec):
                yield policy, other
                break


def finds_all_of(other: Trigger, trigger: Trigger) -> bool:
    """Whether `other` finds a device bad no later than `trigger` does, on whatever samples (all of them seen).

    Of a time and its multiples, the shorter is no later: if nine tenths of ten minutes were hot, then so were nine
    tenths of one of its halves. Of other lengths that is not so.
    """
    if other.form is not trigger.form:
        return False
    if trigger.events is not None and other.events is not None:
        return other.events <= trigger.events and other.window >= trigger.window
    if trigger.window % other.window != timedelta(0):
        return False
    if trigger.form is Form.ABSENT:
        return other.memory >= trigger.memory
    calm = other.tolerate >= trigger.tolerate and other.coverage <= trigger.coverage
    return calm and _all_stricter(other, trigger)


def _all_stricter(other: Trigger, trigger: Trigger) -> bool:
    if [own.model for own in other.models] == [own.model for own in trigger.models]:
        pairs = [(limits(a), limits(b)) for a, b in zip(other.models, trigger.models, strict=True)]
        return all(_stricter(a, b) for a, b in [*pairs, (limits(other), limits(trigger))])
    bounds = [limits(other), *map(limits, other.models)]
    theirs = [limits(trigger), *map(limits, trigger.models)]
    return all(_stricter(bound, bad) for bound in bounds for bad in theirs)


def _stricter(one: Limits, other: Limits) -> bool:
    """Whether every value that the other finds bad is bad for the one."""
    over = other.above is None or (one.above is not None and one.above <= other.above)
    under = other.below is None or (one.below is not None and one.below >= other.below)
    return over and under


def _stands_before(other: PolicySpec, policy: PolicySpec) -> bool:
    """Whether `other` finds all that `policy` finds, and whatever follows from it is at least as much."""
    same = (other.signal, other.query) == (policy.signal, policy.query)
    everywhere = other.node_selector.items() <= policy.node_selector.items()
    weighs = other.severity.rank >= policy.severity.rank and (other.mode is Mode.ENFORCE or policy.mode is Mode.OBSERVE)
    acts = other.response.taint or not policy.response.taint
    return (
        same
        and everywhere
        and weighs
        and acts
        and _unheld(other, policy)
        and finds_all_of(other.trigger, policy.trigger)
    )


def _unheld(other: PolicySpec, policy: PolicySpec) -> bool:
    """Whether nothing holds `other` back that lets `policy` pass."""
    graces = ((other.grace.boot, policy.grace.boot), (other.grace.driver, policy.grace.driver))
    return (
        all(ours is None or (theirs is not None and ours <= theirs) for ours, theirs in graces)
        and other.escalation in (None, policy.escalation)
        and other.correlation in (None, policy.correlation)
        and other.breaker.max_share >= policy.breaker.max_share
    )
