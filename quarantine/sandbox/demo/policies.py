"""The shipped policies as the demo runs them: every window shorter by one factor, and in enforce mode by an overlay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.core.document import API_VERSION
from quarantine.core.policy import PolicySpec, Rules
from quarantine.core.signal import SignalSpec
from quarantine.core.units import format_duration, parse_duration
from quarantine.settings import shipped_policies

_RANGE = re.compile(r"(?<=[\[:])((?:\d+(?:ms|[smhd]))+)(?=[\]:])")  # of [5m], and both of [5m:30s]
PLOT = ("gpu-hot", "nvlink-errors", "infiniband-link-flapping")
SHORTEST = timedelta(milliseconds=1)


def write(target: Path, *, factor: int, fleet: Mapping[str, Any]) -> tuple[Rules, str]:
    """Write the plot's policies and their signals, scaled and enforced, and a fleet; returns the overlay's text."""
    shipped = _of_the_plot(load_rules([shipped_policies()]))
    target.mkdir(parents=True, exist_ok=True)
    signals = [_document("Signal", name, _scaled(spec, factor)) for name, spec in shipped.signals.items()]
    (target / "signals.yaml").write_text(_text(signals), encoding="utf-8")
    for policy in shipped.policies:
        spec = {**_scaled(policy.spec, factor), "mode": "enforce"}
        (target / f"{policy.name}.yaml").write_text(_text([_document("Policy", policy.name, spec)]), encoding="utf-8")
    (target / "fleet.yaml").write_text(_text([_document("Fleet", "demo", dict(fleet))]), encoding="utf-8")
    overlay = {
        "timeScale": f"every duration is divided by {factor}",
        "policies": {policy.name: {"mode": "enforce"} for policy in shipped.policies},
        "fleet": dict(fleet),
    }
    return load_rules([target]), _text([overlay])


def _of_the_plot(rules: Rules) -> Rules:
    """Three of the shipped policies. The others look for what does not happen in the demo."""
    policies = tuple(policy for policy in rules.policies if policy.name in PLOT)
    named = {policy.spec.signal for policy in policies}
    named |= {policy.spec.recovery.load.signal for policy in policies if policy.spec.recovery is not None}
    signals = {name: signal for name, signal in rules.signals.items() if name in named}
    return replace(rules, policies=policies, signals=signals)


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def _text(documents: list[dict[str, Any]]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=110)


def _scaled(spec: SignalSpec | PolicySpec, factor: int) -> dict[str, Any]:
    """The document's own form, as JSON has it, with every duration divided."""
    written = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    scaled: dict[str, Any] = _walk(spec, written, factor)
    return scaled


def _walk(value: object, written: Any, factor: int) -> Any:
    if isinstance(value, timedelta):
        return format_duration(max(SHORTEST, value / factor))
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        by_alias = {(field.alias or name): getattr(value, name) for name, field in fields.items()}
        return {key: _walk(by_alias[key], item, factor) for key, item in written.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, text, factor) for item, text in zip(value, written, strict=True)]
    if isinstance(value, str):
        return _RANGE.sub(lambda found: format_duration(parse_duration(found[1]) / factor), value)
    return written
