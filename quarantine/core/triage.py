"""From verdicts to decisions about machines: quarantine, or a hold with its reason; join; recover."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from quarantine.core import budget
from quarantine.core.case import Case, Effect, Evidence, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.draft import NO_CASE, NODE, Draft, case_key, judge_key, policy_fields
from quarantine.core.fleet import Pool
from quarantine.core.judge import Judgement, Offence
from quarantine.core.marks import same_hardware
from quarantine.core.model import Device, Mode, Node, Verdict
from quarantine.core.policy import LoadedPolicy
from quarantine.core.reasons import in_words, saw

MARKING = (Effect.MARK, Effect.EVENT)


def policies_fit(draft: Draft, judgements: Iterable[Judgement]) -> list[Judgement]:
    """Those whose findings may be acted on. A policy that is blind, or finds too much, is held itself (invariant 6)."""
    fit = []
    for judgement in judgements:
        held_by, reason, evidence = _unfit(judgement)
        policy, key = judgement.policy, judge_key(judgement.policy)
        if held_by is None:
            draft.lift(key, f"policy {policy.name} can be judged again")
            fit.append(judgement)
            continue
        draft.hold(
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
            )
        )
        if held_by is HeldBy.NO_ANSWER and judgement.covered and budget.tripped(judgement) is None:
            fit.append(judgement)  # what another source did find bad is bad; the rest is unknown
    return fit


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


def offences(draft: Draft, fit: Sequence[Judgement], *, complete: bool) -> None:
    """All findings of one machine together: the strongest decides, the others join its case.

    `complete`: every policy was answered and fit, so that a node without any offence has none.
    """
    by_node: dict[str, list[Offence]] = {}
    for judgement in fit:
        for offence in judgement.bad:
            by_node.setdefault(offence.node.name, []).append(offence)
    ordered = [sorted(found, key=_strength) for found in by_node.values()]
    for found in sorted(ordered, key=lambda offences: _strength(offences[0])):
        _machine(draft, found)
    if complete:
        for key in [k for k in draft.state.holds if k.startswith(NODE) and k.removeprefix(NODE) not in by_node]:
            draft.lift(key, f"nothing is found bad on {key.removeprefix(NODE)} any more")


def _strength(offence: Offence) -> tuple[int, int, str, str, str]:
    spec = offence.policy.spec
    enforced = 0 if spec.mode is Mode.ENFORCE else 1
    return (enforced, -spec.severity.rank, offence.node.name, offence.policy.name, offence.device.name)


def _machine(draft: Draft, found: list[Offence]) -> None:
    lead, node = found[0], found[0].node
    case = draft.open_case(node.name)
    pool = budget.pool_of(node, draft.rules)
    barred = _barred(draft, node, pool)
    if barred is not None and case is None:
        draft.hold(_decide(draft, lead, None, None, pool, barred, NO_CASE[barred]))
        return
    if case is None:
        found = [offence for offence in found if not _dismissed(draft, offence)]
        if not found:
            return
        lead = found[0]
    draft.lift(_node_key(lead), f"{node.name} may be acted on again")
    if case is None or case.phase is Phase.SUSPECTED:
        case = _suspect(draft, lead, case, pool, barred)
    for offence in found:
        _join(draft, offence, draft.state.cases[case.id])


def _suspect(draft: Draft, lead: Offence, case: Case | None, pool: Pool | None, barred: HeldBy | None) -> Case:
    """Quarantine, or hold with a reason; a held machine waits in `suspected` and is judged afresh at each cycle."""
    held_by, why = _held(draft, lead, pool, barred)
    case_id = case.id if case is not None else draft.new_case_id(lead.node)
    decision = _decide(draft, lead, case, case_id, pool, held_by, why)
    if held_by is None:
        draft.emit(decision)
    else:
        draft.hold(decision)
    return draft.state.cases[case_id]


def _held(draft: Draft, lead: Offence, pool: Pool | None, barred: HeldBy | None) -> tuple[HeldBy | None, str]:
    if barred is not None or pool is None:
        barred = barred or HeldBy.NOT_IN_POOL
        return barred, NO_CASE[barred]
    if draft.snapshot.mode is Mode.OBSERVE:
        return HeldBy.OBSERVE_MODE, "the installation only observes"
    if lead.policy.spec.mode is Mode.OBSERVE:
        return HeldBy.OBSERVE_MODE, f"policy {lead.policy.name} only observes"
    full = budget.exceeded(draft.budgets[pool.name], lead.node)
    return (HeldBy.BUDGET, full) if full is not None else (None, "")


def _barred(draft: Draft, node: Node, pool: Pool | None) -> HeldBy | None:
    ignored = node.labels.get(f"{draft.rules.prefix}/ignore") == "true"
    if ignored or node.name in draft.rules.fleet.never_touch:
        return HeldBy.IGNORED
    return HeldBy.NOT_IN_POOL if pool is None else None


def _dismissed(draft: Draft, offence: Offence) -> bool:
    for dismissal in draft.state.dismissals:
        same = dismissal.node == offence.node.name and same_hardware(offence.node, dismissal.machine)
        if same and dismissal.until > draft.now and (offence.evidence.signal, offence.device) in dismissal.findings:
            pool = budget.pool_of(offence.node, draft.rules)
            why = f"{NO_CASE[HeldBy.DISMISSED]} ({dismissal.reason}), until {dismissal.until:%Y-%m-%d %H:%M} UTC"
            draft.hold(_decide(draft, offence, None, None, pool, HeldBy.DISMISSED, why))
            return True
    return False


def _decide(
    draft: Draft,
    offence: Offence,
    case: Case | None,
    case_id: str | None,
    pool: Pool | None,
    held_by: HeldBy | None,
    why: str,
) -> Decision:
    seen = saw(offence.policy, offence.device, offence.node.name, offence.evidence)
    state = draft.budgets.get(pool.name) if pool else None
    phase = None
    if case_id is not None:
        phase = Phase.QUARANTINED if held_by is None else Phase.SUSPECTED
    return draft.decision(
        Kind.DECIDED if held_by is None else Kind.HELD,
        Action.QUARANTINE,
        seen if held_by is None else f"{seen}; held because {why}",
        node=offence.node.name,
        machine=offence.node.machine if case is None else case.machine,
        case=case_id,
        phase=phase,
        device=offence.device,
        verdict=Verdict.BAD,
        severity=offence.policy.spec.severity,
        held_by=held_by,
        hold_key=case_key(case_id) if case_id else _node_key(offence),
        evidence=offence.evidence,
        budget=state,
        effects=MARKING if held_by is None else (),
        pool=pool.name if pool else "",
        **policy_fields(offence.policy),
    )


def _node_key(offence: Offence) -> str:
    return f"{NODE}{offence.node.name}"


def _join(draft: Draft, offence: Offence, case: Case) -> None:
    key = (offence.policy.name, offence.device)
    if any(f.key == key and f.verdict is Verdict.BAD for f in case.findings):
        return
    draft.emit(
        draft.about_case(
            Kind.DECIDED,
            Action.JOIN,
            case,
            f"{saw(offence.policy, offence.device, case.node, offence.evidence)}; it joins case {case.id}",
            device=offence.device,
            verdict=Verdict.BAD,
            severity=offence.policy.spec.severity,
            evidence=offence.evidence,
            **policy_fields(offence.policy),
        )
    )


def recoveries(draft: Draft, judgements: Iterable[Judgement]) -> None:
    """Findings with positive evidence of health under load end a suspicion; a quarantine stays."""
    good: dict[tuple[str, str, Device], Evidence] = {}
    policies: dict[str, LoadedPolicy] = {}
    # Where the trigger was not answered, whether the device is bad at the same time is not known.
    for judgement in (j for j in judgements if j.failed is None):
        policies[judgement.policy.name] = judgement.policy
        for (node, device), evidence in judgement.good.items():
            good[judgement.policy.name, node, device] = evidence
    for case in draft.open_cases():
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
    waits = case.phase is Phase.SUSPECTED or case.waits_for_mark
    if waits and case.findings and not left and not case.by_person and case.node not in draft.bad_now:
        reason = f"no finding on {case.node} stands: each is good again under load, or its policy is no more"
        draft.emit(
            draft.about_case(
                Kind.DECIDED, Action.DISMISS, case, reason, phase=Phase.DISMISSED, hold_key=case_key(case.id)
            )
        )
