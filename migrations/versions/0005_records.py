"""What reports and histories are made from: times of cases, spans of holds, machines and their names, tickets,
versions in force, sizes of pools. All of it follows from the decisions, and is made from them by `migrate.upgrade`.

Revision: 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables, empty."""
    op.create_index("decisions_cluster_node_uid_seq_idx", "decisions", ["cluster", "node_uid", "seq"])
    _milestones()
    _hold_spans()
    _machines()
    _sightings()
    _tickets()
    _versions()
    _pool_sizes()


def downgrade() -> None:
    """There is no way back."""
    raise NotImplementedError("the trail is append-only: restore a backup instead")


def _milestones() -> None:
    op.create_table(
        "milestones",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("case_id", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("signal", sa.Text, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("severity", sa.Text),
        sa.Column("by_person", sa.Boolean, nullable=False),
        sa.Column("gate", sa.Boolean, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("opened_at", _TIME, nullable=False),
        sa.Column("found_at", _TIME, nullable=False),
        sa.Column("out_at", _TIME),
        sa.Column("marked_at", _TIME),
        sa.Column("drained_at", _TIME),
        sa.Column("ticket_at", _TIME),
        sa.Column("asked_at", _TIME),
        sa.Column("acknowledged_at", _TIME),
        sa.Column("swapped_at", _TIME),
        sa.Column("back_at", _TIME),
        sa.Column("ended_at", _TIME),
        sa.Column("fate", sa.Text, nullable=False),
        sa.Column("same_returned", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "case_id", name="milestones_pkey"),
    )
    op.create_index("milestones_cluster_ended_at_idx", "milestones", ["cluster", "ended_at"])
    op.create_index("milestones_cluster_machine_idx", "milestones", ["cluster", "machine"])
    op.create_index("milestones_cluster_opened_at_idx", "milestones", ["cluster", "opened_at"])


def _hold_spans() -> None:
    op.create_table(
        "hold_spans",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("held_by", sa.Text, nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("until", _TIME),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "seq", name="hold_spans_pkey"),
    )
    op.create_index("hold_spans_cluster_since_idx", "hold_spans", ["cluster", "since"])
    op.create_index("hold_spans_cluster_until_idx", "hold_spans", ["cluster", "until"])


def _machines() -> None:
    op.create_table(
        "machines",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("first_at", _TIME, nullable=False),
        sa.Column("last_at", _TIME, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "key", name="machines_pkey"),
    )
    op.create_index("machines_cluster_node_idx", "machines", ["cluster", "node"])


def _sightings() -> None:
    op.create_table(
        "sightings",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("node_uid", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("first_at", _TIME, nullable=False),
        sa.Column("last_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "value", "node_uid", name="sightings_pkey"),
    )
    op.create_index("sightings_value_idx", "sightings", ["value"])


def _tickets() -> None:
    op.create_table(
        "tickets",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("case_id", sa.Text, nullable=False),
        sa.Column("ref", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("ask", sa.Text, nullable=False),
        sa.Column("filed_at", _TIME, nullable=False),
        sa.Column("closed_at", _TIME),
        sa.PrimaryKeyConstraint("cluster", "case_id", "ref", name="tickets_pkey"),
    )
    op.create_index("tickets_cluster_closed_at_idx", "tickets", ["cluster", "closed_at"])


def _versions() -> None:
    op.create_table(
        "versions",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name="versions_pkey"),
    )


def _pool_sizes() -> None:
    op.create_table(
        "pool_sizes",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "seq", name="pool_sizes_pkey"),
    )
    op.create_index("pool_sizes_cluster_pool_at_idx", "pool_sizes", ["cluster", "pool", "at"])
