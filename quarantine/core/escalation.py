"""How often a policy has found one machine bad: single findings are watched, the nth within a time is acted on."""

from __future__ import annotations

from datetime import datetime

from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import State
from quarantine.core.marks import same_machine
from quarantine.core.model import Machine, Verdict
from quarantine.core.policy import LoadedPolicy
from quarantine.core.response import Escalation
from quarantine.core.units import format_duration


def too_few(state: State, policy: LoadedPolicy, node: str, machine: Machine, since: datetime) -> str | None:
    """Why a finding that began at `since` is not acted on yet: `2 of 3 findings within 12h`. None where it is."""
    rule = policy.spec.escalation
    if rule is None:
        return None
    count = 1 + len(_before(state, policy.name, node, machine, since, rule))
    if count >= rule.findings:
        return None
    within = format_duration(rule.within)
    return f"it makes {count} of {rule.findings} findings within {within}, which policy {policy.name} waits for"


def _before(
    state: State, policy: str, node: str, machine: Machine, since: datetime, rule: Escalation
) -> frozenset[datetime]:
    """When earlier findings on this machine began that have ended by a recovery, on whichever device.

    Devices that turn bad in one cycle are one event. The count begins anew with a machine that was taken out and put
    back: it was repaired, or a person knows better.
    """
    cases = [c for c in state.cases.values() if c.node == node and same_machine(machine, c.machine)]
    oldest = max([since - rule.within, *(case.phase_since for case in cases if _was_out(case))])
    found: set[datetime] = set()
    for finding in (f for case in cases for f in case.findings if f.policy == policy):
        found.update(finding.earlier)
        found.update([finding.since] if finding.verdict is Verdict.GOOD else [])
    return frozenset(at for at in found if oldest < at < since)


def _was_out(case: Case) -> bool:
    mark = case.effects.get(Effect.MARK)
    return not case.open and mark is not None and mark.status is EffectStatus.DONE
