"""What goes wrong on the wire: each becomes one sentence, in bounded time, and nothing is repeated."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.core.errors import (
    ClusterRefused,
    ClusterUnavailable,
    Conflict,
    NodeGone,
    QuarantineError,
)
from quarantine.core.marks import NodeEvent, NodePatch
from tests.adapters.kube.scripted import Exchange, Scripted
from tests.adapters.kube.support import failure, listed, served, write_kubeconfig

Connect = Callable[..., KubeCluster]
HTML = b"<html><body>Sign in to the proxy</body></html>"
PATCH = NodePatch(node="n1", uid="u", resource_version="5", unschedulable=True)
EVENT = NodeEvent(name="n1.c1", node="n1", node_uid="u", reason="Quarantined", message="hot", warning=True)


def answering(
    body: Any, status: int = 200, kind: str = "application/json", **headers: str
) -> Callable[[Exchange], None]:
    return lambda exchange: exchange.answer(body, status, kind, **headers)


def patched(scripted: Scripted, connect: Connect, script: Callable[[Exchange], None], **settings: Any) -> str:
    """The text of the error that a patch ends in, after exactly one request."""
    scripted.script = script
    with pytest.raises(QuarantineError) as caught:
        connect(watch=False, **settings).patch_node(PATCH)
    assert len(scripted.seen) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (409, failure(409, "Conflict", "the object has been modified"), Conflict, "read it again"),
        (
            409,
            failure(409, "Conflict", "Precondition failed: UID in precondition: u, UID in object meta: v"),
            NodeGone,
            "",
        ),
        (404, failure(404, "NotFound", 'nodes "n1" not found', name="n1", kind="nodes"), NodeGone, "not exist"),
        (404, HTML, ClusterUnavailable, "URL is that of an API server"),
        (401, failure(401, "Unauthorized", "Unauthorized"), ClusterRefused, "token"),
        (403, failure(403, "Forbidden", 'User "bob" cannot patch'), ClusterRefused, "grant patch on nodes"),
        (403, failure(403, "Forbidden", 'User "system:anonymous" cannot patch'), ClusterRefused, "no credentials"),
        (403, HTML, ClusterRefused, "grant patch"),
        (422, failure(422, "Invalid", "spec.taints[0].effect: Banish"), ClusterRefused, "Banish"),
        (
            422,
            failure(422, "Invalid", "field is immutable", causes=[{"field": "metadata.uid"}]),
            NodeGone,
            "another node has taken the name",
        ),
        (400, failure(400, "BadRequest", "cannot decode"), ClusterRefused, "cannot decode"),
        (415, HTML, ClusterRefused, "415"),
        (408, HTML, ClusterUnavailable, "408"),
        (429, failure(429, "TooManyRequests", "slow down"), ClusterUnavailable, "slow down"),
        (500, failure(500, "InternalError", "etcd is down"), ClusterUnavailable, "etcd is down"),
        (502, HTML, ClusterUnavailable, "502"),
        (503, b"", ClusterUnavailable, "503"),
        (200, HTML, ClusterUnavailable, "no JSON"),
        (200, b"[]", ClusterUnavailable, "no object"),
        (200, b"{}", ClusterUnavailable, "without a name"),
        (200, b"[" * 100_000, ClusterUnavailable, "no JSON"),
    ],
)
def test_each_answer_to_a_write(
    scripted: Scripted,
    to_scripted: Connect,
    status: int,
    body: Any,
    error: type[QuarantineError],
    words: str,
) -> None:
    scripted.script = answering(body, status, "text/html" if body is HTML else "application/json")

    with pytest.raises(error) as caught:
        to_scripted(watch=False).patch_node(PATCH)

    text = str(caught.value)
    assert type(caught.value) is error
    assert scripted.url in text
    assert "patching node n1" in text
    assert words in text
    assert "\n" not in text
    assert "<html>" not in text
    assert len(scripted.seen) == 1


@pytest.mark.parametrize(
    ("header", "body", "wish"),
    [
        ("7", b"", 7),
        ("86400", b"", 86400),
        ("Wed, 21 Oct 2026 07:28:00 GMT", b"", None),
        ("-1", b"", None),
        ("", failure(503, "ServiceUnavailable", "busy", retryAfterSeconds=3), 3),
        ("", b"", None),
    ],
)
def test_what_the_server_wishes_is_told_and_not_waited_for(
    scripted: Scripted, to_scripted: Connect, header: str, body: Any, wish: int | None
) -> None:
    scripted.script = answering(body, 503, **({"Retry_After": header} if header else {}))
    begun = time.monotonic()

    with pytest.raises(ClusterUnavailable) as caught:
        to_scripted(watch=False).nodes()

    assert caught.value.retry_after == (None if wish is None else timedelta(seconds=wish))
    assert time.monotonic() - begun < 2
    assert len(scripted.seen) == 1


def test_a_write_that_is_not_answered_ends_in_time(scripted: Scripted, to_scripted: Connect) -> None:
    begun = time.monotonic()

    assert "did not answer in time" in patched(scripted, to_scripted, Exchange.hang, timeout=0.2)

    assert time.monotonic() - begun < 2


def test_a_write_whose_connection_breaks_is_not_repeated(scripted: Scripted, to_scripted: Connect) -> None:
    assert "broke the connection off" in patched(scripted, to_scripted, Exchange.drop)


def test_half_a_body_is_no_answer(scripted: Scripted, to_scripted: Connect) -> None:
    def half(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(b'{"kind": "Node", "metadata"')
        exchange.drop()

    assert "broke the connection off" in patched(scripted, to_scripted, half)


def test_a_body_that_stops_coming_ends_in_time(scripted: Scripted, to_scripted: Connect) -> None:
    def stop(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(b"{")
        exchange.hang()

    assert "did not answer in time" in patched(scripted, to_scripted, stop, timeout=0.2)


def test_a_body_that_trickles_for_ever_ends_too(scripted: Scripted, to_scripted: Connect) -> None:
    def trickle(exchange: Exchange) -> None:
        exchange.begin()
        while not exchange.server.over.wait(0.02):
            exchange.chunk(b" ")

    assert "took too long" in patched(scripted, to_scripted, trickle, timeout=0.1)


def test_an_error_whose_text_stops_coming_ends_in_time(scripted: Scripted, to_scripted: Connect) -> None:
    def stop(exchange: Exchange) -> None:
        exchange.send_response(500)
        exchange.send_header("Content-Length", "100")
        exchange.end_headers()
        exchange.wfile.flush()
        exchange.hang()

    assert "did not answer in time" in patched(scripted, to_scripted, stop, timeout=0.2)


def test_a_redirect_is_not_followed(scripted: Scripted, to_scripted: Connect) -> None:
    script = answering(b"", 302, Location=f"{scripted.url}/login")

    assert "redirected" in patched(scripted, to_scripted, script)


def test_nobody_there(tmp_path: Path, connected: Connect) -> None:
    """A port that was free a moment ago."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    cluster = connected(write_kubeconfig(tmp_path / "k", url), watch=False)

    with pytest.raises(ClusterUnavailable, match="nothing accepts connections there while listing nodes"):
        cluster.nodes()


