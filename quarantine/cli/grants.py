"""`quarantine db grants`: the rights of the ledger's roles in Postgres, as SQL or applied."""

from __future__ import annotations

from typing import Annotated

import typer

from quarantine.cli.options import Config, DatabaseUrl, friendly, settings


@friendly
def grants(
    writer: Annotated[
        str | None, typer.Option(help="The controller's role: it appends to the trail.", show_default=False)
    ] = None,
    requester: Annotated[
        str | None, typer.Option(help="Of people and bots that read, and ask for something.", show_default=False)
    ] = None,
    reader: Annotated[str | None, typer.Option(help="Of dashboards: it reads.", show_default=False)] = None,
    schema: Annotated[str, typer.Option(help="Where the ledger's tables are.")] = "public",
    apply: Annotated[
        bool, typer.Option("--apply", help="Run it on the ledger of the settings, whose user must be the owner.")
    ] = False,
    config: Config = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Print the SQL that gives roles their rights, for the owner of the tables to run. It connects only to apply it."""
    from quarantine.ledger import grants as rights

    roles = rights.Roles(writer, requester, reader)
    if not apply:
        typer.echo(rights.script(roles, schema), nl=False)
        return
    rights.apply(settings(config, database_url).database_url.get_secret_value(), roles, schema)
    told = ", ".join(f"{name} ({what})" for what, name in roles.named())
    typer.echo(f"The rights are those of this version: {told}.")
