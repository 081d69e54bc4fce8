"""From verdicts to decisions about machines: quarantine, or a hold with its reason; join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quarantine.core import budget, pauses, trickle
from quarantine.core.case import Case, Effect, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Dismissal, Kind
from quarantine.core.draft import NO_CASE, NODE, Draft, case_key, policy_fields
from quarantine.core.fleet import Pool
from quarantine.core.judge import Judgement, Offence
from quarantine.core.model import Node, Verdict
from quarantine.core.obstacles import Common, Obstacle, barred, common_causes, obstacle, takes_out
from quarantine.core.reasons import saw
from quarantine.core.signs import in_utc
from quarantine.core.waivers import despite, left_alone, standing

MARKING = (Effect.MARK, Effect.EVENT, Effect.CONDITION)


@dataclass(frozen=True, slots=True)
class _Found:
    """What is found bad on one machine, the strongest first."""

    node: Node
    bad: tuple[tuple[Offence, Obstacle | None], ...]  # each with what stands in its way
    dismissed: tuple[tuple[Offence, Dismissal], ...]
    in_grace: tuple[Offence, ...]
    standing: tuple[tuple[Offence, Obstacle | None], ...] = ()  # of its case, and not found bad in this cycle

    @property
    def lead(self) -> tuple[Offence, Obstacle | None]:
        """The strongest that nothing stands in the way of; if there is none, the strongest."""
        return min(self.bad, key=_rank)

    @property
    def absent_lead(self) -> tuple[Offence, Obstacle | None] | None:
        """What stands in its case and is not found now, where that goes before all that is."""
        first = min((*self.bad, *self.standing), key=_rank)
        return first if first in self.standing else None

    @property
    def all(self) -> tuple[Offence, ...]:
        """Every one of them."""
        return (*(o for o, _ in self.bad), *(o for o, _ in self.dismissed), *self.in_grace)

    @property
    def order(self) -> tuple[int, int, int, str, str, str]:
        """Who comes first where a budget does not suffice for all."""
        lead, obstacle = self.lead if self.bad else (self.all[0], None)
        return (2 if not self.bad else 0 if obstacle is None else 1, *_strength(lead))


def offences(draft: Draft, fit: Sequence[Judgement]) -> None:
    """All findings of one machine together: the strongest decides, the others join its case."""
    found = _by_machine(draft, fit)
    for machine in sorted(found, key=lambda machine: machine.order):
        _machine(draft, machine)
    known = {machine.node.name for machine in found}
    for key in [k for k in draft.state.holds if k.startswith(NODE) and k.removeprefix(NODE) not in known]:
        node = draft.nodes.get(key.removeprefix(NODE))
        if node is not None and not _stands_still(draft, node):
            draft.lift(key, f"{node.name} may be acted on again", node=node.name)
        elif node is not None:
            draft.fade(key, f"nothing is found bad on {node.name} any more")


def _stands_still(draft: Draft, node: Node) -> bool:
    """Whether the cause of a node's hold is still there, whatever is found on it now."""
    match draft.state.holds[_node_key(node)].held_by:
        case HeldBy.IGNORED | HeldBy.NOT_IN_POOL as bar:
            return barred(draft, node) is bar
        case HeldBy.MAINTENANCE:
            return node.name in draft.maintained
        case HeldBy.SIGHT:
            return draft.disbelieved
        case HeldBy.DISMISSED | HeldBy.WAIVED as word:
            return any(said.waiver is (word is HeldBy.WAIVED) for said in standing(draft, node))
        case _:
            return True


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
        case = draft.open_case(name)
        words = [(o, left_alone(draft, o) if _heeds(case) else None) for o in ordered]
        found.append(
            _Found(
                node=draft.nodes[name],
                bad=tuple((o, obstacle(draft, o, common.get(o.policy.name))) for o, word in words if word is None),
                dismissed=tuple((o, word) for o, word in words if word is not None),
                in_grace=tuple(sorted(in_grace.get(name, ()), key=_strength)),
                standing=_standing(draft, case, ordered, common),
            )
        )
    return found


def _heeds(case: Case | None) -> bool:
    """Whether a person's word keeps findings out of it. Once the machine is out, all of them are held against it."""
    return case is None or (case.phase is Phase.SUSPECTED and not case.by_person)


def _standing(
    draft: Draft, case: Case | None, now: Sequence[Offence], common: Mapping[str, Common]
) -> tuple[tuple[Offence, Obstacle | None], ...]:
    """The findings of a held case that are neither good again nor found bad in this cycle, by policies in force."""
    if case is None or case.phase is not Phase.SUSPECTED:
        return ()
    known, node = {(o.policy.name, o.device) for o in now}, draft.nodes[case.node]
    left = (f for f in case.findings if f.verdict is Verdict.BAD and f.key not in known)
    of = ((draft.rules.policy(finding.policy), finding) for finding in left)
    old = [Offence(policy, node, finding.device, finding.evidence) for policy, finding in of if policy is not None]
    return tuple((o, obstacle(draft, o, common.get(o.policy.name))) for o in old)


def _strength(offence: Offence) -> tuple[int, int, str, str, str]:
    enforced = 0 if takes_out(offence.policy) else 1
    rank = offence.policy.spec.severity.rank
    return (enforced, -rank, offence.node.name, offence.policy.name, offence.device.name)


def _rank(pair: tuple[Offence, Obstacle | None]) -> tuple[bool, int, int, str, str, str]:
    offence, hindrance = pair
    return (hindrance is not None, *_strength(offence))


