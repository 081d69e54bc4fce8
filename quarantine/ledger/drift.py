"""Whether the migrations make the tables that the code believes in: `python -m quarantine.ledger.drift [URL]`.

Without a URL a temporary SQLite file is migrated and compared; a URL names a database that was migrated before, and is
only read. Prints one line a difference. Exit 0: none. 1: some. 3: the database could not be asked.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence

from quarantine.core.errors import QuarantineError, UsageError
from quarantine.ledger import guards, views
from quarantine.ledger.engine import make_engine, reading
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import METADATA


def differences(url: str) -> list[str]:
    """What differs between a migrated database and the models; empty: nothing. Raises as `migrate.check`."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    engine = make_engine(url)
    try:
        with reading(engine) as connection:
            context = MigrationContext.configure(
                connection, opts={"compare_type": True, "compare_server_default": True}
            )
            found = [f"differs: {change}" for change in compare_metadata(context, METADATA)]
            return found + guards.differences(connection) + views.differences(connection)
    finally:
        engine.dispose()


def main(arguments: Sequence[str]) -> int:
    """The command."""
    try:
        if len(arguments) > 1:
            raise UsageError("give one URL of a migrated database, or none")
        found = differences(arguments[0]) if arguments else _of_fresh_file()
    except QuarantineError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 3
    for line in found:
        print(line)
    return 1 if found else 0


def _of_fresh_file() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/drift.db"
        upgrade(url)
        return differences(url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
