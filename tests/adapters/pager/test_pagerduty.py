"""PagerDuty, against the stand-in over HTTP. What counts is who is woken in the end, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from quarantine.adapters.pager import connect
from quarantine.core.alarms import Alarm, Urgency
from quarantine.core.errors import PagerRefused, PagerUnavailable, UsageError
from quarantine.ports import Pager
from quarantine.sandbox.desks.pagerduty import PagerDutyDesk
from quarantine.sandbox.desks.served import Said
from tests.adapters.pager.watch import Watch

KEY = "0123456789abcdef0123456789ABCDEF"


@pytest.fixture(scope="module")
def server() -> Iterator[PagerDutyDesk]:
    with PagerDutyDesk(KEY) as running:
        yield running


@pytest.fixture
def desk(server: PagerDutyDesk) -> PagerDutyDesk:
    server.alerts.clear()
    server.faults.clear()
    server.routing_key = KEY
    return server


@pytest.fixture
def pager(desk: PagerDutyDesk, watch: Watch) -> Pager:
    return connect("pagerduty", {"url": desk.url, "routing_key": KEY}, watch)


def test_an_alarm_opens_one_alert_however_often_it_is_said(desk: PagerDutyDesk, pager: Pager, alarm: Alarm) -> None:
    assert (pager.name, pager.repeats) == ("PagerDuty", None)
    for _ in range(3):
        pager.fire(alarm)
    (opened,) = desk.alerts
    assert opened.key == "lab/capacity-h100"
    assert opened.payload == {
        "summary": "3 of 16 machines of h100 are out",
        "source": "lab",
        "severity": "error",
        "timestamp": "2026-11-29T03:08:05+00:00",
        "custom_details": {"pool": "h100", "nodes": "gpu-017 gpu-018"},
    }


def test_and_ends_by_its_key_alone(desk: PagerDutyDesk, pager: Pager, alarm: Alarm) -> None:
    other = replace(alarm, key="lab/blind")
    for one in (alarm, other):
        pager.fire(one)
    for _ in range(2):
        pager.clear(replace(alarm, urgency=Urgency.INFO, summary="", source="", details=()))
    assert [one.key for one in desk.alerts if one.open] == ["lab/blind"]
    pager.fire(alarm)
    assert len(desk.alerts) == 3, "what comes back is a new alert"


def test_what_was_never_fired_may_be_cleared(desk: PagerDutyDesk, pager: Pager, alarm: Alarm) -> None:
    pager.clear(alarm)
    assert desk.alerts == []


@pytest.mark.parametrize("urgency", list(Urgency))
def test_every_urgency_is_one_of_pagerdutys(desk: PagerDutyDesk, pager: Pager, alarm: Alarm, urgency: Urgency) -> None:
    pager.fire(replace(alarm, urgency=urgency))
    assert desk.alerts[0].payload["severity"] == urgency.value


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    key=st.text(min_size=1, max_size=400),
    summary=st.text(max_size=3000),
    source=st.text(max_size=400),
    details=st.lists(st.tuples(st.text(max_size=300), st.text(max_size=3000)), max_size=80),
)
def test_whatever_an_alarm_says_is_taken(
    desk: PagerDutyDesk, pager: Pager, alarm: Alarm, key: str, summary: str, source: str, details: list[tuple[str, str]]
) -> None:
    desk.alerts.clear()
    one = replace(alarm, key=key, summary=summary, source=source, details=tuple(details))
    pager.fire(one)
    pager.clear(one)
    assert [opened.open for opened in desk.alerts] == [False]


def test_the_longest_alarm_is_taken(desk: PagerDutyDesk, pager: Pager, alarm: Alarm) -> None:
    wide = "\U0001f525"  # twelve bytes of JSON
    pager.fire(replace(alarm, summary=wide * 9999, details=tuple((f"{n}{wide * 999}", wide * 9999) for n in range(99))))
    assert len(desk.alerts) == 1


@pytest.mark.parametrize(
    ("fault", "opened"),
    [("cut-before", 0), ("cut-after", 1), ("garbled-after", 1), ("500", 0), ("503", 0), ("429", 0)],
)
def test_an_alarm_is_said_again_where_it_is_not_known_to_be_taken(
    desk: PagerDutyDesk, pager: Pager, alarm: Alarm, fault: str, opened: int
) -> None:
    desk.faults["POST enqueue"] = [fault]
    with pytest.raises(PagerUnavailable) as raised:
        pager.fire(alarm)
    assert len(desk.alerts) == opened
    if fault in ("429", "503"):
        assert raised.value.retry_after == timedelta(seconds=30)
    pager.fire(alarm)
    assert len(desk.alerts) == 1

    desk.faults["POST enqueue"] = [fault]
    with pytest.raises(PagerUnavailable):
        pager.clear(alarm)
    pager.clear(alarm)
    assert [one.open for one in desk.alerts] == [False]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (202, {"status": "success"}),
        (202, {"status": "success", "dedup_key": "another"}),
        (202, {"status": "throttled", "dedup_key": "lab/capacity-h100"}),
        (200, {"status": "success", "dedup_key": "lab/capacity-h100"}),
        (202, None),
    ],
)
def test_an_answer_that_is_not_promised_is_none(
    desk: PagerDutyDesk, pager: Pager, alarm: Alarm, monkeypatch: pytest.MonkeyPatch, status: int, body: object
) -> None:
    monkeypatch.setattr(desk, "answer", lambda _: Said(status, body))
    with pytest.raises(PagerUnavailable, match="not what its API promises"):
        pager.fire(alarm)


def test_a_key_that_is_not_known_is_refused_and_told_to_nobody(
    desk: PagerDutyDesk, pager: Pager, alarm: Alarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.routing_key = "f" * 32
    with pytest.raises(PagerRefused, match=r"400.*routing_key"):
        pager.fire(alarm)
    monkeypatch.setattr(desk, "answer", lambda asked: Said(400, {"you said": asked.content.decode()}))
    with pytest.raises(PagerRefused, match=r"\*\*\*") as raised:
        pager.fire(alarm)
    assert KEY not in str(raised.value)


def test_the_key_is_read_anew_and_must_be_one(desk: PagerDutyDesk, watch: Watch, alarm: Alarm, tmp_path: Path) -> None:
    file = tmp_path / "key"
    pager = connect("pagerduty", {"url": desk.url, "routing_key_file": file}, watch)
    with pytest.raises(PagerRefused, match="cannot be read"):
        pager.fire(alarm)
    file.write_text("not-a-key\n")
    with pytest.raises(PagerRefused, match="32 letters and digits") as raised:
        pager.fire(alarm)
    assert "not-a-key" not in str(raised.value)
    file.write_text(f"{KEY}\n")
    pager.fire(alarm)
    assert len(desk.alerts) == 1


@pytest.mark.parametrize(
    "wrong", [{"routing_key": None}, {"routing_key_file": "/x"}, {"url": "http://events.example"}, {"other": 1}]
)
def test_wrong_options(wrong: dict[str, object], watch: Watch) -> None:
    with pytest.raises(ValidationError) as raised:
        connect("pagerduty", {"routing_key": KEY, **wrong}, watch)
    assert KEY not in str(raised.value)


def test_a_kind_that_there_is_not(watch: Watch) -> None:
    with pytest.raises(UsageError, match="there are alertmanager, pagerduty"):
        connect("siren", {}, watch)
