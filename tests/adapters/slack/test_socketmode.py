"""Socket Mode against the stand-in, over real WebSockets: acknowledged at once, connected again, stopped cleanly."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, TextMessage

from quarantine.adapters.slack.backlog import Backlog, Record
from quarantine.adapters.slack.notifier import client_of
from quarantine.adapters.slack.socketmode import LONGEST_WAIT, Link, Listener, _backoff
from quarantine.core.errors import NotifierRefused
from quarantine.sandbox.slack import Fault, FaultKind, Message, SlackServer
from tests.adapters.slack.conftest import APP_TOKEN, CHANNEL, TOKEN, Hands

BUTTON = {
    "type": "button",
    "text": {"type": "plain_text", "text": "x"},
    "action_id": "quarantine.approve",
    "value": "v",
}


@pytest.fixture
def message(slack: SlackServer) -> Message:
    client = client_of(TOKEN, slack.base_url, timedelta(seconds=5))
    client.chat_postMessage(channel=CHANNEL, text="x", blocks=[{"type": "actions", "elements": [BUTTON]}])
    return slack.messages[-1]


class Taken:
    """What came, and an event for each count of it."""

    def __init__(self) -> None:
        self.items: list[tuple[str, object]] = []
        self.full = False
        self._changed = threading.Condition()

    def offer(self, kind: str, payload: object) -> bool:
        with self._changed:
            if self.full:
                return False
            self.items.append((kind, payload))
            self._changed.notify_all()
            return True

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.items) >= count, 10)


@pytest.fixture
def taken() -> Taken:
    return Taken()


Listening = Callable[..., Listener]


@contextmanager
def listening(slack: SlackServer, taken: Taken, **changes: object) -> Iterator[Listener]:
    settings: dict[str, object] = {"base_url": slack.base_url, "wait": lambda _: 0.01, "connections": 1}
    listener = Listener(APP_TOKEN, taken.offer, **(settings | changes))  # type: ignore[arg-type]
    listener.start()
    try:
        yield listener
    finally:
        assert listener.stop()
        slack.sockets.wait_connected(0)


def until(found: Callable[[], bool], what: str) -> None:
    """Looks until it is so: the listener's own threads are soon there."""
    pause = threading.Event()
    for _ in range(1000):
        if found():
            return
        pause.wait(0.01)
    raise AssertionError(what)


def test_a_click_is_acknowledged_once_it_is_in_the_backlog(slack: SlackServer, taken: Taken, message: Message) -> None:
    with listening(slack, taken) as listener:
        slack.sockets.wait_connected(1)
        delivery = slack.acts.click("U0ANN", message, "quarantine.approve").wait()
        assert (delivery.acknowledged, delivery.attempts, delivery.answer) == (True, 1, None)
        assert listener.link == Link(connected=1, received=1)
        slack.acts.run("U0ANN", CHANNEL, "status").wait()
    assert [kind for kind, _ in taken.items] == ["interactive", "slash_commands"]
    assert taken.items[0][1] == delivery.payload


def test_what_does_not_fit_is_not_acknowledged_and_comes_again(
    slack: SlackServer, taken: Taken, message: Message, clock: Hands
) -> None:
    with listening(slack, taken) as listener:
        slack.sockets.wait_connected(1)
        taken.full = True
        delivery = slack.acts.click("U0ANN", message, "quarantine.approve")
        until(lambda: listener.link.turned_away == 1, "it was not turned away")
        assert not delivery.acknowledged
        taken.full = False
        clock.advance(timedelta(seconds=3))
        delivery.wait()
    assert (delivery.acknowledged, delivery.attempts, len(taken.items)) == (True, 2, 1)


def test_two_connections_stand_and_share_what_comes(slack: SlackServer, taken: Taken, message: Message) -> None:
    with listening(slack, taken, connections=2) as listener:
        slack.sockets.wait_connected(2)
        for _ in range(4):
            assert slack.acts.click("U0ANN", message, "quarantine.approve").wait().attempts == 1
        until(lambda: listener.link.connected == 2, "two were not counted")
    assert len(taken.items) == 4


@pytest.mark.parametrize("how", ["refresh", "drop"])
def test_it_connects_again_after_an_end(how: str, slack: SlackServer, taken: Taken, message: Message) -> None:
    with listening(slack, taken):
        slack.sockets.wait_connected(1)
        before = slack.requests.count("apps.connections.open")
        getattr(slack.sockets, how)()
        until(lambda: slack.requests.count("apps.connections.open") > before, "no other connection was opened")
        slack.sockets.wait_connected(1)
        assert slack.acts.click("U0ANN", message, "quarantine.approve").wait().acknowledged


def test_a_warning_alone_ends_nothing(slack: SlackServer, taken: Taken, message: Message) -> None:
    with listening(slack, taken):
        slack.sockets.wait_connected(1)
        slack.sockets.refresh("warning")
        assert slack.acts.click("U0ANN", message, "quarantine.approve").wait().acknowledged
        assert slack.requests.count("apps.connections.open") == 1


