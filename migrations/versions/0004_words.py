"""People's standing words: pauses and planned work.

Revision: 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; before it nobody could say such a word, so it is empty."""
    op.create_table(
        "words",
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("until", sa.DateTime(timezone=True)),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "key", name="words_pkey"),
    )


def downgrade() -> None:
    """There is no way back."""
    raise NotImplementedError("the ledger goes forward only: restore a backup instead")
