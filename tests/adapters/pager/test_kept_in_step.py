"""Both pagers with what keeps them in step: who is woken over a whole incident, restarts and outages included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from quarantine.adapters.pager import connect
from quarantine.core.alarms import Alarm, Urgency
from quarantine.paging import Paging
from quarantine.sandbox.desks.alertmanager import AlertmanagerDesk
from quarantine.sandbox.desks.pagerduty import PagerDutyDesk
from tests.adapters.pager.watch import Watch

KEY = "0" * 32
CYCLE = timedelta(seconds=30)


@dataclass(frozen=True)
class Clock:
    """As the port has it."""

    watch: Watch

    def now(self) -> datetime:
        return self.watch.at


@pytest.fixture
def duty() -> Iterator[PagerDutyDesk]:
    with PagerDutyDesk(KEY) as running:
        yield running


@pytest.fixture
def manager(watch: Watch) -> Iterator[AlertmanagerDesk]:
    with AlertmanagerDesk(watch) as running:
        yield running


def paging(duty: PagerDutyDesk, manager: AlertmanagerDesk, watch: Watch, *ended: Alarm) -> Paging:
    pagers = [
        connect("pagerduty", {"url": duty.url, "routing_key": KEY}, watch),
        connect("alertmanager", {"urls": [manager.url]}, watch),
    ]
    return Paging(pagers, Clock(watch), lambda _: ended)


def test_one_alert_for_as_long_as_it_stands(
    duty: PagerDutyDesk, manager: AlertmanagerDesk, watch: Watch, alarm: Alarm
) -> None:
    kept = paging(duty, manager, watch)
    for cycle in range(30):
        manager.faults["POST alerts"] = ["500"] if cycle in (7, 8) else []
        duty.faults["POST enqueue"] = ["cut-after"] if cycle == 0 else []
        kept.reconcile([alarm])
        watch.at += CYCLE
        assert len(manager.firing()) == 1, "two that failed ended nothing"
    assert [(one.open, len(one.log)) for one in duty.alerts] == [(True, 1)], (
        "it was said until it was known to be taken"
    )

    kept.reconcile([])

    assert manager.firing() == []
    assert [one.open for one in duty.alerts] == [False]


def test_what_ended_while_no_process_ran_is_ended(
    duty: PagerDutyDesk, manager: AlertmanagerDesk, watch: Watch, alarm: Alarm
) -> None:
    other = replace(alarm, key="lab/other", urgency=Urgency.CRITICAL)
    paging(duty, manager, watch).reconcile([alarm, other])

    paging(duty, manager, watch, alarm).reconcile([other])

    assert [alert.labels["key"] for alert in manager.firing()] == ["lab/other"]
    assert sorted((one.key, one.open) for one in duty.alerts) == [("lab/capacity-h100", False), ("lab/other", True)]