@pytest.mark.parametrize(
    "kind", [FaultKind.RATE_LIMITED, FaultKind.SERVER_ERROR, FaultKind.HTML, FaultKind.NOT_SLACK, FaultKind.CUT_OFF]
)
def test_it_goes_on_trying(kind: FaultKind, slack: SlackServer, taken: Taken) -> None:
    slack.fail(Fault(kind, method="apps.connections.open", retry_after="0"))
    with listening(slack, taken) as listener:
        slack.sockets.wait_connected(1)
        until(lambda: listener.link.connected == 1, "it is not counted as connected")
        assert listener.link.trouble == ""
    assert slack.requests.count("apps.connections.open") == 2


def test_garbage_is_passed_over(slack: SlackServer, taken: Taken, message: Message) -> None:
    garbage = ["{", "[]", '"x"', "null", '{"type": 7}', '{"type": "interactive"}', '{"envelope_id": 1}', "[" * 5000]
    with listening(slack, taken) as listener:
        slack.sockets.wait_connected(1)
        for text in garbage:
            slack.sockets.say(text)
        assert slack.acts.click("U0ANN", message, "quarantine.approve").wait().acknowledged
        assert listener.link.garbled == len(garbage)


def test_a_silent_connection_is_pinged_and_stands(slack: SlackServer, taken: Taken, message: Message) -> None:
    with listening(slack, taken, quiet=timedelta(milliseconds=50)):
        slack.sockets.wait_connected(1)
        threading.Event().wait(0.4)  # eight times as long: a time-out of the kernel, which no test moves
        assert slack.acts.click("U0ANN", message, "quarantine.approve").wait().acknowledged
        assert slack.requests.count("apps.connections.open") == 1


def test_a_dead_connection_is_given_up(slack: SlackServer, taken: Taken) -> None:
    """It says hello and no more: no ping is answered, and nobody closes it."""
    accepted: list[socket.socket] = []

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            accepted.append(peer)
            wire = WSConnection(ConnectionType.SERVER)
            wire.receive_data(peer.recv(4096))
            peer.sendall(wire.send(AcceptConnection()) + wire.send(TextMessage('{"type": "hello"}')))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        slack.sockets.base_url, real = f"ws://127.0.0.1:{listening.getsockname()[1]}/", slack.sockets.base_url
        listener = Listener(
            APP_TOKEN,
            taken.offer,
            base_url=slack.base_url,
            connections=1,
            quiet=timedelta(milliseconds=30),
            wait=lambda _: 0.01,
        )
        listener.start()
        until(lambda: len(accepted) > 1, "it holds on to a dead connection")
        assert listener.stop()
        slack.sockets.base_url = real
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)
    for peer in accepted:
        peer.close()


def test_it_stops_at_once_while_it_reads_and_while_it_waits(slack: SlackServer, taken: Taken) -> None:
    with listening(slack, taken):
        slack.sockets.wait_connected(1)
    away = Listener(APP_TOKEN, taken.offer, base_url="http://127.0.0.1:1/api/", wait=lambda _: 600.0)
    away.start()
    until(lambda: away.link.trouble != "", "it did not try")
    assert away.stop(within=5)
    assert Listener(APP_TOKEN, taken.offer).stop()


def test_no_token_and_no_url_is_logged(
    slack: SlackServer, taken: Taken, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    slack.fail(
        Fault(FaultKind.CUT_OFF, method="apps.connections.open"),
        Fault(FaultKind.SERVER_ERROR, method="apps.connections.open"),
    )
    with listening(slack, taken):
        slack.sockets.wait_connected(1)
        slack.sockets.drop()
        until(lambda: slack.requests.count("apps.connections.open") == 4, "no other connection was opened")
        slack.sockets.wait_connected(1)
    refused = Listener("xapp-1-wrong-secret", taken.offer, base_url=slack.base_url, wait=lambda _: 600.0)
    refused.start()
    until(lambda: refused.link.trouble != "", "it was not refused")
    refused.stop()
    streams = capsys.readouterr()
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("uvicorn")]
    told = " ".join(ours) + streams.out + streams.err + refused.link.trouble
    assert "invalid_auth" in told
    for secret in ("very-secret", "wrong-secret", "ticket="):
        assert secret not in told


