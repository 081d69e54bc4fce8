"""The path of trust for programs. Its keys are described in docs/trust.md, and only ever added to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from quarantine.cli.records import Json
from quarantine.cli.trust import words
from quarantine.cli.trust.check import Ruling
from quarantine.cli.trust.reading import Installation
from quarantine.core.record.milestones import Fate
from quarantine.core.record.trust import Standing, Told, Wanted


def as_data(told: Iterable[Standing], at: Installation, wanted: Wanted, paths: Sequence[Path]) -> Json:
    """The documented form. Lengths of time are in seconds, null where there is none."""
    return {**_whole(at, wanted), "policies": [_standing(one, at, wanted, paths) for one in told]}


def as_checked(rulings: Sequence[Ruling], at: Installation, wanted: Wanted, paths: Sequence[Path]) -> Json:
    """What is said of policies of files."""
    return {
        **_whole(at, wanted),
        "passed": not any(one.refused for one in rulings),
        "policies": [
            {
                **_standing(one.standing, at, wanted, paths),
                "place": one.standing.policy.place,
                "refused": one.refused,
                "allowed": one.allowed,
                "reason": one.reason,
            }
            for one in rulings
        ],
    }


def _whole(at: Installation, wanted: Wanted) -> Json:
    return {
        "cluster": at.cluster,
        "since": wanted.since,
        "until": wanted.now,
        "last_at_work": None if at.pulse is None else at.pulse.at,
        "installation_mode": at.mode.value,
    }


def _standing(one: Standing, at: Installation, wanted: Wanted, paths: Sequence[Path]) -> Json:
    then = words.after(one, at, wanted, paths)
    return {
        "policy": one.policy.name,
        "hash": one.policy.hash,
        "revision": one.policy.revision,
        "severity": one.policy.spec.severity.value,
        "mode": one.policy.spec.mode.value,
        "response": words.response(one.policy),
        "step": one.step.value,
        "turn": one.turn.value,
        "ahead": one.ahead,
        "in_force_since": one.since,
        "observed_seconds": one.observed.total_seconds(),
        "blind_seconds": one.blind.total_seconds(),
        "unproven_seconds": one.unproven.total_seconds(),
        "wanted_seconds": one.wanted.total_seconds(),
        "days": [day.value for day in one.days],
        "pools": list(one.pools),
        "observed_pools": list(one.seen_in),
        "breaker": one.tripped,
        "largest": _largest(one),
        "found": _found(one),
        "why": then.why,
        "next": then.what,
        "commands": list(then.commands),
        "notes": list(words.notes(one, at, wanted)),
    }


def _found(one: Standing) -> Json:
    found = one.found
    low, high = one.right if one.judged else (None, None)
    return {
        "cases": found.cases,
        "machines": found.machines,
        "taken_out": found.out,
        **{fate.value: found.of(fate) for fate in (Fate.CONFIRMED, Fate.REFUTED, Fate.RETURNED, Fate.OPEN)},
        "passed": found.passed,
        "waiting": found.waits,
        "precision": found.of(Fate.CONFIRMED) / one.judged if one.judged else None,
        "low": low,
        "high": high,
        "waiting_cases": [_told(case) for case in found.waiting],
        "refuted_cases": [_told(case) for case in found.refuted],
    }


def _told(case: Told) -> Json:
    return {"case": case.case, "node": case.node, "opened_at": case.at, "judged_at": case.judged}


def _largest(one: Standing) -> Json | None:
    if one.overflow is None:
        return None
    sweep = one.overflow.sweep
    return {
        "pool": sweep.pool or None,
        "machines": sweep.machines,
        "at": sweep.at,
        "allowed": one.overflow.allowed,
        "exceeds": one.overflow.exceeds,
    }
