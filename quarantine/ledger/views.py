"""The views that people and dashboards read: what columns each has. `docs/sql.md` tells what they mean.

They are made by migrations alone, and are no part of `schema.METADATA`: nothing here reads them. `drift` holds a
database to this list, since a dashboard breaks by a column that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, inspect

VIEWS: Mapping[str, tuple[str, ...]] = {
    "quarantine_cases": (
        *("cluster", "case_id", "node", "machine", "pool", "provider", "policy", "signal", "device", "severity"),
        *("by_person", "gate", "phase", "fate", "same_returned", "reason", "found_at", "opened_at", "out_at"),
        *("marked_at", "drained_at", "ticket_at", "asked_at", "acknowledged_at", "swapped_at", "back_at", "ended_at"),
        *("found_to_out_seconds", "out_to_marked_seconds", "out_to_drained_seconds", "out_to_ticket_seconds"),
        *("asked_to_acknowledged_seconds", "asked_to_swapped_seconds", "swapped_to_back_seconds"),
        "out_to_back_seconds",
    ),
    "quarantine_open_cases": (
        *("cluster", "case_id", "node", "machine", "pool", "provider", "policy", "device", "severity", "by_person"),
        *("gate", "phase", "reason", "held_by", "hold_reason", "ticket", "effects_waiting", "opened_at", "out_at"),
        *("open_seconds", "out_seconds"),
    ),
    "quarantine_outages": (
        *("cluster", "case_id", "node", "machine", "pool", "provider", "policy", "severity", "by_person", "gate"),
        *("out_at", "back_at", "standing", "seconds"),
    ),
    "quarantine_holds": (
        *("cluster", "seq", "hold_key", "held_by", "policy", "node", "pool", "reason", "since", "until", "standing"),
        "seconds",
    ),
    "quarantine_machines": (
        *("cluster", "machine", "node", "pool", "provider", "first_at", "last_at", "cases", "outages", "out_now"),
        "out_seconds",
    ),
    "quarantine_names": (
        *("cluster", "kind", "name", "node", "node_uid", "machine", "first_seq", "last_seq", "first_at", "last_at"),
    ),
    "quarantine_tickets": (
        *("cluster", "case_id", "ref", "provider", "ask", "node", "machine", "filed_at", "closed_at", "standing"),
        "seconds",
    ),
    "quarantine_requests": (
        *("cluster", "request_id", "kind", "node", "actor", "channel", "reason", "asked_at", "answered_seq"),
        *("answered_at", "answer_kind", "answer_action", "case_id", "held_by", "answer", "seconds"),
    ),
    "quarantine_effects": (
        *("cluster", "case_id", "effect", "status", "attempts", "last_attempt_at", "last_error", "decided_seq"),
        *("decided_at", "outcome_seq", "outcome_at", "seconds"),
    ),
    "quarantine_policy_versions": (
        *("cluster", "name", "hash", "revision", "first_seen", "in_force", "in_force_since", "text"),
    ),
    "quarantine_pool_sizes": ("cluster", "pool", "nodes", "gpus", "since", "until", "seconds"),
    "quarantine_decisions": (
        *("cluster", "seq", "at", "kind", "action", "case_id", "node", "node_uid", "device", "pool", "policy"),
        *("verdict", "held_by", "actor", "reason"),
    ),
}


def differences(connection: Connection) -> list[str]:
    """What the database's views lack, or have otherwise than the list; empty: nothing."""
    inspector = inspect(connection)
    there = set(inspector.get_view_names())
    found = [f"missing: view {name}" for name in VIEWS if name not in there]
    for name in (name for name in VIEWS if name in there):
        columns = tuple(column["name"] for column in inspector.get_columns(name))
        if columns != VIEWS[name]:
            found.append(f"differs: view {name} has the columns {', '.join(columns)}")
    return found
