"""Mappings and sets that are large and change one entry at a time, without being copied each time.

A fold makes a new state of each decision, and the one before stays what it was. Copying two hundred thousand cases for
one that has changed would cost more than all that was decided.
"""

from __future__ import annotations

from collections.abc import ItemsView as Items
from collections.abc import Iterator, KeysView, Mapping, Set, ValuesView
from math import isqrt
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

SMALL = 500  # entries up to which copying is what costs least


def having(mapping: Mapping[Key, Value], key: Key, value: Value) -> Mapping[Key, Value]:
    """The same mapping with another value of `key`, in the order that a dict would have. Changes nothing."""
    if not isinstance(mapping, Overlay):
        return {**mapping, key: value} if len(mapping) < SMALL else Overlay(mapping, {key: value})
    return mapping.having(key, value)


def including(members: Set[Key], new: Key) -> Set[Key]:
    """The same set with one more member. Changes nothing."""
    if not isinstance(members, Grown):
        return members | {new} if len(members) < SMALL else Grown(members, frozenset({new}))
    return members.including(new)


class Overlay(Mapping[Key, Value]):
    """A mapping that is never changed, and a few entries that are other than there. Make it by `having`."""

    __slots__ = ("_below", "_other", "_whole")

    def __init__(self, below: Mapping[Key, Value], other: dict[Key, Value]) -> None:
        """`below` is a plain dict, or as quick as one."""
        self._below = below
        self._other = other
        self._whole: Mapping[Key, Value] | None = None  # both as one dict, once somebody has walked through it

    def having(self, key: Key, value: Value) -> Mapping[Key, Value]:
        """See the function."""
        if self._whole is not None:
            return Overlay(self._whole, {key: value})
        if len(self._other) > isqrt(len(self._below)):  # so that neither copying is done too often nor too much of it
            return Overlay(self._all(), {key: value})
        return Overlay(self._below, {**self._other, key: value})

    def __getitem__(self, key: Key) -> Value:
        """Of one key."""
        return self._other[key] if key in self._other else self._below[key]

    def __contains__(self, key: object) -> bool:
        """Whether there is a value of `key`."""
        return key in self._other or key in self._below

    def __iter__(self) -> Iterator[Key]:
        """In the order of a dict."""
        return iter(self._all())

    def __len__(self) -> int:
        """How many keys."""
        return len(self._all())

    def __repr__(self) -> str:
        """As a dict's."""
        return repr(self._all())

    def keys(self) -> KeysView[Key]:
        """As a dict's, and as quick."""
        return self._all().keys()

    def values(self) -> ValuesView[Value]:
        """As a dict's, and as quick."""
        return self._all().values()

    def items(self) -> Items[Key, Value]:
        """As a dict's, and as quick."""
        return self._all().items()

    def _all(self) -> Mapping[Key, Value]:
        if self._whole is None:
            self._whole = {**self._below, **self._other}
        return self._whole


class Grown(Set[Key]):
    """A set that is never changed, and a few members more. Make it by `including`."""

    __slots__ = ("_below", "_more")

    def __init__(self, below: Set[Key], more: frozenset[Key]) -> None:
        """`below` is a frozenset, or as quick as one."""
        self._below = below
        self._more = more - below

    def including(self, new: Key) -> Set[Key]:
        """See the function."""
        if new in self:
            return self
        if len(self._more) > isqrt(len(self._below)):
            return Grown(frozenset((*self._below, *self._more)), frozenset({new}))
        return Grown(self._below, self._more | {new})

    def __contains__(self, member: object) -> bool:
        """Whether it is a member."""
        return member in self._more or member in self._below

    def __iter__(self) -> Iterator[Key]:
        """In no order."""
        yield from self._below
        yield from self._more

    def __len__(self) -> int:
        """How many members."""
        return len(self._below) + len(self._more)

    def __repr__(self) -> str:
        """As a frozenset's."""
        return repr(frozenset(self))

    @classmethod
    def _from_iterable(cls, members) -> frozenset[Key]:  # type: ignore[no-untyped-def, override]
        return frozenset(members)
