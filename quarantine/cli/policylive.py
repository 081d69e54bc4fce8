"""`quarantine policy check --prometheus`: what a Prometheus has for the policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from quarantine.adapters.kube.records import Garbled, node_record
from quarantine.adapters.policyfiles.faults import Fault, fault_at, note_at
from quarantine.adapters.policyfiles.loader import CheckResult
from quarantine.adapters.policyfiles.promqlcheck import selectors
from quarantine.adapters.prometheus import PrometheusMetrics
from quarantine.app import CLOCK
from quarantine.cli.options import settings
from quarantine.core.errors import UsageError
from quarantine.core.model import Node
from quarantine.core.policy import Rules
from quarantine.livecheck import Live, Moment, Remark, hold_against

MAX_NODES_FILE = 512 * 1024 * 1024  # a large fleet's nodes carry 20 KB each


def ask_prometheus(
    result: CheckResult, url: str, nodes: Path | None, config: Path | None
) -> tuple[list[Fault], list[str]]:
    """Faults and notes at their places, and a summary. Raises Unavailable where there is no answer, and UsageError."""
    given = settings(config, None, **{"prometheus.url": url})
    known = None if nodes is None else nodes_of(nodes, given.kubernetes.prefix)
    if result.rules is None:
        return [], ["Prometheus was not asked: without a sound Fleet nothing can be"]
    at = CLOCK.now() - given.prometheus.delay
    with PrometheusMetrics(given.prometheus.connection()) as metrics:
        moment = Moment(at, given.prometheus.timeout)
        live = hold_against(metrics, result.rules, moment, parse=selectors, nodes=known)
    return [_placed(remark, result) for remark in live.remarks], _summary(live, result.rules)


def nodes_of(file: Path, prefix: str) -> dict[str, Node]:
    """The nodes in a file that kubectl wrote. Raises UsageError."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_NODES_FILE + 1)
        if len(raw) > MAX_NODES_FILE:
            raise UsageError(f"{file} is larger than 512 MiB; give the output of `kubectl get nodes -o json` alone")
        items: Any = json.loads(raw)
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({(error.strerror or 'unknown error').lower()})") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file} is no JSON; write it with `kubectl get nodes -o json`") from None
    listed = items.get("items") if isinstance(items, dict) else items
    if not isinstance(listed, list) or not listed:
        raise UsageError(f"{file} has no list of nodes; write it with `kubectl get nodes -o json`")
    try:
        records = [node_record(item, prefix) for item in listed]
    except Garbled as error:
        raise UsageError(f"{file} has {error}; write it with `kubectl get nodes -o json`") from None
    return {node.name: node for node in records}


def _placed(remark: Remark, result: CheckResult) -> Fault:
    document = result.documents[remark.kind, remark.name]
    at = fault_at if remark.severity == "fault" else note_at
    return at(document, remark.path, remark.sentence, remark.hint)


def _summary(live: Live, rules: Rules) -> list[str]:
    lines = [f"{policy.name}: {live.series.get(policy.name, 0)} series" for policy in rules.policies]
    if live.unused:
        lines.append(f"not in use, since nothing of them is there: {', '.join(live.unused)}")
    if live.nodes_by is not None:
        lines.append(f"nodes: by {live.nodes_by}")
    return lines
