"""Which devices a question is about: those that an answer names, and those that an open case waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from quarantine.core.case import Case
from quarantine.core.model import Verdict
from quarantine.core.policy import LoadedPolicy
from quarantine.core.readings import Reading
from quarantine.core.selectors import Labels

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


def parts(devices: Sequence[Labels]) -> Iterator[Sequence[Labels]]:
    """The devices, so many in one query."""
    size = 1 if len(devices) <= ALONE else NARROWED_AT_ONCE
    for start in range(0, len(devices), size):
        yield devices[start : start + size]


def to_recover(policy: LoadedPolicy, reading: Reading, cases: Iterable[Case]) -> list[Labels]:
    """The devices of open cases that this reading found bad and that nothing has found good since."""
    found = [
        {label: f.evidence.labels[label] for label in reading.group if label in f.evidence.labels}
        for case in cases
        for f in case.findings
        if f.policy == policy.name and f.verdict is not Verdict.GOOD and f.evidence.source == reading.key
    ]
    return [labels for labels in found if labels]


def too_many_gone(count: int, reading: Reading) -> str:
    """Why so many absent devices at once are not believed, for people."""
    return (
        f"{count} devices of {reading.key} are gone at once from nodes that still show others: no hardware fails like "
        "that, so look for a label or a metric that was renamed; what is expected of each node is still compared"
    )