@pytest.mark.parametrize("where", ["ws://127.0.0.1:1/link/", "nowhere/"])
def test_a_connection_that_cannot_be_made_is_told_without_its_url(
    where: str, slack: SlackServer, taken: Taken, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = where if where.startswith("ws:") else slack.sockets.base_url.replace("link/", where)
    monkeypatch.setattr(slack.sockets, "base_url", url)
    listener = Listener(APP_TOKEN, taken.offer, base_url=slack.base_url, wait=lambda _: 600.0)
    listener.start()
    until(lambda: listener.link.trouble != "", "it connected")
    assert listener.stop()
    streams = capsys.readouterr()
    assert "look at the network" in streams.out + streams.err
    for secret in ("very-secret", "ticket=", "127.0.0.1"):
        assert secret not in listener.link.trouble + streams.out + streams.err


def test_a_bot_token_is_refused_by_name() -> None:
    with pytest.raises(NotifierRefused, match="app-level token"):
        Listener(TOKEN, Taken().offer)


def test_slack_may_not_send_it_elsewhere_in_the_clear(slack: SlackServer, taken: Taken) -> None:
    listener = Listener(APP_TOKEN, taken.offer, base_url=slack.base_url, wait=lambda _: 600.0)
    listener._plain = False  # as where the Web API is asked over https
    listener.start()
    until(lambda: listener.link.trouble != "", "it connected")
    assert listener.stop()
    assert "without the URL of a connection" in listener.link.trouble


def test_attempts_are_ever_further_apart() -> None:
    waits = [_backoff(failures) for failures in (1, 2, 3, 4, 30)]
    assert all(wait <= LONGEST_WAIT for wait in waits)
    assert 0.5 <= waits[0] <= 1.0
    assert 4.0 <= waits[3] <= 8.0
    assert waits[-1] >= LONGEST_WAIT / 2


# --- The backlog ------------------------------------------------------------------------------------------------------

Settled = Callable[[bool], None]


def test_the_backlog_works_in_order_and_to_the_end() -> None:
    done: list[object] = []

    def take(kind: str, payload: object, settled: Settled) -> Record:
        def write() -> Callable[[], None]:
            settled(payload != 3)
            return lambda: done.append((kind, payload))

        return Record(write)

    backlog = Backlog(take)
    backlog.start()
    assert [backlog.offer("k", n) for n in range(5)] == [True, True, True, False, True]
    assert backlog.stop()
    assert done == [("k", n) for n in range(5)]
    assert not backlog.offer("k", 6)


def test_the_backlog_is_bounded() -> None:
    """Also by what is still to be told."""
    release = threading.Event()

    def take(_: str, payload: object, settled: Settled) -> Callable[[], object]:
        settled(True)
        return partial(release.wait, 10)

    backlog = Backlog(take, size=2)  # type: ignore[arg-type]
    backlog.start()
    first = backlog.offer("k", 0)
    until(lambda: backlog._rest.qsize() == 0, "the first is not being told")
    assert [first, *(backlog.offer("k", n) for n in range(1, 4))] == [True, True, True, False]
    release.set()
    assert backlog.stop()
    assert Backlog(lambda *_: None).stop()


def test_a_defect_of_one_payload_keeps_no_other_from_being_worked_off() -> None:
    done: list[object] = []

    def fails() -> None:
        raise ZeroDivisionError

    def take(_: str, payload: object, settled: Settled) -> Record | Callable[[], None]:
        if payload == "bad":
            raise ZeroDivisionError
        if payload == "unrecorded":
            return Record(fails)
        settled(True)
        return fails if payload == "odd" else lambda: done.append(payload)

    backlog = Backlog(take)
    backlog.start()
    given = {"good": True, "bad": False, "unrecorded": False, "odd": True, "better": True}
    assert {payload: backlog.offer("k", payload) for payload in given} == given
    assert backlog.stop()
    assert done == ["good", "better"]


def test_who_is_slow_to_record_is_not_waited_for_and_still_works(slack: SlackServer, message: Message) -> None:
    """Slack has no acknowledgement of it, whatever becomes of this process."""
    release, done = threading.Event(), []

    def write(payload: object, settled: Settled) -> None:
        release.wait(10)
        done.append(json.dumps(payload))
        settled(True)

    def take(_: str, payload: object, settled: Settled) -> Record:
        return Record(partial(write, payload, settled))

    backlog = Backlog(take, patience=0.05)
    backlog.start()
    with listening(slack, backlog) as listener:  # type: ignore[arg-type]
        slack.sockets.wait_connected(1)
        delivery = slack.acts.click("U0ANN", message, "quarantine.approve")
        until(lambda: listener.link.turned_away == 1, "it was waited for")
        assert not delivery.acknowledged
        assert done == []
        release.set()
        assert backlog.stop()
    assert (delivery.acknowledged, len(done)) == (False, 1)


def test_slow_answers_keep_no_acknowledgement_waiting(slack: SlackServer, message: Message) -> None:
    release, recorded, told = threading.Event(), [], []

    def take(_: str, payload: object, settled: Settled) -> Record:
        def write() -> Callable[[], None]:
            recorded.append(json.dumps(payload))
            settled(True)
            return rest

        def rest() -> None:
            release.wait(10)
            told.append(payload)

        return Record(write)

    backlog = Backlog(take)
    backlog.start()
    listener = Listener(APP_TOKEN, backlog.offer, base_url=slack.base_url, connections=1)
    listener.start()
    slack.sockets.wait_connected(1)
    deliveries = [slack.acts.click("U0ANN", message, "quarantine.approve").wait() for _ in range(3)]
    assert (len(recorded), told) == (3, [])
    release.set()
    assert listener.stop()
    assert backlog.stop()
    assert ([d.attempts for d in deliveries], len(told)) == ([1, 1, 1], 3)
