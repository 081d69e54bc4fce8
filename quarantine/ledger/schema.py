"""The tables. `decisions` is the record; the others are projections of it, the outbox, and what people ask.

`body` is the canonical text of the record (see `codec`), and what is read back. The columns beside it are for indexes
and for people with SQL. Every table has a `cluster` column: several clusters may share one Postgres. Rows are written
by `writer` and `inforce` alone, except `requests`, to which anybody may append. Those that only reports and histories
read are in `recordtables`. `migrations/` makes the same tables; `drift` proves it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Text,
    and_,
    literal_column,
)

from quarantine.ledger.metadata import METADATA, UtcDateTime
from quarantine.ledger.recordtables import hold_spans, machines, milestones, pool_sizes, sightings, tickets, versions

__all__ = [
    "METADATA",
    "REVISION",
    "TRIGGERS",
    "UtcDateTime",
    "actions",
    "cases",
    "clusters",
    "decisions",
    "dismissals",
    "finds",
    "hold_spans",
    "holds",
    "machines",
    "milestones",
    "pending_only",
    "policy_runs",
    "policy_versions",
    "pool_sizes",
    "requests",
    "rule_files",
    "sightings",
    "tickets",
    "versions",
    "words",
]

REVISION = "0007"  # of the schema that this code reads and writes: the newest file in migrations/versions

# The triggers that keep a table append-only, by dialect; made in the migration, looked for by `drift`.
TRIGGERS = {
    "postgresql": (
        "decisions_append_only",
        "decisions_no_truncate",
        "policy_versions_append_only",
        "policy_versions_no_truncate",
    ),
    "sqlite": (
        "decisions_no_update",
        "decisions_no_delete",
        "decisions_no_replace",
        "policy_versions_no_update",
        "policy_versions_no_delete",
        "policy_versions_no_replace",
    ),
}

clusters = Table(
    "clusters",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("term", BigInteger, nullable=False),  # of the one process that may write
    Column("seq", BigInteger, nullable=False),  # of the newest decision; 0: there is none
    Column("hash", String(64), nullable=False),  # of the newest decision
    Column("holder", Text, nullable=False),  # who has the term, for people
    Column("updated_at", UtcDateTime, nullable=False),
    # uid of the namespace kube-system of the cluster that writes it; null: not known yet
    Column("identity", Text),
)

decisions = Table(
    "decisions",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", String(64), nullable=False),
    Column("prev_hash", String(64), nullable=False),
    Column("body", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("kind", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("case_id", Text),
    Column("node", Text),
    Column("node_uid", Text),
    Column("device", Text),  # kind:name
    Column("pool", Text),
    Column("policy", Text),
    Column("verdict", Text),
    Column("held_by", Text),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index(None, "cluster", "node", "seq"),
    Index(None, "cluster", "case_id", "seq"),
    Index(None, "cluster", "node_uid", "seq"),
    Index(None, "cluster", "at"),
)
about_device = decisions.c.device.is_not(None)
Index(
    None,
    decisions.c.device,
    decisions.c.cluster,
    decisions.c.seq,
    sqlite_where=about_device,
    postgresql_where=about_device,
    # So that the links of a GPU are found by how their names begin, whatever the database's collation.
    postgresql_ops={"device": "text_pattern_ops"},
)
# What a policy found of a machine: a condition of whoever asks for it by the index, and in the index's own words, or
# SQLite does not know that it is the same.
finds = and_(
    decisions.c.action.in_([literal_column("'quarantine'"), literal_column("'join'")]), decisions.c.policy.is_not(None)
)
Index(
    None,
    decisions.c.cluster,
    decisions.c.case_id,
    decisions.c.policy,
    sqlite_where=finds,
    postgresql_where=finds,
)


def _of_decision(column: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["cluster", column], ["decisions.cluster", "decisions.seq"])


actions = Table(
    "actions",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # <case>/<effect>
    Column("decided_seq", BigInteger, primary_key=True, autoincrement=False),  # an effect may be asked for again
    Column("case_id", Text, nullable=False),
    Column("effect", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("last_attempt_at", UtcDateTime),
    Column("last_error", Text, nullable=False),
    Column("outcome_seq", BigInteger),
    _of_decision("decided_seq"),
    _of_decision("outcome_seq"),
    Index(None, "cluster", "case_id"),
)
pending_only = actions.c.status == "pending"
Index(
    "actions_pending_idx",
    actions.c.cluster,
    actions.c.key,
    unique=True,
    sqlite_where=pending_only,
    postgresql_where=pending_only,
)

requests = Table(
    "requests",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("body", Text, nullable=False),
    Column("answered_seq", BigInteger),
    _of_decision("answered_seq"),
    Index(None, "cluster", "answered_seq", "at"),
)

cases = Table(
    "cases",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("node", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("opened_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),  # null: open
    Column("body", Text, nullable=False),
    Index(None, "cluster", "ended_at"),
    Index(None, "cluster", "node"),
)

holds = Table(
    "holds",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("held_by", Text, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("body", Text, nullable=False),
)

dismissals = Table(
    "dismissals",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),  # in the state's tuple
    Column("node", Text, nullable=False),
    Column("until", UtcDateTime, nullable=False),
    Column("body", Text, nullable=False),
)

words = Table(
    "words",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("until", UtcDateTime),  # null: until it is taken back
    Column("body", Text, nullable=False),
)

policy_versions = Table(
    "policy_versions",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("hash", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("text", Text, nullable=False),  # the document, letter for letter
    Column("revision", Text),
    Column("first_seen", UtcDateTime, nullable=False),
)

rule_files = Table(
    "rule_files",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("file", Text, primary_key=True),  # cut where it is very long; `path` is not
    Column("path", Text, nullable=False),
    Column("text", Text, nullable=False),  # escaped, as the path is: see `text`
    Column("hash", String(64), nullable=False),  # of the text
    Column("revision", Text),
    Column("accepted_at", UtcDateTime, nullable=False),
    Column("defaults", Text),  # the text of those it is read with, where they are not those in force; escaped
)

policy_runs = Table(
    "policy_runs",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("policy", Text, primary_key=True),
    Column("version", String(64), nullable=False),
    Column("cycles", Integer, nullable=False),  # for which this version was judged, as far as they count
)
