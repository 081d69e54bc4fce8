"""What an unquoted YAML scalar means, where YAML 1.1 and 1.2 agree; where they do not, it is refused.

Messages do not repeat a number that they refuse: it may be somebody's unquoted password.
"""

from __future__ import annotations

import re

MAX_NUMBER = 40  # characters; a longer one is no measurement


class Surprise(Exception):
    """A scalar that YAML readers disagree about. `message` and `hint` as in a fault."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


_WORD = {"true": True, "false": False, "null": None, "~": None, "": None}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?")

_DISPUTED = "this is a number to some YAML readers and text to others"
_SURPRISES = tuple(
    (re.compile(pattern), message, hint)
    for pattern, message, hint in (
        (
            r"(?i:true|false|null)",
            "`{}` is a word of YAML only in lower case",
            "write it in lower case, or in quotes if it is text",
        ),
        (
            r"(?i:yes|no|on|off)",
            "`{}` is a boolean to some YAML readers and text to others",
            "write true or false, or put it in quotes",
        ),
        (r"[-+]?\.(?i:inf|nan)", "`{}` is no number that anything can be compared with", "write a number"),
        (
            r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9_]*)?",
            "this is a number to base 60 to some YAML readers",
            "put it in quotes, or write a duration such as 1h30m",
        ),
        (
            r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?",
            "this is a date to some YAML readers and text to others",
            "put it in quotes",
        ),
        (
            r"[-+]?0[0-9_]+(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?",
            "a number that begins with a zero is octal to some YAML readers",
            "leave out the zero, or put it in quotes if it is text",
        ),
        (r"[-+]?0[bxo][0-9a-fA-F_]+", _DISPUTED, "write it as a decimal number, or put it in quotes"),
        (r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?", _DISPUTED, "leave out the `_`, or put it in quotes"),
        (
            r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+",
            _DISPUTED,
            "write it out or as 1.0e+3, or put it in quotes",
        ),
    )
)


def plain(value: str) -> bool | int | float | str | None:
    """The value of an unquoted scalar. Raises Surprise."""
    if value in _WORD:
        return _WORD[value]
    is_int = _INT.fullmatch(value) is not None
    if is_int or _FLOAT.fullmatch(value):
        if len(value) > MAX_NUMBER:
            raise Surprise(f"this number has more than {MAX_NUMBER} characters", "put it in quotes if it is text")
        number = int(value) if is_int else float(value)
        if number in (float("inf"), float("-inf")):
            raise Surprise("this number is too large", "write a smaller one, or put it in quotes if it is text")
        return number
    for pattern, message, hint in _SURPRISES:
        if pattern.fullmatch(value):
            raise Surprise(message.format(value), hint)
    return value


def kind_of(value: object) -> str:
    """What a value is, in words and without the value: `text`, `a number`, `a list`, `nothing`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"
