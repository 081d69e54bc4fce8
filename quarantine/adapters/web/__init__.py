"""JSON over HTTPS with a vendor's API, for every adapter that speaks it."""

from __future__ import annotations

from quarantine.adapters.web.client import WAIT, WHOLE, Answer, Call, Errors, Web, plain
from quarantine.adapters.web.given import base_url, secret_of
from quarantine.adapters.web.patience import retry_after

__all__ = [
    "WAIT",
    "WHOLE",
    "Answer",
    "Call",
    "Errors",
    "Web",
    "base_url",
    "plain",
    "retry_after",
    "secret_of",
]
