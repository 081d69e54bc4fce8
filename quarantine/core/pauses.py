"""Pauses: a person's word that nothing new is done, in all, for a policy or for a pool.

What goes on under a pause: judging and recording, recoveries, and every release. What does not: taking machines out,
emptying them, running procedures on them, and asking providers or people for anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from quarantine.core.decision import Word, WordKind
from quarantine.core.signs import in_utc

ALL = "all"
POLICY, POOL = "policy/", "pool/"  # of a scope


def pause(words: Mapping[str, Word], now: datetime, *, policy: str = "", pool: str = "") -> Word | None:
    """The pause that stands for this policy or pool, or for everything; the widest first."""
    scopes = (ALL, *([f"{POOL}{pool}"] if pool else ()), *([f"{POLICY}{policy}"] if policy else ()))
    found = (words.get(key_of(scope)) for scope in scopes)
    return next((word for word in found if word is not None and stands(word, now)), None)


def stands(word: Word, now: datetime) -> bool:
    """Whether a person's word counts: it is over at its end, whether a decision has said so yet or not."""
    return word.until is None or word.until > now


def key_of(scope: str) -> str:
    """The key under which a pause of this scope stands."""
    return f"{WordKind.PAUSE}/{scope}"


def about(scope: str) -> str:
    """What is paused, for people: `everything`, `pool gpu`, `policy gpu-hot`."""
    return "everything" if scope == ALL else scope.replace("/", " ", 1)


def told(word: Word) -> str:
    """A pause for people, to stand behind "because"."""
    until = f" until {in_utc(word.until)}" if word.until is not None else ""
    return f"{about(word.scope)} is paused by {word.by}{until}: {word.reason}"
