"""The simulated fleet: plausible, deterministic, and wrong only where it was told to be."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.errors import UsageError
from quarantine.sandbox.faults import (
    CounterReset,
    Exporter,
    ExporterDies,
    ExporterFrozen,
    Fault,
    GhostNode,
    GpuHot,
    GpuHotFor,
    GpuLost,
    IbFlap,
    Idle,
    JobChange,
    NvlinkErrors,
    Sentinel,
    SparePort,
    Spike,
    Xid,
)
from quarantine.sandbox.fleet import Fleet
from quarantine.sandbox.workload import GANG_LABEL

TEMP, POWER = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
REPLAY, FLIT = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"
NODE = "gpu-node-02"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def step(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class World:
    """A small fleet with a clock in hand."""

    def __init__(self, nodes: int = 4, seed: int = 7) -> None:
        self.clock = Clock()
        self.fleet = Fleet(nodes=nodes, seed=seed, clock=self.clock)

    def body(self, exporter: Exporter = "dcgm", node: str = NODE) -> str:
        body = self.fleet.scrape(node, exporter)
        assert body is not None
        return body.decode()

    def read(self, metric: str, node: str = NODE) -> dict[int, float]:
        """A DCGM metric by GPU."""
        found = re.findall(rf'^{metric}{{gpu="(\d)".*}} (\S+)$', self.body("dcgm", node), re.MULTILINE)
        return {int(gpu): float(value) for gpu, value in found}

    def port(self, metric: str, device: str, node: str = NODE) -> float:
        (value,) = re.findall(
            rf'^node_infiniband_{metric}{{device="{device}",port="1"}} (\S+)$', self.body("node", node), re.MULTILINE
        )
        return float(value)

    def booted(self, node: str = NODE) -> float:
        (value,) = re.findall(r"^node_boot_time_seconds (\S+)$", self.body("node", node), re.MULTILINE)
        return float(value)


@pytest.fixture
def world() -> World:
    return World()


# --- it is plausible --------------------------------------------------------------------------------------------------


def test_under_load_gpus_are_warm_and_never_hot() -> None:
    world = World(nodes=16)
    seen: list[float] = []
    for _ in range(30):
        for node in world.fleet.nodes[:12]:
            seen += world.read(TEMP, node.name).values()
        world.clock.step(17)
    assert min(seen) >= 52
    assert max(seen) <= 72
    assert max(seen) - min(seen) >= 8, "GPUs differ"


def test_temperature_follows_power(world: World) -> None:
    readings = []
    for _ in range(200):
        readings.append((world.read(POWER)[0], world.read(TEMP)[0]))
        world.clock.step(3)
    readings.sort()
    low = sum(t for _, t in readings[:60]) / 60
    high = sum(t for _, t in readings[-60:]) / 60
    assert 0.5 < high - low < 6


def test_energy_is_the_integral_of_power(world: World) -> None:
    before = world.read(ENERGY)[1]
    joules = 0.0
    for _ in range(600):
        joules += world.read(POWER)[1] * 0.5
        world.clock.step(0.5)
    assert (world.read(ENERGY)[1] - before) / 1000 == pytest.approx(joules, rel=0.01)


def test_memory_adds_up_and_activity_is_a_share(world: World) -> None:
    used, free = world.read("DCGM_FI_DEV_FB_USED"), world.read("DCGM_FI_DEV_FB_FREE")
    assert all(used[i] + free[i] + 597 == 81559 for i in range(8))
    for metric in ("PIPE_TENSOR_ACTIVE", "GR_ENGINE_ACTIVE", "DRAM_ACTIVE"):
        assert all(0.3 < share <= 1 for share in world.read(f"DCGM_FI_PROF_{metric}").values())


def test_every_counter_only_grows(world: World) -> None:
    last: dict[str, float] = {}
    fault = IbFlap(NODE, "mlx5_1/1", period_s=7, symbol_per_s=40)
    for step in range(60):
        if step == 10:
            world.fleet.inject(fault)
        if step == 40:
            world.fleet.clear(fault)
        for exporter in ("dcgm", "node"):
            body = world.body(exporter)
            counters = set(re.findall(r"^# TYPE (\S+) counter$", body, re.MULTILINE))
            assert counters
            for line in body.splitlines():
                series, _, value = line.rpartition(" ")
                if series.partition("{")[0] in counters:
                    assert float(value) >= last.get(series, 0), series
                    last[series] = float(value)
        world.clock.step(2.3)
    assert any("port_data_received" in series for series in last)


# --- it is deterministic ----------------------------------------------------------------------------------------------


def test_the_same_seed_is_the_same_fleet_and_another_is_not() -> None:
    one, same, other = World(seed=7), World(seed=7), World(seed=8)
    for world in (one, same, other):
        world.clock.step(100)
    assert one.body() == same.body()
    assert one.body("node") == same.body("node")
    assert one.body() != other.body()
    assert one.fleet.nodes[0].kubernetes() == same.fleet.nodes[0].kubernetes()
    assert one.fleet.pods() == same.fleet.pods()


FAULTS: tuple[Fault, ...] = (
    GpuHot(NODE, 1, rise_s=40),
    NvlinkErrors(NODE, 2, per_s=3),
    IbFlap(NODE, "mlx5_4/1", period_s=11, symbol_per_s=5),
    Idle(NODE),
    JobChange(NODE),
    CounterReset(NODE),
    GpuLost(NODE, 6),
)


@settings(deadline=None, max_examples=40)  # a world of its own in each example, on a busy machine
@given(st.lists(st.floats(0.1, 50), max_size=8), st.lists(st.sampled_from(FAULTS), unique=True, max_size=5))
def test_what_is_read_does_not_depend_on_when_it_was_read_before(pauses: list[float], faults: list[Fault]) -> None:
    """One fleet is scraped at odd times in between, the other only at the end."""
    busy, quiet = World(), World()
    for fault in faults:
        if isinstance(fault, JobChange) and any(isinstance(f, Idle) for f in busy.fleet.faults):
            continue
        for pause in pauses:
            busy.clock.step(pause)
            busy.body()
            busy.body("node")
        quiet.clock.now = busy.clock.now
        busy.fleet.inject(fault)
        quiet.fleet.inject(fault)
    busy.clock.step(60)
    quiet.clock.step(60)
    assert busy.body() == quiet.body()
    assert busy.body("node") == quiet.body("node")


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_gpu_warms_gradually_throttles_and_cools_again(world: World) -> None:
    fault = GpuHot(NODE, 3, to_celsius=84, rise_s=60)
    start = world.read(TEMP)
    clock = world.read("DCGM_FI_DEV_SM_CLOCK")[3]
    world.fleet.inject(fault)
    assert abs(world.read(TEMP)[3] - start[3]) <= 1
    world.clock.step(30)
    assert start[3] + 4 < world.read(TEMP)[3] < 80
    seen = []
    for _ in range(20):
        world.clock.step(30)
        seen.append(world.read(TEMP)[3])
    assert 81 <= min(seen) <= max(seen) <= 88
    assert 83 <= sum(seen) / len(seen) <= 85
    assert clock - 400 < world.read("DCGM_FI_DEV_SM_CLOCK")[3] < clock - 60
    assert all(value <= 72 for gpu, value in world.read(TEMP).items() if gpu != 3)
    assert world.fleet.clear(fault)
    assert world.read(TEMP)[3] >= 80, "it does not jump"
    world.clock.step(60)
    assert world.read(TEMP)[3] <= 72


def test_an_idle_node_is_cool_even_with_a_bad_cooler(world: World) -> None:
    world.fleet.inject(GpuHot(NODE, 0, rise_s=0))
    assert world.read(TEMP)[0] >= 81
    idle = Idle(NODE)
    world.fleet.inject(idle)
    world.clock.step(120)
    assert all(value < 40 for value in world.read(TEMP).values())
    assert all(60 < value < 90 for value in world.read(POWER).values())
    assert all(value == 0 for value in world.read("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE").values())
    assert 'pod="' not in world.body()
    moved = world.port("port_data_received_bytes_total", "mlx5_0")
    energy = world.read(ENERGY)[0]
    world.clock.step(60)
    assert world.port("port_data_received_bytes_total", "mlx5_0") == moved
    assert world.read(ENERGY)[0] > energy, "the heartbeat of the exporter goes on"
    assert all(pod["spec"]["nodeName"] != NODE for pod in world.fleet.pods())
    with pytest.raises(UsageError, match="is idle"):
        world.fleet.job_change(NODE)
    world.fleet.clear(idle)
    world.clock.step(120)
    assert world.read(TEMP)[0] >= 81, "real work shows what idleness hid"
    assert any(pod["spec"]["nodeName"] == NODE for pod in world.fleet.pods())


def test_nvlink_errors_grow_at_their_rate_on_that_gpu_alone(world: World) -> None:
    fault = NvlinkErrors(NODE, 5, per_s=2)
    replay, flit = world.read(REPLAY), world.read(FLIT)
    world.fleet.inject(fault)
    world.clock.step(30)
    assert world.read(REPLAY) == replay | {5: replay[5] + 60}
    assert world.read(FLIT) == flit | {5: flit[5] + 120}
    world.fleet.clear(fault)
    world.clock.step(30)
    assert world.read(REPLAY)[5] == replay[5] + 60, "it stays counted"


def test_a_port_flaps(world: World) -> None:
    downed = world.port("link_downed_total", "mlx5_4")
    recovered = world.port("link_error_recovery_total", "mlx5_4")
    symbols = world.port("symbol_error_total", "mlx5_4")
    fault = IbFlap(NODE, "mlx5_4/1", period_s=30, symbol_per_s=10, down_s=5)
    world.fleet.inject(fault)
    world.clock.step(1)
    state = [world.port(m, "mlx5_4") for m in ("state_id", "physical_state_id", "rate_bytes_per_second")]
    assert state == [1, 2, 1.25e9]
    moved = world.port("port_data_transmitted_bytes_total", "mlx5_4")
    world.clock.step(3)
    assert world.port("port_data_transmitted_bytes_total", "mlx5_4") == moved
    world.clock.step(6)
    assert [world.port(m, "mlx5_4") for m in ("state_id", "physical_state_id")] == [4, 5]
    assert world.port("port_data_transmitted_bytes_total", "mlx5_4") > moved
    world.clock.step(60)
    assert world.port("link_downed_total", "mlx5_4") == downed + 3
    assert world.port("link_error_recovery_total", "mlx5_4") == recovered + 3
    assert world.port("symbol_error_total", "mlx5_4") == symbols + 10 * 55
    assert world.port("state_id", "mlx5_3") == 4
    world.fleet.clear(fault)
    world.clock.step(600)
    assert world.port("link_downed_total", "mlx5_4") == downed + 3
    assert world.port("state_id", "mlx5_4") == 4


def test_counters_stop_at_their_width(world: World) -> None:
    world.fleet.inject(IbFlap(NODE, "mlx5_4/1", period_s=1, symbol_per_s=5000))
    world.clock.step(1000)
    assert world.port("link_downed_total", "mlx5_4") == 255
    assert world.port("symbol_error_total", "mlx5_4") == 65535


def test_a_spike_is_exactly_one_sample(world: World) -> None:
    before = world.read(TEMP)[2]
    spike = Spike(NODE, 2, celsius=96)
    world.fleet.inject(spike)
    assert spike in world.fleet.faults
    assert [world.read(TEMP)[2] for _ in range(3)] == [96, before, before]
    assert world.fleet.faults == ()
    assert not world.fleet.clear(spike)
    world.fleet.inject(Spike(NODE, 2, celsius=99, samples=3))
    assert [world.read(TEMP)[2] for _ in range(4)] == [99, 99, 99, before]


def test_a_sentinel_is_a_blank_value(world: World) -> None:
    fault = Sentinel(NODE, 2)
    world.fleet.inject(fault)
    assert re.search(rf'^{TEMP}{{gpu="2".*}} 9223372036854775794$', world.body(), re.MULTILINE)
    assert world.read(TEMP)[1] < 80
    world.fleet.clear(fault)
    assert world.read(TEMP)[2] < 80


def test_a_dead_exporter_answers_nothing_and_the_other_does(world: World) -> None:
    fault = ExporterDies(NODE, "node")
    world.fleet.inject(fault)
    assert world.fleet.scrape(NODE, "node") is None
    assert world.fleet.scrape(NODE, "dcgm") is not None
    world.fleet.clear(fault)
    assert world.fleet.scrape(NODE, "node") is not None


def test_hot_and_then_silent(world: World) -> None:
    world.fleet.inject(GpuHotFor(NODE, 1, celsius=84, seconds=180))
    world.clock.step(179)
    assert world.read(TEMP)[1] >= 81
    world.clock.step(1)
    assert world.fleet.scrape(NODE, "dcgm") is None


def test_a_frozen_exporter_serves_what_it_last_knew(world: World) -> None:
    fault = ExporterFrozen(NODE)
    world.fleet.inject(fault)
    cached = world.body()
    world.clock.step(300)
    assert world.body() == cached
    world.fleet.clear(fault)
    assert world.body() != cached


def test_a_lost_gpu_takes_its_series_along_and_no_others(world: World) -> None:
    world.fleet.inject(GpuLost(NODE, 4))
    assert sorted(world.read(TEMP)) == [0, 1, 2, 3, 5, 6, 7]
    for gpu in (0, 1, 2, 3, 5, 6, 7):
        world.fleet.inject(GpuLost(NODE, gpu))
    assert world.body() == "", "all gone: the exporter answers, with nothing"


def test_a_spare_port_was_never_up(world: World) -> None:
    fault = SparePort(NODE, physical_state=3)
    world.fleet.inject(fault)
    world.clock.step(100)
    assert [world.port(m, "mlx5_8") for m in ("state_id", "physical_state_id")] == [1, 3]
    assert world.port("port_data_received_bytes_total", "mlx5_8") == 0
    assert world.port("port_transmit_wait_total", "mlx5_8") == 0
    assert world.port("link_downed_total", "mlx5_8") == 0
    world.fleet.clear(fault)
    assert "mlx5_8" not in world.body("node")


@pytest.mark.parametrize("reboot", [False, True])
def test_counters_begin_again(world: World, reboot: bool) -> None:
    node = world.fleet.node(NODE)
    boot_id, booted = node.boot_id, world.booted()
    world.fleet.inject(IbFlap(NODE, "mlx5_4/1", period_s=10))
    world.clock.step(50)
    world.fleet.inject(CounterReset(NODE, reboot=reboot))
    assert all(value < 1000 for value in world.read(ENERGY).values())
    assert world.port("link_downed_total", "mlx5_4") == 0
    world.clock.step(20)
    assert world.port("link_downed_total", "mlx5_4") == 2
    assert 8e6 < world.read(ENERGY)[0] < 15e6
    assert (node.boot_id != boot_id) == reboot
    assert world.booted() == (pytest.approx(world.clock.now.timestamp() - 20, abs=1) if reboot else booted)


def test_a_job_change_changes_every_series_and_nothing_else(world: World) -> None:
    before, power = world.body(), world.read(POWER)
    world.fleet.job_change(NODE)
    after = world.body()
    old, new = set(re.findall(r'pod="([^"]+)"', before)), set(re.findall(r'pod="([^"]+)"', after))
    assert len(old) == len(new) == 1
    assert old != new
    assert world.read(POWER) == power
    assert re.sub(r'pod="[^"]+"', "", before) == re.sub(r'pod="[^"]+"', "", after)


def test_a_ghost_has_an_exporter_and_is_no_node(world: World) -> None:
    ghost = GhostNode("localhost")
    world.fleet.inject(ghost)
    assert world.read(TEMP, "localhost")[0] >= 81
    assert 'Hostname="localhost"' in world.body("dcgm", "localhost")
    assert "localhost" not in {node.name for node in world.fleet.nodes}
    assert ghost in world.fleet.faults
    assert world.fleet.clear(ghost)
    with pytest.raises(UsageError, match="no machine 'localhost'"):
        world.fleet.scrape("localhost", "dcgm")


def test_a_replacement_is_another_machine_without_the_fault(world: World) -> None:
    old = world.fleet.node(NODE)
    world.fleet.inject(GpuHot(NODE, 0, rise_s=0))
    new = world.fleet.replace(NODE)
    world.clock.step(120)
    assert world.read(TEMP)[0] <= 72
    assert world.fleet.faults == ()
    assert new.name == old.name
    assert new.address == old.address
    identity = [(n.provider_id, n.system_uuid, n.boot_id, *(g.uuid for g in n.gpus)) for n in (old, new)]
    assert not set(identity[0]) & set(identity[1])
    assert 0 < world.read(ENERGY)[0] < 1e8, "since its own boot"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (GpuHot("gpu-node-99", 0), "no machine 'gpu-node-99'"),
        (GpuHot(NODE, 8), "no GPU 8"),
        (GpuLost(NODE, -1), "no GPU -1"),
        (Xid(NODE, 9), "no GPU 9"),
        (IbFlap(NODE, "mlx5_9/1"), "no InfiniBand port 'mlx5_9/1'"),
        (IbFlap(NODE, "mlx5_1/1", period_s=5, down_s=5), "a part of its period"),
        (Sentinel(NODE, 0, "DCGM_FI_DEV_NOPE"), "no metric 'DCGM_FI_DEV_NOPE'"),
        (GhostNode(NODE), "exists already"),
        (Spike(NODE, 0, samples=0), "at least one sample"),
    ],
)
def test_impossible_faults_are_refused_and_leave_no_trace(world: World, fault: Fault, says: str) -> None:
    before = world.body()
    with pytest.raises(UsageError, match=says):
        world.fleet.inject(fault)
    assert world.fleet.faults == ()
    assert world.body() == before


def test_a_fault_is_active_once(world: World) -> None:
    world.fleet.inject(GpuLost(NODE, 1))
    with pytest.raises(UsageError, match="active already"):
        world.fleet.inject(GpuLost(NODE, 1))
    world.fleet.idle(NODE)
    world.fleet.idle(NODE)


# --- what Kubernetes knows --------------------------------------------------------------------------------------------


def test_node_objects_look_and_weigh_like_real_ones() -> None:
    fleet = Fleet(nodes=32)
    objects = [node.kubernetes() for node in fleet.nodes]
    assert 10_000 < len(json.dumps(objects[0])) < 15_000
    assert len(json.dumps(fleet.nodes[0].kubernetes(images=False))) < 4_000
    first = objects[7]
    assert first["metadata"]["name"] == "gpu-node-07"
    assert first["metadata"]["labels"]["nvidia.com/gpu.present"] == "true"
    assert first["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert first["status"]["addresses"][0] == {"type": "InternalIP", "address": fleet.nodes[7].address}
    assert {c["type"]: c["status"] for c in first["status"]["conditions"]}["Ready"] == "True"
    assert "quarantine" not in json.dumps(objects)
    for path in ("providerID", "systemUUID", "bootID", "machineID"):
        values = {(o["spec"] | o["status"]["nodeInfo"])[path] for o in objects}
        assert len(values) == 32
    assert len({gpu.uuid for node in fleet.nodes for gpu in node.gpus}) == 256
    assert len({node.address for node in fleet.nodes}) == 32


def test_pods_are_gangs_over_nodes_and_replicas_of_servers() -> None:
    fleet = Fleet(nodes=32)
    pods = fleet.pods()
    gangs: dict[str, list[str]] = {}
    for pod in pods:
        assert len(pod["metadata"]["ownerReferences"]) == 1
        if gang := pod["metadata"]["labels"].get(GANG_LABEL):
            gangs.setdefault(gang, []).append(pod["spec"]["nodeName"])
    assert [len(nodes) for nodes in gangs.values()] == [8, 8, 8]
    servers = [p for p in pods if p["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"]
    assert len(servers) == 16
    assert len({(p["metadata"]["namespace"], p["metadata"]["name"]) for p in pods}) == len(pods)
    for node in fleet.nodes:
        mine = [p for p in pods if p["spec"]["nodeName"] == node.name]
        asked = [int(c["resources"]["limits"]["nvidia.com/gpu"]) for p in mine for c in p["spec"]["containers"]]
        assert sum(asked) == 8