def _machine(draft: Draft, found: _Found) -> None:
    case = draft.open_case(found.node.name)
    pool = budget.pool_of(found.node, draft.rules)
    no_case = _kept_out(draft, found, case)
    if no_case is not None:
        offence, why = no_case
        weaker = why.held_by is HeldBy.GRACE and _node_key(found.node) in draft.state.holds
        if not (weaker and _stands_still(draft, found.node)):
            draft.hold(_decide(draft, offence, None, None, pool, why))
        return
    if found.node.name in draft.maintained:
        return  # what is found is known, and what was told of the work stands until its end
    draft.lift(_node_key(found.node), f"{found.node.name} may be acted on again", node=found.node.name)
    if not found.bad:
        return
    if case is None or case.phase is Phase.SUSPECTED:
        case = _suspect(draft, found, case, pool)
    case = draft.state.cases[case.id]
    told = (*found.bad, *(() if _heeds(case) else found.dismissed))
    for offence, _ in told:
        _join(draft, offence, draft.state.cases[case.id])


def _kept_out(draft: Draft, found: _Found, case: Case | None) -> tuple[Offence, Obstacle] | None:
    """What opens no case and adds to none, with the reason; None where what is bad may be looked at further."""
    first = found.bad[0][0] if found.bad else found.all[0]
    # A case more would make those that are gone the fewer, where it is another cluster that is seen.
    bar = barred(draft, found.node) or (HeldBy.SIGHT if draft.disbelieved else None)
    if case is None and bar is not None:
        return first, Obstacle(bar, NO_CASE[bar])
    if found.node.name in draft.maintained:
        said = f"planned work is under way on the node: {draft.maintained[found.node.name]}"
        told = case is not None and case.marked and all(_stands(case, offence) for offence in found.all)
        return None if told else (first, Obstacle(HeldBy.MAINTENANCE, said))
    if case is not None or found.bad:
        return None
    if found.dismissed:
        # A waiver is about all of the machine: the reason is the same, whichever finding comes first.
        offence, word = next((pair for pair in found.dismissed if pair[1].waiver), found.dismissed[0])
        by = HeldBy.WAIVED if word.waiver else HeldBy.DISMISSED
        return offence, Obstacle(by, f"{NO_CASE[by]} ({word.reason}), until {in_utc(word.until)}")
    untold = "it is not told how long the machine has been up: it may have started a moment ago"
    return first, Obstacle(HeldBy.GRACE, NO_CASE[HeldBy.GRACE] if first.uptime_told else untold)


def _suspect(draft: Draft, found: _Found, case: Case | None, pool: Pool | None) -> Case:
    """Quarantine, or hold with a reason; a held machine waits in `suspected` and is judged afresh at each cycle.

    Only what is found now is acted on. Why a case is held is said by the strongest finding that stands in it, found
    now or not: else the reason would change with every finding that comes and goes.
    """
    lead, hindrance = found.lead
    hindrance = _held(draft, lead, hindrance, pool, case)
    case_id = case.id if case is not None else draft.new_case_id(found.node)
    if hindrance is None:
        draft.emit(_decide(draft, lead, case, case_id, pool, None))
    elif case is not None and found.absent_lead is not None:
        _hold_absent(draft, found.absent_lead, case, pool)
    else:
        draft.hold(_decide(draft, lead, case, case_id, pool, hindrance))
    return draft.state.cases[case_id]


def _hold_absent(draft: Draft, lead: tuple[Offence, Obstacle | None], case: Case, pool: Pool | None) -> None:
    """The hold of a case whose strongest finding is not seen now; left as it is where its cause cannot be known."""
    offence, hindrance = lead
    hindrance = _held(draft, offence, hindrance, pool, case)
    if hindrance is None or not draft.knows([offence.policy.name]):
        return
    decision = _decide(draft, offence, case, case.id, pool, hindrance)
    was = f"policy {offence.policy.name} found {offence.device} on {case.node} bad, and it is not known to be good"
    draft.hold(replace(decision, verdict=Verdict.UNKNOWN, reason=f"{was}; held because {hindrance.why}"))


def _held(
    draft: Draft, lead: Offence, hindrance: Obstacle | None, pool: Pool | None, case: Case | None
) -> Obstacle | None:
    node = lead.node
    bar = barred(draft, node)
    if bar is not None or pool is None:
        bar = bar or HeldBy.NOT_IN_POOL
        return Obstacle(bar, NO_CASE[bar])
    if hindrance is not None:
        return hindrance
    word = draft.pause(pool=pool.name)
    if word is not None:
        return Obstacle(HeldBy.PAUSED, pauses.told(word))
    return _too_many(draft, lead, pool, case)


def _too_many(draft: Draft, lead: Offence, pool: Pool, case: Case | None) -> Obstacle | None:
    """What the pool's budget or pace holds back. The cause that was told already is told as long as it is one."""
    full = draft.accounts[pool.name].exceeded(lead.node, lead.policy.spec.severity)
    slow = trickle.too_many(draft, pool.name) if trickle.was_held(draft, lead.policy, case) else None
    causes = [Obstacle(by, why) for by, why in ((HeldBy.BUDGET, full), (HeldBy.TRICKLE, slow)) if why is not None]
    told = (cause for cause in causes if case is not None and cause.held_by is case.held_by)
    return next(told, causes[0] if causes else None)


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
        f"{seen}{despite(draft, offence)}" if hindrance is None else f"{seen}; held because {hindrance.why}",
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
