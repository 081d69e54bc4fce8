"""Whatever is in a file, the answer is rules or faults with a place, and never anything else."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quarantine.adapters.policyfiles.faults import LONGEST, format_faults
from quarantine.adapters.policyfiles.loader import check_paths
from quarantine.adapters.policyfiles.strictyaml import YamlFault, load_one, load_strict
from tests.adapters.policyfiles.conftest import SAMPLE

FILES = sorted(file.name for file in SAMPLE.glob("*.yaml"))
TEXTS = {name: (SAMPLE / name).read_text(encoding="utf-8") for name in FILES}

# What tends to break a reader of YAML, of numbers or of PromQL.
TROUBLE = [
    *("\t", "\0", "---\n", "...\n", "- ", "? ", ": ", "&a ", "*a", "<<: *a", "!!python/none ", "|", ">", "#", "%", "@"),
    *("{", "[", "]", "}", "'", '"', "''", "`", "\\", "\r", "\r\n", "\ufeff", "\u2028", "\x85", "\ud800", "\U0001f600"),
    *(".nan", "-.inf", "1e999", "0x", "1:30", "017", "yes", "~", "null", "-1", '"\\ud800"', '"\\UFFFFFFFF"'),
    *("[" * 60, "9" * 5000, "x" * 5000, "x[5m]", "rate(", "@ end()"),
    *("kind: Fleet\n", "kind: Policy\n", "spec:\n", "spec: 1\n", "metadata: []\n"),
]
PIECES = st.one_of(st.sampled_from(TROUBLE), st.text(max_size=6))
EDITS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 40), PIECES, st.booleans()), min_size=1, max_size=4
)


def mutate(text: str, edits: list[tuple[float, int, str, bool]]) -> str:
    """Each edit replaces a few characters, or the rest of their line, somewhere in the text."""
    for where, length, piece, whole_line in edits:
        start = int(where * len(text))
        end = text.find("\n", start) if whole_line else start + length
        text = text[:start] + piece + text[end:]
    return text


@settings(max_examples=250, deadline=None)
@given(st.one_of(st.text(), st.builds(mutate, st.just(TEXTS["fleet.yaml"]), EDITS)))
@example("a: " + "[" * 5000)
@example("? " * 5000)
@example("%YAML " + "9" * 5000 + ".1\n---\na: 1")
@example('a: "\\UFFFFFFFF"')
@example("a: !<%ff> x")
def test_text_is_documents_or_one_fault_with_a_place_in_it(text: str) -> None:
    lines = text.count("\n") + text.count("\r") + 1
    for load in (load_strict, load_one):
        fault: YamlFault | None = None
        try:
            load(text, "f")
        except YamlFault as caught:
            fault = caught
        if fault is not None:
            assert 1 <= fault.line <= lines
            assert fault.column >= 1
            assert len(str(fault).splitlines()) == 1


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(FILES), EDITS)
def test_a_good_file_with_anything_done_to_it_is_rules_or_faults(
    name: str, edits: list[tuple[float, int, str, bool]]
) -> None:
    text = mutate(TEXTS[name], edits)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        for file in FILES:
            shutil.copy(SAMPLE / file, path)
        (path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        result = check_paths([path])
    assert result.rules is not None or result.faults
    for fault in result.faults:
        assert fault.line >= 1
        assert fault.column >= 1
        assert len(str(fault).splitlines()) == 1
        assert fault.message
        assert len(str(fault)) < 2000
    for style in ("text", "json", "github"):
        format_faults(result.faults, style).encode()
    if result.rules is not None:
        assert {p.spec.signal for p in result.rules.policies} <= set(result.rules.signals)


# --- Documents of nearly the right shape ------------------------------------------------------------------------------

RICH = """
apiVersion: quarantine.gpu/v1alpha1
kind: Policy
metadata: {name: rich}
spec:
  description: d
  owner: o
  severity: fatal
  mode: enforce
  nodeSelector: {nvidia.com/gpu.present: "true"}
  signal: gpu.temperature
  trigger:
    outside: {min: cold, max: 85}
    for: 5m
    tolerate: 5%
    models: [{model: "*A100*", outside: {min: 5, max: 90}}]
  grace: {boot: 10m, driver: 5m}
  recovery:
    above: 20
    below: 70
    for: 30m
    load: {signal: gpu.tensor-active, above: 0.1, exporter: dcgm-exporter}
    models: [{model: "*A100*", above: 20, below: 80}]
  escalation: {findings: 2, within: 12h}
  breaker: {maxShare: 5%}
  correlation: {by: [rack], machines: 2, within: 5m, settle: 1m}
  response: {taint: true, cordon: false, ticket: report}
