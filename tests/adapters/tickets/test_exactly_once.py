"""One ticket at the far side, whatever goes wrong and in whatever order, for each kind as it promises.

An attempt is what the controller does: look the key up, file where nothing is found, and try again later where that
failed. The report says something else each time, since the machine is measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarantine.adapters.tickets import email, webhook, zendesk
from quarantine.adapters.tickets.targets import Context
from quarantine.core.errors import TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Update
from quarantine.ports import Tickets
from quarantine.sandbox.desks.served import Desk
from quarantine.sandbox.desks.smtp import Mailbox, MailDesk
from quarantine.sandbox.desks.webhook import WebhookDesk
from quarantine.sandbox.desks.zendesk import ZendeskDesk

SECRET = "0123456789abcdef0123456789abcdef"
KEY = "gpu-017-a3"
START = datetime(2026, 11, 29, 4, tzinfo=UTC)
FAULTS = ["", "cut-before", "cut-after", "garbled-after", "delayed", "500", "503", "429"]
READING = ["", "", "cut-after", "garbled-after", "500"]
BETWEEN = timedelta(seconds=25)  # two attempts


class Hands:
    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture(scope="module")
def hands() -> Hands:
    return Hands()


@pytest.fixture(scope="module")
def receiver(hands: Hands) -> Iterator[WebhookDesk]:
    with WebhookDesk(SECRET, hands) as desk:
        yield desk


@pytest.fixture(scope="module")
def support(hands: Hands) -> Iterator[ZendeskDesk]:
    with ZendeskDesk("gpu@lab.example", SECRET, hands) as desk:
        yield desk


def _attempt(tickets: Tickets, report: CaseReport) -> bool:
    """Whether it is filed, by this attempt or an earlier one."""
    try:
        return bool(tickets.find(KEY) or tickets.open(report))
    except TicketsUnavailable:
        return False


def _followed(
    tickets: Tickets, desk: Desk, hands: Hands, make: Callable[..., CaseReport], arrivals: list[bool]
) -> None:
    """Attempts until the faults are used up and one succeeds, with an update after that."""
    for number in range(20):
        hands.at += BETWEEN
        if arrivals and arrivals.pop():
            desk.deliver()
        if _attempt(tickets, make(reason=f"{70 + number} °C")):
            break
    else:
        pytest.fail("it was never filed")
    for _ in range(20):
        hands.at += BETWEEN
        if arrivals and arrivals.pop():
            desk.deliver()
        try:
            tickets.update(tickets.find(KEY)[0].ref, Update("seen-1", "It is seen."))
        except (TicketsUnavailable, IndexError):  # the list may be late
            continue
        break
    else:
        pytest.fail("it was never added")
    desk.deliver()


faults = given(
    filing=st.lists(st.sampled_from(FAULTS), max_size=5),
    looking=st.lists(st.sampled_from(READING), max_size=5),
    adding=st.lists(st.sampled_from(FAULTS), max_size=4),
    arrivals=st.lists(st.booleans(), max_size=12),
)
examples = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@examples
@faults
def test_exactly_once_by_webhook(
    receiver: WebhookDesk,
    hands: Hands,
    make_report: Callable[..., CaseReport],
    filing: list[str],
    looking: list[str],
    adding: list[str],
    arrivals: list[bool],
) -> None:
    receiver.tickets.clear()
    receiver.delayed.clear()
    receiver.faults = {"POST tickets": list(filing), "GET tickets": list(looking), "POST updates": list(adding)}
    tickets = webhook.connect({"url": receiver.url, "secret": SECRET}, Context("lab", hands, None, "x"))
    _followed(tickets, receiver, hands, make_report, list(arrivals))
    assert len(receiver.tickets) == 1
    (kept,) = receiver.tickets.values()
    assert list(kept.updates) == ["seen-1"]


@examples
@faults
def test_exactly_once_in_zendesk(
    support: ZendeskDesk,
    hands: Hands,
    make_report: Callable[..., CaseReport],
    filing: list[str],
    looking: list[str],
    adding: list[str],
    arrivals: list[bool],
) -> None:
    """The list is late by all that the adapter allows for."""
    support.forget()
    support.faults = {"POST tickets": list(filing), "GET tickets": list(looking), "PUT 1": list(adding)}
    tickets = zendesk.connect({"url": support.url, "token": SECRET}, Context("lab", hands, None, "x"))
    support.lag = tickets.settles
    _followed(tickets, support, hands, make_report, list(arrivals))
    assert len(support.tickets) == 1
    assert len(support.comments[1]) == 2


@examples
@given(replies=st.lists(st.sampled_from([b"250 queued", b"", b"451 later", b"hello"]), max_size=4))
def test_exactly_once_by_mail_or_a_person_is_asked(
    make_report: Callable[..., CaseReport], replies: list[bytes]
) -> None:
    """Nothing can be looked up: the attempt whose answer is lost is the last one."""
    box = Mailbox()
    with MailDesk(box) as desk:
        options = {"host": "127.0.0.1", "port": desk.port, "security": "none", "sender": "gpu@lab.example"}
        tickets = email.connect(options | {"recipients": ["rma@acme.example"]}, Context("lab", Hands(), None, "x"))
        assert tickets.answerable is Answerable.BLIND
        for reply in [*replies, b"250 queued"]:
            box.after_text, before = reply, len(box.taken)
            try:
                tickets.open(make_report())
            except TicketsUncertain:
                break
            except TicketsUnavailable:
                del box.taken[before:]  # 451: the server says that it has not taken it
                continue
            break
    assert len(box.taken) == 1
