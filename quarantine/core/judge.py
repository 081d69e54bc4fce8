"""Answers → verdicts. In the trigger's answer: bad. In the recovery's: good. In neither, or not answered: unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quarantine.core.case import Evidence
from quarantine.core.identity import Directory, Unmatched, device_of
from quarantine.core.model import Answer, Device, DeviceKind, Failed, Node, PolicyAnswers, Sample
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import Reading, readings_of
from quarantine.core.trigger import threshold_text


@dataclass(frozen=True, slots=True)
class Offence:
    """One device that a policy finds bad, on a node of this cluster."""

    policy: LoadedPolicy
    node: Node
    device: Device
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Stray:
    """Something bad that belongs to no node here."""

    policy: LoadedPolicy
    said: str  # what the labels say of the node
    why: Unmatched
    device: Device
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one policy says of the fleet in this cycle."""

    policy: LoadedPolicy
    bad: tuple[Offence, ...]
    strays: tuple[Stray, ...]
    good: Mapping[tuple[str, Device], Evidence]  # by (node name, device); never one that is also bad
    contradictory: tuple[Offence, ...]  # bad and good at once: bad, and reported
    failed: Failed | None  # the trigger was not answered in full: everything not bad is unknown
    covered: int | None  # devices seen on this cluster's nodes; None: not known
    crowded: tuple[str, ...] = ()  # nodes with more GPUs than they have: another cluster's are among them


def judge(policy: LoadedPolicy, answers: PolicyAnswers, rules: Rules, directory: Directory) -> Judgement:
    """The verdicts of one policy. A failed answer of one source leaves the others' findings standing."""
    signal = rules.signal_of(policy)
    threshold = threshold_text(policy.spec.trigger, signal.unit)
    by_key = {reading.key: reading for reading in readings_of(policy, rules)}
    seen = _covered(policy, answers, by_key, directory)
    covered = None if seen is None else sum(seen.values())
    bad: dict[tuple[str, Device], Offence] = {}
    strays: dict[tuple[str, Device], Stray] = {}
    for reading, sample in _samples(answers.trigger, by_key):
        device = device_of(reading, sample.labels)
        if device is None:
            continue
        evidence = _evidence(policy, reading, sample, threshold, covered)
        node = directory.node(reading.source.node, sample.labels)
        if isinstance(node, Unmatched):
            strays.setdefault((node.said, device), Stray(policy, node.said, node, device, evidence))
        elif selects(policy.spec.node_selector, node):
            bad.setdefault((node.name, device), Offence(policy, node, device, evidence))
    good = _good(policy, threshold, answers, by_key, directory)
    return Judgement(
        policy=policy,
        bad=tuple(bad.values()),
        strays=tuple(strays.values()),
        good={key: evidence for key, evidence in good.items() if key not in bad},
        contradictory=tuple(bad[key] for key in good if key in bad),
        failed=_failure(answers.trigger),
        covered=covered,
        crowded=_crowded(signal.device, seen or {}, directory),
    )


def _crowded(kind: DeviceKind, seen: Mapping[str, int], directory: Directory) -> tuple[str, ...]:
    if kind is not DeviceKind.GPU:
        return ()
    capacity = {name: directory.nodes[name].gpus for name in seen}
    return tuple(sorted(name for name, count in seen.items() if (has := capacity[name]) is not None and count > has))


def _samples(answers: Mapping[str, Answer], by_key: Mapping[str, Reading]) -> Iterator[tuple[Reading, Sample]]:
    for key, answer in answers.items():
        if isinstance(answer, Failed) or key not in by_key:
            continue
        for sample in answer.samples:
            yield by_key[key], sample


def _failure(answers: Mapping[str, Answer]) -> Failed | None:
    return next((answer for answer in answers.values() if isinstance(answer, Failed)), None)


def selects(selector: Mapping[str, str], node: Node) -> bool:
    """Whether a node has all the labels of a selector."""
    return all(node.labels.get(key) == value for key, value in selector.items())


def _good(
    policy: LoadedPolicy, threshold: str, answers: PolicyAnswers, by_key: Mapping[str, Reading], directory: Directory
) -> dict[tuple[str, Device], Evidence]:
    """A finding recovers by the reading that found it; observe asks for no other."""
    if _failure(answers.recovery) is not None:
        return {}
    found: dict[tuple[str, Device], Evidence] = {}
    for reading, sample in _samples(answers.recovery, by_key):
        device = device_of(reading, sample.labels)
        node = directory.node(reading.source.node, sample.labels)
        if device is not None and isinstance(node, Node):
            found.setdefault((node.name, device), _evidence(policy, reading, sample, threshold, None))
    return found


def _covered(
    policy: LoadedPolicy, answers: PolicyAnswers, by_key: Mapping[str, Reading], directory: Directory
) -> dict[str, int] | None:
    """Devices seen per node of this cluster. Several metrics of the same devices are not counted twice."""
    if not answers.coverage or all(isinstance(answer, Failed) for answer in answers.coverage.values()):
        return None
    seen: dict[str, int] = {}
    for reading, sample in _samples(answers.coverage, by_key):
        node = directory.node(reading.source.node, sample.labels)
        if isinstance(node, Node) and selects(policy.spec.node_selector, node):
            seen[node.name] = max(seen.get(node.name, 0), int(sample.value))
    return seen


def _evidence(policy: LoadedPolicy, reading: Reading, sample: Sample, threshold: str, covered: int | None) -> Evidence:
    return Evidence(
        query=sample.query,
        value=sample.value,
        unit=reading.signal.unit,
        threshold=threshold,
        at=sample.at,
        signal=policy.measures,
        source=reading.key,
        labels=dict(sample.labels),
        covered=covered,
    )
