"""The suspicions that wait for people's word: what would be acted on, if the policies that find it enforced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quarantine.core.case import Case, Phase
from quarantine.core.model import Verdict
from quarantine.core.record.milestones import Fate, fate
from quarantine.core.record.trust.material import Told


def waiting(cases: Iterable[Case]) -> Mapping[str, tuple[Told, ...]]:
    """By policy, the newest first: every one in which it has a finding that is not good again, whoever opened it.

    However long it stands, and whether the policy was changed since: it is what stands in the way of enforcing.
    """
    found: dict[str, list[Told]] = {}
    for case in cases:
        if case.open and case.phase is Phase.SUSPECTED and fate(case) is Fate.OPEN:
            told = Told(case.id, case.node, case.opened_at)
            for policy in {one.policy for one in case.findings if one.verdict is not Verdict.GOOD}:
                found.setdefault(policy, []).append(told)
    return {policy: tuple(sorted(told, key=_newest)) for policy, told in found.items()}


def _newest(told: Told) -> tuple[float, str]:
    return -told.at.timestamp(), told.case
