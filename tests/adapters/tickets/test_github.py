"""Issues of GitHub, against the stand-in over HTTP. What counts is what is at the far side in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.adapters.tickets.github import connect
from quarantine.adapters.tickets.github.issues import HEADERS, GitHubIssues, label_of
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain, UsageError
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Attachment, TicketState, Update
from quarantine.sandbox.desks.github import GitHubDesk

REPOSITORY = "acme/gpu-repairs"
TOKEN = "token-1"
ReportMaker = Callable[..., CaseReport]


@pytest.fixture
def desk() -> Iterator[GitHubDesk]:
    with GitHubDesk(REPOSITORY, TOKEN) as running:
        yield running


def adapter(desk: GitHubDesk, token: str = TOKEN) -> GitHubIssues:
    web = Web(
        desk.url,
        lambda: f"Bearer {token}",
        name="GitHub",
        headers=HEADERS,
        now=lambda: datetime(2026, 11, 29, tzinfo=UTC),
    )
    return GitHubIssues(web, REPOSITORY, lambda report: Letter(report.title, markdown="A letter.\n" * 9000, text=""))


def test_filed_found_and_read(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    assert tickets.find("gpu-017-a3") == ()
    ticket = tickets.open(make_report())
    assert (ticket.ref, ticket.state, ticket.note) == (f"{REPOSITORY}#1", TicketState.FILED, "")
    assert tickets.find("gpu-017-a3") == (ticket,)
    assert tickets.read(ticket.ref) == ticket
    assert tickets.read(f"{REPOSITORY}#99") is None
    assert tickets.find("gpu-017") == ()


def test_the_chart_is_said_to_be_missing(desk: GitHubDesk, make_report: ReportMaker) -> None:
    assert "not attached" in adapter(desk).open(make_report(), [Attachment("c.png", "image/png", b"x")]).note


def test_a_long_key_is_found(desk: GitHubDesk, make_report: ReportMaker) -> None:
    key = "n" * 120
    ticket = adapter(desk).open(make_report(key=key))
    assert len(label_of(key)) <= 50
    assert adapter(desk).find(key) == (ticket,)
    assert adapter(desk).read(ticket.ref) == ticket


def test_all_pages_are_read_and_pull_requests_left_out(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    for _ in range(205):
        tickets.open(make_report())
    desk.issues[3]["pull_request"] = {}
    assert len(tickets.find("gpu-017-a3")) == 204


@pytest.mark.parametrize(
    ("labels", "state", "reason", "meaning"),
    [
        (["provider/acknowledged"], "open", None, TicketState.ACKNOWLEDGED),
        (["provider/acknowledged", "Provider/In-Progress"], "open", None, TicketState.IN_PROGRESS),
        (["provider/replaced"], "closed", "completed", TicketState.REPLACED),
        (["provider/acknowledged"], "closed", "completed", TicketState.CLOSED),
        ([], "closed", "not_planned", TicketState.REFUSED),
        (["bug"], "open", None, TicketState.FILED),
    ],
)
def test_states(
    desk: GitHubDesk, make_report: ReportMaker, labels: list[str], state: str, reason: str | None, meaning: TicketState
) -> None:
    ref = adapter(desk).open(make_report()).ref
    desk.issues[0].update(state=state, state_reason=reason)
    desk.issues[0]["labels"] += [{"name": label} for label in labels]
    ticket = adapter(desk).read(ref)
    assert ticket is not None
    assert (ticket.state, ticket.open) == (meaning, state == "open")


def test_an_update_is_added_once_and_escaped(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    ref = tickets.open(make_report()).ref
    update = Update("returned-1", "back, @all <b>\nthank you", close=True)
    for _ in range(2):
        tickets.update(ref, update)
    (comment,) = desk.comments[1]
    assert "@all" not in comment["body"]
    assert "<b>" not in comment["body"]
    assert (desk.issues[0]["state"], desk.issues[0]["state_reason"]) == ("closed", "completed")


def test_rights(desk: GitHubDesk) -> None:
    with pytest.raises(TicketsRefused, match="401"):
        adapter(desk, "other").find("gpu-017-a3")
    with pytest.raises(TicketsRefused, match="no issue of"):
        adapter(desk).read("other/repository#1")


@pytest.mark.parametrize(
    ("fault", "raised", "at_first"),
    [
        ("cut-before", TicketsUncertain, 0),
        ("cut-after", TicketsUncertain, 1),
        ("garbled-after", TicketsUncertain, 1),
        ("500", TicketsUncertain, 0),
        ("429", TicketsUnavailable, 0),
        ("secondary", TicketsUnavailable, 0),
    ],
)
def test_exactly_once_whatever_happens(
    desk: GitHubDesk, make_report: ReportMaker, fault: str, raised: type[Exception], at_first: int
) -> None:
    tickets, report = adapter(desk), make_report()
    desk.faults["POST issues"] = [fault]
    with pytest.raises(TicketsUnavailable) as error:
        tickets.open(report)
    assert error.type is raised
    if fault in ("429", "secondary"):
        assert error.value.retry_after == timedelta(seconds=30)
    assert len(desk.issues) == at_first
    found = tickets.find(report.key)
    assert len(found) == at_first
    if not found:
        tickets.open(report)
    assert len(desk.issues) == 1

    desk.faults["POST comments"] = [fault]
    with pytest.raises(TicketsUnavailable):
        tickets.update(f"{REPOSITORY}#1", Update("u-1", "seen"))
    tickets.update(f"{REPOSITORY}#1", Update("u-1", "seen"))
    assert len(desk.comments[1]) == 1


@pytest.mark.parametrize("fault", ["cut-before", "garbled-after", "500", "429"])
def test_what_cannot_be_listed_is_not_none(desk: GitHubDesk, fault: str) -> None:
    desk.faults["GET issues"] = [fault]
    with pytest.raises(TicketsUnavailable):
        adapter(desk).find("gpu-017-a3")


def test_connected_from_options(desk: GitHubDesk, make_report: ReportMaker) -> None:
    context = Context(cluster="lab", now=lambda: datetime(2026, 11, 29, tzinfo=UTC), folder=None, name="repairs")
    options: dict[str, object] = {
        "repository": REPOSITORY,
        "url": desk.url,
        "token": TOKEN,
        "states": {"rma": "replaced"},
    }
    ticket = connect(options, context).open(make_report())
    desk.issues[0]["labels"].append({"name": "RMA"})
    (found,) = connect(options, context).find(ticket.key)
    assert (found.state, found.status) == (TicketState.REPLACED, "RMA")


@pytest.mark.parametrize(
    "wrong", [{"repository": "x"}, {"token": None}, {"url": "http://far.example"}, {"states": {"a": "b"}}, {"other": 1}]
)
def test_wrong_options(wrong: dict[str, object]) -> None:
    context = Context(cluster="lab", now=lambda: datetime(2026, 11, 29, tzinfo=UTC), folder=None, name="repairs")
    with pytest.raises(UsageError, match="ticket target repairs") as raised:
        connect({"repository": REPOSITORY, "token": "hidden-1", **wrong}, context)
    assert "hidden-1" not in str(raised.value)
