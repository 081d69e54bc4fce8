"""The door over real HTTP: who is heard, what is too much, and that no caller can keep it busy or break it."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager

import pytest
import structlog

from quarantine import serving
from quarantine.adapters import door
from quarantine.adapters.door import AT_ONCE, LONGEST, Answer, app
from quarantine.serving import opened

Heard = list[tuple[Mapping[str, str], bytes]]


@contextmanager
def served(answer: Answer) -> Iterator[int]:
    """The door with one who answers, below `/here`; on which port."""
    with opened(app({"/here": answer}), "127.0.0.1", 0, "door") as port:
        yield port


@pytest.fixture(scope="module")
def heard() -> Heard:
    return []


@pytest.fixture(scope="module")
def port(heard: Heard) -> Iterator[int]:
    def answer(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        heard.append((headers, body))
        return 202, b"heard\n"

    with served(answer) as found:
        yield found


def ask(
    port: int, method: str = "POST", path: str = "/here", body: bytes = b"", **headers: str
) -> tuple[int, bytes, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers["Content-Type"]


def raw(port: int, text: str) -> bytes:
    """What is answered to these very bytes, after which nothing more comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").readline()


def test_who_listens_gets_headers_and_body_as_they_came(port: int, heard: Heard) -> None:
    body = "größer & <b>".encode()
    said = ask(port, body=body, X_Slack_Signature="v0=AbC", Content_Type="application/json")
    assert said == (202, b"heard\n", "text/plain; charset=utf-8")
    headers, got = heard.pop()
    assert got == body
    assert (headers["x-slack-signature"], headers["content-type"]) == ("v0=AbC", "application/json")


@pytest.mark.parametrize("path", ["/", "/here/", "/here/more", "/HERE", "/..", "/metrics"])
def test_nobody_listens_elsewhere(port: int, heard: Heard, path: str) -> None:
    assert ask(port, path=path)[0] == 404
    assert heard == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_post_is_heard(port: int, heard: Heard, method: str) -> None:
    assert ask(port, method)[0] == 405
    assert heard == []


@pytest.mark.parametrize(
    "length",
    [
        "",
        "Content-Length:\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: 1_0\r\n",
        "Content-Length: ²\r\n",
        f"Content-Length: {LONGEST + 1}\r\n",
        f"Content-Length: {'9' * 5000}\r\n",
        f"Content-Length: {'0' * 20}{LONGEST + 1}\r\n",
        "Transfer-Encoding: chunked\r\n",
    ],
)
def test_without_a_sound_length_nothing_is_read(port: int, heard: Heard, length: str) -> None:
    assert raw(port, f"POST /here HTTP/1.1\r\nHost: door\r\n{length}\r\nxyz").split()[1] == b"413"
    assert heard == []


def test_the_longest_body_is_heard_whole(port: int, heard: Heard) -> None:
    assert ask(port, body=b"x" * LONGEST)[0] == 202
    assert len(heard.pop()[1]) == LONGEST


def test_a_body_that_ends_early_is_not_heard(port: int, heard: Heard) -> None:
    assert raw(port, "POST /here HTTP/1.1\r\nHost: door\r\nContent-Length: 10\r\n\r\nxyz").split()[1] == b"408"
    assert heard == []


def test_who_sends_too_slowly_is_not_waited_for(port: int, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "PATIENCE_S", 0.0)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"POST /here HTTP/1.1\r\nHost: door\r\nContent-Length: 10\r\n\r\n12345")
        assert connection.makefile("rb").readline().split()[1] == b"408"
    assert heard == []


def test_a_caller_that_says_nothing_leaves_no_trace(
    port: int, heard: Heard, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving._Handler, "timeout", 0.05)
    for said in (b"", b"POST /here HTT", b"POST /here HTTP/1.1\r\nHo"):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(said)
            assert connection.makefile("rb").readline() == b"", "it is hung up on"
    assert ask(port)[0] == 202
    assert len(heard) == 1
    heard.clear()
    assert capfd.readouterr().err == ""


def test_more_callers_than_there_are_places_come_again() -> None:
    entered, leave = threading.Semaphore(0), threading.Event()

    def slow(_headers: Mapping[str, str], _body: bytes) -> tuple[int, bytes]:
        entered.release()
        assert leave.wait(20)
        return 200, b""

    with served(slow) as port:
        found: list[int] = []
        callers = [threading.Thread(target=lambda: found.append(ask(port)[0])) for _ in range(AT_ONCE)]
        for caller in callers:
            caller.start()
        for _ in callers:
            assert entered.acquire(timeout=20)
        assert ask(port)[:2] == (503, b"busy\n")
        assert ask(port, path="/elsewhere")[0] == 404, "which takes no place"
        leave.set()
        for caller in callers:
            caller.join()
        assert found == [200] * AT_ONCE
        assert ask(port)[0] == 200, "a place is free again"


@pytest.mark.parametrize("answer", [lambda *_: 1 / 0, lambda *_: (999, b""), lambda *_: None])
def test_a_defect_is_said_and_the_door_stays_open(answer: Callable[..., tuple[int, bytes]]) -> None:
    with served(answer) as port, structlog.testing.capture_logs() as logs:
        for _ in range(AT_ONCE + 1):
            assert ask(port)[:2] == (500, b"this could not be heard\n")
    assert len(logs) == AT_ONCE + 1
    assert all("a defect left a call without its answer" in one["event"] for one in logs)
