"""Answers → verdicts. In the trigger's answer: bad. In the recovery's: good. In neither, or not answered: unknown."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from quarantine.core import absence, grace
from quarantine.core.case import Evidence
from quarantine.core.fleet import Pool
from quarantine.core.identity import Directory, Unmatched, device_of
from quarantine.core.judgement import Found, Judgement, Offence, Stray
from quarantine.core.model import Answer, Device, DeviceKind, Failed, Node, PolicyAnswers, Sample, Samples
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import Reading, readings_of
from quarantine.core.response import EXPORTER
from quarantine.core.trigger import Form, Recovery, recovery_text, threshold_text
from quarantine.core.units import counted

__all__ = ["Judgement", "Offence", "Stray", "judge", "selects"]


def judge(
    policy: LoadedPolicy,
    answers: PolicyAnswers,
    rules: Rules,
    directory: Directory,
    uptime: Mapping[str, Answer] | None = None,
) -> Judgement:
    """The verdicts of one policy. A failed answer of one source leaves the others' findings standing.

    Two things must be known, or nothing is found: how long the nodes have been up, where the policy grants a grace
    after boot (`uptime`: the snapshot's; a node that it does not tell of may have booted just now), and what is seen,
    where it judges absence.
    """
    look = _Look(policy, answers, rules, directory, {r.key: r for r in readings_of(policy, rules)})
    seen = look.covered()
    bad, strays = look.offences(None if seen is None else sum(seen.values()))
    failed = _failure(answers.trigger)
    absent = policy.spec.trigger.form is Form.ABSENT
    if absent and (unknown := _failure({**answers.coverage, **answers.others})) is not None:
        bad, failed = {}, failed or unknown
    elif absent:
        bad = look.absences(bad, seen or {})
    counts, in_grace, not_told = grace.divided(policy, bad.values(), rules, directory, uptime or {})
    if not_told is not None:
        bad, failed = {}, failed or not_told
    good = look.good()
    return Judgement(
        policy=policy,
        bad=counts,
        strays=tuple(strays.values()),
        good={key: evidence for key, evidence in good.items() if key not in bad},
        contradictory=tuple(bad[key] for key in good if key in bad),
        failed=failed,
        covered=None if seen is None else look.reach(seen),
        crowded=_crowded(look.kind, seen or {}, directory),
        in_grace=in_grace,
        covered_by=seen or {},
        seen_by=look.seen_by(),
        emerging=look.emerging({name for name, _ in bad}),
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """What one policy is judged from."""

    policy: LoadedPolicy
    answers: PolicyAnswers
    rules: Rules
    directory: Directory
    by_key: Mapping[str, Reading]

    @property
    def kind(self) -> DeviceKind:
        return self.rules.signal_of(self.policy).device

    def offences(self, covered: int | None) -> tuple[dict[Found, Offence], dict[Found, Stray]]:
        """What the trigger's answers name, each device once: it is bad if any source says so."""
        bad: dict[Found, Offence] = {}
        strays: dict[Found, Stray] = {}
        beside = self._beside()
        for reading, sample in self._samples(self.answers.trigger):
            device = device_of(reading, sample.labels)
            if device is None:
                continue
            evidence = self._evidence(reading, sample, covered)
            node = self.directory.node(reading.source.node, sample.labels)
            if isinstance(node, Unmatched):
                strays.setdefault((node.said, device), Stray(self.policy, node.said, node, device, evidence))
            elif selects(self.policy.spec.node_selector, node):
                said = {key: v for key, v in beside.get((node.name, device), {}).items() if key != reading.key}
                offence = Offence(self.policy, node, device, replace(evidence, others=said))
                known = bad.setdefault((node.name, device), offence)
                if (known.evidence.value or 0) < sample.value and self.policy.spec.trigger.form is Form.ABSENT:
                    bad[node.name, device] = offence  # the reading that misses more
        return bad, strays

    def good(self) -> dict[Found, Evidence]:
        """A finding recovers by the reading that found it; observe asks for no other."""
        if _failure(self.answers.recovery) is not None:
            return {}
        found: dict[Found, Evidence] = {}
        for reading, sample in self._samples(self.answers.recovery):
            device = device_of(reading, sample.labels)
            node = self.directory.node(reading.source.node, sample.labels)
            if not isinstance(node, Node):
                continue
            evidence = self._evidence(reading, sample, None, recovery=self.policy.spec.recovery)
            if self.policy.spec.trigger.form is Form.ABSENT and device in (None, _NODE):
                device, evidence = self._shown(node, sample), replace(evidence, value=None)
            if device is not None:
                found.setdefault((node.name, device), evidence)
        return found

    def _shown(self, node: Node, sample: Sample) -> Device | None:
        """The node, if it shows all that people declare: its own word may have shrunk with the loss."""
        there = counted(sample.value)
        whole = there is not None and absence.stock(node, self.kind, self._pool(node), there, 0, 0).complete
        return _NODE if whole or self.kind is DeviceKind.NODE else None

    def covered(self) -> dict[str, int] | None:
        """Devices seen per node of this cluster; None: not known. Several metrics of the same devices count once."""
        coverage = self.answers.coverage
        if not coverage or all(isinstance(answer, Failed) for answer in coverage.values()):
            return None
        seen: dict[str, int] = {}
        for reading, sample in self._samples(coverage):
            node = self.directory.node(reading.source.node, sample.labels)
            if not isinstance(node, Node) or not selects(self.policy.spec.node_selector, node):
                continue
            if (there := counted(sample.value)) is None:
                return None  # no count of anything: what is made of the rest of it cannot be known
            seen[node.name] = max(seen.get(node.name, 0), there)
        return seen

    def reach(self, seen: Mapping[str, int]) -> int:
        """Of how many devices the policy can say something; of nodes that may be blind, of all that are up."""
        if self.policy.spec.trigger.form is Form.ABSENT and self.kind is DeviceKind.NODE and any(seen.values()):
            return sum(1 for node in self._looked_after().values() if node.ready is True)
        return sum(seen.values())

    # --- Absence ------------------------------------------------------------------------------------------------------

    def absences(self, named: Mapping[Found, Offence], seen: Mapping[str, int]) -> dict[Found, Offence]:
        """What is absent, from the devices that are missed by name and from what the nodes should have."""
        if self.kind is DeviceKind.NODE:
            return {(node.name, _NODE): self._blind(node, seen) for node in absence.silent(self._looked_after(), seen)}
        by_node: dict[str, list[Offence]] = {}
        for offence in named.values():
            if not offence.evidence.others:  # what another reading sees is there
                by_node.setdefault(offence.node.name, []).append(offence)
        found: dict[Found, Offence] = {}
        for name in dict.fromkeys([*by_node, *seen]):
            for offence in self._missing(self.directory.nodes[name], by_node.get(name, ()), seen.get(name)):
                found[name, offence.device] = offence
        return found

    def _missing(self, node: Node, named: Sequence[Offence], seen: int | None) -> Iterator[Offence]:
        lacking = max(map(_lack, named), default=0)
        before = self._before(node, named)
        stock = absence.stock(node, self.kind, self._pool(node), seen, lacking, len(named), before)
        if stock.complete:
            return
        if stock.nameless:
            note = stock.sentence(node.name, self.kind)
            yield Offence(self.policy, node, _NODE, self._counted(stock.numbers, note))
            return
        for offence in named:
            threshold = offence.evidence.threshold + stock.numbers
            yield replace(offence, evidence=replace(offence.evidence, value=None, threshold=threshold))

    def _before(self, node: Node, named: Sequence[Offence]) -> int | None:
        """As many as the readings that miss some ever saw of a node; None where one does not say what it sees now."""
        lacks: dict[str, int] = {}
        for offence in named:
            key, lack = offence.evidence.source, _lack(offence)
            lacks[key] = max(lack, lacks.get(key, 0))
        now = self._seen_by(node) if lacks else {}
        if not lacks or not lacks.keys() <= now.keys():
            return None
        return max(now[key] + lack for key, lack in lacks.items())

    def _seen_by(self, node: Node) -> dict[str, int]:
        """How many devices of a node each reading sees."""
        found: dict[str, int] = {}
        for reading, sample in self._samples(self.answers.coverage):
            there = counted(sample.value)
            if there is not None and self.directory.node(reading.source.node, sample.labels) == node:
                found[reading.key] = max(found.get(reading.key, 0), there)
        return found

    def seen_by(self) -> dict[str, frozenset[str]]:
        """The nodes of which each reading sees anything, by its key; where the policy compares exporters."""
        rule = self.policy.spec.correlation
        if rule is None or EXPORTER not in rule.by:
            return {}
        found: dict[str, set[str]] = {}
        for reading, sample in self._samples(self.answers.coverage):
            node = self.directory.node(reading.source.node, sample.labels)
            if isinstance(node, Node) and sample.value:
                found.setdefault(reading.key, set()).add(node.name)
        return {key: frozenset(names) for key, names in found.items()}

    def emerging(self, bad: Container[str]) -> frozenset[str]:
        """The nodes with a device that is beyond the bound now, and on which nothing is bad yet."""
        found: set[str] = set()
        for reading, sample in self._samples(self.answers.emerging):
            node = self.directory.node(reading.source.node, sample.labels)
            if isinstance(node, Node) and node.name not in bad and selects(self.policy.spec.node_selector, node):
                found.add(node.name)
        return frozenset(found)

    def _blind(self, node: Node, seen: Mapping[str, int]) -> Offence:
        others = sum(1 for count in seen.values() if count)
        do = "1 other node does" if others == 1 else f"{others} other nodes do"
        note = f"{node.name} shows no {self.policy.measures}, while {do}"
        return Offence(self.policy, node, _NODE, self._counted("", note, node))

    def _counted(self, numbers: str, note: str, node: Node | None = None) -> Evidence:
        """The evidence of what was counted: there is no series to show."""
        trigger, signal = self.policy.spec.trigger, self.rules.signal_of(self.policy)
        known = ((k, a) for k, a in self.answers.coverage.items() if k in self.by_key)
        key, answer = next((k, a) for k, a in known if isinstance(a, Samples))
        at = self.answers.coverage_at or max(sample.at for sample in answer.samples)
        name = self.by_key[key].source.node
        plain = node is not None and name.means == "name" and name.part is None and len(name.first) == 1
        return Evidence(
            query=answer.query,
            value=None,
            unit=signal.unit,
            threshold=threshold_text(trigger, signal.unit) + numbers,
            at=at,
            signal=self.policy.measures,
            source=key,
            labels={name.first[0]: node.name} if plain and node is not None else {},
            note=note,
        )

    def _looked_after(self) -> dict[str, Node]:
        """The nodes of the policy's selector that are in a pool."""
        selector = self.policy.spec.node_selector
        every = self.directory.nodes.items()
        return {name: node for name, node in every if selects(selector, node) and self._pool(node) is not None}

    def _pool(self, node: Node) -> Pool | None:
        return next((pool for pool in self.rules.fleet.pools if selects(pool.node_selector, node)), None)

    # --- Pieces -------------------------------------------------------------------------------------------------------

    def _beside(self) -> dict[Found, dict[str, float]]:
        """What other readings say of the devices, by (node, device) and the reading's key."""
        found: dict[Found, dict[str, float]] = {}
        for reading, sample in self._samples(self.answers.others):
            device = device_of(reading, sample.labels)
            node = self.directory.node(reading.source.node, sample.labels)
            if device is not None and isinstance(node, Node):
                found.setdefault((node.name, device), {}).setdefault(reading.key, sample.value)
        return found

    def _samples(self, answers: Mapping[str, Answer]) -> Iterator[tuple[Reading, Sample]]:
        for key, answer in answers.items():
            if isinstance(answer, Failed) or key not in self.by_key:
                continue
            for sample in answer.samples:
                yield self.by_key[key], sample

    def _evidence(
        self, reading: Reading, sample: Sample, covered: int | None, recovery: Recovery | None = None
    ) -> Evidence:
        trigger, unit = self.policy.spec.trigger, reading.signal.unit
        model = sample.labels.get(reading.source.model, "") if reading.source.model is not None else ""
        good = recovery_text(trigger, recovery, unit, model) if recovery is not None else ""
        return Evidence(
            query=sample.query,
            value=sample.value,
            unit=unit,
            threshold=good or threshold_text(trigger, unit, model),
            at=sample.at,
            signal=self.policy.measures,
            source=reading.key,
            labels=dict(sample.labels),
            covered=covered,
        )


_NODE = Device(DeviceKind.NODE, "")


def _crowded(kind: DeviceKind, seen: Mapping[str, int], directory: Directory) -> tuple[str, ...]:
    if kind is not DeviceKind.GPU:
        return ()
    capacity = {name: directory.nodes[name].gpus for name in seen}
    return tuple(sorted(name for name, count in seen.items() if (has := capacity[name]) is not None and count > has))


def _failure(answers: Mapping[str, Answer]) -> Failed | None:
    return next((answer for answer in answers.values() if isinstance(answer, Failed)), None)


def selects(selector: Mapping[str, str], node: Node) -> bool:
    """Whether a node has all the labels of a selector."""
    return all(node.labels.get(key) == value for key, value in selector.items())


def _lack(offence: Offence) -> int:
    """How many devices it misses; 0 where that is no number."""
    return counted(offence.evidence.value or 0) or 0
