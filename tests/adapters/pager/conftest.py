"""An alarm, and a clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quarantine.core.alarms import Alarm, Urgency
from tests.adapters.pager.watch import NOW, Watch


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def alarm() -> Alarm:
    return Alarm(
        key="lab/capacity-h100",
        urgency=Urgency.ERROR,
        summary="3 of 16 machines of h100 are out",
        since=NOW - timedelta(minutes=4),
        source="lab",
        details=(("pool", "h100"), ("nodes", "gpu-017\ngpu-018")),
    )
