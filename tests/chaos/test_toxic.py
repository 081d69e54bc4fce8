"""The proxy is ill as it says, and sound again afterwards."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests

from quarantine.sandbox.desks.served import Asked, Desk, Said
from tests.chaos.toxic import Ill, Kind, Toxic
from tests.chaos.toxic_http import http


@dataclass
class Counted:
    """A server that counts, and the proxy before it."""

    toxic: Toxic
    desk: Counting
    session: requests.Session = field(default_factory=requests.Session)

    def ask(self) -> Any:
        """What it answers, on the connection that stands where one does. Raises requests.RequestException."""
        return self.session.post(f"{self.toxic.url}/count", data=b"x" * 100_000, timeout=0.5).json()


class Counting(Desk):
    """Says how many requests it has had."""

    def answer(self, asked: Asked) -> Said:  # noqa: ARG002
        return Said(200, len(self.asked))


@pytest.fixture
def counted() -> Iterator[Counted]:
    with Counting() as desk, Toxic("desk", int(desk.url.rpartition(":")[2]), "1") as toxic:
        made = Counted(toxic, desk)
        assert made.ask() == 1
        yield made
        toxic.heal()
        made.session.close()
        assert made.ask() == len(desk.asked), "it is sound again"
        made.session.close()


def test_down_is_refused(counted: Counted) -> None:
    counted.toxic.fall(Ill(Kind.DOWN))
    for _ in range(2):
        with pytest.raises(requests.ConnectionError):
            counted.ask()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", counted.toxic.port))
    assert len(counted.desk.asked) == 1


def test_slow_is_late(counted: Counted) -> None:
    counted.toxic.fall(Ill(Kind.SLOW, delay_s=0.1))
    began = time.monotonic()
    assert counted.ask() == 2
    assert time.monotonic() - began >= 0.1
    assert counted.toxic.met == 1


def test_flapping_is_both(counted: Counted) -> None:
    counted.toxic.fall(Ill(Kind.FLAPPING, period_s=0.05))
    came: set[bool] = set()
    end = time.monotonic() + 5
    while came != {True, False} and time.monotonic() < end:
        try:
            came.add(counted.ask() > 1)
        except requests.RequestException:
            came.add(False)
    assert came == {True, False}
    assert counted.toxic.met > 0


def test_silent_says_nothing_and_passes_nothing_on(counted: Counted) -> None:
    counted.toxic.fall(Ill(Kind.SILENT))
    with pytest.raises(requests.Timeout):
        counted.ask()
    assert len(counted.desk.asked) == 1
    assert counted.toxic.met > 0


def test_a_connection_that_fell_silent_stays_so() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Toxic("echo", server.getsockname()[1], "1") as toxic,
        socket.create_connection(("127.0.0.1", toxic.port)) as near,
        server.accept()[0] as far,
    ):
        for one, other in ((near, far), (far, near)):
            one.sendall(b"hello")
            assert other.recv(10) == b"hello"
            other.settimeout(0.2)
        toxic.fall(Ill(Kind.SILENT))
        for _ in range(2):
            for one, other in ((near, far), (far, near)):
                one.sendall(b"hello")
                with pytest.raises(TimeoutError):
                    other.recv(1)
            toxic.heal()
        assert toxic.met >= 2


def test_a_lost_answer_is_that_of_something_done(counted: Counted) -> None:
    counted.toxic.fall(Ill(Kind.LOSSY, share=0.5))
    with pytest.raises(requests.ConnectionError):
        counted.ask()
    assert len(counted.desk.asked) == 2, "the first one is lost always, and was done"
    lost = 0
    for _ in range(30):
        try:
            counted.ask()
        except requests.ConnectionError:
            lost += 1
    assert 5 < lost < 25
    assert counted.toxic.met == lost + 1
    assert len(counted.desk.asked) == 32


def test_wrong_answers_come_by_turns_and_nothing_is_done(counted: Counted) -> None:
    answers = (http(200, "[1]"), http(429, "[2]", Retry_After="7"))
    counted.toxic.fall(Ill(Kind.WRONG, answers=answers))
    assert counted.ask() == [1]
    told = counted.session.get(counted.toxic.url, timeout=5)
    assert (told.status_code, told.headers["Retry-After"], told.json()) == (429, "7", [2])
    assert counted.ask() == [1]
    assert counted.toxic.met == 3
    assert len(counted.desk.asked) == 1


def test_what_speaks_no_http_is_answered_as_well(counted: Counted) -> None:
    counted.toxic.fall(Ill(Kind.WRONG, answers=(b"\x00\xff",)))
    with socket.create_connection(("127.0.0.1", counted.toxic.port)) as one:
        one.sendall(b"\x00\x00\x00\x08\x04\xd2\x16\x2f")
        assert one.recv(10) == b"\x00\xff"
        assert one.recv(10) == b""
