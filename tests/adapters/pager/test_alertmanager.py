"""Alertmanager, against the stand-in over HTTP. What counts is what fires there in the end."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from quarantine.adapters.pager import connect
from quarantine.core.alarms import Alarm, Urgency
from quarantine.core.errors import PagerRefused, PagerUnavailable
from quarantine.ports import Pager
from quarantine.sandbox.desks.alertmanager import Alert, AlertmanagerDesk
from tests.adapters.pager.watch import NOW, Watch


@pytest.fixture
def cluster(watch: Watch) -> Iterator[list[AlertmanagerDesk]]:
    with ExitStack() as stack:
        yield [stack.enter_context(AlertmanagerDesk(watch)) for _ in range(3)]


@pytest.fixture
def desk(watch: Watch) -> Iterator[AlertmanagerDesk]:
    with AlertmanagerDesk(watch) as running:
        yield running


@pytest.fixture
def pager(desk: AlertmanagerDesk, watch: Watch) -> Pager:
    return connect("alertmanager", {"urls": [desk.url], "labels": {"team": "gpu"}}, watch)


def only(desk: AlertmanagerDesk) -> Alert:
    (alert,) = desk.firing()
    return alert


def test_an_alarm_is_one_alert_however_often_it_is_said(
    desk: AlertmanagerDesk, pager: Pager, watch: Watch, alarm: Alarm
) -> None:
    assert pager.name == "Alertmanager"
    for _ in range(3):
        pager.fire(alarm)
        watch.at += pager.repeats or timedelta(0)
    alert = only(desk)
    assert alert.labels == {
        "alertname": "QuarantineAlarm",
        "severity": "error",
        "cluster": "lab",
        "key": "lab/capacity-h100",
        "team": "gpu",
    }
    assert alert.annotations == {
        "summary": "3 of 16 machines of h100 are out",
        "description": "pool: h100\nnodes: gpu-017 gpu-018",
    }
    assert alert.starts == NOW - timedelta(minutes=4)


def test_it_ends_when_it_is_cleared(desk: AlertmanagerDesk, pager: Pager, watch: Watch, alarm: Alarm) -> None:
    pager.fire(alarm)
    watch.at += timedelta(seconds=30)
    for _ in range(2):
        pager.clear(replace(alarm, urgency=Urgency.INFO, source=""))  # the key is enough
    assert desk.firing() == []
    assert len(desk.alerts) == 2, "the second ends what another process may have sent"
    pager.fire(alarm)
    assert len(desk.firing()) == 1


def test_it_ends_by_itself_where_nobody_repeats_it(
    desk: AlertmanagerDesk, pager: Pager, watch: Watch, alarm: Alarm
) -> None:
    pager.fire(alarm)
    assert pager.repeats == timedelta(minutes=1)
    watch.at += pager.repeats * 3
    assert len(desk.firing()) == 1, "two that failed are no end"
    watch.at += timedelta(minutes=10)
    assert desk.firing() == []


def test_one_that_gets_more_urgent_is_still_one(desk: AlertmanagerDesk, pager: Pager, alarm: Alarm) -> None:
    pager.fire(replace(alarm, urgency=Urgency.WARNING))
    pager.fire(replace(alarm, urgency=Urgency.CRITICAL, summary="4 of 16 machines are out"))
    assert only(desk).labels["severity"] == "critical"
    pager.clear(alarm)
    assert desk.firing() == []


def test_another_process_clears_it(desk: AlertmanagerDesk, pager: Pager, watch: Watch, alarm: Alarm) -> None:
    pager.fire(alarm)
    connect("alertmanager", {"urls": [desk.url], "labels": {"team": "gpu"}}, watch).clear(alarm)
    assert desk.firing() == []


def test_an_alarm_from_the_future_starts_now(desk: AlertmanagerDesk, pager: Pager, alarm: Alarm) -> None:
    pager.fire(replace(alarm, since=NOW + timedelta(hours=1)))
    assert only(desk).starts == NOW
    pager.clear(replace(alarm, since=NOW + timedelta(hours=1)))
    assert desk.firing() == []


def test_every_member_is_told(cluster: list[AlertmanagerDesk], watch: Watch, alarm: Alarm) -> None:
    pager = connect("alertmanager", {"urls": [member.url for member in cluster]}, watch)
    pager.fire(alarm)
    assert [len(member.firing()) for member in cluster] == [1, 1, 1]
    pager.clear(alarm)
    assert [len(member.firing()) for member in cluster] == [0, 0, 0]


def test_one_that_took_it_is_enough_and_the_others_are_named_once(
    cluster: list[AlertmanagerDesk], watch: Watch, alarm: Alarm, caplog: pytest.LogCaptureFixture
) -> None:
    pager = connect("alertmanager", {"urls": [member.url for member in cluster]}, watch)
    with caplog.at_level(logging.WARNING, "quarantine"):
        for _ in range(2):
            cluster[0].faults["POST alerts"] = ["cut-before"]
            cluster[2].faults["POST alerts"] = ["400"]
            pager.fire(alarm)
        (record,) = caplog.records
        assert f"the Alertmanagers at {cluster[0].url}, {cluster[2].url} do not take alarms" in record.getMessage()
        pager.fire(alarm)
        cluster[1].faults["POST alerts"] = ["500"]
        pager.fire(alarm)
    assert len(caplog.records) == 2
    assert [len(member.firing()) for member in cluster] == [1, 1, 1]


def test_where_none_took_it_the_reasons_are_told(cluster: list[AlertmanagerDesk], watch: Watch, alarm: Alarm) -> None:
    pager = connect("alertmanager", {"urls": [member.url for member in cluster]}, watch)
    for member, fault in zip(cluster, ("503", "400", "cut-before"), strict=True):
        member.faults["POST alerts"] = [fault]
    with pytest.raises(PagerUnavailable) as raised:
        pager.fire(alarm)
    assert raised.value.retry_after == timedelta(seconds=30)
    assert all(member.url in str(raised.value) for member in cluster)
    for member in cluster:
        member.faults["POST alerts"] = ["400"]
    with pytest.raises(PagerRefused):
        pager.fire(alarm)


@pytest.mark.parametrize("fault", ["cut-before", "cut-after", "500", "429"])
def test_an_alarm_is_said_again_where_it_is_not_known_to_be_taken(
    desk: AlertmanagerDesk, pager: Pager, alarm: Alarm, fault: str
) -> None:
    for say, left in ((pager.fire, 1), (pager.clear, 0)):
        desk.faults["POST alerts"] = [fault]
        with pytest.raises(PagerUnavailable):
            say(alarm)
        say(alarm)
        assert len(desk.firing()) == left
    assert len(desk.alerts) == 1


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    key=st.text(min_size=1, max_size=400),
    summary=st.text(max_size=3000),
    source=st.text(max_size=400),
    details=st.lists(st.tuples(st.text(max_size=300), st.text(max_size=3000)), max_size=80),
)
def test_whatever_an_alarm_says_is_taken_and_ended(
    desk: AlertmanagerDesk,
    pager: Pager,
    alarm: Alarm,
    key: str,
    summary: str,
    source: str,
    details: list[tuple[str, str]],
) -> None:
    one = replace(alarm, key=key, summary=summary, source=source, details=tuple(details))
    pager.fire(one)
    assert len(desk.firing()) == 1
    pager.clear(one)
    assert desk.firing() == []


def test_a_user_or_a_token(desk: AlertmanagerDesk, watch: Watch, alarm: Alarm, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret-1\n")
    desk.authorization = "Basic " + base64.b64encode(b"robot:s3cret-1").decode()
    options: dict[str, object] = {"urls": [desk.url]}
    connect("alertmanager", options | {"username": "robot", "password_file": file}, watch).fire(alarm)
    desk.authorization = "Bearer s3cret-1"
    connect("alertmanager", options | {"token_file": file}, watch).fire(alarm)
    with pytest.raises(PagerRefused, match="401") as raised:
        connect("alertmanager", options | {"token": "s3cret-2"}, watch).fire(alarm)
    assert "s3cret-2" not in str(raised.value)


def test_authorities_that_are_not_there(desk: AlertmanagerDesk, watch: Watch, alarm: Alarm, tmp_path: Path) -> None:
    pager = connect("alertmanager", {"urls": [desk.url], "ca_file": tmp_path / "ca.pem"}, watch)
    with pytest.raises(PagerRefused, match="ca_file"):
        pager.fire(alarm)
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises((PagerRefused, PagerUnavailable)):
        connect(
            "alertmanager", {"urls": [desk.url.replace("http:", "https:")], "ca_file": tmp_path / "ca.pem"}, watch
        ).fire(alarm)


def test_in_the_cluster_no_tls_is_needed_where_nothing_is_secret(watch: Watch) -> None:
    urls = ["http://alertmanager-0.monitoring:9093", "http://alertmanager-1.monitoring:9093/prefix/"]
    connect("alertmanager", {"urls": urls}, watch)
    with pytest.raises(ValidationError, match="https"):
        connect("alertmanager", {"urls": urls, "token": "s3cret-1"}, watch)


@pytest.mark.parametrize(
    "wrong",
    [
        {"urls": []},
        {"urls": ["alertmanager:9093"]},
        {"labels": {"severity": "x"}},
        {"labels": {"a-b": "x"}},
        {"labels": {"team": ""}},
        {"username": "robot"},
        {"username": "robot", "password": "s3cret-1", "token": "s3cret-1"},
        {"token": "s3cret-1", "token_file": "/x"},
        {"repeat": "PT5M"},
        {"repeat": "PT0S"},
        {"other": 1},
    ],
)
def test_wrong_options(wrong: dict[str, object], watch: Watch) -> None:
    sound: dict[str, object] = {"urls": ["https://alertmanager.example"]}
    connect("alertmanager", sound, watch)
    with pytest.raises(ValidationError) as raised:
        connect("alertmanager", sound | wrong, watch)
    assert "s3cret-1" not in str(raised.value)
