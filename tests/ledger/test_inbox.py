"""What people ask: read back, and never a reason to fall over."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from sqlalchemy import create_engine, insert

from quarantine.core.decision import Request, RequestKind
from quarantine.ledger import migrate
from quarantine.ledger.codec import encode
from quarantine.ledger.schema import requests
from quarantine.ledger.store import open_ledger

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def test_a_request_that_this_version_cannot_read_is_one_to_refuse(tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    migrate.upgrade(url)
    with open_ledger(url, "test", now=lambda: NOW) as ledger:
        ledger.ask(Request("r1", RequestKind.OPEN, "node-1", "why", "somebody", "cli", NOW))
        newer = Request("r3", RequestKind.RELEASE, "node-3", "why", "somebody", "cli", NOW)
        narrowed = json.loads(encode(newer)) | {"only_findings": ["gpu-hot"]}
        engine = create_engine(url)
        row = {
            "cluster": "test", "id": "r2", "kind": "waive", "node": "node-2", "reason": "", "actor": "somebody",
            "channel": "slack", "at": NOW, "body": '{"kind":"waive","hours":4}',
        }  # fmt: skip
        with engine.begin() as connection:
            connection.execute(insert(requests).values(row))
            narrow = {"id": "r3", "kind": "release", "node": "node-3", "body": json.dumps(narrowed)}
            connection.execute(insert(requests).values({**row, **narrow, "at": NOW + timedelta(seconds=1)}))
        engine.dispose()
        assert ledger.waiting() == {"r1", "r2", "r3"}
        first, second, third = ledger.load().requests
        assert first.kind is RequestKind.OPEN
        assert (second.id, second.kind, second.node) == ("r2", RequestKind.UNKNOWN, "node-2")
        assert (third.id, third.kind) == ("r3", RequestKind.UNKNOWN), "what it does not know of it may narrow it"
