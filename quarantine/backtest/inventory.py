"""Which machines there were, where nobody hands over a list: what the exporters say of their nodes.

The answers are only as good as the labels. What has to be assumed is said, in sentences for the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from quarantine.core import promql
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.fleet import Maintenance
from quarantine.core.identity import host_of, named_by
from quarantine.core.model import DeviceKind, Failed, FailureKind, Machine, Node
from quarantine.core.policy import Rules
from quarantine.core.readings import Reading, readings_of
from quarantine.core.selectors import quote
from quarantine.core.series import Grid, Tracks
from quarantine.core.units import counted
from quarantine.ports import RangeMetrics

LOOKS = 24  # at so many moments of the span it is asked who is there
TIMEOUT = timedelta(minutes=2)
_SANITIZED = str.maketrans(dict.fromkeys("./-", "_"))


@dataclass(frozen=True, slots=True)
class Inventory:
    """The machines, and what had to be assumed of them."""

    nodes: Mapping[str, Node]
    assumptions: tuple[str, ...]


@dataclass(slots=True)
class _Seen:
    names: dict[str, int] = field(default_factory=dict)  # node name → GPUs seen at once
    addresses: dict[str, int] = field(default_factory=dict)


def at_the_start(nodes: Iterable[Node], prefix: str, signs: Maintenance) -> dict[str, Node]:
    """Nodes as they are now, taken as if in service.

    What is cordoned, marked or under planned work today says nothing about then.
    """

    def cleaned(node: Node) -> Node:
        taints = (t for t in node.taints if t.key not in signs.taints)
        labels = {k: v for k, v in node.labels.items() if k not in signs.labels}
        return replace(
            node,
            ready=True,
            unschedulable=False,
            taints=tuple(t for t in taints if not t.key.startswith(f"{prefix}/")),
            labels={k: v for k, v in labels.items() if k != f"{prefix}/phase"},
            annotations={},
        )

    return {node.name: cleaned(node) for node in nodes}


def from_metrics(rules: Rules, metrics: RangeMetrics, grid: Grid) -> Inventory:
    """The nodes that the policies' own series name over the span.

    Addresses become names by kube-state-metrics' `kube_node_info`, and labels come from its `kube_node_labels`, where
    Prometheus has them. Raises Unavailable or Refused where Prometheus does not answer, Refused where no node is seen.
    """
    looks = _few(grid)
    seen = _Seen()
    for policy in rules.policies:
        for reading in readings_of(policy, rules):
            _note(seen, reading, _asked(metrics, promql.coverage(policy, reading), looks))
    where = "".join(f"{key}={quote(value)}," for key, value in rules.fleet.matchers.items())
    named = _asked(metrics, f'last_over_time(kube_node_info{{{where}node!=""}}[5m])', looks)
    labels = _asked(metrics, f'last_over_time(kube_node_labels{{{where}node!=""}}[5m])', looks)
    address_of = {t.labels["node"]: t.labels["internal_ip"] for t in named.tracks if t.labels.get("internal_ip")}
    labels_of = _telling(rules, {track.labels["node"]: track.labels for track in labels.tracks})
    nodes = _nodes(rules, seen, address_of, labels_of)
    if not nodes:
        raise Refused(
            "Prometheus has no series of these policies' signals in this time, so no machine is known: see what "
            "`quarantine policy check --prometheus` says of their selectors, or give the machines with --nodes"
        )
    return Inventory(nodes, _assumed(rules, seen, address_of, labels_of))


def _telling(rules: Rules, labels_of: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """kube-state-metrics exports no label by itself: where none that the pools ask for is there, it tells nothing."""
    asked = {f"label_{key.translate(_SANITIZED)}" for pool in rules.fleet.pools for key in pool.node_selector}
    return labels_of if any(asked & labels.keys() for labels in labels_of.values()) else {}


def _few(grid: Grid) -> Grid:
    stride = max(1, (grid.count - 1) // (LOOKS - 1)) if grid.count > 1 else 1
    return Grid(grid.start, stride * grid.step, (grid.count - 1) // stride + 1)


def _asked(metrics: RangeMetrics, query: str, grid: Grid) -> Tracks:
    answer = metrics.query_range(query, grid, timeout=TIMEOUT)
    if not isinstance(answer, Failed):
        return answer
    if answer.kind in (FailureKind.REFUSED, FailureKind.REJECTED, FailureKind.MISCONFIGURED):
        raise Refused(answer.detail)
    raise Unavailable(answer.detail)


def _note(seen: _Seen, reading: Reading, found: Tracks) -> None:
    for track in found.tracks:
        selected = named_by(reading.source.node, track.labels)
        if selected is None:
            continue
        kind = seen.names if reading.source.node.means == "name" else seen.addresses
        told = (counted(value) or 0 for value in track.values)
        gpus = max(told, default=0) if reading.signal.device is DeviceKind.GPU else 0
        kind[selected] = max(kind.get(selected, 0), gpus)


def _nodes(
    rules: Rules, seen: _Seen, address_of: Mapping[str, str], labels_of: Mapping[str, Mapping[str, str]]
) -> dict[str, Node]:
    known = {address: node for node, address in address_of.items()}
    gpus = dict(seen.names)
    for address, count in seen.addresses.items():
        # What no mapping names is a machine of its own, called as it is reached.
        name = known.get(address, address)
        gpus[name] = max(gpus.get(name, 0), count)
    return {name: _node(name, count, rules, address_of.get(name), labels_of) for name, count in sorted(gpus.items())}


def _node(name: str, gpus: int, rules: Rules, address: str | None, labels_of: Mapping[str, Mapping[str, str]]) -> Node:
    return Node(
        name=name,
        machine=Machine(node_uid=f"assumed-{name}"),
        resource_version="0",
        labels=_labels(rules, labels_of.get(name)),
        annotations={},
        taints=(),
        unschedulable=False,
        ready=True,
        addresses=tuple(a for a in (address, host_of(name)) if a),
        gpus=gpus or None,
    )


def _labels(rules: Rules, exported: Mapping[str, str] | None) -> dict[str, str]:
    """Those that the rules ask for: as kube-state-metrics has them, or else as the first pool wants them."""
    if exported is None:
        return dict(rules.fleet.pools[0].node_selector)
    wanted = {key for pool in rules.fleet.pools for key in pool.node_selector}
    wanted |= {key for policy in rules.policies for key in policy.spec.node_selector} | {*rules.fleet.topology.values()}
    found = {key: exported.get(f"label_{key.translate(_SANITIZED)}", "") for key in wanted}
    return {key: value for key, value in found.items() if value}


def _assumed(
    rules: Rules, seen: _Seen, address_of: Mapping[str, str], labels_of: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
    told = ["the machines are those that the policies' own series name; one that was never seen is not counted"]
    if not labels_of:
        pool = rules.fleet.pools[0].name
        told.append(f"every machine belongs to pool {pool}, since no kube_node_labels in Prometheus tells")
        narrow = sorted(p.name for p in rules.policies if p.spec.node_selector)
        if narrow:
            told.append(f"which machines {', '.join(narrow)} select is not known either: none, unless the pool's do")
    lost = len(seen.addresses.keys() - set(address_of.values()))
    if lost and seen.names:
        told.append(
            f"{lost} addresses could not be matched to node names (no kube_node_info), so a machine that one exporter "
            "names and another only reaches counts twice"
        )
    return tuple(told)
