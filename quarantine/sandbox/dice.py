"""Numbers that look drawn and are functions of a seed and a name, so the order of asking does not matter."""

from __future__ import annotations

from hashlib import blake2b
from uuid import UUID


class Dice:
    """Draws for one thing; `at` gives the draws for a part of it."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def at(self, part: str) -> Dice:
        """The draws for a part of it."""
        return Dice(f"{self._seed}/{part}")

    def _bytes(self, what: str, size: int) -> bytes:
        return blake2b(f"{self._seed}:{what}".encode(), digest_size=size).digest()

    def uniform(self, what: str, low: float, high: float) -> float:
        """Between `low` and `high`."""
        return low + (high - low) * int.from_bytes(self._bytes(what, 6), "big") / (1 << 48)

    def integer(self, what: str, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return low + int.from_bytes(self._bytes(what, 8), "big") % (high - low + 1)

    def hex(self, what: str, digits: int) -> str:
        """Lower-case hexadecimal digits, an even number of them up to 64."""
        return self._bytes(what, digits // 2).hex()

    def word(self, what: str, size: int) -> str:
        """Letters as Kubernetes ends generated names with."""
        letters = "bcdfghjklmnpqrstvwxz2456789"
        return "".join(letters[b % len(letters)] for b in self._bytes(what, size))

    def uuid(self, what: str) -> str:
        """A version 4 UUID."""
        return str(UUID(bytes=self._bytes(what, 16), version=4))
