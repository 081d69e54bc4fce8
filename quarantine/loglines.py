"""What a line of the log has beside its sentence, and how often what goes on for hours is said. See `docs/logs.md`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from quarantine.core.decision import Decision, Kind

MOST_KINDS = 200  # of trouble that are remembered at once
SOON, RARELY = (
    timedelta(minutes=1),
    timedelta(hours=1),
)  # from one telling to the next; it doubles
OVER = timedelta(minutes=15)  # not met for so long, it has ended: effects are tried again every five minutes at least


def decisions(taken: Sequence[Decision], last: int) -> None:
    """Those that were recorded, the last of them as row `last` of the trail."""
    for number, decision in enumerate(taken, start=last - len(taken) + 1):
        log = structlog.get_logger().bind(**_fields(decision, number))
        (log.warning if decision.kind in {Kind.HELD, Kind.FAILED} else log.info)(decision.reason)


def _fields(decision: Decision, number: int) -> dict[str, object]:
    about = "decision" if decision.effect is None else "effect"
    named = {"case": decision.case, "node": decision.node, "policy": decision.policy, "held_by": decision.held_by}
    of_effect = {"effect": f"{decision.case}/{decision.effect}"} if decision.effect is not None else {}
    known = {key: str(value) for key, value in named.items() if value is not None}
    return {"about": about, "decision": number, "action": str(decision.action), **known, **of_effect}


@dataclass(slots=True)
class _Met:
    """A kind of trouble."""

    told: datetime
    last: datetime
    wait: timedelta = SOON
    kept: int = 0  # how often it was met since it was told


@dataclass(slots=True)
class Pace:
    """Says what is put off when it begins, ever more rarely while it goes on, and at once when it begins anew.

    It is the kind that counts, whichever node and case it is about: each of them is in the ledger, and in `status`.
    """

    _kinds: dict[str, _Met] = field(default_factory=dict)

    def tell(self, sentence: str, now: datetime, **fields: str) -> None:
        """Of this moment. What is kept back is still there for whoever wants the level `debug`."""
        log = structlog.get_logger().bind(**fields)
        kind = kind_of(sentence, *fields.values())
        met = self._kinds.get(kind)
        if met is None or not met.told <= now <= met.last + OVER:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            self._kinds[kind] = _Met(now, now)
            log.warning(sentence)
            return
        met.last = now
        if now < met.told + met.wait:
            met.kept += 1
            log.debug(sentence)
            return
        log.warning(sentence, times=met.kept + 1)
        met.told, met.wait, met.kept = now, min(2 * met.wait, RARELY), 0


def kind_of(sentence: str, *names: str) -> str:
    """Without what differs from one time to the next: names, numbers, and what somebody else said in brackets."""
    for name in names:
        sentence = sentence.replace(name, "")
    return re.sub(r"\d+", "", sentence.partition(" (")[0])
