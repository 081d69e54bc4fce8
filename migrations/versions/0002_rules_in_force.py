"""The rules in force: the accepted version of each policy file, and how long each policy has run in its version.

Revision: 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "rule_files",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("file", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("revision", sa.Text),
        sa.Column("accepted_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "file", name="rule_files_pkey"),
    )
    op.create_table(
        "policy_runs",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("cycles", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "policy", name="policy_runs_pkey"),
    )


def downgrade() -> None:
    """There is no way back."""
    raise NotImplementedError("the ledger goes forward only: restore a backup instead")
