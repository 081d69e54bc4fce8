"""The text of queries: it parses, it is narrowed, and nothing from outside breaks out of it."""

from __future__ import annotations

import promql_parser
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core import promql
from quarantine.core.policy import LoadedPolicy
from quarantine.core.readings import load_reading, readings_of
from quarantine.core.selectors import quote
from tests.core.world import flapping, policy, rules

LAW = rules(matchers={"cluster": "a"})


def every_query(loaded: LoadedPolicy, devices: list[dict[str, str]]) -> list[str]:
    found = []
    for reading in readings_of(loaded, LAW):
        load = load_reading(loaded, LAW, reading)
        assert load is not None
        found += [
            promql.candidates(loaded, reading) or "vector(1)",
            promql.bad(loaded, reading, None),
            promql.bad(loaded, reading, devices),
            promql.good(loaded, reading, load, devices),
            promql.coverage(reading),
            promql.describe(reading, devices),
            *promql.probes(loaded, reading, reading.node_labels[0], "10.0.0.1").values(),
            *promql.probes(loaded, reading, reading.node_labels[0], "fd00::1").values(),
        ]
    return found


def test_every_query_parses_and_carries_the_fleets_matchers() -> None:
    gpu = [{"Hostname": "n", "hostname": "", "UUID": "GPU-1", "uuid": ""}]
    port = [{"instance": "10.0.0.1:9100", "device": "mlx5_0", "port": "1"}]
    cold = policy(
        "cold",
        trigger={"below": 20, "for": "5m"},
        recovery={"above": 25, "for": "10m", "load": {"signal": "gpu.tensor", "above": 0.1}},
    )
    for loaded, devices in ((policy(), gpu), (cold, gpu), (flapping(), port)):
        for query in every_query(loaded, devices):
            promql_parser.parse(query)
            if "DCGM" in query or "link_downed" in query:
                assert 'cluster="a"' in query


def test_the_cheap_question_is_cheap() -> None:
    reading = readings_of(policy(), LAW)[0]
    assert promql.candidates(policy(), reading) == (
        'last_over_time(DCGM_FI_DEV_GPU_TEMP{cluster="a"}[1m]) >= 1 <= 129 > 78'
    )


def test_the_exact_question_is_for_the_named_devices_alone() -> None:
    reading = readings_of(policy(), LAW)[0]
    devices = [{"Hostname": "a.b", "hostname": "", "UUID": "GPU-1"}, {"Hostname": "c", "hostname": "", "UUID": "GPU-2"}]
    query = promql.bad(policy(), reading, devices)
    assert 'Hostname=~"a\\\\.b|c"' in query
    assert 'hostname=""' in query
    assert "[5m:30s]" in query
    assert ">= 8)" in query
    assert "0.9 *" in query
    assert "changes(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" in query


@given(st.text(max_size=40))
def test_no_label_value_breaks_out_of_a_literal(value: str) -> None:
    reading = readings_of(policy(), LAW)[0]
    for devices in (
        [{"Hostname": value, "UUID": "x"}],
        [{"Hostname": value, "UUID": "x"}, {"Hostname": "b", "UUID": "y"}],
    ):
        query = promql.bad(policy(), reading, devices)
        if "\x00" not in value:
            promql_parser.parse(query)
        literal = quote(value)
        inner = literal[1:-1].replace("\\\\", "").replace('\\"', "")
        assert '"' not in inner
