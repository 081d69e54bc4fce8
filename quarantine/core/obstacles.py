"""What stands between one finding and its action, the budget aside: each policy's own word, and a common cause."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from quarantine.core import budget, pauses
from quarantine.core.case import Case, HeldBy, Phase
from quarantine.core.correlate import Groups, Incidents, Onset
from quarantine.core.draft import NO_CASE, NODE, Draft
from quarantine.core.escalation import too_few
from quarantine.core.history import History, Spell, histories
from quarantine.core.incidents import shared
from quarantine.core.judge import Judgement, Offence, selects
from quarantine.core.model import Device, Machine, Mode, Node, Verdict
from quarantine.core.policy import LoadedPolicy
from quarantine.core.units import format_duration
from quarantine.core.waivers import left_alone


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a finding is not acted on: stable for machines, in words for people."""

    held_by: HeldBy
    why: str


@dataclass(frozen=True, slots=True)
class Common:
    """What one policy found in the whole fleet, now and before: who fails together, and how often each did."""

    history: History
    incidents: Incidents | None  # None: no correlation, or too few machines for any

    def excused(self, spell: Spell) -> bool:
        """Whether it was a group's doing, which is none of the machine's own findings."""
        return spell.shared or (self.incidents is not None and bool(self.incidents.of(spell.case.node, spell.began)))


@dataclass(frozen=True, slots=True)
class Claim:
    """One finding, as it is held against a machine."""

    policy: LoadedPolicy
    node: str
    machine: Machine
    device: Device
    since: datetime
    at: datetime  # when it is acted on: a group that is let off later was still the suspect then


def common_causes(draft: Draft, judgements: Iterable[Judgement]) -> dict[str, Common]:
    """By policy name; of those that find something bad now, or found what stands on such a machine still."""
    bad = {j.policy.name: j.bad for j in judgements if j.bad}
    names = {offence.node.name: None for offences in bad.values() for offence in offences}
    cases = [case for name in names if (case := draft.open_case(name)) is not None and case.phase is Phase.SUSPECTED]
    standing = {f.policy: None for case in cases for f in case.findings if f.verdict is Verdict.BAD}
    policies = [p for name in {**dict.fromkeys(bad), **standing} if (p := draft.rules.policy(name)) is not None]
    return _commons(draft, policies, names, bad)


def common_causes_of(draft: Draft, claims: Iterable[Claim]) -> dict[str, Common]:
    """The same, once everything that is found in this cycle stands in the cases."""
    asked = list(claims)
    return _commons(draft, list({c.policy.name: c.policy for c in asked}.values()), {c.node for c in asked}, {})


def obstacle(draft: Draft, offence: Offence, common: Common | None) -> Obstacle | None:
    """What stands in the way of this finding, whatever else is found on its machine; None where nothing does."""
    node, since = offence.node, began(draft, offence)
    return hindrance(draft, Claim(offence.policy, node.name, node.machine, offence.device, since, draft.now), common)


def hindrance(draft: Draft, claim: Claim, common: Common | None) -> Obstacle | None:
    """The same of a finding that stands in a case, say."""
    policy = claim.policy
    if draft.mode is Mode.OBSERVE:
        return observing(draft)
    if draft.disbelieved:
        return Obstacle(HeldBy.SIGHT, NO_CASE[HeldBy.SIGHT])
    if policy.spec.mode is Mode.OBSERVE:
        return Obstacle(HeldBy.OBSERVE_MODE, f"policy {policy.name} only observes")
    if not policy.spec.response.taint:
        return Obstacle(HeldBy.TELLS_ONLY, f"policy {policy.name} takes no machine out")
    word = draft.pause(policy=policy.name)
    if word is not None:
        return Obstacle(HeldBy.PAUSED, pauses.told(word))
    common_cause = _tripped(draft, claim) or _common_cause(draft, claim, common)
    return common_cause or _too_few(claim, common) or _settling(draft, claim)


def observing(draft: Draft) -> Obstacle:
    """Why the installation does nothing: it was told so, or its ledger is older than the cluster."""
    if draft.snapshot.mode is Mode.OBSERVE:
        return Obstacle(HeldBy.OBSERVE_MODE, "the installation only observes")
    return Obstacle(HeldBy.RESTORED, "the ledger is older than the marks on the cluster: see quarantine adopt")


def _tripped(draft: Draft, claim: Claim) -> Obstacle | None:
    """The policy finds too much, in the whole fleet or in this pool: what it found before is as little believed."""
    if (suspect := draft.distrusted.get(claim.policy.name)) is not None:
        return Obstacle(*suspect)
    node = draft.nodes.get(claim.node)
    pool = budget.pool_of(node, draft.rules) if node is not None else None
    why = draft.tripped.get((claim.policy.name, pool.name)) if pool is not None else None
    return None if why is None else Obstacle(HeldBy.BREAKER, why)


def _common_cause(draft: Draft, claim: Claim, common: Common | None) -> Obstacle | None:
    """Asked before it is counted: what a group fails in together is none of the machine's own findings."""
    if common is None or common.incidents is None:
        return None
    suspect = common.incidents.suspect(claim.node, claim.since, claim.at)
    if suspect is None:
        return None
    draft.suspects[claim.policy.name, suspect.what, suspect.which] = suspect
    return Obstacle(HeldBy.CORRELATED, str(suspect))


