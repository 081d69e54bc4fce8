"""When time alone may change what is decided: a pace that frees a place, a phase that ends, a finding that settled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from quarantine.core.budget import HOUR
from quarantine.core.decision import State
from quarantine.core.draft import QUIET
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.policy import Rules
from quarantine.core.upkeep import GONE_FOR, MARK_LATE


def deadlines(state: State, rules: Rules) -> frozenset[datetime]:
    """Every moment at which, or just after which, `plan()` may decide otherwise on unchanged answers and nodes.

    Rather too many than one too few: everything that the state dates, and every time that a rule counts from there.
    """
    spans = waits(rules)
    found = {begun + span for begun in _begun(state) for span in spans}
    lasts = {p.spec.correlation.within for p in rules.policies if p.spec.correlation is not None}
    found.update(left + span for left in _left(state) for span in lasts)
    return frozenset(found | {dismissal.until for dismissal in state.dismissals})


def waits(rules: Rules) -> frozenset[timedelta]:
    """All times that the planner counts."""
    found = {HOUR, GONE_FOR, MARK_LATE, QUIET, rules.dismissal}
    found.update(rule.deadline for rule in TRANSITIONS.values() if rule.deadline is not None)
    for policy in rules.policies:
        escalation, correlation, grace = policy.spec.escalation, policy.spec.correlation, policy.spec.grace
        if escalation is not None:
            found.add(escalation.within)
        if correlation is not None:
            found.add(correlation.within)
            found.update([correlation.settle] if correlation.settle is not None else [])
        found.update(span for span in (grace.boot, grace.driver) if span is not None)
    return frozenset(found)


def _begun(state: State) -> Iterator[datetime]:
    for case in state.cases.values():
        if case.open:
            yield case.opened_at
            yield case.phase_since
            for finding in case.findings:
                yield finding.since
    for hold in state.holds.values():
        yield hold.since
    for at, _ in state.quarantined_at:
        yield at


def _left(state: State) -> Iterator[datetime]:
    """When a machine ceased to be bad: it counts among those of its group for a while."""
    for case in state.cases.values():
        if not case.open:
            yield case.phase_since
        for finding in case.findings:
            yield from finding.ended[-1:]
