"""The labelled set: no healthy machine is taken out, no faulty one is missed, and it is known how long that takes."""

from __future__ import annotations

from datetime import timedelta

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
