"""When time alone may change what is decided: a pace that frees a place, a phase that ends, a finding that settled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from quarantine.core import givenup, putback
from quarantine.core.budget import HOUR
from quarantine.core.case import Case, Phase
from quarantine.core.decision import State
from quarantine.core.draft import FLAPS, QUIET
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.policy import Rules
from quarantine.core.response import Moment
from quarantine.core.treatment import approval, followup, probation
from quarantine.core.treatment.drain import drain_waits
from quarantine.core.treatment.ladder import out_since
from quarantine.core.treatment.overdue import overdue_at
from quarantine.core.treatment.owed import enforcing
from quarantine.core.treatment.pace import paid_at
from quarantine.core.treatment.runs import LOST_AFTER, UNTOLD_FOR
from quarantine.core.trickle import EVERY
from quarantine.core.upkeep import AWAY_FOR, GONE_FOR, MARK_LATE


def deadlines(state: State, rules: Rules) -> frozenset[datetime]:
    """Every moment at which, or just after which, `plan()` may decide otherwise on unchanged answers and nodes.

    Rather too many than one too few: everything that the state dates, and every time that a rule counts from there.
    """
    spans = waits(rules)
    found = {begun + span for begun in _begun(state) for span in spans}
    lasts = {p.spec.correlation.within for p in rules.policies if p.spec.correlation is not None}
    found.update(left + span for left in _left(state) for span in lasts)
    found.update(at + EVERY for at, _ in state.quarantined_at)
    found.update(paid_at(state, rules))
    drained = drain_waits(rules)
    found.update(at for case in state.cases.values() if case.marked for at in _treated(case, rules, drained))
    found.update(at for case in state.cases.values() for at in givenup.waits(case))
    found.update(word.until for word in state.words.values() if word.until is not None)
    return frozenset(found | {dismissal.until for dismissal in state.dismissals})


def waits(rules: Rules) -> frozenset[timedelta]:
    """All times that the planner counts."""
    found = {HOUR, GONE_FOR, AWAY_FOR, MARK_LATE, QUIET, FLAPS, rules.dismissal}
    found.update(rule.deadline for rule in TRANSITIONS.values() if rule.deadline is not None)
    found.update(approval.spans(rules))
    found.update(pool.gate.younger for pool in rules.fleet.pools if pool.gate is not None)
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
    for census in state.pools.values():
        yield census.at


def _left(state: State) -> Iterator[datetime]:
    """When a machine ceased to be bad: it counts among those of its group for a while."""
    for case in state.cases.values():
        if not case.open:
            yield case.phase_since
        for finding in case.findings:
            yield from finding.ended[-1:]


def _treated(case: Case, rules: Rules, drained: frozenset[timedelta]) -> Iterator[datetime]:
    """What is counted from what was done about a machine that is out. `drained`: every time that drains count."""
    if (overdue := overdue_at(case, rules)) is not None:
        yield overdue
    if (run := case.run) is not None:
        yield from (run.until, run.until + GONE_FOR)
        yield run.until + UNTOLD_FOR
        yield run.since + LOST_AFTER
    yield from probation.waits(case, rules)
    yield from followup.waits(case, rules)
    yield from approval.waits(case, rules)
    spans = (putback.PAUSE, putback.WITHIN, putback.SLOWLY, putback.DAY, putback.CALM)
    yield from (at + span for at in case.put_back for span in spans)
    responses = [policy.spec.response for policy in enforcing(case, rules)]
    for response in responses:
        yield from (out_since(case) + step.after for step in response.steps if step.after is not None)
    if case.phase is Phase.DRAINING or any(response.drain.when is not Moment.NEVER for response in responses):
        begun = {case.phase_since, case.taken_out_at, *(leaving.at for leaving in case.leaving)}
        yield from (at + span for at in begun for span in drained)
