"""The sentences of decisions. Values come from outside: whoever renders them escapes them."""

from __future__ import annotations

from quarantine.core.case import Evidence
from quarantine.core.model import Device
from quarantine.core.policy import LoadedPolicy
from quarantine.core.trigger import Form
from quarantine.core.units import format_number


def saw(policy: LoadedPolicy, device: Device, node: str, evidence: Evidence) -> str:
    """What a policy saw: `GPU 3 (GPU-…) on node-7 is above 78 °C for 5m, 10% tolerated (84 °C now)`."""
    if evidence.note:
        return f"{evidence.note}: {evidence.threshold}"
    form = policy.spec.trigger.form
    counts = form is Form.EVENTS
    value = "" if evidence.value is None else f"{format_number(evidence.value)} {evidence.unit}"
    if form is Form.ABOVE_SIBLINGS and value:
        value += " above it"
    shown = f" ({value}{'' if counts else ' now'})" if value else ""
    return f"{device} on {node} {'has' if counts else 'is'} {evidence.threshold}{shown}{disagreement(evidence)}"


def disagreement(evidence: Evidence) -> str:
    """What other exporters say of the device: `, and gpud reads 61 °C for it`; empty where none was asked."""
    read = [
        f"{source.partition('/')[0]} reads {format_number(value)} {evidence.unit} for it"
        for source, value in sorted(evidence.others.items())
    ]
    return f", and {in_words(read)}" if read else ""


def in_words(names: list[str], most: int = 5) -> str:
    """`a, b and 3 more`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
