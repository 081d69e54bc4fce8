"""What ended lately, for a pager that must clear what it was told by a process that is no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Kind
from quarantine.ledger.store import open_ledger
from quarantine.ports import EndedHold
from tests.ledger.samples import CLUSTER, NOW, now

HOUR = timedelta(hours=1)


def test_what_ended_since_a_moment(url: str) -> None:
    began = Decision(NOW, Kind.HELD, Action.JUDGE, "they fail together", "controller test", held_by=HeldBy.CORRELATED)
    over = Decision(NOW, Kind.DECIDED, Action.JUDGE, "it is over", "controller test")
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        rows = [replace(began, hold_key=f"incident/{name}") for name in ("early", "late", "stands")]
        rows += [replace(over, hold_key="incident/early", at=NOW + HOUR)]
        rows += [replace(over, hold_key="incident/late", at=NOW + 2 * HOUR)]
        ledger.record(term, rows)
        late = EndedHold("incident/late", HeldBy.CORRELATED, "")
        assert ledger.ended_holds(NOW + HOUR) == (late,)
        assert ledger.ended_holds(NOW) == (EndedHold("incident/early", HeldBy.CORRELATED, ""), late)
