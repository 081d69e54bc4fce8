"""Planned work on a node: nothing is judged there then (invariant 9).

It is told by the node's labels, annotations and taints, as the fleet file reads them; by our own annotation; and by a
person's word for all nodes that a selector means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from quarantine.core.decision import Word, WordKind
from quarantine.core.fleet import Maintenance
from quarantine.core.judge import selects
from quarantine.core.model import Node
from quarantine.core.pauses import stands
from quarantine.core.policy import Rules
from quarantine.core.signs import in_utc, worked_on

ANY = "*"


def under_maintenance(nodes: Mapping[str, Node], signs: Maintenance) -> dict[str, str]:
    """The nodes on which planned work is under way, each with what says so."""
    if not (signs.labels or signs.annotations or signs.taints):
        return {}
    return {name: said for name, node in nodes.items() if (said := _said(node, signs)) is not None}


def under_words(nodes: Mapping[str, Node], words: Iterable[Word], now: datetime) -> dict[str, str]:
    """The nodes that a person's standing word of planned work means, each with that word."""
    found: dict[str, str] = {}
    for word in words:
        if word.kind is not WordKind.MAINTENANCE or not stands(word, now):
            continue
        until = f" until {in_utc(word.until)}" if word.until is not None else ""
        found |= dict.fromkeys(meant(nodes, word.scope), f"{word.by} plans work on {word.scope}{until}: {word.reason}")
    return found


def under_way(nodes: Mapping[str, Node], words: Iterable[Word], rules: Rules, now: datetime) -> dict[str, str]:
    """The nodes on which planned work is under way by whatever says so, each with what does."""
    return {
        **under_words(nodes, words, now),
        **worked_on(nodes, rules.prefix, now),
        **under_maintenance(nodes, rules.fleet.maintenance),
    }


def meant(nodes: Mapping[str, Node], scope: str) -> list[str]:
    """The nodes that a selector means: the one of this name, or all with these labels."""
    if "=" not in scope:
        return [scope] if scope in nodes else []
    wanted = dict(part.split("=", 1) for part in scope.split(","))
    return [name for name, node in nodes.items() if selects(wanted, node)]


def selector(text: str) -> str:
    """A selector as it is kept: parts in order, without spaces. Raises ValueError, saying what is wrong with it."""
    parts = [part.strip() for part in text.split(",")]
    if parts == [""]:
        raise ValueError("it means no node: write a node's name, or labels as rack=r7,zone=a")
    if len(parts) == 1 and "=" not in parts[0]:
        return parts[0]
    pairs: dict[str, str] = {}
    for part in parts:
        key, separator, value = (piece.strip() for piece in part.partition("="))
        if not separator or not key or "=" in value or key.endswith("!"):
            raise ValueError(f"{part!r} is no label=value; all parts of a selector are")
        if pairs.setdefault(key, value) != value:
            raise ValueError(f"no node has two values of {key}")
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))


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
