"""A ticket as Markdown, from the templates shipped with the package."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from quarantine.adapters.tickets.markdown import Markdown, code, code_block, escape, finalize
from quarantine.adapters.tickets.record import TicketRecord

ASKS = {
    "report": "Please take this report of a suspect machine, and replace the machine.",
    "replace": "Please replace this machine.",
}


@cache
def environment() -> Environment:
    """The templates' environment: every value is escaped by `finalize`; a name that does not exist is an error."""
    env = Environment(
        loader=PackageLoader("quarantine.adapters.tickets", "templates"),
        # HTML escaping would be the wrong one: finalize escapes for Markdown, HTML included.
        autoescape=False,  # noqa: S701
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters.update(code=code, code_block=code_block, utc=utc, prose=prose)
    return env


def render(record: TicketRecord) -> str:
    """The ticket as people read it. The same record always gives the same text."""
    template = environment().get_template("report.md.j2")
    return template.render(ticket=record, asked=ASKS.get(record.ask, record.ask))


def utc(at: datetime) -> Markdown:
    """`2026-11-29 03:12:05 UTC`."""
    return Markdown(f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")


def prose(text: str) -> Markdown:
    """Several paragraphs from outside: each escaped, kept apart."""
    lines = (escape(line) for line in text.splitlines())
    return Markdown("\n\n".join(line for line in lines if line))
