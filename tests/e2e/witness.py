"""Who watches that nothing is done to a cluster without its record, whatever befalls the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import psycopg

from quarantine.controller import Controller
from quarantine.core.decision import Decision
from quarantine.core.document import Written
from quarantine.ledger.store import SqlLedger
from quarantine.ledger.verify import Sound
from quarantine.sandbox.kubeapi import Fault, KubeApi

_INTENT = """
SELECT count(*) FROM actions AS a JOIN cases AS c ON c.cluster = a.cluster AND c.id = a.case_id
WHERE a.status = 'pending' AND a.attempts > 0 AND (%(node)s IN ('', c.node))
"""
READS = frozenset({"GET", "HEAD", "WATCH"})


@dataclass
class Witness:
    """Looks at the ledger, past the controller, at the moment of each write to the API server."""

    api: KubeApi
    database: str
    writes: int = 0
    unrecorded: list[str] = field(default_factory=list)  # writes without an intent that was committed before

    def __post_init__(self) -> None:
        self.api.fault = self._look

    def _look(self, method: str, path: str) -> Fault | None:
        if method not in READS:
            self.writes += 1
            parts = path.strip("/").split("/")
            node = parts[parts.index("nodes") + 1] if "nodes" in parts else ""
            try:
                with psycopg.connect(self.database, connect_timeout=5) as connection:
                    found = connection.execute(_INTENT, {"node": node}).fetchone()
            except psycopg.Error as error:
                self.unrecorded.append(f"{method} {path}: {error}")
            else:
                if found is None or found[0] == 0:
                    self.unrecorded.append(f"{method} {path}")
        return None


class Noting:
    """The ledger, and every decision of which it said that it was kept."""

    def __init__(self, ledger: SqlLedger) -> None:
        self._ledger = ledger
        self.kept: list[Decision] = []

    def record(self, term: int, decisions: Sequence[Decision], policies: Sequence[Written] = ()) -> int:
        number = self._ledger.record(term, decisions, policies)
        self.kept += decisions
        return number

    def settle(self, term: int, key: str, outcome: Decision) -> int:
        number = self._ledger.settle(term, key, outcome)
        self.kept.append(outcome)
        return number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def check(self) -> None:
        """No decision that was kept is lost, or there twice; and the chain is sound."""
        trail = [row.decision for row in self._ledger.decisions()]
        rest = iter(trail)
        assert all(any(one == decision for one in rest) for decision in self.kept), "lost, or in another order"
        twice = [one for one, count in Counter(map(_told, trail)).items() if count > 1]
        assert not twice, twice
        assert isinstance(self._ledger.verify(), Sound)


def _told(decision: Decision) -> tuple[datetime, str | None, str, str, str]:
    return decision.at, decision.case, decision.kind, decision.action, decision.reason


def noting(controller: Controller, ledger: SqlLedger) -> tuple[Controller, Noting]:
    """The same controller on a ledger that takes note."""
    noted = Noting(ledger)
    return replace(controller, ledger=noted, executor=replace(controller.executor, ledger=noted)), noted
