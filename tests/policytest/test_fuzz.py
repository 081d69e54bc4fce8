"""Whatever stands in a test file, it is a test or it is told what is wrong, with a place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarantine.adapters.policyfiles.faults import PolicyFaults
from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.core.policy import Rules
from quarantine.policytest import loading

SAMPLE = Path(__file__).parent / "sample"
LINES = (SAMPLE / "hot_test.yaml").read_text(encoding="utf-8").splitlines()
JUNK = st.one_of(
    st.sampled_from(
        [
            *(
                "-1",
                "0",
                "1e999",
                ".nan",
                "null",
                "{}",
                "[]",
                "[1, a]",
                "{a: b}",
                "!!python/object:x",
                "&a x",
                "*a",
                "'",
                "$",
            ),
            *(
                "5m",
                "0s",
                "400d",
                "84...",
                "84x",
                "_x0",
                "stale...",
                "t+1m",
                "node-0",
                "node-99999999999999999999",
                "GPU-1-0",
            ),
            *("'{a=~\"(\"}'", "rate(x[5m])", "'x{a=\"$node$gpu$hca$link\"}'", "\x00", "é", "true", "quarantine", "bad"),
        ]
    ),
    st.text(max_size=20),
)


@pytest.fixture(scope="module")
def rules() -> Rules:
    """The sample's."""
    return load_rules([SAMPLE])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(5, len(LINES) - 1), st.integers(0, 4), JUNK), min_size=1, max_size=3))
def test_a_damaged_file_is_read_or_told(tmp_path: Path, rules: Rules, damages: list[tuple[int, int, str]]) -> None:
    lines = list(LINES)
    for number, how, junk in damages:
        key, colon, value = lines[number].partition(": ")
        lines[number] = [
            f"{key}{colon}{junk}",
            f"{junk}{colon}{value}",
            "",
            f"{lines[number]} {junk}",
            f"    {junk}: 1",
        ][how]
    path = tmp_path / "hot_test.yaml"
    path.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    try:
        found = loading._file(path, rules, SAMPLE)
    except PolicyFaults as error:
        for fault in error.faults:
            assert fault.file == str(path)
            assert fault.line >= 1
            assert fault.message
            assert "\n" not in fault.message
    else:
        assert found.tests
