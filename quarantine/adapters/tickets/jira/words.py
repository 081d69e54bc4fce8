"""What the words of a Jira project mean: its statuses and resolutions, which every project may name as it likes."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core.tickets import TicketState

# Resolutions that Jira ships, in its present and earlier names.
_RESOLUTIONS = {
    "won't do": TicketState.REFUSED,
    "won't fix": TicketState.REFUSED,
    "declined": TicketState.REFUSED,
    "rejected": TicketState.REFUSED,
    "cannot reproduce": TicketState.NO_FAULT_FOUND,
}
# Statuses are of one of these categories, whatever they are called.
_CATEGORIES = {"new": TicketState.FILED, "indeterminate": TicketState.IN_PROGRESS, "done": TicketState.CLOSED}


class Words:
    """Reads a status and a resolution as a state. `states`: names of either that mean one, beside our own words."""

    def __init__(self, states: Mapping[str, TicketState]) -> None:
        self._states = {name.strip().lower(): state for name, state in states.items()}

    def state(self, status: str, category: str, resolution: str) -> TicketState:
        """A resolution says more than a status, and either more than its category; what is done has a verdict."""
        is_open = category != "done"
        said = [self._known(resolution), _RESOLUTIONS.get(resolution.lower())] if not is_open else []
        meaning = next((state for state in (*said, self._known(status)) if state is not None), None)
        if meaning is None:
            meaning = _CATEGORIES.get(category, TicketState.IN_PROGRESS)
        return meaning if is_open or meaning.is_verdict else TicketState.CLOSED

    def _known(self, name: str) -> TicketState | None:
        if (state := self._states.get(name.strip().lower())) is not None:
            return state
        word = "-".join(name.lower().replace("-", " ").replace("_", " ").split())
        return TicketState(word) if word in set(TicketState) else None
