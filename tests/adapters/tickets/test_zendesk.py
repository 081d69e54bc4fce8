"""Tickets in Zendesk, against the stand-in over HTTP. What counts is what is at the far side in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web
from quarantine.adapters.tickets.zendesk import connect
from quarantine.adapters.tickets.zendesk.markup import LONGEST, html
from quarantine.adapters.tickets.zendesk.options import ZendeskOptions
from quarantine.adapters.tickets.zendesk.support import ZendeskTickets
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Attachment, TicketState, Update
from quarantine.ports import Tickets
from quarantine.sandbox.desks.served import Said
from quarantine.sandbox.desks.zendesk import ZendeskDesk
from quarantine.testing.ticket_contract import TicketContract

KEY = "gpu-017-a3"
EMAIL, TOKEN = "gpu@lab.example", "t0ken-of-the-agent"
Make = Callable[..., CaseReport]


class Hands:
    def __init__(self) -> None:
        self.at = datetime(2026, 11, 29, 4, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def desk(hands: Hands) -> Iterator[ZendeskDesk]:
    with ZendeskDesk(EMAIL, TOKEN, hands) as desk:
        yield desk


def _letter(report: CaseReport) -> Letter:
    return Letter(report.title, "", f"{report.reason}\n  {report.node} <b> {{{{ticket.requester.email}}}} @all")


def _tickets(desk: ZendeskDesk, **changes: object) -> ZendeskTickets:
    options = {"url": desk.url, "email": EMAIL, "token": TOKEN} | changes
    return connect(options, Context("lab", desk.now, None, "acme", _letter))


class TestContract(TicketContract):
    """The port."""

    @pytest.fixture
    def desk(self) -> Iterator[Tickets]:
        with ZendeskDesk(EMAIL, TOKEN, Hands()) as desk:
            yield _tickets(desk)


def test_what_is_filed(desk: ZendeskDesk, make_report: Make) -> None:
    tickets = _tickets(desk, group_id=7, priority="high", tags=["gpu"], public=False)
    ticket = tickets.open(make_report(title="hot {{ticket.id}}\r\nx"), [Attachment("c.png", "image/png", b"\x89PNG")])
    assert (ticket.ref, ticket.key, ticket.status, ticket.note) == ("1", KEY, "new", "")
    assert ticket.url == f"{desk.url}/agent/tickets/1"
    there = desk.tickets[1]
    assert (there["group_id"], there["priority"], there["tags"]) == (7, "high", ["gpu"])
    assert there["subject"] == "hot {\u2060{ticket.id}} x"
    first, chart = desk.comments[1]
    assert first["html_body"].endswith("<br>&nbsp;&nbsp;gpu-017 &lt;b&gt; {\u2060{ticket.requester.email}} @\u2060all")
    assert (first["public"], chart["public"]) == (False, False)
    assert chart["attachments"] == ["c.png"]
    assert desk.tickets[1]["external_id"] == KEY
    assert tickets.find(KEY) == (ticket,)
    assert tickets.read("1") == ticket


@pytest.mark.parametrize("email", [EMAIL, ""])
def test_both_ways_to_authenticate(desk: ZendeskDesk, email: str) -> None:
    assert _tickets(desk, email=email).find(KEY) == ()
    with pytest.raises(TicketsRefused, match="401") as raised:
        _tickets(desk, email=email, token="other-one").find(KEY)
    assert "other-one" not in str(raised.value)


@pytest.mark.parametrize(
    ("now", "word", "state", "is_open"),
    [
        ({"status": "open"}, "open", TicketState.ACKNOWLEDGED, True),
        ({"status": "pending"}, "pending", TicketState.IN_PROGRESS, True),
        ({"status": "hold"}, "hold", TicketState.IN_PROGRESS, True),
        ({"status": "of-tomorrow"}, "of-tomorrow", TicketState.IN_PROGRESS, True),
        ({"status": "solved"}, "solved", TicketState.CLOSED, False),
        ({"status": "closed", "tags": ["provider/replaced"]}, "provider/replaced", TicketState.REPLACED, False),
        ({"status": "solved", "tags": ["provider/acknowledged"]}, "provider/acknowledged", TicketState.CLOSED, False),
        ({"status": "open", "tags": ["x", "rma_sent", "provider/in-progress"]}, "rma_sent", TicketState.REPLACED, True),
        ({"status": "solved", "custom_status_id": 47}, "solved (47)", TicketState.NO_FAULT_FOUND, False),
        ({"status": "new", "tags": ["solved"]}, "new", TicketState.FILED, True),
    ],
)
def test_states(
    desk: ZendeskDesk, make_report: Make, now: dict[str, Any], word: str, state: TicketState, is_open: bool
) -> None:
    tickets = _tickets(desk, states={"RMA_sent": "replaced", "47": "no-fault-found"})
    tickets.open(make_report())
    desk.tickets[1].update(now)
    ticket = tickets.read("1")
    assert ticket is not None
    assert (ticket.status, ticket.state, ticket.open) == (word, state, is_open)


def test_all_pages_are_read_oldest_first(desk: ZendeskDesk, make_report: Make) -> None:
    tickets = _tickets(desk)
    tickets.open(make_report())
    for number in range(2, 204):
        desk.tickets[number] = {**desk.tickets[1], "id": number}
    assert [ticket.ref for ticket in tickets.find(KEY)] == [str(number) for number in range(1, 204)]


def test_ids_of_others_are_left_out_and_a_filter_that_does_nothing_is_seen(
    desk: ZendeskDesk, make_report: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = _tickets(desk)
    tickets.open(make_report())
    there = {"meta": {"has_more": False}, "tickets": [desk.tickets[1], {**desk.tickets[1], "external_id": KEY.upper()}]}
    monkeypatch.setattr(desk, "answer", lambda _: Said(200, there))
    assert len(tickets.find(KEY)) == 1, "the account's collation may know no case"
    there["tickets"] = [{**desk.tickets[1], "external_id": None}]
    with pytest.raises(TicketsUnavailable, match="another external_id"):
        tickets.find(KEY)
    bodies: list[object] = [{"tickets": []}, {"tickets": [], "meta": {"has_more": True}}, {"tickets": [1]}, []]
    for body in bodies:
        monkeypatch.setattr(desk, "answer", lambda _, body=body: Said(200, body))
        with pytest.raises(TicketsUnavailable, match="not what its API promises"):
            tickets.find(KEY)


def test_an_answer_about_another_ticket_is_none(
    desk: ZendeskDesk, make_report: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Said(200, {"ticket": {"id": 2, "status": "new", "external_id": "gpu-018-b4"}})
    monkeypatch.setattr(desk, "answer", lambda _: other)
    with pytest.raises(TicketsUnavailable, match="another id"):
        _tickets(desk).read("1")
    with pytest.raises(TicketsUncertain, match="another external_id"):
        _tickets(desk).open(make_report())


def test_a_ticket_that_is_gone_and_a_host_that_is_no_zendesk(desk: ZendeskDesk) -> None:
    tickets = _tickets(desk)
    assert tickets.read("99") is None
    with pytest.raises(TicketsRefused, match="it was deleted"):
        tickets.update("99", Update("u-1", "x"))
    with pytest.raises(TicketsRefused, match="there is no Zendesk"):
        _tickets(desk, url=f"{desk.url}/elsewhere").read("99")


def test_an_update_is_added_once_and_escaped(desk: ZendeskDesk, make_report: Make) -> None:
    tickets = _tickets(desk)
    ref = tickets.open(make_report()).ref
    for close in (False, False, True, True):
        tickets.update(ref, Update("returned-1", "back <i>\n{{x}} http://a.example", close=close))
    (_, comment) = desk.comments[1]
    assert comment["html_body"] == (
        "back &lt;i&gt;<br>{\u2060{x}} http:\u2060//a.example<br><br>[quarantine update returned-1]"
    )
    assert desk.tickets[1]["status"] == "solved"


def test_nobody_adds_to_a_closed_ticket(desk: ZendeskDesk, make_report: Make) -> None:
    tickets = _tickets(desk)
    ref = tickets.open(make_report()).ref
    tickets.update(ref, Update("said-1", "before"))
    desk.close(1)
    tickets.update(ref, Update("said-1", "before"))
    tickets.update(ref, Update("end-1", "over", close=True))
    assert len(desk.comments[1]) == 2
    with pytest.raises(TicketsRefused, match="lets nobody add to it"):
        tickets.update(ref, Update("said-2", "after"))


def test_who_changes_it_at_the_same_time_is_not_overtaken(
    desk: ZendeskDesk, make_report: Make, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicas with the same update: the second one is told, and finds the first one's comment."""
    first, second = _tickets(desk), _tickets(desk)
    ref = first.open(make_report()).ref
    read = second._comments

    def late(*arguments: Any) -> Any:
        found = list(read(*arguments))
        hands.at += timedelta(seconds=1)
        first.update(ref, Update("u-1", "seen"))
        return iter(found)

    monkeypatch.setattr(second, "_comments", late)
    with pytest.raises(TicketsUnavailable, match="at the same time") as raised:
        second.update(ref, Update("u-1", "seen"))
    assert not isinstance(raised.value, TicketsUncertain)
    monkeypatch.undo()
    second.update(ref, Update("u-1", "seen"))
    assert len(desk.comments[1]) == 2


