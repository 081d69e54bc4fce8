"""The sentences of decisions. Values come from outside: whoever renders them escapes them."""

from __future__ import annotations

from quarantine.core.case import Evidence
from quarantine.core.model import Device
from quarantine.core.policy import LoadedPolicy
from quarantine.core.units import format_number


def saw(policy: LoadedPolicy, device: Device, node: str, evidence: Evidence) -> str:
    """What a policy saw: `GPU 3 (GPU-…) on node-7 is above 78 °C for 5m, 10% tolerated (84 °C now)`."""
    counts = policy.spec.trigger.events is not None
    value = "" if evidence.value is None else f"{format_number(evidence.value)} {evidence.unit}"
    shown = f" ({value}{'' if counts else ' now'})" if value else ""
    return f"{device} on {node} {'has' if counts else 'is'} {evidence.threshold}{shown}"


def in_words(names: list[str], most: int = 5) -> str:
    """`a, b and 3 more`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
