"""What was asked of the emulated API server that changes something."""

from __future__ import annotations

from collections.abc import Iterable

from quarantine.sandbox.kubeapi.faults import LoggedRequest

CHANGES = {"POST", "PUT", "PATCH", "DELETE"}


def who_acted(requests: Iterable[LoggedRequest]) -> list[str]:
    """Who asked for each change, in their order, also of those that were refused; the Lease's own are not counted."""
    asked = [one for one in requests if one.method in CHANGES]
    return [one.user for one in asked if "/leases" not in one.path and "selfsubject" not in one.path]
