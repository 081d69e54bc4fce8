"""The watch on bad days, against a server that does what no honest one does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
import structlog

from quarantine.adapters.kube import KubeCluster
from quarantine.core.model import Node
from tests.adapters.kube.scripted import Exchange, Fleet, Scripted, Watch
from tests.adapters.kube.support import BRISK, eventually, failure, served

Connect = Callable[..., KubeCluster]


def watched_from(scripted: Scripted) -> list[str]:
    """The resourceVersion of each watch."""
    return [e.path.split("resourceVersion=")[1].split("&")[0] for e in scripted.seen if e.watching]


def versions(nodes: Mapping[str, Node]) -> dict[str, str]:
    return {name: node.resource_version for name, node in nodes.items()}


def test_events_arrive(scripted: Scripted, to_scripted: Connect) -> None:
    def tell(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("ADDED", served("b", "11"))
        exchange.event("MODIFIED", served("a", "12", spec={"unschedulable": True}))
        exchange.event("DELETED", served("b", "13"))
        exchange.event("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": "20"}})
        exchange.event("ADDED", served("c", "21"))
        exchange.hang()

    scripted.script = Fleet(tell)
    cluster = to_scripted()

    eventually(lambda: versions(cluster.nodes()) == {"a": "12", "c": "21"})

    assert cluster.nodes()["a"].unschedulable
    (asked,) = [e.path for e in scripted.seen if e.watching]
    assert "allowWatchBookmarks=true" in asked
    assert "timeoutSeconds=" in asked


def test_the_next_watch_goes_on_from_the_last_bookmark(scripted: Scripted, to_scripted: Connect) -> None:
    def tell(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
        exchange.end()

    fleet = scripted.script = Fleet(tell)
    to_scripted().start()

    eventually(lambda: len(watched_from(scripted)) == 2)

    assert watched_from(scripted) == ["10", "20"]
    assert fleet.lists == 1


def test_events_split_anywhere_are_put_together(scripted: Scripted, to_scripted: Connect) -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"b\xc3\xa9","uid":"u","resourceVersion":"11"}}}\n'

    def tell(exchange: Exchange) -> None:
        exchange.begin()
        for i in range(len(line)):
            exchange.chunk(line[i : i + 1])
        exchange.chunk(b"\n\n")
        exchange.hang()

    scripted.script = Fleet(tell)
    cluster = to_scripted()

    eventually(lambda: "bé" in cluster.nodes())


def test_half_an_event_is_dropped_and_told_again(scripted: Scripted, to_scripted: Connect) -> None:
    def half(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("ADDED", served("b", "11"))
        exchange.chunk(b'{"type":"ADDED","object":{"metadata":{"name":"c","uid"')
        exchange.drop()

    def again(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("ADDED", served("c", "12"))
        exchange.hang()

    fleet = scripted.script = Fleet(half, again)
    cluster = to_scripted()

    eventually(lambda: "c" in cluster.nodes())

    assert watched_from(scripted) == ["10", "11"]
    assert fleet.lists == 1


@pytest.mark.parametrize("code", [410, 500])
def test_an_error_in_the_watch_leads_to_a_list(scripted: Scripted, to_scripted: Connect, code: int) -> None:
    def expire(exchange: Exchange) -> None:
        fleet.nodes = (served("a", "30"),)
        exchange.begin()
        exchange.event("MODIFIED", served("a", "11"))
        exchange.event("ERROR", failure(code, "Expired" if code == 410 else "InternalError", "too old"))
        exchange.end()

    fleet = scripted.script = Fleet(expire)
    cluster = to_scripted()

    eventually(lambda: versions(cluster.nodes()) == {"a": "30"})

    assert fleet.lists == 2


@pytest.mark.parametrize("code", [500, "s3cret-token"])
def test_an_error_in_the_watch_tells_nobody_the_token(scripted: Scripted, to_scripted: Connect, code: object) -> None:
    def echo(exchange: Exchange) -> None:
        exchange.begin()
        said = f"sent with {exchange.headers['Authorization']}: no"
        exchange.event("ERROR", failure(500, "InternalError", said) | {"code": code})
        exchange.end()

    fleet = scripted.script = Fleet(echo)
    with structlog.testing.capture_logs() as logs:
        to_scripted().start()
        eventually(lambda: fleet.lists == 2)

    (lost,) = [entry for entry in logs if entry["event"] == "node watch lost"]
    assert "sent with Bearer ***: no" in lost["error"]
    assert "s3cret" not in str(logs)


@pytest.mark.parametrize(
    "answer",
    [
        lambda e: e.answer(failure(410, "Expired", "too old"), 410),
        lambda e: e.answer(failure(504, "Timeout", "Too large resource version"), 504),
        lambda e: e.answer(b"<html>", 200, "text/html"),
        lambda e: e.answer(b'{"type":"ADDED"}\n'),
        lambda e: e.answer(b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"11"}}}\n'),
        lambda e: e.answer(b"null\n3\n"),
        lambda e: e.answer(b""),
        Exchange.drop,
    ],
    ids=["410", "future", "html", "no-object", "nameless", "no-event", "empty", "dropped"],
)
def test_a_watch_that_gives_nothing_leads_to_a_list(scripted: Scripted, to_scripted: Connect, answer: Watch) -> None:
    def change(exchange: Exchange) -> None:
        fleet.nodes = (served("a", "30"), served("z", "29"))
        answer(exchange)

    fleet = scripted.script = Fleet(change)
    cluster = to_scripted()

    eventually(lambda: versions(cluster.nodes()) == {"a": "30", "z": "29"})


def test_a_dead_watch_is_given_up(scripted: Scripted, to_scripted: Connect) -> None:
    """Nothing comes and nothing ends: a NAT forgot the connection."""
    fleet = scripted.script = Fleet()
    cluster = to_scripted(pace=replace(BRISK, quiet=timedelta(seconds=0.3)))
    cluster.start()

    eventually(lambda: fleet.lists >= 3)

    assert "a" in cluster.nodes()


def test_a_list_is_made_now_and_then_however_lively_the_watch(scripted: Scripted, to_scripted: Connect) -> None:
    def chatter(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
        exchange.end()

    fleet = scripted.script = Fleet(*[chatter] * 1000)
    to_scripted(pace=replace(BRISK, relist_every=timedelta(seconds=0.2))).start()

    eventually(lambda: fleet.lists >= 3)

    assert len(watched_from(scripted)) > 3


def test_a_server_that_ignores_how_long_a_watch_should_be(scripted: Scripted, to_scripted: Connect) -> None:
    def chatter(exchange: Exchange) -> None:
        exchange.begin()
        while not exchange.server.over.wait(0.02):
            exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})

    scripted.script = Fleet(*[chatter] * 3)
    short = timedelta(seconds=0.2)
    to_scripted(pace=replace(BRISK, watch_for=short, quiet=short)).start()

    eventually(lambda: watched_from(scripted)[:3] == ["10", "20", "20"])


def test_a_watch_may_be_quiet_for_longer_than_a_call_may_take(scripted: Scripted, to_scripted: Connect) -> None:
    def late(exchange: Exchange) -> None:
        exchange.begin()
        exchange.server.over.wait(0.6)
        exchange.event("ADDED", served("b", "11"))
        exchange.hang()

    fleet = scripted.script = Fleet(late)
    cluster = to_scripted(timeout=0.2)

    eventually(lambda: "b" in cluster.nodes())

    assert fleet.lists == 1


def test_a_mistake_of_ours_does_not_end_the_watch(
    scripted: Scripted, to_scripted: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("ADDED", served("b", "11"))
        exchange.hang()

    def mistaken(*_: object) -> Node:
        monkeypatch.undo()
        raise ZeroDivisionError

    fleet = scripted.script = Fleet(tell, tell)
    monkeypatch.setattr("quarantine.adapters.kube.watcher.node_record", mistaken)
    with structlog.testing.capture_logs() as logs:
        cluster = to_scripted()
        eventually(lambda: "b" in cluster.nodes())

    assert fleet.lists == 2
    assert [entry["event"] for entry in logs] == ["node watch: unexpected error"]


def test_a_watch_that_ends_at_once_is_not_hammered(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = Fleet(*[lambda e: e.answer(b"")] * 10_000)
    begun = time.monotonic()

    to_scripted(pace=replace(BRISK, first_wait=timedelta(seconds=0.05), longest_wait=timedelta(seconds=30))).start()
    eventually(lambda: scripted.count(watching=True) >= 5)

    assert time.monotonic() - begun > 0.05 + 0.1 + 0.2 + 0.4  # doubled each time, halved at most


def test_one_event_is_enough_to_be_brisk_again(scripted: Scripted, to_scripted: Connect) -> None:
    came: list[float] = []

    def tell(exchange: Exchange) -> None:
        came.append(time.monotonic())
        exchange.begin()
        exchange.event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
        exchange.end()

    scripted.script = Fleet(*[lambda e: e.answer(b"")] * 6, *[tell] * 11)
    to_scripted(pace=replace(BRISK, longest_wait=timedelta(seconds=30))).start()
    eventually(lambda: len(came) == 11)

    assert came[-1] - came[0] < 2  # ten waits that are still six times doubled take over three seconds
