"""The pagers and the heartbeat of `quarantine run`: what wakes people, once, and who notices that nobody sees."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from quarantine.sandbox.desks.alertmanager import AlertmanagerDesk
from quarantine.sandbox.desks.pagerduty import PagerDutyDesk
from quarantine.sandbox.desks.served import Asked, Desk, Said
from quarantine.sandbox.ports_free import free_port
from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import World

ROUTING_KEY = "0123456789abcdef0123456789abcdef"
QUICK = {"interval": "1s", "deadline": "15s", "coverage_interval": "1m"}

pytestmark = pytest.mark.timeout(180)


class Monitor(Desk):
    """Hears the heartbeat."""

    def answer(self, asked: Asked) -> Said:
        return Said(200 if (asked.method, asked.words) == ("POST", ["ping", "hush"]) else 404)


@pytest.fixture
def pagerduty() -> Iterator[PagerDutyDesk]:
    with PagerDutyDesk(ROUTING_KEY) as desk:
        yield desk


@pytest.fixture
def alertmanager() -> Iterator[AlertmanagerDesk]:
    with AlertmanagerDesk(lambda: datetime.now(UTC)) as desk:  # noqa: TID251  (as the far side does)
        yield desk


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    with Monitor() as desk:
        yield desk


def _impatient(document: dict[str, Any]) -> None:
    """The provider acknowledges within a second; people approve within one."""
    if document["kind"] == "Fleet":
        document["spec"]["providers"] = [{"name": "acme", "description": "rents them to us", "acknowledge": "1s"}]
        document["spec"]["pools"][0]["provider"] = "acme"
    if document["kind"] == "Policy" and document["metadata"]["name"] == "gpu-hot":
        document["spec"]["response"] |= {"ticket": "replace", "approval": {"within": "1s"}}


def test_exactly_once_what_stands_is_paged_through_a_death_and_cleared_at_its_end(
    cluster: World, pagerduty: PagerDutyDesk, alertmanager: AlertmanagerDesk
) -> None:
    hot, opened = cluster.nodes[2], cluster.nodes[5]
    cluster.write_policies(_impatient)
    (cluster.folder / "routing-key").write_text(ROUTING_KEY)
    cluster.write_settings(
        cycle=QUICK,
        pagerduty={"url": pagerduty.url, "routing_key_file": "routing-key"},
        alertmanager={"urls": [alertmanager.url]},
    )
    cluster.heat(hot)
    wanted = {"quarantine/test/overdue", "quarantine/test/provider"}

    def fired() -> bool:
        at_alertmanager = {alert.labels["key"] for alert in alertmanager.firing()}
        return {one.key for one in pagerduty.alerts if one.open} == wanted == at_alertmanager

    with running(cluster, "first.log") as first:
        until(lambda: cluster.marked() == [hot], "its first cycle", 60)
        assert cluster.quarantine("open", opened, "--reason", "it smells of smoke").exit_code == 0
        until(fired, "both pagers are told of both", 60)
        first.kill()
        first.wait(10)
    asked = len(pagerduty.asked)
    with running(cluster, "second.log") as second:
        until(lambda: len(pagerduty.asked) >= asked + len(wanted), "the next one says it again", 60)
        assert fired()
        assert len(pagerduty.alerts) == len(wanted), "and doubles nothing"
        for node in (hot, opened):
            assert cluster.quarantine("release", node, "--reason", "it was the probe").exit_code == 0
        until(lambda: not any(one.open for one in pagerduty.alerts), "its end clears it")
        until(lambda: alertmanager.firing() == [], "there too")
        second.send_signal(signal.SIGTERM)
        assert second.wait(20) == 0
    assert len(pagerduty.alerts) == len(alertmanager.alerts) == len(wanted)
    assert not any(said(cluster.folder / log, "Traceback") for log in ("first.log", "second.log"))
    assert not any(said(cluster.folder / log, ROUTING_KEY) for log in ("first.log", "second.log"))


def cycles(listen: str) -> float:
    with urllib.request.urlopen(f"http://{listen}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("quarantine_cycles_total"))


def test_the_heart_beats_while_the_controller_sees(cluster: World, monitor: Monitor) -> None:
    listen = f"127.0.0.1:{free_port()}"
    (cluster.folder / "heartbeat").write_text(f"{monitor.url}/ping/hush")
    cluster.write_settings(
        cycle=QUICK,
        prometheus={"url": cluster.prometheus.url, "timeout": "1s"},
        heartbeat={"url_file": "heartbeat", "every": "1s"},
        metrics={"listen": listen},
    )
    with running(cluster):
        until(lambda: len(monitor.asked) >= 2, "it beats", 20)
        cluster.prometheus.pause()
        try:
            until(lambda: said(cluster.folder / "run.log", "blind in"), "it sees nothing")
            heard, seen = len(monitor.asked), cycles(listen)
            until(lambda: cycles(listen) >= seen + 2, "further cycles see nothing")
            assert len(monitor.asked) == heard
        finally:
            cluster.prometheus.resume()
        until(lambda: len(monitor.asked) > heard, "it beats again")
    assert not said(cluster.folder / "run.log", "hush")