def test_a_file_that_is_not_taken_costs_no_ticket(desk: ZendeskDesk, make_report: Make) -> None:
    ticket = _tickets(desk).open(make_report(), [Attachment("c.exe", "x", b"x")])
    assert ticket.note.startswith("c.exe is not attached: ")
    assert len(desk.tickets) == 1
    desk.faults["POST uploads"] = ["cut-after"]
    assert "not attached" in _tickets(desk).open(make_report(key="k-2"), [Attachment("c.png", "image/png", b"x")]).note
    assert len(desk.comments[2]) == 1


def test_a_letter_that_is_too_long_is_cut_at_a_line() -> None:
    long = html("ü<\n" * 30_000)
    assert len(long.encode()) <= LONGEST + 3
    assert long.endswith("ü&lt;<br>…")
    assert html("a\n b\x07") == "a<br>&nbsp;b�"


def _impatient(desk: ZendeskDesk) -> ZendeskTickets:
    web = Web(desk.url, lambda: desk.oauth, name="Zendesk", now=desk.now, wait=0.3)
    options = ZendeskOptions.model_validate({"url": desk.url, "token": TOKEN})
    return ZendeskTickets(web, options, _letter)


@pytest.mark.parametrize(
    ("fault", "raised", "at_first"),
    [
        ("cut-before", TicketsUncertain, 0),
        ("cut-after", TicketsUncertain, 1),
        ("silent-after", TicketsUncertain, 1),
        ("garbled-after", TicketsUncertain, 1),
        ("500", TicketsUncertain, 0),
        ("409", TicketsUncertain, 0),
        ("429", TicketsUnavailable, 0),
    ],
)
def test_exactly_once_whatever_happens(
    desk: ZendeskDesk, make_report: Make, fault: str, raised: type[Exception], at_first: int
) -> None:
    tickets, report = _impatient(desk), make_report()
    desk.faults["POST tickets"] = [fault]
    with pytest.raises(TicketsUnavailable) as error:
        tickets.open(report)
    assert error.type is raised
    if fault == "429":
        assert error.value.retry_after == timedelta(seconds=30)
    assert len(desk.tickets) == len(tickets.find(KEY)) == at_first
    if not at_first:
        tickets.open(report)
    assert len(desk.tickets) == 1
    if fault == "409":
        return

    desk.faults["PUT 1"] = [fault]
    with pytest.raises(TicketsUnavailable) as error:
        tickets.update("1", Update("u-1", "seen", close=True))
    assert error.type is raised
    tickets.update("1", Update("u-1", "seen", close=True))
    assert len(desk.comments[1]) == 2
    assert desk.tickets[1]["status"] == "solved"


