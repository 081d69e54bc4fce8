"""Writes what a report is made from into the tables, as the ledger's writer has it there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import Engine, insert

from quarantine.core.decision import Census
from quarantine.core.record.milestones import Milestones
from quarantine.core.record.report import Counted
from quarantine.core.record.spans import HoldSpan
from quarantine.ledger.engine import writing
from quarantine.ledger.schema import clusters, hold_spans, milestones, pool_sizes
from tests.ledger.samples import CLUSTER, NOW


def write(
    engine: Engine,
    cases: Iterable[Milestones] = (),
    holds: Iterable[HoldSpan] = (),
    sizes: Iterable[Counted] = (),
    cluster: str = CLUSTER,
) -> None:
    """Rows as the writer has them."""
    rows: dict[Any, list[dict[str, Any]]] = {
        clusters: [{"cluster": cluster, "term": 1, "seq": 1, "hash": "0" * 64, "holder": "x", "updated_at": NOW}],
        milestones: [{"cluster": cluster, **columns(one, case="case_id")} for one in cases],
        hold_spans: [{"cluster": cluster, **columns(one)} for one in holds],
        pool_sizes: [
            {"cluster": cluster, "seq": seq, "pool": one.pool, **columns(one.census)}
            for seq, one in enumerate(sizes, 1)
        ],
    }
    with writing(engine) as connection:
        for table, found in rows.items():
            if found:
                connection.execute(insert(table), found)


def columns(record: Milestones | HoldSpan | Census, **renamed: str) -> dict[str, Any]:
    return {renamed.get(field.name, field.name): getattr(record, field.name) for field in fields(record)}
