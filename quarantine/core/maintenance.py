"""Planned work on a node, told by its labels, annotations and taints: nothing is judged there then (invariant 9)."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core.fleet import Maintenance
from quarantine.core.model import Node

ANY = "*"


def under_maintenance(nodes: Mapping[str, Node], signs: Maintenance) -> dict[str, str]:
    """The nodes on which planned work is under way, each with what says so."""
    if not (signs.labels or signs.annotations or signs.taints):
        return {}
    return {name: said for name, node in nodes.items() if (said := _said(node, signs)) is not None}


def _said(node: Node, signs: Maintenance) -> str | None:
    for what, wanted, has in (
        ("label", signs.labels, node.labels),
        ("annotation", signs.annotations, node.annotations),
    ):
        for key, values in wanted.items():
            found = has.get(key)
            if found is not None and (ANY in values or found in values):
                return f"its {what} {key} is {found or 'there'}"
    taint = next((taint.key for taint in node.taints if taint.key in signs.taints), None)
    return None if taint is None else f"it has the taint {taint}"