def test_exactly_once_while_the_list_is_late(desk: ZendeskDesk, make_report: Make, hands: Hands) -> None:
    """Within two hours the key guards what the list does not show yet, whatever the report says by then."""
    tickets = _tickets(desk)
    desk.lag = timedelta(seconds=50)
    desk.faults["POST tickets"] = ["cut-after"]
    with pytest.raises(TicketsUncertain):
        tickets.open(make_report())
    assert tickets.find(KEY) == ()
    desk.faults["POST tickets"] = ["garbled-after"]
    with pytest.raises(TicketsUncertain, match="asked for before"):  # a 400 whose reason cannot be read
        tickets.open(make_report(reason="hotter by now"))
    with pytest.raises(TicketsUncertain, match="asked for before"):
        tickets.open(make_report(reason="hotter by now"))
    assert tickets.open(make_report()).ref == "1", "the same words again are the same ticket"
    assert len(desk.tickets) == 1
    hands.at += tickets.settles
    assert [ticket.ref for ticket in tickets.find(KEY)] == ["1"]


def test_exactly_once_whoever_files_at_the_same_time(desk: ZendeskDesk, make_report: Make) -> None:
    with ThreadPoolExecutor(8) as replicas:
        refs = set(replicas.map(lambda _: _tickets(desk).open(make_report()).ref, range(8)))
    assert refs == {"1"}
    assert len(desk.tickets) == 1


