"""Whose cluster a trail is, and the index by which what policies found is counted.

Revision: 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, which the next writer fills in, and make the index. No view shows either table's new part."""
    op.add_column("clusters", sa.Column("identity", sa.Text))
    found = sa.text("action IN ('quarantine', 'join') AND policy IS NOT NULL")
    op.create_index(
        "decisions_cluster_case_id_policy_idx",
        "decisions",
        ["cluster", "case_id", "policy"],
        sqlite_where=found,
        postgresql_where=found,
    )


def downgrade() -> None:
    """There is no way back."""
    raise NotImplementedError("the trail is append-only: restore a backup instead")
