"""What became of an effect, and of a cycle's effects together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import Case
from quarantine.core.decision import ACTION_OF, Decision, Kind, PendingEffect
from quarantine.core.tickets import Filing, Remark


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an effect. `done` False: it was given up for good."""

    reason: str
    ref: str = ""
    done: bool = True
    cordoned_by_us: bool | None = None
    ticket: Filing | None = None  # that was filed, or found
    remark: Remark | None = None  # as it stands now: said, or given up


@dataclass(frozen=True, slots=True)
class Executed:
    """What a cycle did."""

    done: tuple[str, ...]
    postponed: tuple[str, ...]  # one sentence each


def decision_of(pending: PendingEffect, case: Case, outcome: Outcome, at: datetime, actor: str) -> Decision:
    """The row of the trail that says so."""
    return Decision(
        at=at,
        kind=Kind.DONE if outcome.done else Kind.FAILED,
        action=ACTION_OF[pending.effect],
        reason=outcome.reason,
        actor=actor,
        node=case.node,
        machine=case.machine,
        case=case.id,
        effect=pending.effect,
        ref=outcome.ref,
        cordoned_by_us=outcome.cordoned_by_us,
        ticket=outcome.ticket,
        remark=outcome.remark,
        pool=case.pool,
        provider=case.provider,
    )
