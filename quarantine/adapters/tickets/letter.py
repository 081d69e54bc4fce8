"""What a ticket says, once as Markdown and once as plain text: for the systems that have a title and a body.

Every value is escaped by the templates' environment, for the medium it is put into. Only hardware labels are told.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from jinja2 import Environment

from quarantine.adapters.tickets.markdown import one_line
from quarantine.adapters.tickets.record import record_of
from quarantine.adapters.tickets.render import ASKS, environment
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten

TITLE_MAX = 250  # characters: Jira's and GitHub's limits are 255 and 256


@dataclass(frozen=True, slots=True)
class Letter:
    """A report that can be sent on. Markup of a vendor's own (ADF, HTML) is made from `text`, by its adapter."""

    title: str  # plain text on one line, at most TITLE_MAX characters
    markdown: str  # nothing of it from outside is markup, a link or a mention
    text: str  # without control characters; every value on one line


def letter(report: CaseReport) -> Letter:
    """The letter of a case. The same report always gives the same one."""
    record = record_of(report, ref=report.key, filed_at=report.opened_at)
    asked = ASKS.get(record.ask, record.ask)
    return Letter(
        title=shorten(one_line(report.title), TITLE_MAX) or f"Case {one_line(report.key)}",
        markdown=environment().get_template("letter.md.j2").render(ticket=record, asked=asked),
        text=_plain().get_template("letter.txt.j2").render(ticket=record, asked=asked),
    )


@cache
def _plain() -> Environment:
    return environment().overlay(finalize=_as_text)


def _as_text(value: object) -> str:
    return one_line(str(value))
