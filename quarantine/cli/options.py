"""Options that every command takes, and how errors end: one sentence on stderr and a fixed exit code."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import structlog
import typer

from quarantine.core.errors import QuarantineError, Superseded, UsageError

if TYPE_CHECKING:
    from quarantine.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
        except QuarantineError as error:
            raise fail(error, _code(error)) from None
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


def _code(error: QuarantineError) -> Exit:
    if isinstance(error, UsageError):
        return Exit.USAGE
    return Exit.NO if isinstance(error, Superseded) else Exit.DEPENDENCY


def fail(error: object, code: Exit) -> typer.Exit:
    """Say it on stderr; raise what is returned."""
    typer.echo(f"quarantine: {error}", err=True)
    return typer.Exit(code)


def set_up_logging(level: str, style: str, of: Settings | None = None) -> None:
    """The log, to stderr, so that stdout is for answers alone. `of`: whose secrets must not be in it."""
    from quarantine import logs
    from quarantine.settings.secrets import redactor

    if of is None:
        logs.set_up(level, style)
    else:
        logs.set_up(level, style, redactor(of), {"cluster": of.cluster})


@contextlib.contextmanager
def ending_in_the_log() -> Iterator[None]:
    """Where the log is for programs, what ends a controller is a line of it like any other, a defect too."""
    from quarantine import logs

    if not logs.speaks_json():
        yield
        return
    try:
        yield
    except QuarantineError as error:
        structlog.get_logger().error(str(error))
        raise typer.Exit(_code(error)) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception:  # noqa: BLE001  (said in the log, which is where its traceback is looked for)
        structlog.get_logger().exception("a defect ended the controller; please report it with this traceback")
        raise typer.Exit(Exit.NO) from None