def test_tls_with_a_server_that_speaks_none(scripted: Scripted, tmp_path: Path, connected: Connect) -> None:
    scripted.script = answering(listed())
    url = scripted.url.replace("http:", "https:")
    cluster = connected(write_kubeconfig(tmp_path / "k", url), watch=False)

    with pytest.raises(ClusterUnavailable, match="could not be trusted"):
        cluster.nodes()


@pytest.mark.parametrize(
    "body",
    [
        HTML,
        {},
        {"kind": "Status"},
        {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []},
        {"kind": "NodeList", "metadata": {}, "items": []},
        {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": {}},
        {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "n"}}]},
    ],
)
def test_what_is_no_list_of_nodes_is_not_an_empty_cluster(scripted: Scripted, to_scripted: Connect, body: Any) -> None:
    scripted.script = answering(body)

    with pytest.raises(ClusterUnavailable, match="listing nodes"):
        to_scripted(watch=False).nodes()


def test_a_refused_list_says_which_right_is_missing(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = answering(failure(403, "Forbidden", "cannot list"), 403)

    with pytest.raises(ClusterUnavailable, match="grant list on nodes"):
        to_scripted(watch=False).nodes()


def test_pages_are_joined_and_connections_used_again(scripted: Scripted, to_scripted: Connect) -> None:
    def pages(exchange: Exchange) -> None:
        if "continue=next" in exchange.path:
            exchange.answer(listed(served("b", "4"), version="10"))
        else:
            exchange.answer(listed(served("a", "3"), version="10", token="next="))

    scripted.script = pages

    assert sorted(to_scripted(watch=False, page=1).nodes()) == ["a", "b"]

    first, second = scripted.seen
    assert "limit=1" in first.path
    assert "continue=next%3D" in second.path
    assert first.client_address == second.client_address


def test_an_expired_page_token_starts_the_list_over(scripted: Scripted, to_scripted: Connect) -> None:
    def pages(exchange: Exchange) -> None:
        if "continue=" in exchange.path and len(scripted.seen) == 2:
            exchange.answer(failure(410, "Expired", "too old"), 410)
        elif "continue=" in exchange.path:
            exchange.answer(listed(served("b", "5")))
        else:
            exchange.answer(listed(served("a", "4"), token="t"))

    scripted.script = pages

    assert sorted(to_scripted(watch=False).nodes()) == ["a", "b"]
    assert len(scripted.seen) == 4


def test_a_page_that_never_ends_does(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = answering(listed(token="again"))

    with pytest.raises(ClusterUnavailable, match="same page"):
        to_scripted(watch=False).nodes()


def test_a_write_is_sent_as_ours(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = answering(served("n1", "6"))

    to_scripted(watch=False).patch_node(PATCH)

    (sent,) = scripted.seen
    assert sent.command == "PATCH"
    assert sent.path == "/api/v1/nodes/n1?fieldManager=quarantine"
    assert sent.headers["content-type"] == "application/merge-patch+json"
    assert sent.headers["user-agent"] == "quarantine-test/1"
    assert sent.headers["authorization"] == "Bearer s3cret-token"
    assert sent.body == {"metadata": {"uid": "u", "resourceVersion": "5"}, "spec": {"unschedulable": True}}


def test_a_name_is_quoted_in_the_path(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = answering(served("n1", "6"))

    to_scripted(watch=False).patch_node(NodePatch(node="../pods?x", uid="u", resource_version="5"))

    assert scripted.seen[0].path.startswith("/api/v1/nodes/..%2Fpods%3Fx?")


def test_an_event_that_exists_is_success(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = answering(failure(409, "AlreadyExists", "exists"), 409)

    to_scripted(watch=False).create_event(EVENT)

    assert scripted.seen[0].path == "/api/v1/namespaces/default/events?fieldManager=quarantine"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (409, failure(409, "Conflict", "busy"), Conflict),
        (403, failure(403, "Forbidden", "no"), ClusterRefused),
        (404, failure(404, "NotFound", 'namespaces "default" not found', kind="namespaces"), ClusterUnavailable),
        (503, HTML, ClusterUnavailable),
        (201, HTML, ClusterUnavailable),
    ],
)
def test_an_event_that_cannot_be_written(
    scripted: Scripted, to_scripted: Connect, status: int, body: Any, error: type[QuarantineError]
) -> None:
    scripted.script = answering(body, status)

    with pytest.raises(error, match="writing an event about node n1"):
        to_scripted(watch=False).create_event(EVENT)


def test_no_error_tells_the_token(scripted: Scripted, to_scripted: Connect) -> None:
    for status in (400, 401, 403, 500):
        scripted.seen.clear()
        text = patched(scripted, to_scripted, answering(failure(status, "X", "no"), status))
        assert "s3cret" not in text


def test_nor_does_one_about_an_answer_that_has_it_for_its_kind(scripted: Scripted, to_scripted: Connect) -> None:
    text = patched(scripted, to_scripted, answering(HTML, 200, "text/s3cret-token " + "x" * 1000))
    assert "no JSON (text/*** xxx" in text
    assert "s3cret" not in text
    assert len(text) < 600
