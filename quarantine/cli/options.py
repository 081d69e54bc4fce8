"""Options that every command takes, and how errors end: one sentence on stderr and a fixed exit code."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import structlog
import typer

from quarantine.core.errors import QuarantineError, Superseded, UsageError

if TYPE_CHECKING:
    from quarantine.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LONGEST_FIELD = 2000  # characters of one field of a log line


class Exit(IntEnum):
    """0: done. 1: the answer is no. 2: the input is wrong. 3: a dependency could not be reached."""

    DONE = 0
    NO = 1
    USAGE = 2
    DEPENDENCY = 3


class Output(StrEnum):
    """For people, for programs, or to be pasted where Markdown is rendered."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="Settings file; else QUARANTINE_CONFIG, else ./quarantine.yaml if there is one."
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", help="The ledger: postgresql://… or sqlite:///… (overrides the settings)."),
]
OutputFormat = Annotated[Output, typer.Option("--output", "-o", help="table, markdown, or json on stdout alone.")]


def _no_markdown(value: Output) -> Output:
    if value is Output.MARKDOWN:
        raise typer.BadParameter("this has no Markdown: table or json")
    return value


# Of a command that says so little that it needs no Markdown.
BriefFormat = Annotated[
    Output,
    typer.Option(
        "--output", "-o", metavar="[table|json]", callback=_no_markdown, help="table, or json on stdout alone."
    ),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept in the trail.", show_default=False)]


def settings(config: Path | None, database_url: str | None, **overrides: object) -> Settings:
    """The settings of a command. Raises UsageError."""
    from quarantine.settings import load

    given = {key: value for key, value in {"database_url": database_url, **overrides}.items() if value is not None}
    return load(config, given, os.environ)


def friendly(command: Callable[P, R]) -> Callable[P, R]:
    """Errors made on purpose end in their sentence and exit code; anything else is a defect and shows its traceback."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            made = command(*args, **kwargs)
            sys.stdout.flush()  # what cannot be written is told while there is somebody to tell
        except UsageError as error:
            raise fail(error, Exit.USAGE) from None
        except Superseded as error:
            raise fail(error, Exit.NO) from None
        except QuarantineError as error:
            raise fail(error, Exit.DEPENDENCY) from None
        except BrokenPipeError:
            # The reader of our output has gone (`| head`): nobody is left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(Exit.NO) from None
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise fail(f"the output could not be written ({error.strerror}): make room", Exit.DEPENDENCY) from None
        else:
            return made

    return wrapped


def fail(error: object, code: Exit) -> typer.Exit:
    """Say it on stderr; raise what is returned."""
    typer.echo(f"quarantine: {error}", err=True)
    return typer.Exit(code)


def _one_line(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A label or a reason from outside must not forge a line, move a cursor or fill a screen. Tracebacks stay."""
    for key, value in event.items():
        if isinstance(value, str) and key != "exception":
            cut = value if len(value) <= LONGEST_FIELD else f"{value[:LONGEST_FIELD]}…"
            event[key] = "".join(c if c.isprintable() else " " if c in "\n\t" else "�" for c in cut)
    return event


class _Stderr:
    """Whatever stderr is by then. A full disk or a reader that has gone must not end a cycle: the ledger has it all."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(message, file=sys.stderr, flush=True)

    debug = info = warning = warn = error = critical = fatal = exception = log = msg


# Locals of a traceback hold tokens and passwords: they are never shown.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def set_up_logging(level: str, style: str) -> None:
    """structlog to stderr, so that stdout is for answers alone."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    shared.append(_one_line)
    last: list[Any] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer()]
        if style == "json"
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    structlog.configure(
        processors=shared + last,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _Stderr(),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
