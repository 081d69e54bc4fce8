"""Findings that turn good, on positive evidence: a suspicion may end by it, a quarantine never does (invariant 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quarantine.core import restored
from quarantine.core.case import Case, Evidence, Phase
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft, case_key, policy_fields
from quarantine.core.judge import Judgement
from quarantine.core.model import Device, Verdict
from quarantine.core.policy import LoadedPolicy
from quarantine.core.treatment.endings import ending_effects


def recoveries(draft: Draft, judgements: Iterable[Judgement]) -> None:
    """Findings with positive evidence of health under load end a suspicion; a quarantine stays."""
    good: dict[tuple[str, str, Device], Evidence] = {}
    policies: dict[str, LoadedPolicy] = {}
    # Where the trigger was not answered, whether the device is bad at the same time is not known; where more is seen
    # than there is, whose device is good is not.
    for judgement in (j for j in judgements if j.failed is None and not j.crowded):
        policies[judgement.policy.name] = judgement.policy
        for (node, device), evidence in judgement.good.items():
            good[judgement.policy.name, node, device] = evidence
    if draft.disbelieved:
        return  # a machine of the same name may be good in another cluster
    for case in (c for c in draft.open_cases() if c.node not in draft.maintained):
        _recover(draft, case, good, policies)


def _recover(
    draft: Draft,
    case: Case,
    good: Mapping[tuple[str, str, Device], Evidence],
    policies: Mapping[str, LoadedPolicy],
) -> None:
    for finding in case.findings:
        evidence = good.get((finding.policy, case.node, finding.device))
        if evidence is None or finding.verdict is not Verdict.BAD:
            continue
        draft.emit(
            draft.about_case(
                Kind.DECIDED,
                Action.RECOVER,
                case,
                f"{finding.device} on {case.node} is good again by policy {finding.policy}, under load",
                device=finding.device,
                verdict=Verdict.GOOD,
                evidence=evidence,
                **policy_fields(policies[finding.policy]),
            )
        )
    case = draft.state.cases[case.id]
    # A finding of a policy that is no more cannot recover, and holds nobody.
    left = [f for f in case.findings if f.verdict is not Verdict.GOOD and draft.rules.policy(f.policy) is not None]
    # A ledger that is older than the cluster does not know what it would end.
    waits = (case.phase is Phase.SUSPECTED or case.waits_for_mark) and not restored.stands(draft)
    if waits and case.findings and not left and not case.by_person and case.node not in draft.bad_now:
        reason = f"no finding on {case.node} stands: each is good again under load, or its policy is no more"
        # The mark that it waits for may be on the node already, and only its outcome not known.
        over = {"phase": Phase.DISMISSED, "hold_key": case_key(case.id), "effects": ending_effects(case)}
        draft.emit(draft.about_case(Kind.DECIDED, Action.DISMISS, case, reason, **over))
