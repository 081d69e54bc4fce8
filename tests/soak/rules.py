"""The policies of a soak: those that are shipped, most of them enforcing, and the edits that people make to them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import yaml

from quarantine.settings import shipped_policies

OBSERVING = frozenset({"infiniband-congestion", "gpu-tensor-idle"})
RACK = "example.com/rack"
_UPTIME, _INVENTORY = "node.uptime", "gpu.temperature"  # signals that the fleet file names
_PROVEN = {"when": "on-proof", "probation": "10m"}
# What is done about a finding, in turn: every way that a case can take is taken by some policy.
_RESPONSES: tuple[Mapping[str, Any], ...] = (
    {"drain": "now", "ticket": "replace", "release": _PROVEN},
    {
        "drain": "when-idle",
        "ladder": [{"do": "reset", "by": "gpu-reset"}, {"do": "replace"}],
        "release": {**_PROVEN, "burnIn": "burn-in"},
    },
    {"drain": "now", "ticket": "report", "release": _PROVEN},
    {"drain": "now", "ticket": "replace", "approval": {}, "release": _PROVEN},
)
_SHORT = "10m"  # a recovery, so that a case lives for an hour and not for half a day


class PolicyFolder:
    """The files that the controller reads, and people change."""

    def __init__(self, folder: Path, *, budget: str, only: Collection[str] = ()) -> None:
        """`only`: these policies, and what they need; all that are shipped where none is named."""
        self._folder = folder
        self._documents = _made(budget) if not only else _needed(_made(budget), only)
        self._bounds = dict(_bounds(self._documents))
        self._broken = ""
        self._removed = ""
        folder.mkdir()
        for name in self._documents:
            self._write(name)

    def churn(self, dice: Random) -> bool:
        """One thing that people do to the files; whether what is in force is to be learned anew."""
        if self._broken:
            self._write(self._broken)
            self._broken = ""
            return False
        if self._removed:
            self._write(self._removed)
            self._removed = ""
            return False
        policies = [name for name, found in self._documents.items() if found[0]["kind"] == "Policy"]
        name = dice.choice(policies)
        match dice.randrange(4):
            case 0:
                self._broken = name
                (self._folder / name).write_text("kind: Policy\nspec: {trigger: {abvoe: 3}}\n", encoding="utf-8")
                return False
            case 1:
                self._removed = name
                (self._folder / name).unlink()
                return False
        spec = self._documents[name][0]["spec"]
        spec["breaker"] = {"maxShare": f"{dice.randrange(30, 60)}%"}
        # Always away from the recovery's bound, and from the first one: edits must not add up to a contradiction.
        for (file, bound), shipped in self._bounds.items():
            if file == name:
                spec["trigger"][bound] = shipped * (1 + dice.uniform(0, 0.01) * (1 if bound == "above" else -1))
        self._write(name)
        return True

    def _write(self, name: str) -> None:
        """JSON is YAML, and quickly written. In one step, as `git` and the kubelet do."""
        text = "\n---\n".join(json.dumps(document, ensure_ascii=False) for document in self._documents[name])
        beside = self._folder / f".{name}.new"
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(self._folder / name)


def _made(budget: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    turn = 0
    for file in sorted(shipped_policies().glob("*.yaml")):
        if file.stem.endswith("_test"):
            continue
        documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        for document in documents:
            if document["kind"] == "Policy":
                _enforced(document, turn)
                turn += 1
            elif document["kind"] == "Fleet":
                _fleet(document["spec"], budget)
        found[file.name] = documents
    return found


def _bounds(found: Mapping[str, list[dict[str, Any]]]) -> Iterator[tuple[tuple[str, str], float]]:
    """The numbers that policies compare with, by file and by what they are called there."""
    for file, (first, *_) in found.items():
        for bound in ("above", "below") if first["kind"] == "Policy" else ():
            value = first["spec"]["trigger"].get(bound)
            if isinstance(value, int | float):
                yield (file, bound), float(value)


def _needed(found: Mapping[str, list[dict[str, Any]]], only: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    signals = {_UPTIME, _INVENTORY}
    for first, *_ in found.values():
        if first["kind"] == "Policy" and first["metadata"]["name"] in only:
            signals |= {first["spec"]["signal"], first["spec"].get("recovery", first["spec"])["load"]["signal"]}
    names = {"Policy": frozenset(only), "Signal": frozenset(signals)}
    kept = {
        file: [d for d in documents if d["metadata"]["name"] in names.get(d["kind"], (d["metadata"]["name"],))]
        for file, documents in found.items()
    }
    return {file: documents for file, documents in kept.items() if documents}


def _enforced(document: dict[str, Any], turn: int) -> None:
    spec = document["spec"]
    if document["metadata"]["name"] in OBSERVING:
        return
    spec["mode"] = "enforce"
    spec["breaker"] = {"maxShare": "50%"}
    if "recovery" in spec:
        spec["recovery"]["for"] = _SHORT
    if spec["response"].get("taint", True):
        spec["response"] = {"notify": True, **deepcopy(_RESPONSES[turn % len(_RESPONSES)])}
    if turn % 3 == 0 and "absent" not in spec["trigger"]:
        spec["correlation"] = {"by": ["rack"], "machines": 3, "within": "5m", "settle": "1m"}


def _fleet(spec: dict[str, Any], budget: str) -> None:
    spec["pools"][0]["budget"] = {"quarantined": budget, "unavailable": budget, "perHour": budget}
    spec["uptime"] = _UPTIME
    spec["topology"] = {"rack": RACK}
    spec["inventory"] = {"signal": _INVENTORY, "memory": "1h"}
    spec["workloads"] = {"checkpoint": {"annotation": "example.com/last-checkpoint"}}
    spec["automata"] = ["driver-manager"]
