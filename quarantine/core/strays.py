"""What is bad somewhere that is no node of this cluster: shown, and never acted on."""

from __future__ import annotations

from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.draft import STRAY, Draft, policy_fields
from quarantine.core.judge import Judgement, Stray
from quarantine.core.model import Verdict
from quarantine.core.reasons import saw

STRAYS_NAMED = 20  # beyond these, one hold speaks for all: a broken mapping would name the whole fleet


def strays(draft: Draft, judgement: Judgement) -> None:
    """What is bad somewhere that is no node here is shown and never acted on."""
    policy = judgement.policy
    prefix = f"{STRAY}{policy.name}/"
    rest = f"{prefix}*"
    found = {f"{prefix}{stray.said}/{stray.device.name}": stray for stray in judgement.strays}
    for key in [k for k in draft.state.holds if k.startswith(prefix) and k != rest and k not in found]:
        draft.fade(key, f"policy {policy.name} no longer finds it bad")
    # In an order of our own: Prometheus promises none. Those that are named stay so: else one that comes and goes
    # would move the cut with every cycle.
    standing = {key for key in draft.state.holds if key.startswith(prefix) and key != rest}
    room = max(0, STRAYS_NAMED - len(standing))
    named = sorted(found.keys() & standing) + sorted(found.keys() - standing)[:room]
    for key in named:
        draft.hold(_stray(draft, found[key], key))
    if more := len(found) - len(named):
        reason = f"{more} more devices that policy {policy.name} finds bad name no node of this cluster"
        held = {"held_by": HeldBy.NO_SUCH_NODE, "hold_key": rest, "verdict": Verdict.UNKNOWN}
        draft.hold(draft.decision(Kind.HELD, Action.QUARANTINE, reason, **held, **policy_fields(policy)))
    elif rest in draft.state.holds:
        draft.fade(rest, f"policy {policy.name} no longer finds more of them")


def _stray(draft: Draft, stray: Stray, key: str) -> Decision:
    ambiguous = stray.why.why == "ambiguous-node"
    problem = "several nodes have that address" if ambiguous else "no node of this cluster is called so"
    if stray.why.why == "unnamed":
        problem = "its series names no node"
    return draft.decision(
        Kind.HELD,
        Action.QUARANTINE,
        f"{saw(stray.policy, stray.device, stray.said or 'an unnamed node', stray.evidence)}, but {problem}",
        node=stray.said or None,
        device=stray.device,
        verdict=Verdict.UNKNOWN,
        held_by=HeldBy.AMBIGUOUS_NODE if ambiguous else HeldBy.NO_SUCH_NODE,
        hold_key=key,
        evidence=stray.evidence,
        severity=stray.policy.spec.severity,
        **policy_fields(stray.policy),
    )