def _too_few(claim: Claim, common: Common | None) -> Obstacle | None:
    if common is None or claim.policy.spec.escalation is None:
        return None
    spells = common.history.get(claim.node, ())
    few = too_few(spells, claim.policy, claim.machine, claim.device, claim.since, common.excused)
    return None if few is None else Obstacle(HeldBy.ESCALATION, few)


def _settling(draft: Draft, claim: Claim) -> Obstacle | None:
    rule = claim.policy.spec.correlation
    if rule is None or rule.settle is None or draft.now >= claim.since + rule.settle:
        return None
    return Obstacle(HeldBy.SETTLING, f"others may join it within {format_duration(rule.settle)}")


def takes_out(policy: LoadedPolicy) -> bool:
    """Whether a policy's word can take a machine out of service."""
    return policy.spec.mode is Mode.ENFORCE and policy.spec.response.taint


def began(draft: Draft, offence: Offence) -> datetime:
    """Since when this finding stands; one that is new begins now."""
    case = draft.open_case(offence.node.name)
    key = (offence.policy.name, offence.device)
    standing = (f.since for f in case.findings if f.key == key and f.verdict is Verdict.BAD) if case else iter(())
    return next(standing, draft.now)


def barred(draft: Draft, node: Node) -> HeldBy | None:
    """Why nothing is ever done to this node; None where something may be."""
    ignored = node.labels.get(f"{draft.rules.prefix}/ignore") == "true"
    if ignored or node.name in draft.rules.fleet.never_touch:
        return HeldBy.IGNORED
    return HeldBy.NOT_IN_POOL if budget.pool_of(node, draft.rules) is None else None


def _commons(
    draft: Draft, policies: Sequence[LoadedPolicy], nodes: Container[str], bad: Mapping[str, Sequence[Offence]]
) -> dict[str, Common]:
    """`nodes`: those that are asked about. Who fails together is sought in the whole fleet."""
    related = [policy for policy in policies if policy.spec.correlation is not None]
    alone = [p for p in policies if p.spec.correlation is None and p.spec.escalation is not None]
    known = {
        **histories(draft.state, [policy.name for policy in related]),
        **histories(draft.state, [policy.name for policy in alone], nodes),
    }
    found = {}
    for policy in (*related, *alone):
        history = known[policy.name]
        found[policy.name] = Common(history, _incidents(draft, policy, history, bad.get(policy.name, ())))
    return found


def _incidents(draft: Draft, policy: LoadedPolicy, history: History, bad: Sequence[Offence]) -> Incidents | None:
    rule = policy.spec.correlation
    if rule is None:
        return None
    onsets = {name: list(_onsets_of(draft, name, spells)) for name, spells in history.items()}
    judged = draft.judgement(policy.name)
    for onset in (*_new_onsets(draft, bad), *_emerging(draft, judged, onsets)):
        onsets.setdefault(onset.node, []).append(onset)
    if len(onsets) < min(2, rule.machines):
        return None
    looked_after = [
        node
        for node in draft.nodes.values()
        if selects(policy.spec.node_selector, node) and budget.pool_of(node, draft.rules) is not None
    ]
    groups = Groups.of(looked_after, rule, draft.rules.fleet.topology, shared(draft.snapshot.workloads, judged))
    return Incidents(onsets, groups, rule, draft.now)


def _onsets_of(draft: Draft, node: str, spells: Iterable[Spell]) -> Iterator[Onset]:
    """What stands, and what is over: a machine that left its group keeps no other from being part of it."""
    worked_on = _worked_on(draft, node)
    for spell in spells:
        left = spell.left
        if left is None and worked_on is not None:
            left = max(spell.began, worked_on)
        yield Onset(node, spell.began, left, spell.shared)


def _worked_on(draft: Draft, node: str) -> datetime | None:
    """Since when planned work keeps a machine that is found bad from being judged."""
    hold = draft.state.holds.get(f"{NODE}{node}") if node in draft.maintained else None
    return hold.since if hold is not None and hold.held_by is HeldBy.MAINTENANCE else None


def _new_onsets(draft: Draft, bad: Sequence[Offence]) -> Iterator[Onset]:
    """What is about to stand. Where no case is opened (opted out, left alone by a person), it will not be known."""
    for offence in bad:
        node, case = offence.node, draft.open_case(offence.node.name)
        if node.name in draft.maintained or (case is not None and _stands(case, offence)):
            continue
        if case is not None or (barred(draft, node) is None and left_alone(draft, offence) is None):
            yield Onset(node.name, draft.now)


def _emerging(draft: Draft, judged: Judgement | None, known: Container[str]) -> Iterator[Onset]:
    """What is beyond the bound and has not lasted yet: it opens no case, and counts where others fail beside it."""
    for name in sorted(judged.emerging) if judged is not None else ():
        if name not in known and name not in draft.maintained and barred(draft, draft.nodes[name]) is None:
            yield Onset(name, draft.now)


def _stands(case: Case, offence: Offence) -> bool:
    key = (offence.policy.name, offence.device)
    return any(f.key == key and f.verdict is Verdict.BAD for f in case.findings)
