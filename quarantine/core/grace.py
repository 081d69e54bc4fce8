"""The grace after a boot: what is found on a node that has just started, or may have, does not count yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from quarantine.core.identity import Directory
from quarantine.core.judgement import Offence
from quarantine.core.model import Answer, Failed, Node
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import uptime_readings


def divided(
    policy: LoadedPolicy,
    offences: Iterable[Offence],
    rules: Rules,
    directory: Directory,
    uptime: Mapping[str, Answer],
) -> tuple[tuple[Offence, ...], tuple[Offence, ...], Failed | None]:
    """(what counts, what is in the policy's grace after boot, why nothing can be said).

    `uptime`: the snapshot's. A node of which it does not tell is in the grace: just after a boot its exporter is often
    not scraped yet, and a clock that is not set makes nonsense of the time.
    """
    boot = policy.spec.grace.boot
    if boot is None:
        return tuple(offences), (), None
    known = _uptimes(rules, directory, uptime)
    if isinstance(known, Failed):
        return (), (), known
    counts, in_grace = [], []
    for offence in offences:
        up = known.get(offence.node.name)
        if up is not None and up >= boot.total_seconds():
            counts.append(offence)
        else:
            in_grace.append(offence if up is not None else replace(offence, uptime_told=False))
    return tuple(counts), tuple(in_grace), None


def _uptimes(rules: Rules, directory: Directory, answers: Mapping[str, Answer]) -> dict[str, float] | Failed:
    """For how many seconds each node has been up, by the reading that says least."""
    found: dict[str, float] = {}
    for reading in uptime_readings(rules):
        answer = answers.get(reading.key)
        if isinstance(answer, Failed):
            return answer
        for sample in answer.samples if answer is not None else ():
            node = directory.node(reading.source.node, sample.labels)
            if isinstance(node, Node):
                found[node.name] = min(sample.value, found.get(node.name, sample.value))
    return found
