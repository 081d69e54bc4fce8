"""`quarantine db grants`: the rights of the ledger's roles in Postgres, as SQL."""

from __future__ import annotations

from typing import Annotated

import typer

from quarantine.cli.options import friendly


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
) -> None:
    """Print the SQL that gives roles their rights, for the owner of the tables to run; nothing is connected to."""
    from quarantine.ledger.grants import Roles, script

    typer.echo(script(Roles(writer, requester, reader), schema), nl=False)
