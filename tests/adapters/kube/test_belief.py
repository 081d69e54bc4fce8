"""How long the nodes are believed, how a watch is lost and regained, and how it is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
import structlog

from quarantine.adapters.kube import KubeCluster
from quarantine.core.errors import ClusterUnavailable
from quarantine.core.marks import NodePatch
from quarantine.core.model import Node
from tests.adapters.kube.scripted import Exchange, Fleet, Scripted, idle
from tests.adapters.kube.support import BRISK, eventually, failure, listed, served

Connect = Callable[..., KubeCluster]


def versions(nodes: Mapping[str, Node]) -> dict[str, str]:
    return {name: node.resource_version for name, node in nodes.items()}


def test_nodes_are_refused_once_the_server_is_gone_for_long(scripted: Scripted, to_scripted: Connect) -> None:
    fleet = Fleet(lambda e: e.answer(b"", 503))
    scripted.script = lambda e: fleet(e) if scripted.count(watching=False) < 2 else e.answer(b"", 503)
    cluster = to_scripted(stale_after=timedelta(seconds=0.3))
    assert "a" in cluster.nodes()

    def refused() -> str:
        try:
            cluster.nodes()
        except ClusterUnavailable as error:
            return str(error)
        return ""

    text = eventually(refused)

    assert "s old and not used" in text
    assert scripted.url in text

    scripted.script = Fleet()
    eventually(lambda: not refused())


def test_the_first_list_is_waited_for_but_not_for_ever(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = Exchange.hang
    cluster = to_scripted(timeout=0.2, sync_within=timedelta(seconds=0.5))
    begun = time.monotonic()

    with pytest.raises(ClusterUnavailable, match=r"not been listed yet.*did not answer in time"):
        cluster.nodes()
    assert 0.4 < time.monotonic() - begun < 3

    begun = time.monotonic()
    with pytest.raises(ClusterUnavailable):
        cluster.nodes()
    assert time.monotonic() - begun < 0.2  # only the first look waits: a cycle must not


def test_a_missing_right_is_told_at_once(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = lambda e: e.answer(failure(403, "Forbidden", "cannot list"), 403)
    begun = time.monotonic()

    with pytest.raises(ClusterUnavailable, match="grant list on nodes"):
        to_scripted(sync_within=timedelta(seconds=30)).nodes()

    assert time.monotonic() - begun < 5


def test_lost_and_regained_are_logged_once_each(scripted: Scripted, to_scripted: Connect) -> None:
    back = threading.Event()
    fleet = Fleet()

    def tell(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
        exchange.hang()

    fleet.watches = [tell]
    scripted.script = lambda e: fleet(e) if back.is_set() else e.answer(b"", 503)
    with structlog.testing.capture_logs() as logs:
        cluster = to_scripted()
        cluster.start()
        eventually(lambda: scripted.count(watching=False) >= 4)
        back.set()
        eventually(lambda: any(entry["event"] == "node watch regained" for entry in logs))
        cluster.close()

    assert [entry["event"] for entry in logs] == ["node watch lost", "node watch regained"]
    assert "503" in logs[0]["error"]


def test_the_server_is_asked_no_sooner_than_it_wished(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = lambda e: e.answer(b"", 429, Retry_After="1")
    begun = time.monotonic()

    to_scripted(pace=replace(BRISK, longest_wait=timedelta(seconds=30))).start()
    eventually(lambda: len(scripted.seen) >= 2)

    assert time.monotonic() - begun > 1


def test_a_wish_of_an_hour_is_not_waited_out(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = lambda e: e.answer(b"", 429, Retry_After="3600")
    to_scripted().start()

    eventually(lambda: len(scripted.seen) >= 3)


def test_read_your_writes_before_the_watch_tells(scripted: Scripted, to_scripted: Connect) -> None:
    told = threading.Event()

    def lag(exchange: Exchange) -> None:
        exchange.begin()
        told.wait(10)
        exchange.event("MODIFIED", served("a", "11"))
        exchange.event("MODIFIED", served("a", "12", spec={"unschedulable": True}))
        exchange.event("ADDED", served("b", "13"))
        exchange.hang()

    fleet = Fleet(lag)

    def script(exchange: Exchange) -> None:
        if exchange.command == "PATCH":
            version = "12" if exchange.seen.body["spec"]["unschedulable"] else "11"
            exchange.answer(served("a", version, spec={"unschedulable": version == "12"}))
        else:
            fleet(exchange)

    scripted.script = script
    cluster = to_scripted()
    cluster.nodes()
    cluster.patch_node(NodePatch(node="a", uid="uid-a", resource_version="5", unschedulable=False))
    cluster.patch_node(NodePatch(node="a", uid="uid-a", resource_version="11", unschedulable=True))
    assert versions(cluster.nodes()) == {"a": "12"}

    told.set()
    seen = eventually(lambda: (nodes := cluster.nodes()) and "b" in nodes and nodes)

    assert versions(seen) == {"a": "12", "b": "13"}


@pytest.mark.parametrize("where", ["body", "list"])
def test_closing_wakes_a_blocked_reader(scripted: Scripted, to_scripted: Connect, where: str) -> None:
    def stuck(exchange: Exchange) -> None:
        if where == "list" or exchange.seen.watching:
            idle(exchange)
        else:
            exchange.answer(listed())

    scripted.script = stuck
    cluster = to_scripted(timeout=30.0, pace=replace(BRISK, quiet=timedelta(seconds=60)))
    cluster.start()
    eventually(lambda: scripted.count(watching=where == "body"))
    begun = time.monotonic()

    cluster.close()

    assert time.monotonic() - begun < 2
    assert not [t for t in threading.enumerate() if t.name == "node-watch"]
    with pytest.raises(ClusterUnavailable, match="closed"):
        cluster.nodes()
    cluster.close()


def test_closing_a_watch_whose_headers_do_not_come_is_bounded(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = Exchange.hang
    cluster = to_scripted(timeout=0.5)
    cluster.start()
    eventually(lambda: scripted.seen)
    begun = time.monotonic()

    cluster.close()

    assert time.monotonic() - begun < 2
    assert not [t for t in threading.enumerate() if t.name == "node-watch"]
