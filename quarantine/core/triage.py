"""From verdicts to decisions about machines: quarantine, or a hold with its reason; join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from quarantine.core import budget
from quarantine.core.case import Case, Effect, Evidence, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Dismissal, Kind
from quarantine.core.draft import NO_CASE, NODE, Draft, case_key, judge_key, policy_fields
from quarantine.core.fleet import Pool
from quarantine.core.judge import Judgement, Offence
from quarantine.core.model import Node, Verdict
from quarantine.core.obstacles import Obstacle, barred, common_causes, dismissal, obstacle, takes_out
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


@dataclass(frozen=True, slots=True)
class _Found:
    """What is found bad on one machine, the strongest first."""

    node: Node
    bad: tuple[tuple[Offence, Obstacle | None], ...]  # each with what stands in its way
    dismissed: tuple[tuple[Offence, Dismissal], ...]
    in_grace: tuple[Offence, ...]

    @property
    def lead(self) -> tuple[Offence, Obstacle | None]:
        """The strongest that nothing stands in the way of; if there is none, the strongest."""
        return next((pair for pair in self.bad if pair[1] is None), self.bad[0])

    @property
    def all(self) -> tuple[Offence, ...]:
        """Every one of them."""
        return (*(o for o, _ in self.bad), *(o for o, _ in self.dismissed), *self.in_grace)

    @property
    def order(self) -> tuple[int, int, int, str, str, str]:
        """Who comes first where a budget does not suffice for all."""
        if not self.bad:
            return (2, *_strength(self.all[0]))
        lead, obstacle = self.lead
        return (0 if obstacle is None else 1, *_strength(lead))


def offences(draft: Draft, fit: Sequence[Judgement], *, complete: bool) -> None:
    """All findings of one machine together: the strongest decides, the others join its case.

    `complete`: every policy was answered and fit, so that a node without any offence has none.
    """
    found = _by_machine(draft, fit)
    for machine in sorted(found, key=lambda machine: machine.order):
        _machine(draft, machine)
    if complete:
        known = {machine.node.name for machine in found}
        for key in [k for k in draft.state.holds if k.startswith(NODE) and k.removeprefix(NODE) not in known]:
            draft.lift(key, f"nothing is found bad on {key.removeprefix(NODE)} any more")


def _by_machine(draft: Draft, fit: Sequence[Judgement]) -> list[_Found]:
    common = common_causes(draft, fit)
    bad: dict[str, list[Offence]] = {}
    in_grace: dict[str, list[Offence]] = {}
    for judgement in fit:
        for offence in judgement.bad:
            bad.setdefault(offence.node.name, []).append(offence)
        for offence in judgement.in_grace:
            in_grace.setdefault(offence.node.name, []).append(offence)
    found = []
    for name in {**bad, **in_grace}:
        ordered = sorted(bad.get(name, ()), key=_strength)
        # Once a case is open, a person's word about an earlier one keeps nothing out of it.
        words = [(o, None if draft.open_case(name) else dismissal(draft, o)) for o in ordered]
        found.append(
            _Found(
                node=draft.nodes[name],
                bad=tuple((o, obstacle(draft, o, common.get(o.policy.name))) for o, word in words if word is None),
                dismissed=tuple((o, word) for o, word in words if word is not None),
                in_grace=tuple(sorted(in_grace.get(name, ()), key=_strength)),
            )
        )
    return found


def _strength(offence: Offence) -> tuple[int, int, str, str, str]:
    enforced = 0 if takes_out(offence.policy) else 1
    rank = offence.policy.spec.severity.rank
    return (enforced, -rank, offence.node.name, offence.policy.name, offence.device.name)


def _machine(draft: Draft, found: _Found) -> None:
    case = draft.open_case(found.node.name)
    pool = budget.pool_of(found.node, draft.rules)
    no_case = _kept_out(draft, found, case)
    if no_case is not None:
        offence, why = no_case
        draft.hold(_decide(draft, offence, None, None, pool, why))
        return
    draft.lift(_node_key(found.node), f"{found.node.name} may be acted on again")
    if not found.bad:
        return
    if case is None or case.phase is Phase.SUSPECTED:
        case = _suspect(draft, found, case, pool)
    for offence, _ in found.bad:
        _join(draft, offence, draft.state.cases[case.id])


def _kept_out(draft: Draft, found: _Found, case: Case | None) -> tuple[Offence, Obstacle] | None:
    """What opens no case and adds to none, with the reason; None where what is bad may be looked at further."""
    first = found.bad[0][0] if found.bad else found.all[0]
    if case is None and (bar := barred(draft, found.node)) is not None:
        return first, Obstacle(bar, NO_CASE[bar])
    if found.node.name in draft.maintained:
        said = f"planned work is under way on the node: {draft.maintained[found.node.name]}"
        told = case is not None and case.marked and all(_stands(case, offence) for offence in found.all)
        return None if told else (first, Obstacle(HeldBy.MAINTENANCE, said))
    if case is not None or found.bad:
        return None
    if found.dismissed:
        offence, word = found.dismissed[0]
        why = f"{NO_CASE[HeldBy.DISMISSED]} ({word.reason}), until {word.until:%Y-%m-%d %H:%M} UTC"
        return offence, Obstacle(HeldBy.DISMISSED, why)
    return first, Obstacle(HeldBy.GRACE, NO_CASE[HeldBy.GRACE])


def _suspect(draft: Draft, found: _Found, case: Case | None, pool: Pool | None) -> Case:
    """Quarantine, or hold with a reason; a held machine waits in `suspected` and is judged afresh at each cycle."""
    lead, hindrance = found.lead
    hindrance = _held(draft, found.node, lead, hindrance, pool)
    case_id = case.id if case is not None else draft.new_case_id(found.node)
    decision = _decide(draft, lead, case, case_id, pool, hindrance)
    if hindrance is None:
        draft.emit(decision)
    else:
        draft.hold(decision)
    return draft.state.cases[case_id]


def _held(draft: Draft, node: Node, lead: Offence, hindrance: Obstacle | None, pool: Pool | None) -> Obstacle | None:
    bar = barred(draft, node)
    if bar is not None or pool is None:
        bar = bar or HeldBy.NOT_IN_POOL
        return Obstacle(bar, NO_CASE[bar])
    if hindrance is not None:
        return hindrance
    full = budget.exceeded(draft.budgets[pool.name], node, lead.policy.spec.severity)
    return None if full is None else Obstacle(HeldBy.BUDGET, full)


def _decide(
    draft: Draft,
    offence: Offence,
    case: Case | None,
    case_id: str | None,
    pool: Pool | None,
    hindrance: Obstacle | None,
) -> Decision:
    held_by = None if hindrance is None else hindrance.held_by
    seen = saw(offence.policy, offence.device, offence.node.name, offence.evidence)
    state = draft.budgets.get(pool.name) if pool else None
    phase = None
    if case_id is not None:
        phase = Phase.QUARANTINED if held_by is None else Phase.SUSPECTED
    return draft.decision(
        Kind.DECIDED if held_by is None else Kind.HELD,
        Action.QUARANTINE,
        seen if hindrance is None else f"{seen}; held because {hindrance.why}",
        node=offence.node.name,
        machine=offence.node.machine if case is None else case.machine,
        case=case_id,
        phase=phase,
        device=offence.device,
        verdict=Verdict.BAD,
        severity=offence.policy.spec.severity,
        held_by=held_by,
        hold_key=case_key(case_id) if case_id else _node_key(offence.node),
        evidence=offence.evidence,
        budget=state,
        effects=MARKING if held_by is None else (),
        pool=pool.name if pool else "",
        **policy_fields(offence.policy),
    )


def _node_key(node: Node) -> str:
    return f"{NODE}{node.name}"


def _stands(case: Case, offence: Offence) -> bool:
    """Whether a finding is held against the machine already."""
    key = (offence.policy.name, offence.device)
    return any(finding.key == key and finding.verdict is Verdict.BAD for finding in case.findings)


def _join(draft: Draft, offence: Offence, case: Case) -> None:
    if _stands(case, offence):
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
