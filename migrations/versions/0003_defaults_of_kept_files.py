"""A policy file that is kept at an older version is read with the Defaults that it was accepted with.

Revision: 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; nothing means those in force."""
    op.add_column("rule_files", sa.Column("defaults", sa.Text))


def downgrade() -> None:
    """There is no way back."""
    raise NotImplementedError("the ledger goes forward only: restore a backup instead")
