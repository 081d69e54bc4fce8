"""What stands between one finding and its action, the budget aside: each policy's own word, and a common cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from quarantine.core import budget
from quarantine.core.case import HeldBy
from quarantine.core.correlate import Groups, Onsets
from quarantine.core.decision import Dismissal
from quarantine.core.draft import Draft
from quarantine.core.escalation import too_few
from quarantine.core.judge import Judgement, Offence, selects
from quarantine.core.marks import same_hardware
from quarantine.core.model import Mode, Node, Verdict
from quarantine.core.policy import LoadedPolicy
from quarantine.core.response import Correlation
from quarantine.core.units import format_duration


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a finding is not acted on: stable for machines, in words for people."""

    held_by: HeldBy
    why: str


@dataclass(frozen=True, slots=True)
class Common:
    """What a policy with a correlation finds bad in the whole fleet: who shares what, and since when each is bad."""

    groups: Groups
    onsets: Onsets


def common_causes(draft: Draft, judgements: Iterable[Judgement]) -> dict[str, Common]:
    """By policy name; only of those for which so many machines are bad that a group can be."""
    found = {}
    for judgement in judgements:
        rule = judgement.policy.spec.correlation
        if rule is not None and len(onsets := _onsets(draft, judgement)) >= rule.machines:
            found[judgement.policy.name] = Common(_groups(draft, judgement.policy, rule), Onsets.of(onsets))
    return found


def obstacle(draft: Draft, offence: Offence, common: Common | None) -> Obstacle | None:
    """What stands in the way of this finding, whatever else is found on its machine; None where nothing does."""
    return _own_word(draft, offence) or _common_cause(draft, offence, common)


def _own_word(draft: Draft, offence: Offence) -> Obstacle | None:
    policy, node = offence.policy, offence.node
    if draft.snapshot.mode is Mode.OBSERVE:
        return Obstacle(HeldBy.OBSERVE_MODE, "the installation only observes")
    if policy.spec.mode is Mode.OBSERVE:
        return Obstacle(HeldBy.OBSERVE_MODE, f"policy {policy.name} only observes")
    if not policy.spec.response.taint:
        return Obstacle(HeldBy.TELLS_ONLY, f"policy {policy.name} takes no machine out")
    few = too_few(draft.state, policy, node.name, node.machine, began(draft, offence))
    return None if few is None else Obstacle(HeldBy.ESCALATION, few)


def _common_cause(draft: Draft, offence: Offence, common: Common | None) -> Obstacle | None:
    rule, since = offence.policy.spec.correlation, began(draft, offence)
    if rule is None:
        return None
    suspect = common.groups.suspect(offence.node.name, since, common.onsets, rule) if common is not None else None
    if suspect is not None:
        return Obstacle(HeldBy.CORRELATED, str(suspect))
    if rule.settle is not None and draft.now < since + rule.settle:
        return Obstacle(HeldBy.SETTLING, f"others may join it within {format_duration(rule.settle)}")
    return None


def takes_out(policy: LoadedPolicy) -> bool:
    """Whether a policy's word can take a machine out of service."""
    return policy.spec.mode is Mode.ENFORCE and policy.spec.response.taint


def began(draft: Draft, offence: Offence) -> datetime:
    """Since when this finding stands; one that is new begins now."""
    case = draft.open_case(offence.node.name)
    key = (offence.policy.name, offence.device)
    standing = (f.since for f in case.findings if f.key == key and f.verdict is Verdict.BAD) if case else iter(())
    return next(standing, draft.now)


def dismissal(draft: Draft, offence: Offence) -> Dismissal | None:
    """The word of a person by which this finding on this machine is left alone."""
    known = (offence.evidence.signal, offence.device)
    for word in draft.state.dismissals:
        same = word.node == offence.node.name and same_hardware(offence.node, word.machine)
        if same and word.until > draft.now and known in word.findings:
            return word
    return None


def barred(draft: Draft, node: Node) -> HeldBy | None:
    """Why nothing is ever done to this node; None where something may be."""
    ignored = node.labels.get(f"{draft.rules.prefix}/ignore") == "true"
    if ignored or node.name in draft.rules.fleet.never_touch:
        return HeldBy.IGNORED
    return HeldBy.NOT_IN_POOL if budget.pool_of(node, draft.rules) is None else None


def _groups(draft: Draft, policy: LoadedPolicy, rule: Correlation) -> Groups:
    looked_after = (
        node
        for node in draft.nodes.values()
        if selects(policy.spec.node_selector, node) and budget.pool_of(node, draft.rules) is not None
    )
    return Groups.of(looked_after, rule, draft.rules.fleet.topology)


def _onsets(draft: Draft, judgement: Judgement) -> dict[str, set[datetime]]:
    """When each machine's findings began: those of its case that stand, and those that are about to be.

    One that was marked and is idle since is no more in the answer, nor is one whose events were a while ago: what has
    not recovered counts. Where no case is opened (opted out, left alone by a person), the time would not be known.
    """
    found: dict[str, set[datetime]] = {}
    for case in draft.open_cases():
        for finding in case.findings:
            if finding.policy == judgement.policy.name and finding.verdict is Verdict.BAD:
                found.setdefault(case.node, set()).add(finding.since)
    for offence in judgement.bad:
        node = offence.node
        opens = barred(draft, node) is None and dismissal(draft, offence) is None
        if draft.open_case(node.name) is not None or opens:
            found.setdefault(node.name, set()).add(began(draft, offence))
    return {name: times for name, times in found.items() if name not in draft.maintained}
