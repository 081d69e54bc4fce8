"""Views for people and dashboards, and the indexes by which a history is found. `docs/sql.md` tells what they show.

Revision: 0006, after 0005.

A view is bound to the columns of its tables: a later migration that changes such a table drops its views first and
makes them again. On SQLite that includes every table that batch mode would rename.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Text with placeholders, so that both dialects show the same: {seconds:a..b} is a duration, and {read_only} keeps
# Postgres from writing through a view that is one table: it lets nobody write through a join. (SQLite never does.)
VIEWS = {
    "quarantine_decisions": """
        SELECT d.cluster, d.seq, d.at, d.kind, d.action, d.case_id, d.node, d.node_uid, d.device, d.pool, d.policy,
            d.verdict, d.held_by, d.actor, d.reason
        FROM decisions d {read_only}
    """,
    "quarantine_cases": """
        SELECT m.cluster, m.case_id, m.node, m.machine, m.pool, m.provider, m.policy, m.signal, m.device, m.severity,
            m.by_person, m.gate, m.phase, m.fate, m.same_returned, {reason} AS reason,
            m.found_at, m.opened_at, m.out_at, m.marked_at, m.drained_at, m.ticket_at, m.asked_at, m.acknowledged_at,
            m.swapped_at, m.back_at, m.ended_at,
            {seconds:m.found_at..m.out_at} AS found_to_out_seconds,
            {seconds:m.out_at..m.marked_at} AS out_to_marked_seconds,
            {seconds:m.out_at..m.drained_at} AS out_to_drained_seconds,
            {seconds:m.out_at..m.ticket_at} AS out_to_ticket_seconds,
            {seconds:m.asked_at..m.acknowledged_at} AS asked_to_acknowledged_seconds,
            {seconds:m.asked_at..m.swapped_at} AS asked_to_swapped_seconds,
            {seconds:m.swapped_at..m.back_at} AS swapped_to_back_seconds,
            {seconds:m.out_at..m.back_at} AS out_to_back_seconds
        FROM milestones m {read_only}
    """,
    "quarantine_open_cases": """
        SELECT m.cluster, m.case_id, m.node, m.machine, m.pool, m.provider, m.policy, m.device, m.severity, m.by_person,
            m.gate, m.phase, {reason} AS reason, h.held_by, h.reason AS hold_reason,
            (
                SELECT t.ref FROM tickets t
                WHERE t.cluster = m.cluster AND t.case_id = m.case_id AND t.closed_at IS NULL
                ORDER BY t.filed_at DESC, t.ref LIMIT 1
            ) AS ticket,
            (
                SELECT count(*) FROM actions a
                WHERE a.cluster = m.cluster AND a.case_id = m.case_id AND a.status = 'pending'
            ) AS effects_waiting,
            m.opened_at, m.out_at,
            {seconds:m.opened_at..CURRENT_TIMESTAMP} AS open_seconds,
            {seconds:m.out_at..COALESCE(m.back_at, CURRENT_TIMESTAMP)} AS out_seconds
        FROM milestones m
        LEFT JOIN hold_spans h ON h.cluster = m.cluster AND h.key = 'case/' || m.case_id AND h.until IS NULL
        WHERE m.ended_at IS NULL
    """,
    "quarantine_outages": """
        SELECT m.cluster, m.case_id, m.node, m.machine, m.pool, m.provider, m.policy, m.severity, m.by_person, m.gate,
            m.out_at, m.back_at, m.back_at IS NULL AS standing,
            {seconds:m.out_at..COALESCE(m.back_at, CURRENT_TIMESTAMP)} AS seconds
        FROM milestones m {read_only}
        WHERE m.out_at IS NOT NULL
    """,
    "quarantine_holds": """
        SELECT h.cluster, h.seq, h.key AS hold_key, h.held_by, h.policy, h.node, h.pool, h.reason, h.since, h.until,
            h.until IS NULL AS standing, {seconds:h.since..COALESCE(h.until, CURRENT_TIMESTAMP)} AS seconds
        FROM hold_spans h {read_only}
    """,
    "quarantine_machines": """
        SELECT m.cluster, m.key AS machine, m.node, m.pool, m.provider, m.first_at, m.last_at,
            COALESCE(s.cases, 0) AS cases, COALESCE(s.outages, 0) AS outages, COALESCE(s.standing, 0) > 0 AS out_now,
            COALESCE(s.seconds, 0.0) AS out_seconds
        FROM machines m
        LEFT JOIN (
            SELECT c.cluster, c.machine, count(*) AS cases, count(c.out_at) AS outages,
                count(CASE WHEN c.back_at IS NULL THEN c.out_at END) AS standing,
                sum({seconds:c.out_at..COALESCE(c.back_at, CURRENT_TIMESTAMP)}) AS seconds
            FROM milestones c GROUP BY c.cluster, c.machine
        ) s ON s.cluster = m.cluster AND s.machine = m.key
    """,
    "quarantine_names": """
        SELECT s.cluster, s.kind, s.value AS name, s.node, s.node_uid, s.machine, s.first_seq, s.last_seq, s.first_at,
            s.last_at
        FROM sightings s {read_only}
    """,
    "quarantine_tickets": """
        SELECT t.cluster, t.case_id, t.ref, t.provider, t.ask, m.node, m.machine, t.filed_at, t.closed_at,
            t.closed_at IS NULL AS standing, {seconds:t.filed_at..COALESCE(t.closed_at, CURRENT_TIMESTAMP)} AS seconds
        FROM tickets t LEFT JOIN milestones m ON m.cluster = t.cluster AND m.case_id = t.case_id
    """,
    "quarantine_requests": """
        SELECT r.cluster, r.id AS request_id, r.kind, r.node, r.actor, r.channel, r.reason, r.at AS asked_at,
            r.answered_seq, d.at AS answered_at, d.kind AS answer_kind, d.action AS answer_action, d.case_id,
            d.held_by, d.reason AS answer, {seconds:r.at..d.at} AS seconds
        FROM requests r LEFT JOIN decisions d ON d.cluster = r.cluster AND d.seq = r.answered_seq
    """,
    "quarantine_effects": """
        SELECT a.cluster, a.case_id, a.effect, a.status, a.attempts, a.last_attempt_at, a.last_error, a.decided_seq,
            d.at AS decided_at, a.outcome_seq, o.at AS outcome_at,
            {seconds:d.at..COALESCE(o.at, CURRENT_TIMESTAMP)} AS seconds
        FROM actions a
        JOIN decisions d ON d.cluster = a.cluster AND d.seq = a.decided_seq
        LEFT JOIN decisions o ON o.cluster = a.cluster AND o.seq = a.outcome_seq
    """,
    "quarantine_policy_versions": """
        SELECT p.cluster, p.name, p.hash, p.revision, p.first_seen, v.hash IS NOT NULL AS in_force,
            v.since AS in_force_since, p.text
        FROM policy_versions p
        LEFT JOIN versions v ON v.cluster = p.cluster AND v.name = p.name AND v.hash = p.hash
    """,
    "quarantine_pool_sizes": """
        SELECT p.cluster, p.pool, p.nodes, p.gpus, p.at AS since, p.until,
            {seconds:p.at..COALESCE(p.until, CURRENT_TIMESTAMP)} AS seconds
        FROM (
            SELECT s.cluster, s.pool, s.nodes, s.gpus, s.at,
                LEAD(s.at) OVER (PARTITION BY s.cluster, s.pool ORDER BY s.seq) AS until
            FROM pool_sizes s
        ) p {read_only}
    """,
}

# Why a case's machine was taken out, or else why the case was opened.
_REASON = """(
    SELECT d.reason FROM decisions d WHERE d.cluster = m.cluster AND d.case_id = m.case_id
    ORDER BY CASE WHEN d.action = 'quarantine' AND d.kind = 'decided' THEN 0 ELSE 1 END, d.seq LIMIT 1
)"""


def upgrade() -> None:
    """Make the indexes and the views."""
    op.create_index("sightings_machine_idx", "sightings", ["machine"])
    named = sa.text("device IS NOT NULL")
    op.create_index(
        "decisions_device_cluster_seq_idx",
        "decisions",
        ["device", "cluster", "seq"],
        sqlite_where=named,
        postgresql_where=named,
        postgresql_ops={"device": "text_pattern_ops"},  # the links of a GPU are found by how their names begin
    )
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {_of_dialect(query)}")


def downgrade() -> None:
    """There is no way back."""
    raise NotImplementedError("the trail is append-only: restore a backup instead")


def _of_dialect(query: str) -> str:
    postgres = op.get_bind().dialect.name == "postgresql"
    query = query.replace("{reason}", _REASON)
    query = query.replace("{read_only}", "CROSS JOIN (SELECT 1) AS read_only" if postgres else "")
    while "{seconds:" in query:
        before, _, rest = query.partition("{seconds:")
        span, _, after = rest.partition("}")
        begin, _, end = span.partition("..")
        query = f"{before}{_seconds(begin, end, postgres=postgres)}{after}"
    return query


def _seconds(begin: str, end: str, *, postgres: bool) -> str:
    """A duration in seconds, to the microsecond, as a floating number."""
    if postgres:
        return f"CAST(EXTRACT(EPOCH FROM ({end}) - ({begin})) AS double precision)"
    # SQLite's times are text, and its own functions round them to milliseconds, the seconds with them.
    whole = f"(strftime('%s', substr({end}, 1, 19)) - strftime('%s', substr({begin}, 1, 19)))"
    return f"ROUND({whole} + (substr({end}, 21) - substr({begin}, 21)) / 1000000.0, 6)"
