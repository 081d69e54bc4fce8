"""Who is asking: credentials are sent where they should be, and shown nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.errors import UsageError
from quarantine.core.model import Failed, FailureKind, Samples
from tests.adapters.prometheus.standin import Peer, Request, Standin, vector

AT = datetime.fromtimestamp(1_700_000_000, UTC)
TEN = timedelta(seconds=10)
GOOD = vector(({"node": "a"}, "1"))


@contextmanager
def asking(script: Callable[[Peer, Request], None], **settings: Any) -> Iterator[tuple[Standin, PrometheusMetrics]]:
    with Standin(script) as server, PrometheusMetrics(PrometheusSettings(server.url, **settings)) as metrics:
        yield server, metrics


def failed(metrics: PrometheusMetrics, timeout: timedelta = TEN) -> Failed:
    answer = metrics.query("up", at=AT, timeout=timeout)
    assert isinstance(answer, Failed), answer
    assert answer.detail.endswith(".")
    assert "\n" not in answer.detail
    assert "0x" not in answer.detail  # no object's address, which changes each time
    return answer


def authorization(**settings: Any) -> str | None:
    with asking(lambda peer, _: peer.reply(GOOD), **settings) as (server, metrics):
        assert isinstance(metrics.query("up", at=AT, timeout=TEN), Samples)
        return server.requests[0].headers.get("authorization")


def test_basic_credentials_of_any_script() -> None:
    assert authorization(username="ops", password=SecretStr("pässwörd")) == "Basic b3BzOnDDpHNzd8O2cmQ="


def test_credentials_in_the_url_are_sent_and_not_shown() -> None:
    with Standin(lambda peer, _: peer.reply(b"", "401 Unauthorized")) as server:
        settings = PrometheusSettings(server.url.replace("://", "://ops:p%40ss@"))
        with PrometheusMetrics(settings) as metrics:
            answer = failed(metrics)
        assert server.requests[0].headers["authorization"] == "Basic b3BzOnBAc3M="
    assert answer.kind is FailureKind.REFUSED
    assert answer.detail.startswith(f"{server.url}/api/v1/query ")
    for shown in (repr(settings), repr(metrics), answer.detail):
        assert "p@ss" not in shown
        assert "p%40ss" not in shown


def test_a_token_file_is_read_again_when_it_has_rotated(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with asking(lambda peer, _: peer.reply(GOOD), bearer_token=token) as (server, metrics):
        for text in ("first", "second"):
            token.write_text(text + "\n")
            assert isinstance(metrics.query("up", at=AT, timeout=TEN), Samples)
        assert [r.headers["authorization"] for r in server.requests] == ["Bearer first", "Bearer second"]
        token.unlink()
        answer = failed(metrics)
        assert answer.kind is FailureKind.MISCONFIGURED
        assert str(token) in answer.detail
        token.write_text("one\ntwo\n")
        assert "one line" in failed(metrics).detail
        assert len(server.requests) == 2


def test_a_netrc_file_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert authorization() is None
    assert authorization(bearer_token=SecretStr("mine")) == "Bearer mine"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": "prometheus:9090"}, "write http://host:9090"),
        ({"url": "http://:9090"}, "write http://host:9090"),
        ({"url": "http://[::1"}, "cannot be read"),
        ({"url": "http://h:99999"}, "cannot be read"),
        ({"url": "http://h:9090/?a=b"}, "may not go on after its path"),
        ({"bearer_token": SecretStr("t"), "username": "u"}, "give one of them"),
        ({"bearer_token": SecretStr("two\nlines")}, "not one line"),
        ({"headers": {"X-A": "b\r\nHost: c"}}, "'X-A'"),
        ({"headers": {"X A": "b"}}, "'X A'"),
        ({"key_file": Path("k.pem")}, "a key and no certificate"),
        ({"ca_file": Path("missing.pem")}, "missing.pem cannot be used as prometheus.ca_file (No such file"),
        ({"cert_file": Path("missing.pem")}, "missing.pem cannot be used as the client certificate"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        PrometheusMetrics(PrometheusSettings(**{"url": "http://127.0.0.1:9", **settings}))
    assert words in str(caught.value)
    assert "two" not in str(caught.value)
