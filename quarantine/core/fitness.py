"""Which policies' findings may be acted on in this cycle, and what is told of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from quarantine.core import budget
from quarantine.core.case import Evidence, HeldBy
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.draft import FLAPS, Draft, judge_key, policy_fields
from quarantine.core.judge import Judgement
from quarantine.core.model import Verdict
from quarantine.core.reasons import in_words

# Held for these, a policy is the suspect itself: what it found before is acted on no further either.
_SUSPECT = (HeldBy.BREAKER, HeldBy.CROWDED)
_BLIND = (HeldBy.NO_ANSWER, HeldBy.NO_COVERAGE)


def policies_fit(draft: Draft, judgements: Iterable[Judgement]) -> list[Judgement]:
    """Those whose findings may be acted on. A policy that is blind, or finds too much, is held itself (invariant 6)."""
    fit = []
    for judgement in judgements:
        held_by, reason, evidence = _unfit(judgement)
        policy, key = judgement.policy, judge_key(judgement.policy)
        if held_by is None:
            for pool, why in budget.tripped_pools(judgement, draft.nodes, draft.rules).items():
                draft.tripped[policy.name, pool] = why
            draft.lift(key, f"policy {policy.name} can be judged again")
            fit.append(judgement)
            continue
        if held_by in _SUSPECT:
            draft.distrusted[policy.name] = (held_by, f"policy {policy.name} is held: {reason}")
        _hold(
            draft,
            draft.decision(
                Kind.HELD,
                Action.JUDGE,
                f"policy {policy.name} is held: {reason}",
                verdict=Verdict.UNKNOWN,
                held_by=held_by,
                hold_key=key,
                evidence=evidence,
                severity=policy.spec.severity,
                **policy_fields(policy),
            ),
        )
        if held_by is HeldBy.NO_ANSWER and _unfit(replace(judgement, failed=None))[0] is None:
            fit.append(judgement)  # what another source did find bad is bad; the rest is unknown
    draft.judged = frozenset(judgement.policy.name for judgement in fit if judgement.failed is None)
    return fit


def _hold(draft: Draft, decision: Decision) -> None:
    """One that finds too much whenever it is answered is not told of anew each time that it is not."""
    standing = draft.state.holds.get(decision.hold_key)
    known = standing is not None and standing.held_by in _SUSPECT and draft.now < standing.since + FLAPS
    if not (known and decision.held_by in _BLIND):
        draft.hold(decision)


def _unfit(judgement: Judgement) -> tuple[HeldBy | None, str, Evidence | None]:
    if judgement.failed is not None:
        return HeldBy.NO_ANSWER, judgement.failed.detail, None
    if judgement.covered is None:
        return HeldBy.NO_COVERAGE, "how many devices it can see is not known, so its breaker cannot be judged", None
    if judgement.covered == 0:
        return HeldBy.NO_COVERAGE, "no fresh series of a known node matches its signal, so it sees nothing at all", None
    if judgement.crowded:
        names = in_words(list(judgement.crowded))
        why = f"more GPUs are seen of {names} than it has, so another cluster's may be among them: set matchers"
        return HeldBy.CROWDED, f"{why} in the fleet file", None
    reason = budget.tripped(judgement)
    if reason is not None:
        first = judgement.bad[0].evidence
        return HeldBy.BREAKER, reason, replace(first, offenders=len(judgement.bad))
    return None, "", None
