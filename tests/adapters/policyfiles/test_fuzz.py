"""Whatever is in a file, the answer is rules or faults with a place, and never anything else."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quarantine.adapters.policyfiles.faults import format_faults
from quarantine.adapters.policyfiles.loader import check_paths
from quarantine.adapters.policyfiles.strictyaml import YamlFault, load_one, load_strict
from tests.adapters.policyfiles.conftest import SHIPPED

FILES = sorted(file.name for file in SHIPPED.glob("*.yaml"))
TEXTS = {name: (SHIPPED / name).read_text(encoding="utf-8") for name in FILES}

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
def test_a_shipped_file_with_anything_done_to_it_is_rules_or_faults(
    name: str, edits: list[tuple[float, int, str, bool]]
) -> None:
    text = mutate(TEXTS[name], edits)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        for file in FILES:
            shutil.copy(SHIPPED / file, path)
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
