"""The labelled set: no healthy machine is taken out, no faulty one is missed, and it is known how long that takes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.scenarios.format import load, scenario_files
from tests.scenarios.play import play_all
from tests.scenarios.report import delays, lines, totals


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_healthy_machine_is_taken_out_and_no_faulty_one_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    played = play_all(scenario_files())
    with capsys.disabled():
        print("\n" + "\n".join(lines(played)))
    assert {p.file: p.healthy_out for p in played if p.healthy_out} == {}
    assert {p.file: p.missed for p in played if p.missed} == {}
    assert {p.file: [*p.problems, *p.told] for p in played if p.problems} == {}
    found = delays(played)
    assert len(found) >= 20
    assert found[len(found) // 2] <= timedelta(minutes=7), totals(played)


WRONG = """\
title: labelled wrongly
kind: fault
lasts: 14m
every: 2m
policies: [gpu-hot]
machines: {count: 10, gpus: 2, ports: 1, links: 0}
pool: {budget: {quarantined: 2, unavailable: 3, perHour: 2}}
traps:
  - {what: heat that is said to be none, at: 2m, series: {'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1-0"}': 84...}}
faults:
  - {what: a fault that nothing shows, machine: node-2, at: 2m, outBy: 12m}
outcome: {phases: {node-1: {14m: none}}, held: [budget], tickets: 0, clean: [node-1]}
"""


def test_the_set_can_fail(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG, encoding="utf-8")
    [played] = play_all([file])
    assert set(played.healthy_out) == {"node-1"}
    assert played.missed == ["node-2"]
    assert played.delays == {}
    told = " ".join(played.problems)
    for part in (
        *("node-1 was taken out at", "node-2 was out never", "the case of node-1 was quarantined, not none"),
        *("nothing was held by budget", "1 tickets were filed, not 0", "node-1 still bears"),
    ):
        assert part in told
    assert played.told, "with the trail, for whoever looks into it"


def test_there_are_enough_of_every_kind_and_each_says_what_it_is() -> None:
    scenarios = [load(file) for file in scenario_files()]
    kinds = [scenario.kind for scenario in scenarios]
    assert len(scenarios) >= 24
    assert min(kinds.count(kind) for kind in ("fault", "trap", "life")) >= 5
    assert len({scenario.title for scenario in scenarios}) == len(scenarios)
    for file, scenario in zip(scenario_files(), scenarios, strict=True):
        assert scenario.faults or scenario.kind != "fault", file.stem
        assert not scenario.guilty or scenario.kind != "trap", file.stem


@pytest.mark.parametrize("trap", range(1, 19))
def test_every_trap_of_the_field_has_its_scenario(trap: int) -> None:
    """Trap 19 is about a client library, and no matter of judgement."""
    sources = [load(file).source or "" for file in scenario_files()]
    assert any(str(trap) in _numbers(source) for source in sources if source.startswith("trap"))


def _numbers(source: str) -> list[str]:
    return source.partition(":")[0].replace(",", " ").split()
