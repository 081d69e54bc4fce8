"""Which nodes lack what a policy judges: of those that are known, or else of those that other signals show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quarantine.core.budget import pool_of
from quarantine.core.identity import Directory, Unmatched, named_by
from quarantine.core.judge import selects
from quarantine.core.model import Machine, Node, Sample
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import Reading
from quarantine.core.selectors import quote
from quarantine.livecheck.asking import Ask, Rejected

_NAMED = 8  # nodes that a sentence names


@dataclass(slots=True)
class Seen:
    """The nodes that a policy's readings show."""

    names: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)  # what labels say that is no node
    said: dict[str, set[str]] = field(default_factory=dict)  # "name" or "address" → as the labels say it

    def add(self, reading: Reading, samples: Sequence[Sample], directory: Directory | None) -> None:
        """What one reading shows."""
        label = reading.source.node
        for sample in samples:
            named = named_by(label, sample.labels)
            if named is not None:
                self.said.setdefault(label.means, set()).add(named)
            if directory is None:
                continue
            node = directory.node(label, sample.labels)
            if isinstance(node, Unmatched):
                self.strangers.add(node.said or "(unnamed)")
            else:
                self.names.add(node.name)


def lacking(
    policy: LoadedPolicy, rules: Rules, seen: Seen, nodes: Mapping[str, Node] | None, others: Iterable[Seen]
) -> Iterator[tuple[str, str]]:
    """(sentence, hint) about the nodes that the policy ought to see and does not."""
    if nodes is None:
        yield from _beside_others(policy, seen, others)
        return
    meant = {
        node.name
        for node in nodes.values()
        if pool_of(node, rules) is not None and selects(policy.spec.node_selector, node)
    }
    if not meant:
        yield f"policy {policy.name} is for no node that there is", "see its nodeSelector and the fleet's pools"
    elif gone := sorted(meant - seen.names):
        yield (
            f"{len(gone)} of {len(meant)} nodes have no {policy.measures} now: {some(gone)}",
            "nothing is known of a node that lacks the signal: it is neither found bad nor good",
        )
    if seen.strangers:
        yield (
            f"series of {policy.measures} name {len(seen.strangers)} nodes that do not exist: "
            f"{some(sorted(seen.strangers))}",
            "what they say is reported and never acted on; correct `node` in the signal's source",
        )


def _beside_others(policy: LoadedPolicy, seen: Seen, others: Iterable[Seen]) -> Iterator[tuple[str, str]]:
    every: dict[str, set[str]] = {}
    for other in others:
        for means, names in other.said.items():
            every.setdefault(means, set()).update(names)
    for means, names in seen.said.items():
        if gone := sorted(every[means] - names):
            yield (
                f"{len(gone)} of {len(every[means])} nodes that other policies see have no {policy.measures}: "
                f"{some(gone)}",
                "no list of nodes was given, so others may lack all signals: give --nodes FILE",
            )


def some(names: Sequence[str]) -> str:
    """The first few, and that there are more."""
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


# --- kube-state-metrics -----------------------------------------------------------------------------------------------


def from_kube_state_metrics(ask: Ask, rules: Rules) -> dict[str, Node] | None:
    """The nodes as kube-state-metrics tells of them; None where it does not, or hides the labels that pools go by."""
    matchers = ",".join(f"{k}={quote(v)}" for k, v in rules.fleet.matchers.items())
    info = ask(f"max by (node, internal_ip) (kube_node_info{{{matchers}}})")
    wanted = sorted(
        {key for pool in rules.fleet.pools for key in pool.node_selector}
        | {key for policy in rules.policies for key in policy.spec.node_selector}
    )
    mangled = {_mangled(key): key for key in wanted}
    labelled = ask(f"max by (node, {', '.join(mangled)}) (kube_node_labels{{{matchers}}})")
    if isinstance(info, Rejected) or isinstance(labelled, Rejected) or not info:
        return None
    labels = {
        s.labels.get("node", ""): {mangled[k]: v for k, v in s.labels.items() if k in mangled and v} for s in labelled
    }
    in_pool = {key for pool in rules.fleet.pools for key in pool.node_selector}
    if not any(in_pool & known.keys() for known in labels.values()):
        return None
    return {
        name: _node(name, sample.labels.get("internal_ip", ""), labels.get(name, {}))
        for sample in info
        if (name := sample.labels.get("node", ""))
    }


def _mangled(key: str) -> str:
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)


def _node(name: str, address: str, labels: Mapping[str, str]) -> Node:
    return Node(
        name=name,
        machine=Machine(name),
        resource_version="",
        labels=labels,
        annotations={},
        taints=(),
        unschedulable=False,
        ready=None,
        addresses=(address,) if address else (),
    )
