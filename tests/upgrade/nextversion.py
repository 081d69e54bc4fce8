"""The version after this one, which is made up: its schema has a column and a table more."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

from sqlalchemy import text

from quarantine.ledger import migrate
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.schema import REVISION

NEXT = "9999"
_MIGRATION = f'''
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{REVISION}"
branch_labels = None
depends_on = None


def upgrade():
    op.add_column("decisions", sa.Column("colour", sa.Text, nullable=True))
    op.create_table("colours", sa.Column("cluster", sa.Text, primary_key=True), sa.Column("colour", sa.Text))
'''


def upgrade_to_next(url: str) -> tuple[str | None, str]:
    """What the next version's init container does. Returns as `migrate.upgrade`."""
    with tempfile.TemporaryDirectory(prefix="quarantine-next-") as folder:
        scripts = Path(folder) / "migrations"
        shutil.copytree(migrate.script_location(), scripts, ignore=shutil.ignore_patterns("__pycache__"))
        (scripts / "versions" / f"{NEXT}_colours.py").write_text(_MIGRATION, encoding="utf-8")
        with patch.object(migrate, "REVISION", NEXT), patch.object(migrate, "script_location", lambda: scripts):
            return migrate.upgrade(url)


def let_this_code_be_the_next(url: str) -> None:
    """From now on this code takes the new schema for its own: the next version differs from it in nothing else."""
    engine = make_engine(url)
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :now"), {"now": REVISION})
    engine.dispose()
