"""The chart that goes with a ticket: drawn from the trail, and left out rather than waited for."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from quarantine.core.case import Case
from quarantine.core.record.chart import ChartData, chart
from quarantine.core.tickets import Attachment
from quarantine.ports import Ledger

Draw = Callable[[ChartData], bytes]


def attached(ledger: Ledger, case: Case, draw: Draw | None) -> tuple[Attachment, ...]:
    """The picture of what was found, as PNG; nothing where it cannot be drawn. Raises LedgerUnavailable."""
    if draw is None:
        return ()
    rows = [(row.seq, row.decision) for row in ledger.decisions(case=case.id)]
    data = chart(case.node, rows, case.id)
    if data is None:
        return ()
    try:
        content = draw(data)
    except Exception:  # noqa: BLE001  (a machine is reported with a picture or without)
        structlog.get_logger().exception("a defect left a ticket without its chart; please report it")
        return ()
    return (Attachment(f"{case.id}.png", "image/png", content),)
