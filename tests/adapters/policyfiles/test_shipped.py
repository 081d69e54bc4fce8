"""The policies that come with the project."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quarantine.adapters.policyfiles.loader import check_paths, load_rules
from quarantine.core import promql
from quarantine.core.model import Mode, Severity
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import readings
from tests.adapters.policyfiles.conftest import SHIPPED


@pytest.fixture(scope="module")
def rules() -> Rules:
    return load_rules([SHIPPED])


def policy(rules: Rules, name: str) -> LoadedPolicy:
    found = rules.policy(name)
    assert found is not None
    return found


def test_they_are_without_a_fault() -> None:
    result = check_paths([SHIPPED])
    assert result.faults == ()
    assert result.counts["policies"] >= 3


def test_each_only_observes_and_says_why_it_exists_where_it_comes_from_and_what_it_misses(rules: Rules) -> None:
    for loaded in rules.policies:
        assert loaded.spec.mode is Mode.OBSERVE
        for word in ("Why: ", "Source: ", "Limits: "):
            assert word in loaded.spec.description, loaded.name


def test_each_policy_stands_in_a_file_of_its_name(rules: Rules) -> None:
    for loaded in rules.policies:
        assert loaded.place.startswith(f"{SHIPPED / loaded.name}.yaml:")


def test_gpu_hot_is_what_its_users_expect(rules: Rules) -> None:
    spec = policy(rules, "gpu-hot").spec
    assert (spec.trigger.above, spec.trigger.lasting, spec.trigger.tolerate) == (78, timedelta(minutes=5), 0.1)
    assert (spec.recovery.below, spec.recovery.lasting) == (72, timedelta(minutes=30))
    assert (spec.recovery.load.signal, spec.recovery.load.above) == ("gpu.tensor-active", 0.1)
    assert (spec.severity, spec.response.ticket) == (Severity.CRITICAL, "report")


@pytest.mark.parametrize("sentinel", [9223372036854775792.0, 2147483632.0, 140737488355328.0, 82505.0, 345.0, 0.0])
def test_what_exporters_send_instead_of_a_temperature_is_not_plausible(rules: Rules, sentinel: float) -> None:
    plausible = rules.signals["gpu.temperature"].plausible
    assert not plausible.min <= sentinel <= plausible.max


@pytest.mark.parametrize("sentinel", [9223372036854775792.0, 2147483632.0, 140737488355328.0])
def test_blank_values_are_no_counts(rules: Rules, sentinel: float) -> None:
    for signal in rules.signals.values():
        if signal.type == "counter":
            assert not signal.plausible.min <= sentinel <= signal.plausible.max


def test_both_spellings_of_dcgm_exporters_labels_are_read(rules: Rules) -> None:
    for signal in rules.signals.values():
        for source in signal.sources:
            if source.exporter == "dcgm-exporter":
                assert source.node.first == ("Hostname", "hostname")
                assert source.device is not None
                assert source.device.first == ("UUID", "uuid")


def test_the_link_counter_is_known_to_saturate_and_is_gated_by_its_collector(rules: Rules) -> None:
    signal = rules.signals["ib.port.link-downed"]
    assert signal.saturates == 255
    query = promql.bad(policy(rules, "infiniband-link-flapping"), readings(signal, {})[0], None)
    assert "< 255" in query
    assert 'node_scrape_collector_success{collector="infiniband"}' in query
