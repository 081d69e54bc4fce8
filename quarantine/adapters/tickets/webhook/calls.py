"""What a receiver calls us for: to say that a ticket has changed. It is then read, and what is read counts.

So a word that is replayed, late or out of order does no harm: it costs a look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from quarantine.adapters.tickets.webhook.callback import CallbackRefused, verify_callback
from quarantine.core.errors import Refused


@dataclass(frozen=True, slots=True)
class Calls:
    """Answers one request of the receiver's: status and body. `heard` is given the ticket's reference."""

    secret: Callable[[], str]  # raises Refused where it cannot be read
    now: Callable[[], datetime]
    heard: Callable[[str], None]

    def __call__(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """At once; nothing is asked or written meanwhile."""
        try:
            word = verify_callback(headers, body, self.secret(), self.now())
        except CallbackRefused as refused:
            return refused.status.value, f"{refused}\n".encode("utf-8", "backslashreplace")
        except Refused:
            return 503, b"calls cannot be verified now\n"
        self.heard(word.ticket.ref)
        return 202, b"heard\n"
