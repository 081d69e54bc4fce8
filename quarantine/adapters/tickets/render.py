"""What tickets say, from templates: those of a target, and the ones shipped with the package.

The templates' environment escapes every value for the medium that the template is for, so that the author of one cannot
forget it: a name in `.md.j2` is Markdown, any other is plain text. It is a sandbox, and it is given plain data alone.
"""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, FileSystemLoader, PackageLoader, StrictUndefined, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from quarantine.adapters.tickets.markdown import Markdown, code, code_block, escape, finalize, one_line
from quarantine.adapters.tickets.record import TicketRecord
from quarantine.core.errors import UsageError
from quarantine.core.marks import shorten

ASKS = {
    "report": "Please take this report of a suspect machine, and replace the machine.",
    "replace": "Please replace this machine.",
}
TITLE, MARKDOWN, TEXT = "title.j2", "report.md.j2", "report.txt.j2"
PAGE = "ticket.md.j2"  # what the directory keeps: the report, with what was added to the ticket later
NAMES = (TITLE, MARKDOWN, TEXT, PAGE, "case.md.j2")
LONGEST = 2_000_000  # characters that a template of a folder may render
_SAID = 200  # characters of an error's own words


class TemplateFault(UsageError):
    """A template cannot be used: its place, and what is wrong with it."""


class Templates:
    """The templates of a folder, each of which is read anew when it has changed; for the others, the shipped ones."""

    def __init__(self, folder: Path | None = None) -> None:
        """Raises TemplateFault where there is no such folder, or none of the templates in it."""
        self._folder = folder
        shipped = PackageLoader("quarantine.adapters.tickets", "templates")
        loader: BaseLoader = shipped
        if folder is not None:
            _check(folder)
            loader = ChoiceLoader([FileSystemLoader(folder), shipped])
        self._markdown = _environment(
            loader, finalize, {"code": code, "code_block": code_block, "utc": utc, "prose": prose}
        )
        self._plain = _environment(loader, _as_text, {"code": _as_text, "utc": utc})

    def render(self, name: str, record: TicketRecord) -> str:
        """The same record and the same template always give the same text. Raises TemplateFault."""
        if self._folder is not None:
            _check(self._folder)  # one that has gone would be as if all of its templates were the shipped ones
        env = self._markdown if name.endswith(".md.j2") else self._plain
        try:
            template = env.get_template(name)
            pieces = template.generate(ticket=record.model_dump(), asked=ASKS.get(record.ask, record.ask))
            # What is shipped makes no more than its values are; it is what is left when another one fails.
            return "".join(pieces) if self._folder is None else _bounded(pieces)
        except Exception as error:  # a template may divide by zero
            raise TemplateFault(f"{self._place(name, error)}: {_why(error)}") from error

    def _place(self, name: str, error: Exception) -> str:
        """File and line, also where the fault is in a template that is included."""
        if isinstance(error, TemplateSyntaxError):
            return f"{error.filename or name}:{error.lineno}"
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(".j2")]
        if frames:
            return f"{frames[-1].filename}:{frames[-1].lineno}"
        return name if self._folder is None else str(self._folder / name)


def _check(folder: Path) -> None:
    if not any((folder / name).is_file() for name in NAMES):
        raise TemplateFault(f"{folder} has none of the templates {', '.join(NAMES)}: write one, or name no folder")


def _bounded(pieces: Iterable[str]) -> str:
    """Their text; a loop that makes too much is left before it has made it."""
    text = io.StringIO()
    for piece in pieces:
        if text.tell() + len(piece) > LONGEST:
            raise ValueError(f"it renders more than {LONGEST} characters")
        text.write(piece)
    return text.getvalue()


class _Sandbox(ImmutableSandboxedEnvironment):
    """Formatting Markdown with a value would make Markdown of the value."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """As the sandbox has it, and no `format` of Markdown."""
        if isinstance(obj, Markdown) and attribute in ("format", "format_map"):
            return self.unsafe_undefined(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """An attribute as well, where `obj` has no such item."""
        if isinstance(obj, Markdown) and isinstance(argument, str):
            return self.getattr(obj, argument)
        return super().getitem(obj, argument)


def _environment(
    loader: BaseLoader, put: Callable[[object], str], filters: Mapping[str, Callable[..., str]]
) -> ImmutableSandboxedEnvironment:
    env = _Sandbox(
        loader=loader,
        # HTML escaping would be the wrong one: `put` escapes for the medium, HTML included.
        autoescape=False,
        finalize=put,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters.update(filters)
    return env


def _as_text(value: object) -> str:
    return one_line(str(value))


def _why(error: Exception) -> str:
    said = shorten(one_line(str(error)), _SAID)
    return said or type(error).__name__


def utc(at: datetime) -> Markdown:
    """`2026-11-29 03:12:05 UTC`."""
    return Markdown(f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")


def prose(text: str) -> Markdown:
    """Several paragraphs from outside: each escaped, kept apart."""
    lines = (escape(line) for line in text.splitlines())
    return Markdown("\n\n".join(line for line in lines if line))
