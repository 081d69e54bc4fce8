"""What `quarantine run` makes of a ledger that has another writer, where a Lease says who acts."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import MagicMock

import pytest

from quarantine import app, listening
from quarantine.cli import run
from quarantine.controller import CycleReport
from quarantine.core.errors import Superseded


@dataclass
class Lease:
    """A Lease that a test gives and takes. `won`: how often it was won."""

    won: int = 1
    held: bool = True
    leader: str = "the other one"
    on_lead: Any = None

    def leads(self) -> bool:
        return self.held

    def step(self) -> None: ...

    def take_part(self) -> None: ...

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None: ...


@dataclass
class Cycles:
    """The controller, whose cycle is overtaken by what `meanwhile` does."""

    lease: Lease
    meanwhile: tuple[tuple[str, Any], ...]
    stepped_down: int = 0
    executor: Any = field(default_factory=MagicMock)
    observer: Any = field(default_factory=MagicMock)
    holder: str = "this one"

    def cycle(self) -> None:
        for name, value in self.meanwhile:
            setattr(self.lease, name, value)
        raise Superseded("term 1 is over: the ledger is at term 2; this process must stop")

    def step_down(self) -> None:
        self.stepped_down += 1

    def keep_up(self) -> None: ...

    def look_at_ledger(self) -> None: ...


def overtaken(monkeypatch: pytest.MonkeyPatch, *meanwhile: tuple[str, Any]) -> Cycles:
    """One cycle of a leader whose term is another's by the time that it records."""
    lease = Lease()
    monkeypatch.setattr(app, "leadership", lambda *_: lease)
    monkeypatch.setattr(app, "heart", lambda _: None)
    monkeypatch.setattr(listening, "listening", lambda *_, **__: nullcontext())
    found = MagicMock()
    found.settings.cycle.interval = timedelta(seconds=1)
    controller: Any = Cycles(lease, meanwhile)
    with ExitStack() as stack:
        timer = run._timer(found, controller, MagicMock(), MagicMock(), stack)
        controller.stepped_down = 0
        timer._cycle()
    made: Cycles = controller
    return made


def test_who_still_leads_and_has_another_writer_beside_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Superseded):
        overtaken(monkeypatch)


def test_who_leads_no_more_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert overtaken(monkeypatch, ("held", False)).stepped_down == 2, "for the first time it led, and now"


def test_asked_to_stop_it_asks_the_ledger_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs would hold it until its time is up, and the Lease with it."""
    lease, health, read = Lease(), MagicMock(), list[str]()
    monkeypatch.setattr(app, "leadership", lambda *_: lease)
    monkeypatch.setattr(app, "heart", lambda _: None)
    monkeypatch.setattr(listening, "listening", lambda *_, **__: nullcontext())
    found, controller = MagicMock(), Cycles(lease, ())
    found.settings.cycle.interval = timedelta(seconds=1)
    ceded = CycleReport("this process was asked to stop, so nothing was done in this cycle", ceded=True)
    stopping: Any = controller
    stopping.cycle = lambda: ceded
    stopping.keep_up = lambda: read.append("the rules")
    stopping.look_at_ledger = lambda: read.append("the ledger")
    with ExitStack() as stack:
        timer = run._timer(found, stopping, MagicMock(), health, stack)
        timer.stop()
        timer._cycle()
    assert read == []
    assert not health.standby.called, "nobody else leads yet"


def test_who_leads_anew_by_then_takes_a_new_term_in_the_next_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Lease ran out in the middle, the other one led for a while, and then it won again: nobody is wrong."""
    assert overtaken(monkeypatch, ("won", 2)).stepped_down == 2
