"""What machines share beyond their labels, and one incident told once: a group that fails together is one matter."""

from __future__ import annotations

from quarantine.core.case import HeldBy
from quarantine.core.correlate import Group, Suspect
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft, case_key, policy_fields
from quarantine.core.judge import Judgement
from quarantine.core.model import Failed
from quarantine.core.reasons import in_words
from quarantine.core.response import EXPORTER, JOB
from quarantine.core.workload import Workloads

INCIDENT = "incident/"


def shared(workloads: Workloads | Failed, judged: Judgement | None) -> dict[Group, frozenset[str]]:
    """The machines of one job, and those that one exporter is read from, as far as either is known."""
    found: dict[Group, frozenset[str]] = {}
    if isinstance(workloads, Workloads):
        found |= {(JOB, key): gang.nodes for key, gang in workloads.gangs.items()}
    for reading, nodes in judged.seen_by.items() if judged is not None else ():
        group = (EXPORTER, reading.partition("/")[0])
        found[group] = found.get(group, frozenset()) | nodes
    return found


def incidents(draft: Draft) -> None:
    """One hold for each group that machines are held for, from the first of them to the last."""
    standing = {key for key in draft.state.holds if key.startswith(INCIDENT)}
    told = {_key(policy, suspect): (policy, suspect) for (policy, _, _), suspect in draft.suspects.items()}
    for key, (policy, suspect) in told.items():
        _tell(draft, key, policy, suspect)
    held = _held_for(draft)
    for key in sorted(standing - told.keys()):
        if draft.state.holds[key].policy not in held:
            draft.lift(key, "no machine is held for it any more")


def _tell(draft: Draft, key: str, name: str, suspect: Suspect) -> None:
    policy = draft.rules.policy(name)
    assert policy is not None  # noqa: S101  (its finding is held by it in this plan)
    named = in_words(list(suspect.machines))
    reason = f"policy {name} finds {suspect}, not they ({named}); drains and tickets wait until this is over"
    held = {"held_by": HeldBy.CORRELATED, "hold_key": key, "severity": policy.spec.severity}
    draft.hold(draft.decision(Kind.HELD, Action.JUDGE, reason, **held, **policy_fields(policy)))


def _held_for(draft: Draft) -> frozenset[str]:
    """The policies for which a case is still held since machines fail together."""
    holds = (draft.state.holds.get(case_key(case.id)) for case in draft.open_cases())
    return frozenset(h.policy for h in holds if h is not None and h.held_by is HeldBy.CORRELATED)


def _key(policy: str, suspect: Suspect) -> str:
    return f"{INCIDENT}{policy}/{suspect.what}/{suspect.which}"
