"""`quarantine db …`: the ledger's schema."""

from __future__ import annotations

import typer

from quarantine.cli.options import Config, DatabaseUrl, friendly, settings

db = typer.Typer(help="The ledger's database.", no_args_is_help=True)


@db.command()
@friendly
def upgrade(config: Config = None, database_url: DatabaseUrl = None) -> None:
    """Bring the schema to what this version needs. Safe to run twice, and by two at once."""
    from quarantine.ledger import migrate

    before, after = migrate.upgrade(settings(config, database_url).database_url.get_secret_value())
    if before == after:
        typer.echo(f"The ledger is at revision {after} already.")
    else:
        typer.echo(f"The ledger went from {'empty' if before is None else f'revision {before}'} to revision {after}.")
