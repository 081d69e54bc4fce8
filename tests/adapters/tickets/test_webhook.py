"""Tickets by webhook, against a strict receiver and against the one that the documentation shows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from quarantine.adapters.tickets.letter import letter
from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web
from quarantine.adapters.tickets.webhook import connect
from quarantine.adapters.tickets.webhook.receiver import WebhookTickets
from quarantine.adapters.tickets.webhook.signature import Signed, request_signature
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Attachment, TicketState, Update
from quarantine.ports import Tickets
from quarantine.sandbox.desks.served import Said
from quarantine.sandbox.desks.webhook import WebhookDesk
from quarantine.testing.ticket_contract import TicketContract, example_report

DOCS = Path(__file__).parents[3] / "docs/tickets"
SECRET = "0123456789abcdef0123456789abcdef"
KEY = "gpu-017-a3"
Make = Callable[..., CaseReport]


def _now() -> datetime:
    return datetime(2026, 11, 29, 4, tzinfo=UTC)


@pytest.fixture
def desk() -> Iterator[WebhookDesk]:
    with WebhookDesk(SECRET, _now) as desk:
        yield desk


def _tickets(desk: WebhookDesk, now: Callable[[], datetime] = _now, **changes: object) -> WebhookTickets:
    return connect({"url": desk.url, "secret": SECRET} | changes, Context("lab", now, None, "rma"))


class TestContract(TicketContract):
    """The port, against the stand-in."""

    @pytest.fixture
    def desk(self) -> Iterator[Tickets]:
        with WebhookDesk(SECRET, _now) as desk:
            yield _tickets(desk)


class TestExample(TicketContract):
    """The receiver on the page keeps the contract that is above it."""

    @pytest.fixture
    def desk(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tickets]:
        monkeypatch.setenv("SECRET", SECRET)
        monkeypatch.setenv("DB", ":memory:")
        page = (DOCS / "webhook.md").read_text(encoding="utf-8")
        (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        scope: dict[str, Any] = {"__name__": "receiver"}
        exec(compile(source, "webhook.md", "exec"), scope)  # noqa: S102  (it is ours)
        scope["Receiver"].log_message = lambda *_: None
        server = ThreadingHTTPServer(("127.0.0.1", 0), scope["Receiver"])
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        options = {"url": f"http://127.0.0.1:{server.server_address[1]}", "secret": SECRET}
        yield connect(options, Context("lab", lambda: datetime.now(UTC), None, "rma"))  # noqa: TID251  (its clock)
        server.shutdown()
        server.server_close()
        thread.join()
        scope["DB"].close()

    def test_exactly_once_whoever_files_at_the_same_time(self, desk: Tickets) -> None:
        with ThreadPoolExecutor(8) as replicas:
            refs = set(replicas.map(lambda _: desk.open(example_report()).ref, range(16)))
        assert len(refs) == len(desk.find(example_report().key)) == 1

    def test_what_is_not_signed_is_refused(self, desk: Tickets) -> None:
        assert isinstance(desk, WebhookTickets)
        later = lambda: datetime.now(UTC) + timedelta(minutes=6)  # noqa: E731, TID251
        for secret, now in ((SECRET[::-1], lambda: datetime.now(UTC)), (SECRET, later)):  # noqa: TID251
            with pytest.raises(TicketsRefused, match="401"):
                connect({"url": desk._web.base, "secret": secret}, Context("lab", now, None, "rma")).find(KEY)


def test_what_is_sent(desk: WebhookDesk, make_report: Make) -> None:
    report = make_report(assets=(("serial", "S-1"),))
    ticket = _tickets(desk).open(report, [Attachment("../c\r\n.png", "image/png", b"\x89PNG")])
    assert (ticket.ref, ticket.state, ticket.url) == ("RMA-1", TicketState.FILED, "https://desk.example/RMA-1")
    assert ticket.note == ""
    kept = desk.tickets["RMA-1"]
    assert kept.told["text"] == letter(report).text
    assert kept.told["machine"]["system_uuid"] == report.machine.system_uuid
    assert kept.told["assets"] == {"serial": "S-1"}
    assert kept.told["opened_at"] == "2026-11-29T03:12:05Z"
    assert b"secret" not in desk.asked[0].content, "nothing of users' workloads leaves"
    assert list(kept.files.values()) == [b"\x89PNG"]
    assert b'"name": "c-.png"' in desk.asked[-1].content


def test_a_signature_is_of_one_request(desk: WebhookDesk) -> None:
    _tickets(desk).find(KEY)
    (asked,) = desk.asked
    assert desk.answer(asked).status == 200
    for other in (
        replace(asked, method="POST"),
        replace(asked, target="/tickets?key=other"),
        replace(asked, content=b"{}"),
        replace(asked, headers={**asked.headers, "quarantine-timestamp": "1795924801"}),
    ):
        assert desk.answer(other).status == 401


def test_the_signature_by_hand() -> None:
    """A value that another implementation can be checked with; it is not to change."""
    assert (
        request_signature(SECRET, 1795924800, "POST", "/x/tickets?key=a", b'{"a":1}')
        == "v1=73e4fdc2d42e52ee54ef2638f8db42b77422ebd27bfddd6059b258640197613b"
    )


@pytest.mark.parametrize("off", [timedelta(minutes=6), timedelta(minutes=-6)])
def test_a_clock_that_is_wrong_is_refused(desk: WebhookDesk, off: timedelta) -> None:
    with pytest.raises(TicketsRefused, match="401"):
        _tickets(desk, lambda: _now() + off).find(KEY)


def test_a_receiver_that_takes_no_files_has_the_ticket(make_report: Make) -> None:
    with WebhookDesk(SECRET, _now, takes_files=False) as desk:
        ticket = _tickets(desk).open(make_report(), [Attachment("c.png", "image/png", b"x")])
        assert len(desk.tickets) == 1
    assert ticket.note == "c.png is not attached: the receiver takes no such files"


def test_a_chart_whose_answer_is_lost_is_said(desk: WebhookDesk, make_report: Make) -> None:
    desk.faults["POST attachments"] = ["cut-after"]
    assert "not attached" in _tickets(desk).open(make_report(), [Attachment("c.png", "image/png", b"x")]).note


@pytest.mark.parametrize(
    ("now", "state", "is_open"),
    [
        ({"status": "new"}, TicketState.FILED, True),
        ({"status": "In Progress"}, TicketState.IN_PROGRESS, True),
        ({"status": "host_released"}, TicketState.HOST_RELEASED, False),
        ({"status": "RMA Sent"}, TicketState.ACKNOWLEDGED, True),
        ({"status": "whatever"}, TicketState.IN_PROGRESS, True),
        ({"status": "whatever", "open": False}, TicketState.CLOSED, False),
        ({"status": "new", "open": False}, TicketState.CLOSED, False),
        ({"status": "done", "state": "replaced"}, TicketState.REPLACED, False),
        ({"status": "done", "state": "replaced", "open": True}, TicketState.REPLACED, True),
    ],
)
def test_states(
    desk: WebhookDesk, make_report: Make, now: dict[str, object], state: TicketState, is_open: bool
) -> None:
    tickets = _tickets(desk, states={"Rma sent": "acknowledged"})
    ref = tickets.open(make_report()).ref
    desk.tickets[ref].now.update(now)
    ticket = tickets.read(ref)
    assert ticket is not None
    assert (ticket.state, ticket.open, ticket.status) == (state, is_open, now["status"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"ref": "../x"},
        {"ref": "a/b"},
        {"url": "javascript:alert(1)"},
        {"status": ""},
        {"status": "a\r\nb"},
        {"state": "gone"},
    ],
)
def test_an_answer_that_breaks_the_contract_is_none(
    desk: WebhookDesk, make_report: Make, wrong: dict[str, object]
) -> None:
    tickets = _tickets(desk)
    tickets.open(make_report())
    desk.tickets["RMA-1"].now.update(wrong)
    with pytest.raises(TicketsUnavailable, match="not what its API promises: "):
        tickets.read("RMA-1")
    with pytest.raises(TicketsUncertain):
        tickets.open(make_report())


def test_a_receiver_that_ignores_the_key_is_seen(
    desk: WebhookDesk, make_report: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = _tickets(desk)
    tickets.open(make_report())
    desk.tickets["RMA-1"].now["key"] = "gpu-018-b4"
    everything = Said(200, {"tickets": [kept.now for kept in desk.tickets.values()]})
    monkeypatch.setattr(desk, "answer", lambda _: everything)
    with pytest.raises(TicketsUnavailable, match="another key"):
        tickets.find(KEY)


def test_an_answer_about_another_ticket_is_none(
    desk: WebhookDesk, make_report: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets, other = _tickets(desk), Said(200, {"ref": "RMA-2", "key": "gpu-018-b4", "status": "new"})
    monkeypatch.setattr(desk, "answer", lambda _: other)
    with pytest.raises(TicketsUnavailable, match="another reference"):
        tickets.read("RMA-1")
    with pytest.raises(TicketsUncertain, match="another key"):
        tickets.open(make_report())


def test_a_404_that_names_no_ticket_is_a_wrong_url(desk: WebhookDesk) -> None:
    assert _tickets(desk).read("RMA-9") is None
    with pytest.raises(TicketsRefused, match="look at the target's url"):
        _tickets(desk, url=f"{desk.url}/elsewhere").read("RMA-9")
    with pytest.raises(TicketsRefused, match="404"):
        _tickets(desk, url=f"{desk.url}/elsewhere").find(KEY)


def test_an_update_is_added_once_and_ends_it(desk: WebhookDesk, make_report: Make) -> None:
    tickets = _tickets(desk)
    ref = tickets.open(make_report()).ref
    for _ in range(2):
        tickets.update(ref, Update("ended-1", "over\x1b[31m\nand out", close=True))
    assert [body["text"] for body in desk.tickets[ref].updates.values()] == ["over�[31m\nand out"]
    assert tickets.find(KEY)[0].state is TicketState.CLOSED
    with pytest.raises(TicketsRefused, match="404"):
        tickets.update("RMA-9", Update("ended-1", "x"))


def _impatient(desk: WebhookDesk) -> WebhookTickets:
    web = Web(
        desk.url,
        lambda: SECRET,
        name="the webhook",
        now=_now,
        wait=0.3,
        authorize=lambda secret: Signed(secret, _now),
    )
    return WebhookTickets(web, letter)


@pytest.mark.parametrize(
    ("fault", "raised", "at_first"),
    [
        ("cut-before", TicketsUncertain, 0),
        ("cut-after", TicketsUncertain, 1),
        ("silent-after", TicketsUncertain, 1),
        ("garbled-after", TicketsUncertain, 1),
        ("500", TicketsUncertain, 0),
        ("429", TicketsUnavailable, 0),
    ],
)
def test_exactly_once_whatever_happens(
    desk: WebhookDesk, make_report: Make, fault: str, raised: type[Exception], at_first: int
) -> None:
    tickets, report = _impatient(desk), make_report()
    desk.faults["POST tickets"] = [fault]
    with pytest.raises(TicketsUnavailable) as error:
        tickets.open(report)
    assert error.type is raised
    assert error.value.retry_after == (timedelta(seconds=30) if fault == "429" else None)
    assert len(desk.tickets) == len(tickets.find(KEY)) == at_first
    # Even without looking: one key is one ticket, whatever the report says by now.
    assert tickets.open(make_report(reason="hotter")).ref == "RMA-1"
    assert len(desk.tickets) == 1

    desk.faults["POST updates"] = [fault]
    with pytest.raises(TicketsUnavailable) as error:
        tickets.update("RMA-1", Update("u-1", "seen"))
    assert error.type is raised
    tickets.update("RMA-1", Update("u-1", "seen"))
    assert len(desk.tickets["RMA-1"].updates) == 1


def test_exactly_once_whoever_files_at_the_same_time(desk: WebhookDesk, make_report: Make) -> None:
    with ThreadPoolExecutor(8) as replicas:
        refs = set(replicas.map(lambda _: _tickets(desk).open(make_report()).ref, range(8)))
    assert refs == set(desk.tickets) == {"RMA-1"}


def test_exactly_once_where_a_request_arrives_late(desk: WebhookDesk, make_report: Make) -> None:
    tickets = _tickets(desk)
    desk.faults = {"POST tickets": ["delayed"], "POST updates": ["delayed"]}
    with pytest.raises(TicketsUncertain):
        tickets.open(make_report())
    assert tickets.find(KEY) == ()
    ref = tickets.open(make_report(reason="hotter by now")).ref
    with pytest.raises(TicketsUncertain):
        tickets.update(ref, Update("u-1", "seen"))
    tickets.update(ref, Update("u-1", "seen"))
    assert [said.status for said in desk.deliver()] == [200, 200]
    assert (list(desk.tickets), list(desk.tickets[ref].updates)) == ([ref], ["u-1"])


@pytest.mark.parametrize("fault", ["cut-before", "cut-after", "garbled-after", "500", "429"])
def test_what_cannot_be_looked_up_is_not_none(desk: WebhookDesk, make_report: Make, fault: str) -> None:
    _tickets(desk).open(make_report())
    desk.faults = {"GET tickets": [fault], "GET RMA-1": [fault]}
    with pytest.raises(TicketsUnavailable):
        _tickets(desk).find(KEY)
    with pytest.raises(TicketsUnavailable):
        _tickets(desk).read("RMA-1")


def test_the_secret_is_in_no_error(desk: WebhookDesk, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("short-one")
    tickets = _tickets(desk, secret=None, secret_file=file)
    with pytest.raises(TicketsRefused, match="less than 32") as raised:
        tickets.find(KEY)
    assert "short-one" not in str(raised.value)
    file.write_text(SECRET + "\n")
    assert tickets.find(KEY) == ()
    file.unlink()
    with pytest.raises(TicketsRefused, match="secret of ticket target rma"):
        tickets.find(KEY)


@pytest.mark.parametrize(
    "wrong",
    [
        {"secret": None},
        {"secret_file": "/x"},
        {"url": "http://far.example"},
        {"url": "https://u:p@far.example"},
        {"a": 1},
    ],
)
def test_options_that_are_wrong(desk: WebhookDesk, wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as raised:
        _tickets(desk, _now, **wrong)
    assert SECRET not in str(raised.value)
    assert "u:p" not in str(raised.value)
