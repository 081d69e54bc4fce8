"""How often a policy has found one machine bad: single findings are watched, the nth within a time is acted on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.history import Spell
from quarantine.core.marks import same_machine
from quarantine.core.model import Device, Machine
from quarantine.core.policy import LoadedPolicy
from quarantine.core.units import format_duration


def too_few(
    spells: Iterable[Spell],
    policy: LoadedPolicy,
    machine: Machine,
    device: Device,
    since: datetime,
    excused: Callable[[Spell], bool],
) -> str | None:
    """Why a finding that began at `since` is not acted on yet: `2 of 3 findings within 12h`. None where it is.

    `spells`: what this policy found on the node. Those that are `excused` were not the machine's own.

    One incident counts once, from its first device that is bad until all are good; but a device that was good again
    and is back counts anew, though another has been bad all along. The count begins anew with a machine that was taken
    out and put back: it was repaired, or a person knows better.
    """
    rule = policy.spec.escalation
    if rule is None:
        return None
    mine = [s for s in spells if same_machine(machine, s.case.machine)]
    oldest = max([since - rule.within, *(s.case.phase_since for s in mine if _was_out(s.case))])
    own = [s for s in mine if s.began < since and not excused(s)]
    again = sum(1 for s in own if s.device == device and s.good is not None and s.began > oldest)
    count = 1 + max(again, sum(1 for began in _incidents(own, since) if began > oldest))
    if count >= rule.findings:
        return None
    within = format_duration(rule.within)
    return f"it makes {count} of {rule.findings} findings within {within}, which policy {policy.name} waits for"


def _incidents(own: Sequence[Spell], before: datetime) -> list[datetime]:
    """When each incident began that was over `before`: all that was bad in it was good again."""
    found: list[tuple[datetime, datetime | None]] = []
    # What was never seen to be good stands, if its case does; what a case's end left open has no say.
    told = [s for s in own if s.good is not None or s.case.open]
    for spell in sorted(told, key=lambda s: s.began):
        began, good = found[-1] if found else (None, None)
        if began is None or (good is not None and good < spell.began):
            found.append((spell.began, spell.good))
        else:
            found[-1] = (began, None if good is None or spell.good is None else max(good, spell.good))
    return [began for began, good in found if good is not None and good < before]


def _was_out(case: Case) -> bool:
    mark = case.effects.get(Effect.MARK)
    return not case.open and mark is not None and mark.status is EffectStatus.DONE
