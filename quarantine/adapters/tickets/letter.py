"""What a ticket says, once as Markdown and once as plain text: for the systems that have a title and a body.

Every value is escaped by the templates' environment, for the medium it is put into. Only hardware labels are told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import structlog

from quarantine.adapters.tickets.example import EXAMPLES
from quarantine.adapters.tickets.markdown import one_line
from quarantine.adapters.tickets.record import TicketRecord, record_of
from quarantine.adapters.tickets.render import MARKDOWN, PAGE, TEXT, TITLE, TemplateFault, Templates
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten

TITLE_MAX = 250  # characters: Jira's and GitHub's limits are 255 and 256

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Letter:
    """A report that can be sent on. Markup of a vendor's own (ADF, HTML) is made from `text`, by its adapter."""

    title: str  # plain text on one line, at most TITLE_MAX characters
    markdown: str  # nothing of it from outside is markup, a link or a mention
    text: str  # without control characters; every value on one line


def letter(report: CaseReport) -> Letter:
    """The letter of a case, by the shipped templates. The same report always gives the same one."""
    return _letter(_shipped(), report)


def page(record: TicketRecord) -> str:
    """A ticket of the directory as people read it, by the shipped templates."""
    return _shipped().render(PAGE, record)


class Letters:
    """A target's letters by its own templates. One that fails is told, and the shipped one is used instead."""

    def __init__(self, own: Templates, target: str) -> None:
        """Raises TemplateFault where a template fails on an example."""
        self._own = own
        self._target = target
        self.fault = ""  # of the last letter: what its own templates failed by
        for example in EXAMPLES:
            _letter(own, example)
            own.render(PAGE, record_of(example, ref="R-20260101-example", filed_at=example.opened_at))

    def letter(self, report: CaseReport) -> Letter:
        """The letter of a case."""
        return self._tried(lambda: _letter(self._own, report), lambda: letter(report))

    def page(self, record: TicketRecord) -> str:
        """A ticket of the directory as people read it."""
        return self._tried(lambda: self._own.render(PAGE, record), lambda: page(record))

    def _tried(self, own: Callable[[], _T], shipped: Callable[[], _T]) -> _T:
        try:
            made = own()
        except TemplateFault as error:
            self.fault = str(error)
            structlog.get_logger().warning(
                "a ticket template failed, and the shipped one was used", target=self._target, error=self.fault
            )
            return shipped()
        self.fault = ""
        return made


def _letter(templates: Templates, report: CaseReport) -> Letter:
    record = record_of(report, ref=report.key, filed_at=report.opened_at)
    return Letter(
        title=shorten(one_line(templates.render(TITLE, record)), TITLE_MAX) or f"Case {one_line(report.key)}",
        markdown=templates.render(MARKDOWN, record),
        text=templates.render(TEXT, record),
    )


@cache
def _shipped() -> Templates:
    return Templates()
