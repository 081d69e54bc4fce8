"""The log: structlog to stderr, so that stdout is for answers alone. `docs/logs.md` says what its lines have.

Everything that is said goes through the same steps: what this package says, what libraries say through `logging` and
`warnings`, and what ended a thread. In JSON, one object is one line, a traceback included.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, TextIO

import structlog

from quarantine.redaction import Redactor

LONGEST_FIELD = 2000  # characters of one field of a log line

# For programs alone: a terminal has room for the sentence, and for whom it is about.
_FOR_PROGRAMS = frozenset({"about", "cluster", "term", "cycle", "seconds", "decisions", "done", "postponed", "blind"})
_FIRST = ("ts", "level", "event", "cluster", "about", "cycle", "term")
# Of our own making, or a traceback yet to be told: nobody puts a secret there, and a secret may be a part of a name.
_NO_TEXT = frozenset({"ts", "level", "cluster", "about", "cycle", "term", "action", "held_by", "exc_info"})
_Event = MutableMapping[str, Any]
_Step = Callable[[Any, str, _Event], Any]


# One line at a time, or those of two threads run into one another. The handler of a signal may log within a line.
_WRITING = threading.RLock()


class _Stderr:
    """Whatever stderr is by then. A full disk or a reader that has gone must not end a cycle: the ledger has it all."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError), _WRITING:
            sys.stderr.write(f"{message}\n")
            sys.stderr.flush()

    debug = info = warning = warn = error = critical = fatal = exception = log = msg


# Locals of a traceback hold tokens and passwords: they are never shown.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def set_up(
    level: str, style: str, redactor: Redactor | None = None, everywhere: Mapping[str, str] | None = None
) -> None:
    """`style`: `json`, or for a terminal. `everywhere`: fields of every line. Libraries are heard from a warning on."""
    hidden = redactor or Redactor()
    steps: list[_Step] = [
        structlog.contextvars.merge_contextvars,
        _with(everywhere or {}),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts" if style == "json" else "timestamp"),
    ]
    # What is cut, or put on one line, has lost its secrets by then: of half a one nobody would know that it is one.
    if style == "json":
        shown = structlog.processors.JSONRenderer(ensure_ascii=False)
        steps += [_TRACEBACKS, _redacted(hidden), _one_line, _ordered, shown]
    else:
        console = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
        steps += [_redacted(hidden), _one_line, _for_people, console, _line_without(hidden)]
    structlog.configure(
        processors=steps,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *_: _Stderr(),
        cache_logger_on_first_use=False,
    )
    _hear_libraries()


@contextlib.contextmanager
def of_a_process() -> Iterator[None]:
    """While a controller runs: what Python itself would print, of warnings and of threads, is said in the log."""
    before = (threading.excepthook, sys.unraisablehook, warnings.showwarning)
    threading.excepthook, sys.unraisablehook, warnings.showwarning = _ended, _unraisable, _warned
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook, warnings.showwarning = before


def speaks_json() -> bool:
    """Whether the log is for programs."""
    return isinstance(structlog.get_config()["processors"][-1], structlog.processors.JSONRenderer)


class _Libraries(logging.Handler):
    """What libraries say, as lines of the log; `logger` names who."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            said = record.getMessage()
        except Exception:  # noqa: BLE001  (somebody's wrong placeholders must not be told beside the log)
            said = str(record.msg)
        if structlog.is_configured():
            log = structlog.get_logger()
            say = log.error if record.levelno >= logging.ERROR else log.warning
            say(said, logger=record.name, exc_info=record.exc_info or None)


def _hear_libraries() -> None:
    root = logging.getLogger()
    if not any(isinstance(handler, _Libraries) for handler in root.handlers):
        root.addHandler(_Libraries(logging.WARNING))


def _with(fields: Mapping[str, str]) -> _Step:
    def add(_: object, __: str, event: _Event) -> _Event:
        return {**fields, **event}

    return add


def _redacted(redactor: Redactor) -> _Step:
    def redact(_: object, __: str, event: _Event) -> _Event:
        return {k: v if k in _NO_TEXT else redactor.value(v, k) for k, v in event.items()}

    return redact


def _ordered(_: object, __: str, event: _Event) -> _Event:
    """What every line has comes first."""
    return {**{name: event[name] for name in _FIRST if name in event}, **event}


def _line_without(redactor: Redactor) -> Callable[[Any, str, Any], str]:
    """Of what is shown to people, the traceback too."""
    return lambda _, __, line: redactor.text(str(line))


def _for_people(_: object, __: str, event: _Event) -> _Event:
    return {name: value for name, value in event.items() if name not in _FOR_PROGRAMS}


def _one_line(_: object, __: str, event: _Event) -> _Event:
    """A label or a reason from outside must not forge a line, move a cursor or fill a screen. Tracebacks stay."""
    for key, value in event.items():
        if isinstance(value, str) and key != "exception":
            cut = value if len(value) <= LONGEST_FIELD else f"{value[:LONGEST_FIELD]}…"
            event[key] = "".join(c if c.isprintable() else " " if c in "\n\t" else "�" for c in cut)
    return event


def _ended(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None and not isinstance(what.exc_value, SystemExit):
        of = what.thread.name if what.thread is not None else ""
        structlog.get_logger().error("a defect ended a thread; please report this", thread=of, exc_info=what.exc_value)


def _unraisable(what: sys.UnraisableHookArgs) -> None:
    said = what.err_msg or "an exception could not be raised"
    structlog.get_logger().error(f"{said}: {type(what.object).__name__}", exc_info=what.exc_value)


def _warned(  # in the form of warnings.showwarning
    message: Warning | str,
    category: type[Warning],
    filename: str,  # noqa: ARG001
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    structlog.get_logger().warning(str(message), logger="py.warnings", category=category.__name__, line=lineno)
