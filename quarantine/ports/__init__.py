"""What the cycle needs from the world, as protocols. Adapters translate their vendor's errors into `core.errors`."""

from __future__ import annotations

from quarantine.ports.book import (
    Archive,
    EndedHold,
    Filed,
    Ledger,
    LedgerReader,
    LedgerView,
    Rulebook,
    Sighting,
    TrailRow,
)
from quarantine.ports.cluster import Cluster, LeaseRecord, Leases, Order, Procedures
from quarantine.ports.looking import Clock, Metrics, Past, RangeMetrics
from quarantine.ports.outside import Annotator, Desks, Heart, Notices, Notifier, Pager, Tickets

__all__ = [
    "Annotator",
    "Archive",
    "Clock",
    "Cluster",
    "Desks",
    "EndedHold",
    "Filed",
    "Heart",
    "LeaseRecord",
    "Leases",
    "Ledger",
    "LedgerReader",
    "LedgerView",
    "Metrics",
    "Notices",
    "Notifier",
    "Order",
    "Pager",
    "Past",
    "Procedures",
    "RangeMetrics",
    "Rulebook",
    "Sighting",
    "Tickets",
    "TrailRow",
]
