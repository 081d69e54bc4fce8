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
    prefix = f"{STRAY}{judgement.policy.name}/"
    keys = set()
    # In an order of our own: Prometheus promises none, and the cut must fall alike in every cycle.
    found = sorted(judgement.strays, key=lambda stray: (stray.said, stray.device))
    for stray in found[:STRAYS_NAMED]:
        key = f"{prefix}{stray.said}/{stray.device.name}"
        keys.add(key)
        draft.hold(_stray(draft, stray, key))
    if len(judgement.strays) > STRAYS_NAMED:
        keys.add(f"{prefix}*")
        more = len(judgement.strays) - STRAYS_NAMED
        reason = f"{more} more devices that policy {judgement.policy.name} finds bad name no node of this cluster"
        held = {"held_by": HeldBy.NO_SUCH_NODE, "hold_key": f"{prefix}*", "verdict": Verdict.UNKNOWN}
        draft.hold(draft.decision(Kind.HELD, Action.QUARANTINE, reason, **held, **policy_fields(judgement.policy)))
    if judgement.failed is None:
        for key in [k for k in draft.state.holds if k.startswith(prefix) and k not in keys]:
            draft.lift(key, f"policy {judgement.policy.name} no longer finds it bad")


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
