"""The keys that tickets are found by, and those of what is added to them: safe in a file name, a header and a URL.

And names of attachments that are as safe.
"""

from __future__ import annotations

import re

from quarantine.adapters.tickets.markdown import one_line
from quarantine.core.errors import TicketsRefused
from quarantine.core.marks import shorten

KEY = r"[a-z0-9][a-z0-9-]{0,199}"
_KEY = re.compile(KEY)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


def checked(key: str) -> str:
    """The key of a ticket or of an update, as it is. Raises TicketsRefused where it is none."""
    if not _KEY.fullmatch(key):
        raise TicketsRefused(f"{shorten(one_line(key), 80)!r} is no key of a ticket: it must match {KEY}")
    return key


def file_name(name: str) -> str:
    """A name of ours for an attachment, at most 80 characters: no folder, no dot at an end, nothing to encode."""
    return _UNFIT.sub("-", name).strip(".-")[-80:].lstrip(".-") or "attachment"
