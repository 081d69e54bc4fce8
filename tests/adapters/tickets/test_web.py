"""The client against a server that answers byte by byte what a test says."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from quarantine.adapters.tickets.web import Web, base_url, secret_of
from quarantine.adapters.web import client as module
from quarantine.adapters.web import retry_after
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
TOKEN = "s3cret-t0ken"


class Far:
    """Answers each connection with the next script: bytes, then the end; None: it reads, and never answers."""

    def __init__(self) -> None:
        self.script: list[bytes | None] = []
        self.asked: list[bytes] = []
        self._held: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.asked.append(connection.recv(65_536))
            answer = self.script.pop(0)
            if answer is None:
                self._held.append(connection)
                continue
            with connection:
                connection.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for connection in self._held:
            connection.close()


class Dripping:
    """A server whose answer has one more header each 50 ms, for ever."""

    def __enter__(self) -> str:
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._drip)
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _drip(self) -> None:
        connection, _ = self._listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not self._over.wait(0.05):
                connection.sendall(b"x")

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5)
        self._listener.close()


def answer(status: int, body: object = None, headers: str = "") -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(content)}\r\nConnection: close\r\n{headers}\r\n"
    return head.encode() + content


@pytest.fixture
def far() -> Iterator[Far]:
    server = Far()
    yield server
    server.close()


def client(far: Far, wait: float = 5.0) -> Web:
    return Web(far.url, lambda: f"Bearer {TOKEN}", name="the desk", now=lambda: NOW, wait=wait)


def test_the_answer_and_what_was_sent(far: Far) -> None:
    far.script = [answer(201, {"id": 7}, "Link: </next?page=2>; rel=next\r\n")]
    got = client(far).call("file a ticket").send("POST", "/tickets", {"title": "x"})
    assert (got.status, got.body, got.links) == (201, {"id": 7}, {"next": "/next?page=2"})
    head = far.asked[0].decode()
    assert head.startswith("POST /tickets HTTP/1.1\r\n")
    assert f"Authorization: Bearer {TOKEN}\r\n" in head
    assert "User-Agent: quarantine" in head


def test_a_password_of_netrc_is_not_sent(far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    far.script = [answer(200, [])]
    client(far).call("find").get("/tickets")
    assert b"Basic" not in far.asked[0]


@pytest.mark.parametrize(
    ("said", "reading", "writing"),
    [
        (answer(500, {"message": "oops"}), TicketsUnavailable, TicketsUncertain),
        (answer(503, b"down"), TicketsUnavailable, TicketsUncertain),
        (answer(200, b"<html>"), TicketsUnavailable, TicketsUncertain),
        (answer(200, {"a": 1})[:-3], TicketsUnavailable, TicketsUncertain),
        (b"", TicketsUnavailable, TicketsUncertain),
        (b"nonsense\r\n\r\n", TicketsUnavailable, TicketsUncertain),
        (None, TicketsUnavailable, TicketsUncertain),
        (answer(429), TicketsUnavailable, TicketsUnavailable),
        (answer(403, {"message": "You have exceeded a secondary rate limit"}), TicketsUnavailable, TicketsUnavailable),
        (answer(403, {"message": "no rights"}), TicketsRefused, TicketsRefused),
        (answer(422, {"message": "too long"}), TicketsRefused, TicketsRefused),
        (answer(302, b"", "Location: http://127.0.0.1:1/\r\n"), TicketsRefused, TicketsRefused),
    ],
)
def test_what_went_wrong(far: Far, said: bytes | None, reading: type[Exception], writing: type[Exception]) -> None:
    far.script = [said, said, said]
    with pytest.raises(reading) as read:
        client(far, wait=0.3).call("find a ticket").get("/tickets")
    with pytest.raises(reading) as asked:
        client(far, wait=0.3).call("find a ticket").ask("/search", {})
    with pytest.raises(writing) as wrote:
        client(far, wait=0.3).call("file a ticket").send("POST", "/tickets", {})
    assert (read.type, asked.type, wrote.type) == (reading, reading, writing)
    assert len(far.asked) == 3, "nothing is tried twice"


def test_nothing_was_asked_for_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    web = Web(f"http://127.0.0.1:{port}", lambda: "Bearer x", name="the desk", now=lambda: NOW)
    with pytest.raises(TicketsUnavailable) as raised:
        web.call("file a ticket").send("POST", "/tickets", {})
    assert raised.type is TicketsUnavailable


def test_an_answer_that_never_ends_is_given_up(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1000)
    far.script = [answer(200, ["x" * 2000])]
    with pytest.raises(TicketsUnavailable, match="longer than 1000 bytes"):
        client(far).call("find a ticket").get("/tickets")


def test_the_secret_is_in_no_error(far: Far) -> None:
    far.script = [answer(401, {"message": f"bad token {TOKEN}"})]
    with pytest.raises(TicketsRefused) as raised:
        client(far).call("find a ticket").get("/tickets")
    assert TOKEN not in str(raised.value)
    assert "***" in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_link_to_another_host_is_not_followed(far: Far) -> None:
    with pytest.raises(TicketsUnavailable, match="another host"):
        client(far).call("find a ticket").get("https://elsewhere.example/page2")
    assert far.asked == []


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "30"}, 30),
        ({"Retry-After": "Sun, 29 Nov 2026 12:01:00 GMT"}, 60),
        ({"Retry-After": "Sun, 29 Nov 2026 11:00:00 GMT"}, 0),
        ({"Retry-After": "9" * 400}, 86_400),
        ({"Retry-After": "soon"}, None),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW.timestamp()) + 90)}, 90),
        ({"X-RateLimit-Remaining": "5", "X-RateLimit-Reset": str(int(NOW.timestamp()) + 90)}, None),
        ({"X-RateLimit-Reset": "2026-11-29T12:02Z"}, 120),
        ({"X-RateLimit-Reset": "2026-11-29T12:02Z", "X-RateLimit-Remaining": "7"}, None),
        ({"X-RateLimit-Reset": "2026-11-29T12:02"}, None),
        ({}, None),
    ],
)
def test_when_to_come_back(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == (None if seconds is None else timedelta(seconds=seconds))


def test_the_far_side_says_when_to_come_back(far: Far) -> None:
    far.script = [answer(429, {}, "Retry-After: 12\r\n")]
    with pytest.raises(TicketsUnavailable) as raised:
        client(far).call("find a ticket").get("/tickets")
    assert raised.value.retry_after == timedelta(seconds=12)


def test_and_where_it_does_not_say_a_minute_is_waited(far: Far) -> None:
    far.script = [answer(403, {"message": "You have exceeded a secondary rate limit"})]
    with pytest.raises(TicketsUnavailable) as raised:
        client(far).call("find a ticket").get("/tickets")
    assert raised.value.retry_after == timedelta(minutes=1)


def test_nothing_is_left_running(far: Far) -> None:
    far.script = [answer(200, []), answer(500)]
    client(far).call("ask").get("/tickets")
    with pytest.raises(TicketsUnavailable):
        client(far).call("ask").get("/tickets")
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer) and not one.finished.is_set()]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_one_that_sends_a_byte_now_and_then_is_broken_off(method: str) -> None:
    with Dripping() as url:
        web = Web(url, lambda: "Bearer x", name="the desk", now=lambda: NOW, whole=0.4)
        begun = time.monotonic()
        with pytest.raises(TicketsUnavailable, match=r"more than 0.4 s") as raised:
            web.call("ask").get("/tickets") if method == "GET" else web.call("ask").send("POST", "/tickets", {})
        assert time.monotonic() - begun < 5
    assert raised.type is (TicketsUnavailable if method == "GET" else TicketsUncertain)


@pytest.mark.parametrize(
    "url",
    [
        "http://desk.example",
        "https://me:pw@desk.example",
        "https://desk.example?x=1",
        "ftp://desk.example",
        "https://",
        "",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the URL of the ticket system") as raised:
        base_url(url)
    assert "pw" not in str(raised.value)


def test_a_rotated_file_counts(tmp_path: Path) -> None:
    file = tmp_path / "token"
    read = secret_of(SecretStr("unused"), file, "token of the desk")
    with pytest.raises(TicketsRefused, match="cannot be read"):
        read()
    file.write_text("one\n")
    assert read() == "one"
    file.write_text("two\n")
    assert read() == "two"
    file.write_text("two\nlines\n")
    with pytest.raises(TicketsRefused, match="single line"):
        read()
