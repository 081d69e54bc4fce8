"""Watches over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from quarantine.sandbox.kubeapi import KubeApi, serve

Events = Iterator[dict[str, Any]]


@contextmanager
def watching(http: Any, query: str, path: str = "/api/v1/nodes") -> Iterator[Events]:
    with http("GET", f"{path}?watch=1&timeoutSeconds=20&{query}", stream=True) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        yield (json.loads(line) for line in answer.iter_lines())


def seen(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}}


def test_a_watch_without_a_version_starts_with_what_is_there(api: KubeApi, http: Any) -> None:
    api.create(node("a"))
    with watching(http, "") as events:
        first = next(events)
        assert seen(first) == ("ADDED", "a")
        assert (first["object"]["kind"], first["object"]["apiVersion"]) == ("Node", "v1")
        api.create(node("b"))
        assert [seen(next(events)) for _ in range(2)] == [("ADDED", "b"), ("MODIFIED", "b")]


def test_a_watch_from_a_version_sees_every_change_after_it_once(api: KubeApi, http: Any) -> None:
    api.create(node("a"))
    version = api.store.revision
    api.patch_merge("Node", "a", {"spec": {"unschedulable": True}})
    with watching(http, f"resourceVersion={version}") as events:
        assert seen(next(events)) == ("MODIFIED", "a")
        api.delete("Node", "a")
        gone = next(events)
        assert seen(gone) == ("DELETED", "a")
        assert int(gone["object"]["metadata"]["resourceVersion"]) == api.store.revision
        assert gone["object"]["spec"]["unschedulable"] is True


def test_an_object_comes_into_sight_of_a_selector_and_goes_out_of_it(api: KubeApi, http: Any) -> None:
    api.create(node("a", pool="x"))
    version = api.store.revision
    with watching(http, f"resourceVersion={version}&labelSelector=pool%3Dp") as events:
        api.patch_merge("Node", "a", {"metadata": {"labels": {"pool": "p"}}})
        assert seen(next(events)) == ("ADDED", "a")
        api.patch_merge("Node", "a", {"metadata": {"labels": {"other": "1"}}})
        assert seen(next(events)) == ("MODIFIED", "a")
        api.patch_merge("Node", "a", {"metadata": {"labels": {"pool": "x"}}})
        last = next(events)
        assert seen(last) == ("DELETED", "a")
        assert last["object"]["metadata"]["labels"]["pool"] == "p"
        assert int(last["object"]["metadata"]["resourceVersion"]) == api.store.revision


def test_other_kinds_and_namespaces_stay_out_of_sight(api: KubeApi, http: Any) -> None:
    version = api.store.revision
    path = "/api/v1/namespaces/kube-system/configmaps"
    with watching(http, f"resourceVersion={version}", path) as events:
        api.create(node("a"))
        api.create({"kind": "ConfigMap", "metadata": {"name": "c1"}})
        api.create({"kind": "ConfigMap", "metadata": {"name": "c2", "namespace": "kube-system"}})
        assert seen(next(events)) == ("ADDED", "c2")


def test_after_compaction_an_old_watch_ends_with_410_and_an_open_one_goes_on(api: KubeApi, http: Any) -> None:
    old = api.store.revision
    api.create(node("a"))
    with watching(http, f"resourceVersion={api.store.revision}") as events:
        api.compact()
        with watching(http, f"resourceVersion={old}") as expired:
            [only] = list(expired)
        assert only["type"] == "ERROR"
        assert (only["object"]["code"], only["object"]["reason"]) == (410, "Expired")
        assert only["object"]["message"] == f"too old resource version: {old} ({api.store.floor})"
        api.delete("Node", "a")
        assert seen(next(events)) == ("DELETED", "a")


def test_bookmarks_come_when_asked_for(api: KubeApi, http: Any) -> None:
    api.bookmark_seconds = 0.05
    version = api.store.revision
    with watching(http, f"resourceVersion={version}&allowWatchBookmarks=true") as events:
        first = next(events)
        assert (first["type"], first["object"]["kind"]) == ("BOOKMARK", "Node")
        assert first["object"]["metadata"]["resourceVersion"] == str(version)
        api.create({"kind": "ConfigMap", "metadata": {"name": "c"}})
        moved = next(e for e in events if int(e["object"]["metadata"]["resourceVersion"]) > version)
        assert moved["type"] == "BOOKMARK"
    answer = http("GET", f"/api/v1/nodes?watch=1&resourceVersion={version}&timeoutSeconds=1")
    assert answer.text == ""


def test_the_end_of_the_initial_events_is_told(api: KubeApi, http: Any) -> None:
    api.create(node("a"))
    query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    with watching(http, query) as events:
        assert seen(next(events)) == ("ADDED", "a")
        end = next(events)
    assert end["type"] == "BOOKMARK"
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert http("GET", "/api/v1/nodes?watch=1&sendInitialEvents=true").status_code == 422


def test_the_timeout_ends_a_watch_of_one_object(api: KubeApi, http: Any) -> None:
    api.create(node("a"))
    api.create(node("b"))
    answer = http("GET", "/api/v1/nodes/a?watch=1&timeoutSeconds=1")
    assert [seen(json.loads(line)) for line in answer.text.splitlines()] == [("ADDED", "a")]


@pytest.mark.parametrize("query", ["resourceVersion=abc", "timeoutSeconds=x"])
def test_a_number_that_is_none_is_400(http: Any, query: str) -> None:
    assert http("GET", f"/api/v1/nodes?watch=1&{query}").status_code == 400


def test_a_watch_of_tables_sends_the_columns_once(api: KubeApi, http: Any) -> None:
    api.create(node("a"))
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    answer = http("GET", "/api/v1/nodes?watch=1&timeoutSeconds=1", headers=accept)
    [first] = [json.loads(line) for line in answer.text.splitlines()]
    assert first["object"]["kind"] == "Table"
    assert [column["name"] for column in first["object"]["columnDefinitions"]][:3] == ["Name", "Status", "Roles"]
    assert first["object"]["rows"][0]["cells"][0] == "a"


def test_many_watchers_see_the_same_changes_in_the_same_order() -> None:
    api = KubeApi()
    version = api.store.revision
    results: list[list[int]] = []
    ready = threading.Barrier(6)

    def watch(url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        query = f"watch=1&resourceVersion={version}&timeoutSeconds=20"
        with requests.get(f"{url}/api/v1/configmaps?{query}", headers=headers, stream=True, timeout=30) as answer:
            ready.wait(20)
            lines = answer.iter_lines()
            versions = [int(json.loads(next(lines))["object"]["metadata"]["resourceVersion"]) for _ in range(60)]
            results.append(versions)

    with serve(api) as server:
        threads = [threading.Thread(target=watch, args=(server.url, server.token)) for _ in range(5)]
        for thread in threads:
            thread.start()
        ready.wait(20)
        writers = [
            threading.Thread(
                target=lambda w=writer: [
                    api.create({"kind": "ConfigMap", "metadata": {"name": f"c{w}-{n}"}}) for n in range(20)
                ]
            )
            for writer in range(3)
        ]
        for thread in writers:
            thread.start()
        for thread in [*writers, *threads]:
            thread.join(30)
    assert results == [list(range(version + 1, version + 61))] * 5


def test_a_muted_watch_is_open_and_silent_and_loses_nothing(api: KubeApi, http: Any) -> None:
    api.mute_watches = True
    version = api.store.revision
    with http("GET", f"/api/v1/nodes?watch=1&resourceVersion={version}", stream=True) as answer:
        lines: list[bytes] = []
        came = threading.Event()

        def read() -> None:
            lines.append(next(answer.iter_lines()))
            came.set()

        reader = threading.Thread(target=read)
        reader.start()
        api.create(node("a"))
        assert not came.wait(0.3)
        api.mute_watches = False
        assert came.wait(10)
        reader.join(10)
    assert seen(json.loads(lines[0])) == ("ADDED", "a")
