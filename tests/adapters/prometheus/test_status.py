"""What a server says of itself: its clock, its version, its retention; and what is made of it where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from quarantine.adapters.prometheus import Flavour, PrometheusSettings
from quarantine.adapters.prometheus.status import PrometheusStatus
from quarantine.core.errors import QuarantineError, Refused, Unavailable
from tests.adapters.prometheus.standin import Peer, Request, Standin, vector

AT = datetime.fromtimestamp(1_700_000_000, UTC)


@contextmanager
def asking(script: Callable[[Peer, Request], None], **settings: Any) -> Iterator[tuple[Standin, PrometheusStatus]]:
    given = {"timeout": timedelta(seconds=2), **settings}
    with Standin(script) as server:
        status = PrometheusStatus(PrometheusSettings(server.url, **given), lambda: AT)
        try:
            yield server, status
        finally:
            status.close()


def saying(data: object) -> Callable[[Peer, Request], None]:
    return lambda peer, _: peer.reply({"status": "success", "data": data})


def test_the_clock_is_asked_for_the_servers_own_present() -> None:
    seconds = AT.timestamp() + 42.5
    with asking(lambda peer, _: peer.reply(vector(({}, str(seconds)), at=seconds))) as (server, status):
        assert status.clock() == timedelta(seconds=42.5)
    assert "time" not in server.requests[0].parameters, "else it would answer with ours"


@pytest.mark.parametrize(("at", "ahead"), [(-1, -1), (0, 0), (7, 0), (10, 0), (12.5, 2.5)])
def test_a_slow_answer_is_no_clock_that_differs(at: float, ahead: float) -> None:
    """It takes ten seconds by our clock; somewhere in between the server looked at its own."""
    seconds, ours = AT.timestamp() + at, iter((AT, AT + timedelta(seconds=10)))
    with Standin(lambda peer, _: peer.reply(vector(({}, str(seconds)), at=seconds))) as server:
        status = PrometheusStatus(PrometheusSettings(server.url), lambda: next(ours))
        assert status.clock() == timedelta(seconds=ahead)
        status.close()


@pytest.mark.parametrize(
    ("body", "code", "kind"),
    [
        (b"no", "401 Unauthorized", Refused),
        (b"<html>", "404 Not Found", Refused),
        (b"oops", "503 Service Unavailable", Unavailable),
        (b"<html>log in</html>", "200 OK", Unavailable),
        (vector(), "200 OK", Unavailable),
        (vector(({}, "NaN")), "200 OK", Unavailable),
        (vector(({}, "1e300")), "200 OK", Unavailable),
    ],
)
def test_an_answer_without_a_time_is_an_error_that_says_what_to_do(
    body: bytes | object, code: str, kind: type[QuarantineError]
) -> None:
    token = SecretStr("prom-hush")
    told = asking(lambda peer, _: peer.reply(body, code), bearer_token=token)
    with told as (_, status), pytest.raises(kind) as raised:
        status.clock()
    assert status.url in str(raised.value)
    assert "; " in str(raised.value)
    assert "hush" not in str(raised.value)


def test_nobody_there_is_unavailable() -> None:
    status = PrometheusStatus(PrometheusSettings("http://127.0.0.1:9", timeout=timedelta(seconds=2)), lambda: AT)
    with pytest.raises(Unavailable, match="refuses the connection"):
        status.clock()
    status.close()


@pytest.mark.parametrize(
    ("told", "keeps"),
    [
        ("15d", timedelta(days=15)),
        ("1y2d", timedelta(days=367)),
        ("15d or 50GiB", timedelta(days=15)),
        ("50GiB", None),
        ("", None),
        (7, None),
        (None, None),
    ],
)
def test_the_retention_is_read_where_it_is_a_time(told: object, keeps: timedelta | None) -> None:
    with asking(saying({"storageRetention": told})) as (server, status):
        assert status.keeps() == keeps
    assert server.requests[0].path == "/api/v1/status/runtimeinfo"


def test_of_others_than_prometheus_no_retention_is_asked() -> None:
    with asking(saying({"storageRetention": "15d"}), flavour=Flavour.THANOS) as (server, status):
        assert status.keeps() is None
    assert not server.requests


@pytest.mark.parametrize(
    ("told", "version"), [({"version": "3.5.0"}, "3.5.0"), ({"version": "a\x1b[2J"}, ""), ({}, ""), ([], ""), ("x", "")]
)
def test_the_version_is_told_where_it_is_one(told: object, version: str) -> None:
    with asking(saying(told)) as (_, status):
        assert status.version() == version


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[" * 100_000, b'{"status": "success"}'])
def test_what_a_server_does_not_tell_is_no_error(body: bytes) -> None:
    with asking(lambda peer, _: peer.reply(body)) as (_, status):
        assert status.version() == ""
        assert status.keeps() is None
