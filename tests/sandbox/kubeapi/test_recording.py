"""The emulator answers as the recording of a real API server does: all exchanges, in order, from an empty server.

Left out, by name: the two of server-side apply. They must be refused with 415, and what the first of them did to the
node is done by a merge patch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from quarantine.sandbox.kubeapi import KubeApi

RECORDING = json.loads((Path(__file__).parent / "kube-api.json").read_text(encoding="utf-8"))
EXCHANGES = RECORDING["exchanges"]

APPLY = {
    "server-side apply of one taint by a manager",
    "server-side apply conflict by another manager",
}
# Where the recording shows no `wait`, but what it saw shows that controllers had had their moment before this step:
# the fifth node was listed on pages of a snapshot that was taken before it was annotated.
SETTLED_BEFORE = {"node 4 of five", "list by field"}
KEEPS_VERSION = {
    "a patch that changes nothing keeps the resourceVersion",
    "...so the same precondition holds again",
    "spec through the status subresource is ignored",
}
PATTERNS = {
    "<rv>": r"\d+",
    "<uid>": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "<time>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "<token>": r"\S+",
    "<suffix>": r"[a-z0-9]{5}",
}
# The one time that the recording forgot to replace: when the disruption controller set its condition.
RECORDED_TIME = "2026-11-29T13:53:50Z"
SPLIT = re.compile("(" + "|".join(PATTERNS) + ")")


def differences(expected: Any, actual: Any, *, exact: bool, path: str = "") -> Iterator[str]:
    """Where `actual` is not what was recorded. Not `exact`: the recording is shortened, and more may be there."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        extra = actual.keys() - expected.keys() - {"managedFields"} if exact else set()
        yield from (f"{path}.{key}: not recorded, but there: {actual[key]!r}" for key in sorted(extra))
        for key, value in expected.items():
            if key not in actual:
                yield f"{path}.{key}: missing"
            else:
                wanted = "<time>" if value == RECORDED_TIME else value
                yield from differences(wanted, actual[key], exact=exact, path=f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        if not exact and path == ".resources":
            actual = [item for item in actual if item["name"] in {known["name"] for known in expected}]
        if len(expected) != len(actual):
            yield f"{path}: {len(expected)} items recorded, {len(actual)} there"
        for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
            yield from differences(left, right, exact=exact, path=f"{path}[{index}]")
    elif isinstance(expected, str) and SPLIT.search(expected):
        pattern = "".join(PATTERNS.get(part, re.escape(part)) for part in SPLIT.split(expected))
        if not isinstance(actual, str) or not re.fullmatch(pattern, actual):
            yield f"{path}: {expected!r} recorded, {actual!r} there"
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{path}: {expected!r} recorded, {actual!r} there"


class Replay:
    """Plays the exchanges against a server, and remembers what the placeholders of later ones refer to."""

    def __init__(self, api: KubeApi, clock: Any, http: Any, kubectl: Callable[..., Any]) -> None:
        self.api, self.clock, self.http, self.kubectl = api, clock, http, kubectl
        self.versions: dict[str, list[str]] = {}  # by path: the resourceVersions seen, in order
        self.uids: dict[str, str] = {}
        self.list_version = ""
        self.token = ""

    def play(self, exchange: dict[str, Any]) -> Iterator[str]:
        """What is different."""
        title = exchange["title"]
        if title.startswith("wait:") or title in SETTLED_BEFORE:
            self.api.settle()
            self.clock.tick()
        if "command" in exchange:
            yield from self.run(exchange)
        elif title in APPLY:
            yield from self.refuse_apply(exchange)
        elif "request" in exchange:
            yield from self.ask(title, exchange["request"], exchange["response"])

    def run(self, exchange: dict[str, Any]) -> Iterator[str]:
        done = self.kubectl(*exchange["command"].split()[1:])
        yield from differences(exchange["exit"], done.returncode, exact=True, path="exit")
        yield from differences(exchange["output"], done.stdout.strip(), exact=True, path="output")
        node = self.api.get("Node", "t-m")
        actual = {"spec": node["spec"], "managedFields": node["metadata"]["managedFields"]}
        yield from differences(exchange["node_afterwards"], actual, exact=True)

    def refuse_apply(self, exchange: dict[str, Any]) -> Iterator[str]:
        request = exchange["request"]
        answer = self.http("PATCH", request["path"], request["body"], content_type=request["content_type"])
        yield from differences(415, answer.status_code, exact=True, path="status")
        if exchange["response"]["status"] == 200:
            spec = {"spec": request["body"]["spec"]}
            answer = self.http.merge("/api/v1/nodes/t-a?fieldManager=quarantine", spec)
            yield from differences(exchange["response"]["body"], answer.json(), exact=True)

    def ask(self, title: str, request: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
        answer = self.send(title, request)
        yield from differences(expected["status"], answer.status_code, exact=True, path="status")
        body: Any = expected["body"]
        actual = read_body(body, answer)
        kind = body.get("kind") if isinstance(body, dict) else None
        shortened = kind in {"Pod", "PodList", "APIResourceList"} or request["path"] == "/version"
        if kind == "PodList":  # in a list, the items do not say their kind: the recording's shortening put it there
            body = body | {"items": [{k: v for k, v in item.items() if k != "kind"} for item in body["items"]]}
        yield from differences(body, actual, exact=not shortened)
        if answer.status_code == 429 and "Retry-After" in answer.headers:
            yield "Retry-After: not recorded"
        if answer.ok and isinstance(actual, dict):
            yield from self.remember(title, request, actual)

    def send(self, title: str, request: dict[str, Any]) -> requests.Response:
        path = request["path"].replace("<rv:NodeList/>", self.list_version).replace("<token>", quote(self.token))
        headers = {}
        if user := request.get("impersonate"):
            headers["Impersonate-User"] = user
        if credentials := request.get("authorization"):
            headers["Authorization"] = {"none": None, "wrong token": "Bearer wrong"}[credentials]
        body = request.get("body")
        if isinstance(body, str):
            body = {"metadata": {"annotations": {"a": "x" * 262145}}}
        filled = json.loads(self.fill(title, path.partition("?")[0], json.dumps(body)))
        kind = request.get("content_type", "application/json")
        answer: requests.Response = self.http(request["method"], path, filled, content_type=kind, headers=headers)
        return answer

    def fill(self, title: str, path: str, text: str) -> str:
        """Placeholders in a request."""
        seen = self.versions.get(path, [])
        if "<rv of its creation>" in text:
            text = text.replace("<rv of its creation>", seen[0])
        if "<rv>" in text:
            text = text.replace("<rv>", seen[0] if "stale" in title else seen[-1])
        if "<uid>" in text:
            about = {
                "evict with the uid of an earlier pod": "/api/v1/namespaces/default/pods/p1",
                "evict with the right uid": "/api/v1/namespaces/default/pods/p4",
                "an event about a node": "/api/v1/nodes/t-a",
            }
            text = text.replace("<uid>", self.uids[about[title]])
        return text

    def remember(self, title: str, request: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
        meta = body.get("metadata", {})
        path = request["path"].partition("?")[0].removesuffix("/status")
        if body.get("kind", "").endswith("List") and "resourceVersion" in meta:
            if "continue=" in request["path"] and meta["resourceVersion"] != self.list_version:
                yield "a page of another version than the first"
            self.list_version, self.token = meta["resourceVersion"], meta.get("continue", "")
        elif "uid" in meta:
            if request["method"] == "POST":
                path = f"{path}/{meta['name']}"
                if self.uids.get(path) == meta["uid"]:
                    yield "the uid of the earlier object of this name"
                self.versions.pop(path, None)
            seen = self.versions.setdefault(path, [])
            changes = request["method"] != "GET" and title not in KEEPS_VERSION
            if seen and changes and int(meta["resourceVersion"]) <= int(seen[-1]):
                yield "a change without a new resourceVersion"
            if title in KEEPS_VERSION and meta["resourceVersion"] != seen[-1]:
                yield "another resourceVersion, though nothing changed"
            seen.append(meta["resourceVersion"])
            self.uids[path] = meta["uid"]


def read_body(recorded: Any, answer: requests.Response) -> Any:
    """As the recording keeps it: text, an object, or the events of a watch (one event alone stands without a list)."""
    if isinstance(recorded, str):
        return answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return lines if isinstance(recorded, list) else lines[0]


def test_every_exchange_is_answered_as_recorded(
    api: KubeApi, clock: Any, http: Any, kubectl: Callable[..., Any]
) -> None:
    api.auto_settle = False
    replay = Replay(api, clock, http, kubectl)
    found = {}
    for number, exchange in enumerate(EXCHANGES):
        if problems := list(replay.play(exchange)):
            found[f"{number} {exchange['title']}"] = problems
    assert found == {}


def test_the_recording_is_whole() -> None:
    titles = [exchange["title"] for exchange in EXCHANGES]
    assert len(titles) == 87
    assert set(titles) >= APPLY | SETTLED_BEFORE | KEEPS_VERSION


@pytest.mark.parametrize(
    ("expected", "actual", "count"),
    [
        ({"a": 1}, {"a": True}, 1),
        ({"a": 1}, {"a": 1, "b": 2}, 1),
        ({"a": [1, 2]}, {"a": [2, 1]}, 2),
        ({"a": "v <rv>"}, {"a": "v x"}, 1),
        ({"metadata": {"managedFields": [{"manager": "a"}]}}, {"metadata": {"managedFields": []}}, 1),
    ],
)
def test_the_comparison_sees_a_difference(expected: Any, actual: Any, count: int) -> None:
    assert len(list(differences(expected, actual, exact=True))) == count
