"""The chain: each row of the trail carries a hash over itself and its predecessor (invariant 14)."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache

GENESIS = "0" * 64  # the predecessor of the first row


def link(prev: str, cluster: str, seq: int, body: str) -> str:
    """The hash of row `seq` (hexadecimal SHA-256) over the hash before it, the cluster and the stored text.

    The four parts are lines, and none but the last could hold a line break: nothing else reads as the same input.
    """
    return hashlib.sha256(f"{prev}\n{_line(cluster)}\n{seq}\n{body}".encode()).hexdigest()


@lru_cache(maxsize=64)
def _line(cluster: str) -> str:
    """A name in one line; there are few, and a hundred thousand rows of each."""
    return json.dumps(cluster)
