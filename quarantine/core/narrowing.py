"""Which devices a question is about: those that an answer names, and those that an open case waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from quarantine.core.case import Case
from quarantine.core.model import Device, DeviceKind, Node, Verdict
from quarantine.core.policy import LoadedPolicy
from quarantine.core.readings import Reading
from quarantine.core.selectors import Labels
from quarantine.core.trigger import Form

ALONE = 8  # so few devices are asked one by one: the query in the trail then names that device alone
NARROWED_AT_ONCE = 40  # devices named in one query, so that its text stays short
ASKED_TOGETHER = 400  # more devices than this, and the exact question is put to the whole fleet at once

Key = tuple[tuple[str, str], ...]


def key_of(labels: Labels, reading: Reading) -> Key:
    """A device by the labels that a reading aggregates it by: the same in each of its answers."""
    return tuple((label, labels.get(label, "")) for label in reading.group)


def devices_of(answer: Iterable[Labels], reading: Reading) -> list[Labels]:
    """The devices that these series are about, each once, in their order."""
    return [dict(key) for key in dict.fromkeys(key_of(labels, reading) for labels in answer)]


def parts(devices: Sequence[Labels], reading: Reading) -> Iterator[Sequence[Labels]]:
    """The devices, so many in one query; of an expression all, since each query is put to the whole fleet."""
    size = 1 if len(devices) <= ALONE else NARROWED_AT_ONCE
    if reading.metric is None:
        size = max(1, len(devices))
    for start in range(0, len(devices), size):
        yield devices[start : start + size]


def to_recover(
    policy: LoadedPolicy, reading: Reading, cases: Iterable[Case], nodes: Mapping[str, Node]
) -> list[Labels]:
    """The devices of open cases that this reading found bad and that nothing has found good since.

    A node of which something is absent was found by no reading, so any may find it good: by each name it may go by.
    """
    found: list[Labels] = []
    for case in cases:
        for f in case.findings:
            if f.policy != policy.name or f.verdict is Verdict.GOOD:
                continue
            if policy.spec.trigger.form is Form.ABSENT and f.device.kind is DeviceKind.NODE:
                found += _names(reading, case.node, nodes.get(case.node))
            elif f.evidence.source == reading.key:
                labels = f.evidence.labels
                found.append({label: labels[label] for label in reading.group if label in labels})
    return [labels for labels in found if labels]


def _names(reading: Reading, name: str, node: Node | None) -> Iterator[Labels]:
    by_name = reading.source.node.means == "name"
    for said in (name,) if by_name else node.addresses if node is not None else ():
        for label in reading.node_key:
            yield {label: said}


def too_many_gone(count: int, reading: Reading) -> str:
    """Why so many absent devices at once are not believed, for people."""
    return (
        f"{count} devices of {reading.key} are gone at once from nodes that still show others: no hardware fails like "
        "that, so look for a label or a metric that was renamed; what is expected of each node is still compared"
    )


def found_by_others(
    reading: Reading, readings: Sequence[Reading], found: Mapping[str, Iterable[Device]], *, absent: bool
) -> Iterator[Sequence[Device]]:
    """The devices (by reading key) that a reading is asked about since others found them bad; a query's worth each.

    To show where exporters disagree; and what is absent must be absent from every reading, also of the same exporter.
    """
    devices = dict.fromkeys(
        device
        for other in readings
        if other.key != reading.key and (absent or other.source.exporter != reading.source.exporter)
        for device in found[other.key]
    )
    asked = list(devices)[: None if absent else ASKED_TOGETHER]
    for start in range(0, len(asked), NARROWED_AT_ONCE):
        yield asked[start : start + NARROWED_AT_ONCE]
