"""The tables that reports, histories and views read: what the decisions add up to of cases, holds and hardware.

They follow from the decisions, and the controller plans without them. Their rows are written by `writer` and a rebuild.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text

from quarantine.ledger.metadata import METADATA, UtcDateTime

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
