"""What people ask: read back, and never a reason to fall over."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import create_engine, insert

from quarantine.core.decision import Request, RequestKind
from quarantine.ledger import migrate
from quarantine.ledger.schema import requests
from quarantine.ledger.store import open_ledger

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def test_a_request_that_this_version_cannot_read_is_one_to_refuse(tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    migrate.upgrade(url)
    with open_ledger(url, "test", now=lambda: NOW) as ledger:
        ledger.ask(Request("r1", RequestKind.OPEN, "node-1", "why", "somebody", "cli", NOW))
        engine = create_engine(url)
        row = {
            "cluster": "test", "id": "r2", "kind": "waive", "node": "node-2", "reason": "", "actor": "somebody",
            "channel": "slack", "at": NOW, "body": '{"kind":"waive","hours":4}',
        }  # fmt: skip
        with engine.begin() as connection:
            connection.execute(insert(requests).values(row))
        engine.dispose()
        assert ledger.waiting() == {"r1", "r2"}
        first, second = ledger.load().requests
        assert first.kind is RequestKind.OPEN
        assert (second.id, second.kind, second.node) == ("r2", RequestKind.UNKNOWN, "node-2")
