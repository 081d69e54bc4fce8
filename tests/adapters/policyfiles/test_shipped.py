"""The policies that come with the project."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles.loader import check_paths, load_rules
from quarantine.core import promql
from quarantine.core.fleet import FleetSpec
from quarantine.core.model import DeviceKind, Mode, Severity
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import load_reading, readings, readings_of
from quarantine.core.trigger import Form
from tests.adapters.policyfiles.conftest import SHIPPED

PAGES = SHIPPED.parent / "docs" / "policies"
BLANK = (9223372036854775792.0, 9223372036854775807.0, 2147483632.0, 2147483635.0, 140737488355328.0)
POLICIES = {
    "blind-node",
    "gpu-ecc-uncorrectable",
    "gpu-hot",
    "gpu-lost",
    "gpu-memory-hot",
    "gpu-pcie-replay",
    "gpu-row-remap",
    "gpu-tensor-idle",
    "gpu-thermal-throttling",
    "gpu-warmer-than-siblings",
    "infiniband-congestion",
    "infiniband-integrity",
    "infiniband-link-down",
    "infiniband-link-flapping",
    "infiniband-rate-degraded",
    "infiniband-receive-errors",
    "infiniband-symbol-errors",
    "nvlink-down",
    "nvlink-errors",
    "xid-hardware",
    "xid-hardware-counted",
}
# What each policy's test has a case for, by a word of the case's name. Where a situation cannot be, the file's head
# says so, and the nearest that can is tested.
SITUATIONS = {
    "bad": r"\bbad\b|\btold\b",
    "good again under load": "good again",
    "idle": r"\bidl",
    "flapping": "flap",
    "gap in the data": r"\bgap\b",
    "exporter dead while bad": "exporter (is )?dead",
    "frozen exporter": "frozen",
    "sentinel values": "sentinel|blank|garbage",
    "counter reset and saturation": "reset|set back|loaded|clears",
    "job change in mid-window": "job change|jobs come|(pod|labels) changes?",
}
HARDWARE_XIDS = {48, 62, 64, 74, 79, 95, 119, 120, 140, 143}


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
    assert result.counts["policies"] == len(POLICIES)


def test_they_are_the_ones_that_are_promised(rules: Rules) -> None:
    assert {loaded.name for loaded in rules.policies} == POLICIES


def test_each_only_observes_and_says_why_it_exists_where_it_comes_from_and_what_it_misses(rules: Rules) -> None:
    for loaded in rules.policies:
        assert loaded.spec.mode is Mode.OBSERVE
        for word in ("Why: ", "Source: ", "Limits: "):
            assert word in loaded.spec.description, loaded.name


def test_each_policy_stands_in_a_file_of_its_name(rules: Rules) -> None:
    for loaded in rules.policies:
        assert loaded.place.startswith(f"{SHIPPED / loaded.name}.yaml:")


# --- Pages ------------------------------------------------------------------------------------------------------------


def test_each_policy_has_its_page_and_no_page_is_left_over() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} == POLICIES


def test_the_table_names_each_policy_once() -> None:
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[([a-z-]+)\]\(\1\.md\)", text, re.MULTILINE)) == sorted(POLICIES)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_page_names_every_metric_that_its_policy_reads(rules: Rules, name: str) -> None:
    page = _expanded((PAGES / f"{name}.md").read_text(encoding="utf-8") + (PAGES / "gpu-hot.md").read_text("utf-8"))
    for reading in readings_of(policy(rules, name), rules):
        if reading.metric is not None and reading.signal.device is not DeviceKind.NODE:
            families = tuple(re.findall(r"(\w+_)…", page))
            assert reading.metric in page or reading.metric.startswith(families), reading.metric


def _expanded(text: str) -> str:
    """The text with `a_{b,c}_d` written out, once for each."""
    lists = re.findall(r"(\w*)\{([\w,]+)\}(\w*)", text)
    return text + " ".join(f"{before}{one}{after}" for before, all_, after in lists for one in all_.split(","))


# --- Tests beside the policies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_each_policy_has_a_test_for_each_situation(rules: Rules, name: str) -> None:
    text = (SHIPPED / f"{name}_test.yaml").read_text(encoding="utf-8")
    names = re.findall(r"^    - name: (.*)$", text, re.MULTILINE)
    missing = [what for what, words in SITUATIONS.items() if not any(re.search(words, case) for case in names)]
    if not _counts(rules, name):
        missing = [what for what in missing if what != "counter reset and saturation"]
    head = text.split("apiVersion:", 1)[0]
    assert [what for what in missing if not re.search(SITUATIONS[what], head)] == []


def _counts(rules: Rules, name: str) -> bool:
    signal = rules.signal_of(policy(rules, name))
    return signal.type == "counter" or any("rate(" in (source.expr or "") for source in signal.sources)


# --- What they say ----------------------------------------------------------------------------------------------------


def test_gpu_hot_is_what_its_users_expect(rules: Rules) -> None:
    spec = policy(rules, "gpu-hot").spec
    assert (spec.trigger.above, spec.trigger.lasting, spec.trigger.tolerate) == (78, timedelta(minutes=5), 0.1)
    assert spec.recovery is not None
    assert (spec.recovery.below, spec.recovery.lasting) == (72, timedelta(minutes=30))
    assert (spec.recovery.load.signal, spec.recovery.load.above) == ("gpu.work", 0.1)
    assert (spec.severity, spec.response.ticket) == (Severity.CRITICAL, "report")


def test_whatever_recovers_does_so_under_a_load_that_an_idle_machine_does_not_have(rules: Rules) -> None:
    for loaded in rules.policies:
        if loaded.spec.recovery is not None:
            assert loaded.spec.recovery.load.above > 0, loaded.name
            for reading in readings_of(loaded, rules):
                assert load_reading(loaded, rules, reading) is not None, f"{loaded.name} by {reading.key}"


def test_what_only_tells_takes_no_machine_out(rules: Rules) -> None:
    telling = {loaded.name for loaded in rules.policies if not loaded.spec.response.taint}
    assert telling == {"blind-node", "gpu-tensor-idle", "infiniband-congestion"}


def test_a_breaker_lets_one_device_of_a_small_fleet_through_and_not_a_quarter(rules: Rules) -> None:
    for loaded in rules.policies:
        if loaded.spec.response.taint:
            assert 0.01 <= loaded.spec.breaker.max_share <= 0.1, loaded.name


def test_the_xids_are_those_that_mean_the_hardware(rules: Rules) -> None:
    for name in ("gpu.xid.hardware", "gpu.xid.hardware-count"):
        [source] = rules.signals[name].sources
        assert source.expr is not None
        lists = re.findall(r'=~"([0-9|]+)"', source.expr)
        assert [{int(code) for code in each.split("|")} for each in lists] == [HARDWARE_XIDS]


# --- Traps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sentinel", [*BLANK, 82505.0, 345.0, 644245923.0, 0.0])
@pytest.mark.parametrize("name", ["gpu.temperature", "gpu.memory.temperature", "gpu.temperature-at-work"])
def test_what_exporters_send_instead_of_a_temperature_is_not_plausible(
    rules: Rules, name: str, sentinel: float
) -> None:
    plausible = rules.signals[name].plausible
    assert not plausible.min <= sentinel <= plausible.max


@pytest.mark.parametrize("sentinel", BLANK)
def test_blank_values_are_no_counts_and_no_measurements(rules: Rules, sentinel: float) -> None:
    for name, signal in rules.signals.items():
        if name not in ("node.uptime", "gpu.presence"):
            assert not signal.plausible.min <= sentinel <= signal.plausible.max, name


def test_both_spellings_of_dcgm_exporters_labels_are_read(rules: Rules) -> None:
    for name, signal in rules.signals.items():
        for source in signal.sources:
            if source.exporter == "dcgm-exporter" and signal.device is DeviceKind.GPU:
                assert source.node.first == ("Hostname", "hostname")
                assert source.device is not None
                assert source.device.first == ("UUID", "uuid"), name
                for grouped in re.findall(r"(?:on|by) \(([^)]*Hostname[^)]*)\)", source.expr or ""):
                    assert grouped.startswith("Hostname, hostname"), name


def test_the_load_and_the_reading_of_an_exporter_name_devices_alike(rules: Rules) -> None:
    for loaded in rules.policies:
        for reading in readings_of(loaded, rules) if loaded.spec.recovery is not None else ():
            load = load_reading(loaded, rules, reading)
            assert load is not None
            assert set(load.group) <= set(reading.group), f"{loaded.name} by {reading.key}"


def test_no_expression_outlives_its_exporter_by_prometheus_own_lookback(rules: Rules) -> None:
    for name, signal in rules.signals.items():
        for source in signal.sources:
            if source.expr is not None:
                assert "_over_time(" in source.expr or "rate(" in source.expr, name


def test_what_dcgm_exporter_says_is_old_once_its_energy_stands_still(rules: Rules) -> None:
    for name, signal in rules.signals.items():
        for source in signal.sources:
            if source.exporter == "dcgm-exporter" and signal.device is DeviceKind.GPU:
                energy = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
                assert source.heartbeat == energy or f"changes({energy}" in (source.expr or ""), name


def test_a_metric_that_does_not_exist_is_not_asked(rules: Rules) -> None:
    asked = "\n".join(path.read_text(encoding="utf-8") for path in SHIPPED.glob("signals*.yaml"))
    code = "\n".join(line.split("#", 1)[0] for line in asked.splitlines())
    assert "port_receive_errors_total" not in code.replace("infiniband_hca_port_receive_errors_total", "")
    assert "DCGM_EXP_XID_ERRORS_COUNT" not in code, "it says counter, and is the count of a five-minute window"
    assert rules.signals


def test_the_link_counter_is_known_to_saturate_and_is_gated_by_its_collector(rules: Rules) -> None:
    signal = rules.signals["ib.port.link-downed"]
    assert signal.saturates == 255
    query = promql.bad(policy(rules, "infiniband-link-flapping"), readings(signal, {})[0], None)
    assert "< 255" in query
    assert 'node_scrape_collector_success{collector="infiniband"}' in query


def test_absence_is_only_looked_for_where_metrics_tell(rules: Rules) -> None:
    absent = {loaded.name for loaded in rules.policies if loaded.spec.trigger.form is Form.ABSENT}
    assert absent == {"blind-node", "gpu-lost"}


# --- What is shown as a comment ---------------------------------------------------------------------------------------


def test_what_the_fleet_file_shows_commented_out_is_valid_once_it_is_written(tmp_path: Path) -> None:
    for file in SHIPPED.glob("*.yaml"):
        if not file.name.endswith("_test.yaml"):
            text = file.read_text(encoding="utf-8")
            (tmp_path / file.name).write_text(_uncommented(text) if file.name == "fleet.yaml" else text)
    fleet = load_rules([tmp_path]).fleet
    assert fleet.uptime == "node.uptime"
    assert {"rack", "leafswitch", "nvlink-domain"} == set(fleet.topology)
    assert fleet.pools[0].expected.gpus == 8
    assert fleet.maintenance.taints
    assert fleet.pools[0].gate is not None
    assert fleet.pools[0].domain is not None
    assert fleet.workloads.checkpoint.query
    assert fleet.inventory is not None
    assert fleet.place
    assert fleet.guards == FleetSpec.model_fields["guards"].default, "what is shown is what holds when nothing is said"


def _uncommented(text: str) -> str:
    """With every comment that is YAML made YAML: those that begin with a key or with a list's dash."""
    written = re.compile(r"^ +# (?: *- | *[\w./-]+:(?: |$))")
    kept = ("matchers:", "cluster:")  # every expression would have to carry them
    return "".join(
        line.replace("# ", "", 1) if written.match(line) and not any(word in line for word in kept) else line
        for line in text.splitlines(keepends=True)
    )