@pytest.mark.parametrize("words", ["hot", "hotter by now"])
def test_exactly_once_where_a_request_arrives_late(desk: ZendeskDesk, make_report: Make, words: str) -> None:
    tickets = _tickets(desk)
    desk.faults["POST tickets"] = ["delayed"]
    with pytest.raises(TicketsUncertain):
        tickets.open(make_report(reason="hot"))
    assert tickets.find(KEY) == ()
    tickets.open(make_report(reason=words))
    assert [said.status for said in desk.deliver()] == [201 if words == "hot" else 400]
    assert len(tickets.find(KEY)) == 1

    desk.faults["PUT 1"] = ["delayed"]
    with pytest.raises(TicketsUncertain):
        tickets.update("1", Update("u-1", "seen"))
    hands = desk.now
    assert isinstance(hands, Hands)
    hands.at += timedelta(seconds=1)
    tickets.update("1", Update("u-1", "seen"))
    assert [said.status for said in desk.deliver()] == [409]
    assert len(desk.comments[1]) == 2


def test_a_chart_is_attached_once_to_a_ticket_that_was_there(desk: ZendeskDesk, make_report: Make) -> None:
    for _ in range(2):
        _tickets(desk).open(make_report(), [Attachment("c.png", "image/png", b"x")])
    assert [comment["attachments"] for comment in desk.comments[1]] == [[], ["c.png"]]


def test_after_two_hours_only_the_list_guards(desk: ZendeskDesk, make_report: Make, hands: Hands) -> None:
    """Why the kind is searchable, and not idempotent."""
    tickets = _tickets(desk)
    tickets.open(make_report())
    hands.at += timedelta(hours=2)
    tickets.open(make_report())
    assert len(tickets.find(KEY)) == 2


def test_a_closed_ticket_is_found_until_it_is_archived(desk: ZendeskDesk, make_report: Make, hands: Hands) -> None:
    tickets = _tickets(desk)
    tickets.open(make_report())
    desk.close(1)
    hands.at += timedelta(days=119)
    assert len(tickets.find(KEY)) == 1
    hands.at += timedelta(days=2)
    assert tickets.find(KEY) == ()
    read = tickets.read("1")
    assert read is not None
    assert not read.open


@pytest.mark.parametrize("fault", ["cut-before", "cut-after", "garbled-after", "500", "429"])
def test_what_cannot_be_looked_up_is_not_none(desk: ZendeskDesk, make_report: Make, fault: str) -> None:
    _tickets(desk).open(make_report())
    desk.faults = {"GET tickets": [fault], "GET 1": [fault]}
    with pytest.raises(TicketsUnavailable):
        _tickets(desk).find(KEY)
    with pytest.raises(TicketsUnavailable):
        _tickets(desk).read("1")


def test_a_request_that_is_wrong_is_refused_with_their_words(desk: ZendeskDesk, make_report: Make) -> None:
    desk.faults["POST tickets"] = ["422"]
    with pytest.raises(TicketsRefused, match="422"):
        _tickets(desk).open(make_report())
    desk.faults["POST tickets"] = ["400"]
    with pytest.raises(TicketsRefused, match="answered 400"):
        _tickets(desk).open(make_report())


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": None},
        {"token_file": "/x"},
        {"url": "http://acme.zendesk.com"},
        {"email": "a:b@c"},
        {"tags": ["Two words"]},
        {"group_id": 0},
        {"states": {"open": "gone"}},
        {"other": 1},
    ],
)
def test_options_that_are_wrong(desk: ZendeskDesk, wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as raised:
        _tickets(desk, **wrong)
    assert TOKEN not in str(raised.value)
