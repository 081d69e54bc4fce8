"""Who may run commands: the controller where its settings say so, and never a process that only looks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quarantine import app
from quarantine.adapters.commands import Commands
from quarantine.adapters.elsewhere import Elsewhere
from quarantine.core.case import Purpose, Run, RunOutcome
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.procedure import ProcedureSpec
from quarantine.ports import Order, Procedures
from quarantine.settings import Settings
from tests.core.world import NOW

RUN = Run("q-1-reset-1", Purpose.RESET, "reset", NOW, NOW + timedelta(hours=1))
SPEC = ProcedureSpec.model_validate({"description": "d", "command": ["true"]})


def test_what_runs_elsewhere_is_not_taken_to_be_lost_and_not_touched() -> None:
    port: Procedures = Elsewhere()
    assert {name: status.outcome for name, status in port.look([(RUN, SPEC)]).items()} == {RUN.name: RunOutcome.RUNNING}
    with pytest.raises(Unavailable, match="without --once"):
        port.start(Order(RUN, SPEC, "q-1", "node-3", "", "", "quarantine.gpu/suspect"))
    with pytest.raises(Refused):
        port.stop(RUN, SPEC)


def test_commands_run_by_a_deliberate_word_alone() -> None:
    allowed = Settings.model_validate({"procedures": {"commands": True}})
    with app.commands(Settings(), acts=True) as runner:
        assert runner is None
    with app.commands(allowed, acts=True) as runner:
        assert isinstance(runner, Commands)
    with app.commands(allowed, acts=False) as runner:
        assert isinstance(runner, Elsewhere)