---
apiVersion: quarantine.gpu/v1alpha1
kind: Policy
metadata: {name: own}
spec:
  description: d
  query:
    expr: last_over_time(x[1m])
    unit: x
    device: gpu
    plausible: {min: 0, max: 1}
    interval: 30s
    node: {first: [instance], means: address, part: "([^:]+):.*"}
    labels: {join: [device, port]}
    gate: last_over_time(up[1m]) == 1
  trigger: {below: 0.5, for: 5m}
---
apiVersion: quarantine.gpu/v1alpha1
kind: Policy
metadata: {name: gone}
spec:
  description: d
  signal: gpu.temperature
  trigger: {absent: true, for: 5m, within: 1h}
---
apiVersion: quarantine.gpu/v1alpha1
kind: Defaults
metadata: {name: defaults}
spec:
  policy:
    owner: o
    severity: warning
    trigger: {tolerate: 10%, coverage: 90%}
    recovery: {coverage: 95%}
    grace: {boot: 5m}
    response: {ticket: none}
  thresholds: {cold: 3}
"""
UPTIME = """
apiVersion: quarantine.gpu/v1alpha1
kind: Signal
metadata: {name: uptime}
spec:
  description: d
  unit: s
  device: node
  type: gauge
  plausible: {min: 0, max: 1000000000}
  interval: 30s
  sources: [{exporter: node-exporter, metrics: [up_seconds], node: {first: [instance], means: address}}]
"""


def good() -> list[Any]:
    """The sample with one policy of every feature, and what that needs."""
    texts = {
        **TEXTS,
        "fleet.yaml": TEXTS["fleet.yaml"].replace(
            "  pools:\n", "  uptime: uptime\n  topology: {rack: rack}\n  pools:\n"
        ),
        "signals.yaml": TEXTS["signals.yaml"].replace(
            "        - DCGM_FI_DEV_GPU_TEMP\n", "        - DCGM_FI_DEV_GPU_TEMP\n      model: modelName\n"
        ),
    }
    return [document.data for document in load_strict("\n---\n".join([RICH, UPTIME, *texts.values()]), "f")]


GOOD = good()
LEAVES: st.SearchStrategy[object] = st.one_of(
    st.sampled_from([None, True, 0, -1, 1e300, 2**70, "", "5m", "10%", "cold", "*", ".*", "no", "0", [], {}, [[]]]),
    st.sampled_from(["node", "gpu", "counter", "gauge", "enforce", "a" * 200, "\x00", "\ud800", "x{", "é", "a b"]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-10, 10**20),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
NAMES = ["for", "above", "below", "events", "within", "absent", "models", "signal", "query", "x", "min", "first", "via"]


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, inner in pairs for found in places(inner, (*path, key)))]


@st.composite
def nearly_right(draw: st.DrawFn) -> str:
    """The documents, with one to three values replaced, removed, renamed or put somewhere else."""
    documents = json.loads(json.dumps(GOOD))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([p for p in places(documents) if len(p) > 1]))
        holder = functools.reduce(lambda here, part: here[part], path[:-1], documents)
        match draw(st.sampled_from(["replace", "remove", "add", "swap"])):
            case "replace":
                holder[path[-1]] = draw(TREES)
            case "remove":
                del holder[path[-1]]
            case "add" if isinstance(holder, dict):
                holder[draw(st.sampled_from(NAMES))] = draw(TREES)
            case _:
                other = draw(st.sampled_from([p for p in places(documents) if len(p) > 1]))
                found = functools.reduce(lambda here, part: here[part], other, documents)
                holder[path[-1]] = json.loads(json.dumps(found))
    return "\n---\n".join(json.dumps(document) for document in documents)


def test_what_is_changed_there_is_without_a_fault(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("\n---\n".join(json.dumps(document) for document in GOOD), encoding="utf-8")
    result = check_paths([tmp_path])
    assert result.faults == ()
    assert result.counts["policies"] == 6


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nearly_right())
def test_documents_of_nearly_the_right_shape_are_rules_or_faults_with_a_place(text: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "all.yaml"
        file.write_text(text, encoding="utf-8")
        result = check_paths([file])
    assert result.rules is not None or result.faults
    lines = text.count("\n") + 1
    for fault in [*result.faults, *result.notes]:
        assert fault.file == str(file)
        assert 1 <= fault.line <= lines
        assert fault.message
        assert len(str(fault).splitlines()) == 1
        assert len(fault.message) <= LONGEST
    format_faults(result.faults).encode()
    if result.rules is not None:
        for policy in result.rules.policies:
            result.rules.signal_of(policy)
