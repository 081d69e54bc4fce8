"""What is wrong with a document that has the right shape, as far as the document itself tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from quarantine.adapters.policyfiles.faults import Fault, Placed, fault_at
from quarantine.adapters.policyfiles.promqlcheck import LONGEST, check_expression, check_query
from quarantine.adapters.policyfiles.strictyaml import Path_
from quarantine.core import promql
from quarantine.core.fleet import FleetSpec
from quarantine.core.policy import LoadedPolicy, OwnQuery, Rules
from quarantine.core.readings import load_reading, readings_of
from quarantine.core.signal import SignalSpec, Source

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def signal_faults(document: Placed, spec: SignalSpec, matchers: Mapping[str, str]) -> Iterator[Fault]:
    """A signal: its PromQL, and readings that could not be told apart."""
    seen: dict[str, int] = {}
    for number, source in enumerate(spec.sources):
        at: Path_ = ("spec", "sources", number)
        for reading in source.metrics or ("expr",):
            key = f"{source.exporter}/{reading}"
            if key in seen:
                first = "in this source" if seen[key] == number else f"in source {seen[key] + 1}"
                message = f"{key} is there twice, first {first}: their answers could not be told apart"
                yield fault_at(document, (*at, "exporter"), message, "give the exporter another name, or remove one")
            seen.setdefault(key, number)
        yield from _source_faults(document, at, source, matchers)


def own_query_faults(document: Placed, query: OwnQuery, matchers: Mapping[str, str]) -> Iterator[Fault]:
    """A policy's own PromQL, checked as a signal's is."""
    for source in query.as_signal("a policy's own query").sources:
        yield from _source_faults(document, ("spec", "query"), source, matchers)


def _source_faults(document: Placed, at: Path_, source: Source, matchers: Mapping[str, str]) -> Iterator[Fault]:
    node = source.node.first
    device = source.device
    names = (device.first, *((label,) for label in device.join)) if device else ()
    groups = [group for group in (node, *names) if group]
    for field, text, labels in (("expr", source.expr, groups), ("gate", source.gate, [node])):
        for message, hint in check_expression(text, matchers, labels) if text is not None else ():
            yield fault_at(document, (*at, field), f"{field} {message}", hint)
    for label, value in source.match.items():
        if label == "__name__":
            yield fault_at(
                document, (*at, "match", label), "match cannot name the metric", "write it in metrics", key=True
            )
        elif label in matchers and matchers[label] != value:
            message = f"match gives {label} another value than the fleet's matchers ({matchers[label]!r})"
            yield fault_at(document, (*at, "match", label), message, "remove it")
        elif len(value) > LONGEST:
            yield fault_at(document, (*at, "match", label), f"a label's value of more than {LONGEST} characters")


def selector_faults(document: Placed, at: Path_, selector: Mapping[str, str]) -> Iterator[Fault]:
    """A node selector that no node could match, since Kubernetes does not have such labels."""
    for label, value in selector.items():
        if not _is_label(label):
            yield fault_at(document, (*at, label), f"{label!r} can be no label of a node", key=True)
        elif value and not _LABEL_NAME.fullmatch(value):
            yield fault_at(document, (*at, label), f"{value!r} can be no value of a node's label")


def fleet_faults(document: Placed, fleet: FleetSpec) -> Iterator[Fault]:
    """Labels in the Fleet document that no node can have."""
    for number, pool in enumerate(fleet.pools):
        yield from selector_faults(document, ("spec", "pools", number, "nodeSelector"), pool.node_selector)
    for name, label in fleet.topology.items():
        if not _is_label(label):
            yield fault_at(document, ("spec", "topology", name), f"{label!r} can be no label of a node")
    for label, values in fleet.maintenance.labels.items():
        for value in values:
            at: Path_ = ("spec", "maintenance", "labels")
            yield from selector_faults(document, at, {label: "" if value == "*" else value})
    for kind, keys in (("annotations", fleet.maintenance.annotations), ("taints", fleet.maintenance.taints)):
        for number, key in enumerate(keys):
            if not _is_label(key):
                at = ("spec", "maintenance", kind, key if kind == "annotations" else number)
                yield fault_at(document, at, f"{key!r} can be no key of a node's {kind}", key=kind == "annotations")


def _is_label(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(_LABEL_NAME.fullmatch(name)) and (not slash or bool(_LABEL_PREFIX.fullmatch(prefix)))


def query_faults(policy: LoadedPolicy, rules: Rules) -> Iterator[str]:
    """Sentences about the queries that are made of a policy: what Prometheus would refuse."""
    for name, query in _queries(policy, rules):
        if (problem := check_query(query)) is not None:
            yield f"the {name} query that is made of policy {policy.name} is no PromQL: {problem}"


def _queries(policy: LoadedPolicy, rules: Rules) -> Iterator[tuple[str, str]]:
    for reading in readings_of(policy, rules):
        some: Sequence[Mapping[str, str]] = [dict.fromkeys(reading.group, 'a"b\\c')]
        if (cheap := promql.candidates(policy, reading)) is not None:
            yield "candidates", cheap
        yield "trigger", promql.bad(policy, reading, None if reading.metric is None else some)
        yield "coverage", promql.coverage(policy, reading)
        if (load := load_reading(policy, rules, reading)) is not None:
            yield "recovery", promql.good(policy, reading, load, some)
