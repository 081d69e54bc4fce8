"""Asked to stop, a process ends the step that it is at, begins no other, and leaves the rest to whoever leads next."""

from __future__ import annotations

from pathlib import Path

from quarantine.core.case import Effect
from tests.execute.lab import Lab
from tests.execute.test_machines import leave
from tests.test_controller import controller, says


class Asked:
    """The cluster; somebody asks the process to stop while it does what is named."""

    def __init__(self, here: Lab, during: str) -> None:
        self._here, self._during = here, during

    def __getattr__(self, name: str) -> object:
        inner = getattr(self._here.kube, name)
        if name != self._during:
            return inner

        def asked(*given: object) -> object:
            self._here.executor.stopping = lambda: True
            return inner(*given)

        return asked


def test_of_a_drain_the_running_eviction_is_ended_and_the_next_process_goes_on(here: Lab) -> None:
    leave(here, "a", "b", "c")
    here.executor.cluster = Asked(here, "evict")  # type: ignore[assignment]
    assert any("asked to stop, so what is left is for who leads next" in said for said in here.act().postponed)
    assert here.kube.evicted == ["a"]
    here.restart()
    here.later(minutes=5)
    here.act()
    assert here.kube.evicted == ["a", "b", "c"]
    assert here.status(Effect.EVICT) == "done"


def test_the_running_step_is_recorded_and_no_other_is_begun(quiet: Lab) -> None:
    here, told = quiet, list[str]()
    here.executor.cluster = Asked(here, "patch_node")  # type: ignore[assignment]
    report = controller(here, says(told, "board")).cycle()
    assert here.status(Effect.MARK) == "done"
    assert here.status(Effect.EVENT) == "pending"
    assert not here.kube.events
    assert told == []
    assert report.ceded
    assert "asked to stop, so what is left to be told is for who leads next" in report.trouble


def test_asked_before_it_has_decided_it_decides_nothing(quiet: Lab, tmp_path: Path) -> None:
    here = quiet
    made = controller(here)
    made.observer.then = lambda: setattr(here.executor, "stopping", lambda: True)  # type: ignore[attr-defined]
    report = made.cycle()
    assert (report.ceded, report.at) == (True, None)
    assert report.sentence == "this process was asked to stop, so nothing was done in this cycle"
    assert here.state.cases == {}
    assert not made.acts
