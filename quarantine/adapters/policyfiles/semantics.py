"""What is wrong with a document that has the right shape, as far as the document itself tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from quarantine.adapters.policyfiles.faults import Fault, Placed, fault_at
from quarantine.adapters.policyfiles.humane import closest
from quarantine.adapters.policyfiles.promqlcheck import LONGEST, check_expression, check_query
from quarantine.adapters.policyfiles.strictyaml import Path_
from quarantine.core import promql
from quarantine.core.fleet import FleetSpec
from quarantine.core.policy import LoadedPolicy, OwnQuery, Rules
from quarantine.core.procedure import ProcedureSpec
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


def selector_faults(document: Placed, at: Path_, selector: Mapping[str, str], whose: str = "node") -> Iterator[Fault]:
    """A selector that nothing could match, since Kubernetes does not have such labels."""
    for label, value in selector.items():
        if not _is_label(label):
            yield fault_at(document, (*at, label), f"{label!r} can be no label of a {whose}", key=True)
        elif value and not _LABEL_NAME.fullmatch(value):
            yield fault_at(document, (*at, label), f"{value!r} can be no value of a {whose}'s label")


def fleet_faults(document: Placed, fleet: FleetSpec) -> Iterator[Fault]:
    """Labels, annotations and taints in the Fleet document that no node or pod can have, and PromQL that is none."""
    for number, pool in enumerate(fleet.pools):
        yield from selector_faults(document, ("spec", "pools", number, "nodeSelector"), pool.node_selector)
    for name, label in fleet.topology.items():
        if not _is_label(label):
            yield fault_at(document, ("spec", "topology", name), f"{label!r} can be no label of a node")
    for label, values in fleet.maintenance.labels.items():
        for value in values:
            at: Path_ = ("spec", "maintenance", "labels")
            yield from selector_faults(document, at, {label: "" if value == "*" else value})
    yield from _keys(document, ("spec", "maintenance", "annotations"), fleet.maintenance.annotations, "annotations")
    yield from _keys(document, ("spec", "maintenance", "taints"), fleet.maintenance.taints, "taints")
    yield from _keys(document, ("spec", "place"), fleet.place, "labels")
    yield from _keys(document, ("spec", "guards"), fleet.guards, "annotations")
    yield from _workload_faults(document, fleet)


def _keys(document: Placed, at: Path_, keys: Iterable[str], what: str) -> Iterator[Fault]:
    """Of a list, or of a mapping whose keys they are."""
    mapping = isinstance(keys, Mapping)
    whose = "pod" if at[1] == "workloads" else "node"
    for number, key in enumerate(keys):
        if not _is_label(key):
            message = f"{key!r} can be no key of a {whose}'s {what}"
            yield fault_at(document, (*at, key if mapping else number), message, key=mapping)


def _workload_faults(document: Placed, fleet: FleetSpec) -> Iterator[Fault]:
    at: Path_ = ("spec", "workloads")
    works = fleet.workloads
    yield from _keys(document, (*at, "gangLabels"), works.gang_labels, "labels")
    yield from selector_faults(document, (*at, "training"), works.training, "pod")
    if works.checkpoint.annotation is not None and not _is_label(works.checkpoint.annotation):
        message = f"{works.checkpoint.annotation!r} can be no annotation of a pod"
        yield fault_at(document, (*at, "checkpoint", "annotation"), message)
    if works.checkpoint.query is not None:
        for message, hint in check_expression(works.checkpoint.query, fleet.matchers, [["namespace"], ["pod"]]):
            yield fault_at(document, (*at, "checkpoint", "query"), f"query {message}", hint)


def _is_label(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(_LABEL_NAME.fullmatch(name)) and (not slash or bool(_LABEL_PREFIX.fullmatch(prefix)))


# --- Procedures -------------------------------------------------------------------------------------------------------

_IN_A_JOB = ("node", "case", "run")
_IN_A_COMMAND = (*_IN_A_JOB, "provider_id", "system_uuid")
_PLACEHOLDER = re.compile(r"(?<![${])\{([A-Za-z_]+)\}(?!\})")  # neither ${SHELL} nor {{template}}


def procedure_faults(document: Placed, spec: ProcedureSpec) -> Iterator[Fault]:
    """A pod that the API server would refuse, and placeholders that stand for nothing."""
    known = _IN_A_COMMAND if spec.command is not None else _IN_A_JOB
    for number, part in enumerate(spec.command or ()):
        yield from _placeholder_faults(document, ("spec", "command", number), part, known)
    yield from _placeholder_faults(document, ("spec", "output"), spec.output, known)
    containers = spec.job.pod["containers"] if spec.job is not None else ()
    for number, container in enumerate(containers):
        at: Path_ = ("spec", "job", "pod", "containers", number)
        for field in ("name", "image"):
            if not isinstance(container.get(field), str) or not container[field]:
                yield fault_at(document, (*at, field), f"a container needs its {field}, as text")
        values: list[tuple[Path_, object]] = []
        for field in ("command", "args"):
            values += [((*at, field, n), value) for n, value in _listed(container.get(field))]
        for n, variable in _listed(container.get("env")):
            if isinstance(variable, dict):
                values.append(((*at, "env", n, "value"), variable.get("value")))
        for where, value in values:
            if isinstance(value, str):
                yield from _placeholder_faults(document, where, value, known)


def _listed(value: object) -> Iterator[tuple[int, object]]:
    yield from enumerate(value if isinstance(value, list) else ())


def _placeholder_faults(document: Placed, at: Path_, text: str, known: Sequence[str]) -> Iterator[Fault]:
    """Only what was surely meant as one: braces have other uses, in JSON and in the languages of scripts."""
    for name in dict.fromkeys(_PLACEHOLDER.findall(text)):
        if name in known:
            continue
        meant = closest(name, list(_IN_A_COMMAND))
        if meant is not None:
            hint = f"did you mean {{{meant}}}?" if meant in known else "only commands have it, since it is of no pod"
            yield fault_at(document, at, f"{{{name}}} stands for nothing here", hint)


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
