"""The last line of defence: what is secret is taken out of a text before it leaves, whoever put it there.

No error and no answer is meant to have a secret in it in the first place: adapters see to that, and tests plant
secrets and look for them with this switched off. It is for the one path that nobody thought of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from urllib.parse import quote

HIDDEN = "***"
SHORTEST = 6  # characters; to hide a shorter secret would blot out half of what is said
REMEMBERED = 3  # contents of a file: one that was rotated may be good for a while
_LARGEST_FILE = 64 * 1024  # bytes of a file that holds a secret
# What has the form of a secret, whatever it is: those of a file that was rotated a moment ago, or of another program.
# None of them takes a quote or a backslash, so that what was JSON is JSON afterwards.
_FORMS = (
    (re.compile(r"(://[^/\s:@\"'\\]*):[^/\s@\"'\\]+@"), rf"\1:{HIDDEN}@"),  # scheme://user:password@host
    (re.compile(r"(?i)\b(bearer|basic)(\s+)(?=[^\s\"'\\]*\d)[\w.~+/=-]{16,}"), rf"\1\2{HIDDEN}"),
    (re.compile(r"\b(?:xox[a-z]|xapp)-[\w-]{8,}"), HIDDEN),  # Slack's
    (re.compile(r"\b(?:gh[oprsu]|github_pat)_\w{16,}"), HIDDEN),
    (re.compile(r"(https://hooks\.slack\.com/)[^\s\"'\\]+"), rf"\1{HIDDEN}"),
)
_NAMES = re.compile(r"(?i)(^|[_-])(authorization|cookie|passphrase|password|secret|token|credentials?|api[_-]?key)$")


class Redactor:
    """Knows secrets by their values, and those in files as they are by now and as they were of late. Thread-safe."""

    def __init__(
        self, values: Iterable[str] = (), files: Iterable[Path] = (), spared: Collection[str] = frozenset()
    ) -> None:
        """`spared`: words that are names as well, and are hidden in no case."""
        self._spared = spared
        self._values = tuple(values)
        self._files = {path: _File() for path in files}
        self._known = self._longest_first(self._values)
        self._reading = RLock()  # a signal may have its handler log something while a file is read

    def text(self, text: str) -> str:
        """It, without secrets."""
        with self._reading:  # what another thread is about to know is waited for
            self._follow()
            known = self._known
        for secret in known:
            text = text.replace(secret, HIDDEN)
        for form, instead in _FORMS:
            text = form.sub(instead, text)
        return text

    def value(self, value: object, name: str = "") -> object:
        """The same of texts that are nested in mappings and lists, their keys too. `name`: what it is called."""
        if isinstance(value, str):
            return HIDDEN if value and _NAMES.search(name) else self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(inner, str(key)) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(inner, name) for inner in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))

    def _follow(self) -> None:
        """A file that was rotated holds another secret. The earlier one stays hidden: it may be good for a while."""
        changed = False
        for path, file in self._files.items():
            try:
                is_now = path.stat()
                mark = (is_now.st_mtime_ns, is_now.st_size)
                if mark != file.mark:
                    with path.open("rb") as opened:
                        held = opened.read(_LARGEST_FILE).decode("utf-8", "replace").strip()
                    changed |= held not in file.held
                    file.held, file.mark = (held, *(one for one in file.held if one != held))[:REMEMBERED], mark
            except OSError:
                continue  # whoever needs it says so
        if changed:
            self._known = self._longest_first(
                [*self._values, *(held for file in self._files.values() for held in file.held)]
            )

    def _longest_first(self, values: Iterable[str]) -> tuple[str, ...]:
        """All forms of all of them, in this order, since one may begin as another one does."""
        hidden = set(_forms(value for value in values if value not in self._spared))
        return tuple(sorted(hidden, key=lambda value: (-len(value), value)))


@dataclass(slots=True)
class _File:
    mark: tuple[int, int] = (0, 0)  # when it was written, and how large it was
    held: tuple[str, ...] = ()  # what it did, the latest first


def _forms(values: Iterable[str]) -> Iterable[str]:
    """Each as it is, and as it stands in a URL and in JSON."""
    for value in values:
        if len(value) >= SHORTEST:
            yield from (value, quote(value, safe=""), json.dumps(value)[1:-1])
