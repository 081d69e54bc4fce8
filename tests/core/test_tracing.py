"""The questions for a series: they parse, stay within bounds, and nothing from outside breaks out of them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.narrowing import NARROWED_AT_ONCE
from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql.tracing import MOST, Question, bar, questions
from quarantine.core.readings import readings
from quarantine.core.signal import SignalSpec
from quarantine.core.trigger import Trigger
from quarantine.core.units import format_duration
from tests.core.world import GPU_TEMPERATURE, LINK_DOWNED, NOW, THROUGHPUT, flapping, policy

GPU = [{"Hostname": "n", "hostname": "", "UUID": f"GPU-{n}", "uuid": ""} for n in range(100)]
PORTS = [{"instance": f"10.0.0.{n}:9100", "device": "mlx5_0", "port": "1"} for n in range(100)]
MATCHERS = {"cluster": "a"}


def asked(
    loaded: LoadedPolicy, signal: SignalSpec, devices: list[dict[str, str]], at: datetime = NOW
) -> list[Question]:
    (reading,) = readings(signal, MATCHERS)
    return list(questions(loaded.spec.trigger, reading, devices, at, above=True))


def test_samples_are_asked_for_by_name_and_a_few_devices_each_by_itself() -> None:
    for count, queries in ((1, 1), (8, 8), (9, 1), (40, 1), (41, 2)):
        found = asked(policy(), GPU_TEMPERATURE, GPU[:count])
        assert len(found) == queries
        assert [labels for question in found for labels in question.devices] == GPU[:count]
        assert all(q.raw and 'cluster="a"' in q.query and q.query.endswith("[30m]") for q in found)


def test_an_expression_is_asked_once_and_about_the_first() -> None:
    hot = policy(signal="ib.throughput", trigger={"above": 5, "for": "5m"}, recovery=None)
    (question,) = asked(hot, THROUGHPUT, PORTS)
    assert list(question.devices) == PORTS[:NARROWED_AT_ONCE]
    assert question.grid.count <= 60
    assert not question.raw


def test_what_is_absent_is_not_asked_about() -> None:
    assert asked(policy(trigger={"absent": True, "for": "5m"}, recovery=None), GPU_TEMPERATURE, GPU) == []


def test_prometheus_is_told_milliseconds_so_the_steps_are_whole_ones() -> None:
    at = NOW + timedelta(microseconds=999_999)
    for loaded, signal, devices in ((policy(), GPU_TEMPERATURE, GPU[:1]), (flapping(), LINK_DOWNED, PORTS[:1])):
        (question,) = asked(loaded, signal, devices, at)
        assert question.grid.end == NOW + timedelta(milliseconds=999)
        assert question.grid.start.microsecond % 1000 == 0


DURATION = st.integers(1, 48 * 3600).map(lambda seconds: timedelta(seconds=seconds))
FORM = st.sampled_from(
    [{"above": 78.0}, {"below": 20.0}, {"outside": {"min": 1.0, "max": 2.0}}, {"aboveSiblings": 5.0}, {"events": 3}]
)


@given(form=FORM, window=DURATION, interval=DURATION, metric=st.booleans())
def test_there_are_few_points_that_reach_back_beyond_the_window(
    form: dict[str, object], window: timedelta, interval: timedelta, metric: bool
) -> None:
    written = GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)
    (source,) = written["sources"]
    if not metric:
        source = {key: source[key] for key in ("exporter", "node", "device")} | {"expr": "rate(x[1m])"}
    signal = SignalSpec.model_validate({**written, "interval": format_duration(interval), "sources": [source]})
    lasts = "within" if "events" in form else "for"
    trigger = Trigger.model_validate({**form, lasts: format_duration(window)})
    (reading,) = readings(signal, MATCHERS)
    (question,) = questions(trigger, reading, GPU[:1], NOW, above=True)
    promql_parser.parse(question.query)
    length = question.grid.end - question.grid.start
    apart = signal.interval if question.raw else question.grid.step
    assert question.grid.end == NOW
    assert length / apart < (MOST if metric else 60)
    assert not apart % signal.interval
    assert length + apart > window, "no more than a step of the trigger's window is left out"
    if question.raw:
        assert question.query.endswith(f"[{format_duration(length)}]")


TEXT = st.text(max_size=30)


@given(names=st.lists(TEXT.filter(bool), min_size=1, max_size=3))
def test_no_label_breaks_out_of_an_expressions_filter(names: list[str]) -> None:
    hot = policy(signal="ib.throughput", trigger={"above": 5, "for": "5m"}, recovery=None)
    (question,) = asked(hot, THROUGHPUT, [{"instance": name, "device": name, "port": "1"} for name in names])
    promql_parser.parse(question.query)
    assert question.query.count("label_replace(") == 3 * len(names)
    written = re.findall(r'label_replace\(vector\(1\), "instance", ("(?:[^"\\]|\\.)*"), "", ""\)', question.query)
    assert len(written) == len(names)
    assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", "".join(written)), "a $ would stand for a group"


def test_a_gate_is_not_asked() -> None:
    (question,) = asked(flapping(), LINK_DOWNED, PORTS[:1])
    assert "collector" not in question.query


@pytest.mark.parametrize(
    ("trigger", "model", "found", "bound", "above"),
    [
        ({"above": 78, "for": "5m"}, "", 84.0, 78.0, True),
        ({"below": 20, "for": "5m"}, "", 10.0, 20.0, False),
        ({"aboveSiblings": 10, "for": "5m"}, "", 15.0, 10.0, True),
        ({"events": 2, "within": "10m"}, "", 3.0, 2.0, True),
        ({"absent": True, "for": "5m"}, "", 1.0, None, True),
        ({"above": 78, "for": "5m", "models": [{"model": "H200*", "above": 85}]}, "H200", 90.0, 85.0, True),
        ({"above": 78, "for": "5m", "models": [{"model": "H200*", "above": 85}]}, "H100", 90.0, 78.0, True),
        ({"outside": {"min": 10, "max": 14}, "for": "5m"}, "", 9.0, 10.0, False),
        ({"outside": {"min": 10, "max": 14}, "for": "5m"}, "", 15.0, 14.0, True),
    ],
)
def test_where_the_bar_is(
    trigger: dict[str, object], model: str, found: float, bound: float | None, above: bool
) -> None:
    made = bar(Trigger.model_validate(trigger), "°C", model, found)
    assert (made.bound, made.above) == (bound, above)
    assert bool(made.note) == ("outside" in trigger)


def test_a_mapped_metric_is_asked_with_its_mapping() -> None:
    """Its samples do not say which node they are of."""
    written = GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)
    node = {"first": ["hca"], "via": {"metric": "info", "by": ["UUID"]}}
    signal = SignalSpec.model_validate({**written, "sources": [{**written["sources"][0], "node": node}]})
    (reading,) = readings(signal, MATCHERS)
    (question,) = questions(policy().spec.trigger, reading, [{"hca": "n", "UUID": "GPU-1"}], NOW, above=True)
    assert not question.raw
    assert "info{" in question.query
    assert question.by == reading.group


def test_what_the_lowest_is_of_is_asked_so() -> None:
    (reading,) = readings(LINK_DOWNED, MATCHERS)
    below = Trigger.model_validate({"below": 1, "for": "24h"})
    (question,) = questions(below, reading, PORTS[:1], NOW, above=False)
    assert question.query.startswith("min by")
