"""Which of the standing holds are about a node: what it waits for, or what is not done about it, and why."""

from __future__ import annotations

from quarantine.core.case import Case
from quarantine.core.decision import Hold, State
from quarantine.core.draft import NODE, case_key
from quarantine.core.treatment.returned import RETURNED
from quarantine.core.waivers import WAIVED_KEY

# Of hold keys: behind these stands a node's name; behind all others a case, or something that is no machine.
OF_NODE = (NODE, RETURNED, WAIVED_KEY, "mark/", "annotation/")
MOST = 3  # that are told in one sentence


def holds_of(node: str, state: State) -> list[Hold]:
    """Those that stand about the node or its open case, oldest first."""
    case = state.open_case_of(node)
    found = [hold for hold in state.holds.values() if _is_about(hold.key, node, case)]
    return sorted(found, key=lambda hold: (hold.since, hold.key))


def held(node: str, state: State) -> str:
    """What holds a node, as the end of a sentence; empty where nothing does.

    What keeps a suspect from being taken out is not repeated: the case itself says by what it is held.
    """
    case = state.open_case_of(node)
    said = [h for h in holds_of(node, state) if case is None or not case.held_by or h.key != case_key(case.id)]
    told = "".join(f"; held by {hold.held_by}: {hold.reason.rstrip('.')}" for hold in said[:MOST])
    rest = len(said) - MOST
    return told if rest <= 0 else f"{told}; and {rest} more hold{'' if rest == 1 else 's'}"


def _is_about(key: str, node: str, case: Case | None) -> bool:
    prefix, slash, rest = key.partition("/")
    whose = rest.partition("/")[0]
    if f"{prefix}{slash}" in OF_NODE:
        return whose == node
    return case is not None and whose == case.id
