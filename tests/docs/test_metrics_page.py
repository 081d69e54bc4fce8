"""docs/metrics.md has each metric that is served, with its labels and in its own words, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.core import Metric

from tests.k8s.test_monitoring import served

PAGE = Path(__file__).parents[2] / "docs/metrics.md"
_INNER = {"le"}


def rows() -> dict[str, str]:
    """By name with labels: what the page says."""
    text = PAGE.read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `([a-z_]+(?:\{[a-z_, ]+\})?)` \| (.+) \|$", text, re.MULTILINE))


def row(family: Metric) -> str:
    labels = sorted({name for sample in family.samples for name in sample.labels} - _INNER)
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return f"{name}{{{', '.join(labels)}}}" if labels else name


def test_the_page_is_what_is_served() -> None:
    *_, registry = served()
    assert rows() == {
        row(family): family.documentation for family in registry.collect() if family.name.startswith("quarantine_")
    }
