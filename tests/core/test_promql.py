"""The text of queries: it parses, it is narrowed, and nothing from outside breaks out of it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import promql_parser
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core import promql
from quarantine.core.identity import device_of
from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql.bounds import branches
from quarantine.core.readings import load_reading, readings, readings_of
from quarantine.core.selectors import quote
from quarantine.core.signal import Source
from quarantine.core.trigger import ModelBound, Trigger, bound_for
from tests.core.world import flapping, policy, rules

LAW = rules(matchers={"cluster": "a"})


def every_query(loaded: LoadedPolicy, devices: list[dict[str, str]]) -> list[str]:
    found = []
    for reading in readings_of(loaded, LAW):
        load = load_reading(loaded, LAW, reading)
        named = [device for labels in devices if (device := device_of(reading, labels)) is not None]
        found += [promql.good(loaded, reading, load, devices)] if load is not None else []
        found += [
            promql.candidates(loaded, reading) or "vector(1)",
            promql.bad(loaded, reading, None),
            promql.bad(loaded, reading, devices),
            promql.coverage(loaded, reading),
            promql.describe(reading, devices),
            promql.describe(reading, devices, timedelta(hours=6)),
            promql.others(loaded, reading, named) or "vector(1)",
            promql.uptime(reading, timedelta(minutes=10)),
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
    load = {"signal": "gpu.tensor", "above": 0.1}
    outside = policy(
        "outside",
        trigger={"outside": {"min": -1.5, "max": 90}, "for": "5m"},
        recovery={"above": 0, "below": 80, "for": "10m", "load": load},
        grace={"driver": "5m"},
    )
    siblings = policy(
        "siblings",
        trigger={"aboveSiblings": 10, "for": "5m"},
        recovery={"below": 5, "for": "10m", "load": load},
        grace={"driver": "5m"},
    )
    lost = policy("lost", trigger={"absent": True, "for": "5m"}, recovery={"for": "10m", "load": load})
    late = policy("late", trigger={"absent": True, "for": "1m"}, grace={"driver": "5m"}, recovery=None)
    of_gpus = (policy(), cold, outside, siblings, lost, late)
    for loaded, devices in (*((one, gpu) for one in of_gpus), (flapping(), port)):
        for query in every_query(loaded, devices):
            promql_parser.parse(query)
            selectors = query.count("DCGM") + query.count("node_infiniband_link_downed")
            assert query.count('cluster="a"') == selectors, query


def test_the_cheap_question_is_cheap() -> None:
    reading = readings_of(policy(), LAW)[0]
    assert promql.candidates(policy(), reading) == (
        'last_over_time(DCGM_FI_DEV_GPU_TEMP{cluster="a"}[1m]) >= 1 <= 129 > 78'
    )


def test_of_an_expression_the_cheap_question_is_a_look_and_no_window() -> None:
    source = {"exporter": "e", "node": {"first": ["n"]}, "device": {"first": ["d"]}, "expr": "last_over_time(x[1m])"}
    for loaded, look in (
        (policy(), "(last_over_time(x[1m])) >= 1 <= 129 > 78"),
        (policy(trigger={"below": 20, "for": "5m"}), "(last_over_time(x[1m])) >= 1 <= 129 < 20"),
        (flapping(), "((max by (n, d) ((last_over_time(x[1m])) >= 0 <= 255)) < 255) - 0 >= 2"),
        (policy(trigger={"absent": True, "for": "5m"}), None),
    ):
        signal = LAW.signal_of(loaded)
        made = signal.model_copy(update={"sources": (Source.model_validate(source),)})
        (reading,) = readings(made, {})
        assert promql.candidates(loaded, reading) == look


def test_siblings_are_asked_by_their_node_and_the_suspect_by_its_name() -> None:
    loaded = policy("siblings", trigger={"aboveSiblings": 10, "for": "5m"}, recovery=None)
    reading = readings_of(loaded, LAW)[0]
    query = promql.bad(loaded, reading, [{"Hostname": "a", "hostname": "", "UUID": "GPU-1", "uuid": ""}])
    whole, one = '{cluster="a",Hostname="a",hostname=""}', '{cluster="a",Hostname="a",hostname="",UUID="GPU-1",uuid=""}'
    assert whole in query
    assert one in query
    assert set(re.findall(r"GPU_TEMP({.*?})", query)) == {whole, one}


@given(st.lists(st.sampled_from("ab*"), max_size=4).map("".join), st.lists(st.sampled_from("ab*"), max_size=4))
def test_of_all_models_each_device_has_exactly_one_bound(first: str, letters: list[str]) -> None:
    """The matchers of the branches exclude one another, as RE2 reads them: anchored."""
    second, globs = "".join(letters), [first or "*", "".join(letters) or "a"]
    bounds = tuple(ModelBound(model=glob, above=1) for glob in globs)
    trigger = Trigger.model_validate({"above": 2, "for": "5m"}).model_copy(update={"models": bounds})
    reading = readings_of(policy(), LAW)[0]
    named = replace(reading, source=reading.source.model_copy(update={"model": "modelName"}))
    for model in ("", "a", "ab", "ba*", second):
        passing = [
            bound
            for bound, matchers in branches(named, trigger.models, trigger)
            if all(_matches(matcher, model) for matcher in matchers)
        ]
        # A series that has lost the label is judged by no bound: it may be of a model with another one.
        assert passing == ([bound_for(trigger, model)] if model else [])
    assert list(branches(named, (), trigger)) == [(trigger, ())], "without bounds for models nobody need say one"


def _matches(matcher: str, value: str) -> bool:
    if matcher.endswith('!=""'):
        return value != ""
    _, operator, pattern, _ = re.split(r'(=~|!~)"(.*)"$', matcher.replace("\\\\", "\\"))
    return (re.fullmatch(pattern, value) is not None) == (operator == "=~")


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
