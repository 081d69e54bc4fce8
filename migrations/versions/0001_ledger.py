"""The ledger: the trail, its chain and its projections, the outbox, requests, policy versions.

Revision: 0001, the first.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
APPEND_ONLY = ("decisions", "policy_versions")


def upgrade() -> None:
    """Make every table, and keep two of them append-only."""
    _trail()
    _outbox()
    _projections()
    if op.get_bind().dialect.name == "postgresql":
        _postgres_triggers()
    else:
        _sqlite_triggers()


def downgrade() -> None:
    """There is no way back."""
    raise NotImplementedError("the trail is append-only: restore a backup instead")


def _trail() -> None:
    op.create_table(
        "clusters",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="clusters_pkey"),
    )
    op.create_table(
        "decisions",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("prev_hash", sa.String(64), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("case_id", sa.Text),
        sa.Column("node", sa.Text),
        sa.Column("node_uid", sa.Text),
        sa.Column("device", sa.Text),
        sa.Column("pool", sa.Text),
        sa.Column("policy", sa.Text),
        sa.Column("verdict", sa.Text),
        sa.Column("held_by", sa.Text),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "seq", name="decisions_pkey"),
    )
    op.create_index("decisions_cluster_node_seq_idx", "decisions", ["cluster", "node", "seq"])
    op.create_index("decisions_cluster_case_id_seq_idx", "decisions", ["cluster", "case_id", "seq"])
    op.create_index("decisions_cluster_at_idx", "decisions", ["cluster", "at"])
    op.create_table(
        "policy_versions",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("revision", sa.Text),
        sa.Column("first_seen", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "hash", name="policy_versions_pkey"),
    )


def _of_decision(table: str, column: str) -> sa.ForeignKeyConstraint:
    name = f"{table}_cluster_{column}_fkey"
    return sa.ForeignKeyConstraint(["cluster", column], ["decisions.cluster", "decisions.seq"], name=name)


def _outbox() -> None:
    op.create_table(
        "actions",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("decided_seq", sa.BigInteger, nullable=False),
        sa.Column("case_id", sa.Text, nullable=False),
        sa.Column("effect", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("last_attempt_at", _TIME),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.Column("outcome_seq", sa.BigInteger),
        _of_decision("actions", "decided_seq"),
        _of_decision("actions", "outcome_seq"),
        sa.PrimaryKeyConstraint("cluster", "key", "decided_seq", name="actions_pkey"),
    )
    op.create_index("actions_cluster_case_id_idx", "actions", ["cluster", "case_id"])
    pending = sa.text("status = 'pending'")
    op.create_index(
        "actions_pending_idx",
        "actions",
        ["cluster", "key"],
        unique=True,
        sqlite_where=pending,
        postgresql_where=pending,
    )
    op.create_table(
        "requests",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("answered_seq", sa.BigInteger),
        _of_decision("requests", "answered_seq"),
        sa.PrimaryKeyConstraint("cluster", "id", name="requests_pkey"),
    )
    op.create_index("requests_cluster_answered_seq_at_idx", "requests", ["cluster", "answered_seq", "at"])


def _projections() -> None:
    op.create_table(
        "cases",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("opened_at", _TIME, nullable=False),
        sa.Column("ended_at", _TIME),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "id", name="cases_pkey"),
    )
    op.create_index("cases_cluster_ended_at_idx", "cases", ["cluster", "ended_at"])
    op.create_index("cases_cluster_node_idx", "cases", ["cluster", "node"])
    op.create_table(
        "holds",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("held_by", sa.Text, nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "key", name="holds_pkey"),
    )
    op.create_table(
        "dismissals",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("until", _TIME, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "position", name="dismissals_pkey"),
    )


def _postgres_triggers() -> None:
    op.execute("""
        CREATE FUNCTION quarantine_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'the trail is append-only: no % on %', TG_OP, TG_TABLE_NAME USING ERRCODE = '23001';
        END
        $$
    """)
    for table in APPEND_ONLY:
        # ALWAYS: session_replication_role = replica would otherwise switch them off.
        op.execute(f"""
            CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION quarantine_append_only()
        """)
        op.execute(f"""
            CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION quarantine_append_only()
        """)
        op.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_append_only")
        op.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_no_truncate")


def _sqlite_triggers() -> None:
    for table in APPEND_ONLY:
        for verb in ("update", "delete"):
            op.execute(f"""
                CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table}
                BEGIN SELECT RAISE(ABORT, 'the trail is append-only: no {verb} on {table}'); END
            """)
    # REPLACE deletes without the delete trigger where recursive_triggers is off, as it is in every other client.
    # By rowid too: a row under a new key may name the rowid of an old one.
    op.execute("""
        CREATE TRIGGER decisions_no_replace BEFORE INSERT ON decisions
        WHEN EXISTS (
            SELECT 1 FROM decisions WHERE (cluster = NEW.cluster AND seq = NEW.seq) OR rowid = NEW.rowid
        )
        BEGIN SELECT RAISE(ABORT, 'the trail is append-only: no replace on decisions'); END
    """)
    op.execute("""
        CREATE TRIGGER policy_versions_no_replace BEFORE INSERT ON policy_versions
        WHEN EXISTS (
            SELECT 1 FROM policy_versions WHERE (cluster = NEW.cluster AND hash = NEW.hash) OR rowid = NEW.rowid
        )
        BEGIN SELECT RAISE(ABORT, 'the trail is append-only: no replace on policy_versions'); END
    """)
