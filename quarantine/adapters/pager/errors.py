"""The port's errors, for the client of the pagers' APIs. An alarm that was perhaps sent may be sent again."""

from __future__ import annotations

from quarantine.adapters.web import Errors
from quarantine.core.errors import PagerRefused, PagerUnavailable

ERRORS = Errors(unavailable=PagerUnavailable, uncertain=PagerUnavailable, refused=PagerRefused)
