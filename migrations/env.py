"""What Alembic runs. There is no alembic.ini: `quarantine.ledger.migrate` makes the configuration and the connection.

The transaction is the caller's, so that the lock, the migrations and the version are one: all or nothing.
"""

from __future__ import annotations

from alembic import context

from quarantine.ledger.schema import METADATA

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=METADATA,
    # Batch mode makes a table anew and loses its triggers: a migration that uses it makes them again.
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
