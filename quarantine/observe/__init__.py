"""Read the world once, into a frozen snapshot: nodes and what runs there, the ledger, and what Prometheus answers."""

from quarantine.observe.observer import Observer, Pace

__all__ = ["Observer", "Pace"]
