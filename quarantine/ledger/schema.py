"""The tables. `decisions` is the record; the others are projections of it, the outbox, and what people ask.

`body` is the canonical text of the record (see `codec`), and what is read back. The columns beside it are for indexes
and for people with SQL. Every table has a `cluster` column: several clusters may share one Postgres. Rows are written
by `writer` and `inforce` alone, except `requests`, to which anybody may append. `migrations/` makes the same tables;
`drift` proves it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

REVISION = "0006"  # of the schema that this code reads and writes: the newest file in migrations/versions

METADATA = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    }
)

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


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC times on both dialects; SQLite has no zones, so there they are stored as UTC and read as UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To the database. Raises ValueError for a time without a zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """From the database."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


clusters = Table(
    "clusters",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("term", BigInteger, nullable=False),  # of the one process that may write
    Column("seq", BigInteger, nullable=False),  # of the newest decision; 0: there is none
    Column("hash", String(64), nullable=False),  # of the newest decision
    Column("holder", Text, nullable=False),  # who has the term, for people
    Column("updated_at", UtcDateTime, nullable=False),
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

milestones = Table(
    "milestones",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("case_id", Text, primary_key=True),
    Column("node", Text, nullable=False),
    Column("machine", Text, nullable=False),  # the key of `machines`
    Column("pool", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("signal", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("severity", Text),
    Column("by_person", Boolean, nullable=False),
    Column("gate", Boolean, nullable=False),
    Column("phase", Text, nullable=False),
    Column("opened_at", UtcDateTime, nullable=False),
    Column("found_at", UtcDateTime, nullable=False),
    Column("out_at", UtcDateTime),
    Column("marked_at", UtcDateTime),
    Column("drained_at", UtcDateTime),
    Column("ticket_at", UtcDateTime),
    Column("asked_at", UtcDateTime),
    Column("acknowledged_at", UtcDateTime),
    Column("swapped_at", UtcDateTime),
    Column("back_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("fate", Text, nullable=False),
    Column("same_returned", Boolean, nullable=False),
    Index(None, "cluster", "opened_at"),
    Index(None, "cluster", "ended_at"),
    Index(None, "cluster", "machine"),
)

hold_spans = Table(
    "hold_spans",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # of the decision that began it
    Column("key", Text, nullable=False),
    Column("held_by", Text, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("until", UtcDateTime),  # null: it stands
    Column("policy", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index(None, "cluster", "until"),
    Index(None, "cluster", "since"),
)

machines = Table(
    "machines",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # core.record.subjects.machine_key
    Column("node", Text, nullable=False),  # under which it was seen last
    Column("pool", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("first_at", UtcDateTime, nullable=False),
    Column("last_at", UtcDateTime, nullable=False),
    Column("body", Text, nullable=False),  # the Machine as it was recorded last, with what was known of it before
    Index(None, "cluster", "node"),
)

# By what names machines were known, and in which decisions: `history` looks here first. A name is in several rows where
# a Node object was made again, a GPU was moved, or several clusters have seen it.
sightings = Table(
    "sightings",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    Column("node_uid", Text, primary_key=True),
    Column("kind", Text, nullable=False),  # core.record.subjects.SubjectKind
    Column("node", Text, nullable=False),
    Column("machine", Text, nullable=False),  # the key of `machines`
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("first_at", UtcDateTime, nullable=False),
    Column("last_at", UtcDateTime, nullable=False),
    Index(None, "value"),
    Index(None, "machine"),
)

tickets = Table(
    "tickets",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("case_id", Text, primary_key=True),
    Column("ref", Text, primary_key=True),  # what people call it
    Column("provider", Text, nullable=False),
    Column("ask", Text, nullable=False),  # report or replace: the stronger one that it was used for
    Column("filed_at", UtcDateTime, nullable=False),
    Column("closed_at", UtcDateTime),
    Index(None, "cluster", "closed_at"),
)

versions = Table(
    "versions",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("body", Text, nullable=False),
)

pool_sizes = Table(
    "pool_sizes",
    METADATA,
    Column("cluster", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # of the decision that counted it
    Column("pool", Text, nullable=False),
    Column("nodes", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Index(None, "cluster", "pool", "at"),
)
