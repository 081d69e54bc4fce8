"""Issues of GitHub, against the stand-in over HTTP. What counts is what is at the far side in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from quarantine.adapters.tickets.github import connect
from quarantine.adapters.tickets.github.issues import HEADERS, GitHubIssues, label_of
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.targets import Context
from quarantine.adapters.tickets.web import Web
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Attachment, TicketState, Update
from quarantine.ports import Tickets
from quarantine.sandbox.desks.github import GitHubDesk
from quarantine.sandbox.desks.served import Said
from quarantine.testing.ticket_contract import TicketContract

REPOSITORY = "acme/gpu-repairs"
TOKEN = "token-1"
ReportMaker = Callable[..., CaseReport]


@pytest.fixture
def desk() -> Iterator[GitHubDesk]:
    with GitHubDesk(REPOSITORY, TOKEN) as running:
        yield running


def adapter(desk: GitHubDesk, token: str = TOKEN, charts: str = "") -> GitHubIssues:
    web = Web(
        desk.url,
        lambda: f"Bearer {token}",
        name="GitHub",
        headers=HEADERS,
        now=lambda: datetime(2026, 11, 29, tzinfo=UTC),
    )
    return GitHubIssues(
        web, REPOSITORY, lambda report: Letter(report.title, markdown="A letter.\n" * 9000, text=""), charts=charts
    )


class TestContract(TicketContract):
    """It keeps the port."""

    @pytest.fixture
    def desk(self, desk: GitHubDesk) -> Tickets:
        return adapter(desk)


def test_filed_found_and_read(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    assert tickets.find("gpu-017-a3") == ()
    ticket = tickets.open(make_report())
    assert (ticket.ref, ticket.state, ticket.note) == (f"{REPOSITORY}#1", TicketState.FILED, "")
    assert tickets.find("gpu-017-a3") == (ticket,)
    assert tickets.read(ticket.ref) == ticket
    assert tickets.read(f"{REPOSITORY}#99") is None
    assert tickets.find("gpu-017") == ()


CHART = Attachment("../gpu 3).png", "image/png", b"\x89PNG")


def test_the_chart_is_said_to_be_missing(desk: GitHubDesk, make_report: ReportMaker) -> None:
    ticket = adapter(desk).open(make_report(), [CHART, CHART])
    assert ticket.note == "GitHub's API takes no files, and no branch for charts is set: the chart is not attached"
    assert desk.files == {}


def test_a_chart_in_a_branch_is_shown_by_the_issue(desk: GitHubDesk, make_report: ReportMaker) -> None:
    ticket = adapter(desk, charts="charts").open(make_report(), [CHART])
    path = "quarantine/gpu-017-a3/gpu-3-.png"
    assert ticket.note == ""
    assert desk.files == {("charts", path): CHART.content}
    link = f"https://github.example/{REPOSITORY}/blob/charts/{path}?raw=true"
    assert desk.issues[0]["body"].startswith(
        f"<!-- quarantine:case:gpu-017-a3 -->\n\n![gpu-3-.png]({link})\n\nA letter."
    )
    assert len(desk.issues[0]["body"]) > 50_000


@pytest.mark.parametrize("fault", ["cut-before", "cut-after", "500", "403", "409", "429"])
@pytest.mark.parametrize("ask", ["GET", "PUT"])
def test_a_chart_never_costs_the_issue(desk: GitHubDesk, make_report: ReportMaker, fault: str, ask: str) -> None:
    desk.faults[f"{ask} gpu-3-.png"] = [fault]
    ticket = adapter(desk, charts="charts").open(make_report(), [CHART])
    assert "the chart is not attached (" in ticket.note
    assert "![" not in desk.issues[0]["body"]


def test_a_chart_of_an_earlier_attempt_is_used(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk, charts="charts")
    desk.faults["POST issues"] = ["cut-before"]
    with pytest.raises(TicketsUncertain):
        tickets.open(make_report(), [CHART])
    assert tickets.open(make_report(), [CHART]).note == ""
    assert len(desk.files) == 1
    assert "![gpu-3-.png]" in desk.issues[0]["body"]


def test_a_branch_that_is_not_there(desk: GitHubDesk, make_report: ReportMaker) -> None:
    assert "Branch other not found" in adapter(desk, charts="other").open(make_report(), [CHART]).note


def test_a_link_that_would_end_its_parentheses_is_none(
    desk: GitHubDesk, make_report: ReportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_content", lambda *_: Said(200, {"html_url": "https://x/) @all"}))
    assert "not what its API promises" in adapter(desk, charts="charts").open(make_report(), [CHART]).note
    assert "@all" not in desk.issues[0]["body"]


def test_a_long_key_is_found(desk: GitHubDesk, make_report: ReportMaker) -> None:
    key = "n" * 120
    ticket = adapter(desk).open(make_report(key=key))
    assert len(label_of(key)) <= 50
    assert adapter(desk).find(key) == (ticket,)
    assert adapter(desk).read(ticket.ref) == ticket


def test_all_pages_are_read_and_pull_requests_left_out(desk: GitHubDesk) -> None:
    tickets = adapter(desk)
    for _ in range(205):
        desk._label(label_of("gpu-017-a3"))
        desk._file({"title": "x", "labels": [label_of("gpu-017-a3")]})
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
        ([], "closed", "duplicate", TicketState.CLOSED),
        (["provider/no-fault-found"], "closed", "not_planned", TicketState.NO_FAULT_FOUND),
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


def test_an_answer_that_quotes_an_update_is_not_the_update(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    ref = tickets.open(make_report()).ref
    desk.comments[1].append({"body": "> <!-- quarantine:update:returned-1 -->\n\nWhat does that mean?"})
    tickets.update(ref, Update("returned-1", "<!-- quarantine:update:other-1 -->"))
    tickets.update(ref, Update("other-1", "also"))
    assert len(desk.comments[1]) == 3


def test_all_comments_are_looked_through(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    ref = tickets.open(make_report()).ref
    desk.comments[1].extend({"body": f"note {number}"} for number in range(150))
    for _ in range(2):
        tickets.update(ref, Update("returned-1", "back"))
    assert len(desk.comments[1]) == 151


@pytest.mark.parametrize("fault", ["POST comments", "GET 1", "PATCH 1"])
@pytest.mark.parametrize("how", ["cut-before", "cut-after", "garbled-after", "500", "429"])
def test_an_end_that_was_cut_is_taken_up_again(
    desk: GitHubDesk, make_report: ReportMaker, fault: str, how: str
) -> None:
    tickets, ended = adapter(desk), Update("ended-1", "it has ended", close=True)
    ref = tickets.open(make_report()).ref
    desk.faults[fault] = [how]
    with pytest.raises(TicketsUnavailable):
        tickets.update(ref, ended)
    tickets.update(ref, ended)
    assert (desk.issues[0]["state"], desk.issues[0]["state_reason"]) == ("closed", "completed")
    assert len(desk.comments[1]) == 1


def test_the_providers_reason_for_closing_stays(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    ref = tickets.open(make_report()).ref
    desk.issues[0].update(state="closed", state_reason="not_planned")
    tickets.update(ref, Update("ended-1", "it has ended", close=True))
    assert desk.issues[0]["state_reason"] == "not_planned"
    assert not any(asked.method == "PATCH" for asked in desk.asked)


def test_rights(desk: GitHubDesk, make_report: ReportMaker) -> None:
    with pytest.raises(TicketsRefused, match="401"):
        adapter(desk, "other").find("gpu-017-a3")
    with pytest.raises(TicketsRefused, match="no issue of"):
        adapter(desk).read("other/repository#1")
    desk.pushable = False
    with pytest.raises(TicketsRefused, match="403"):
        adapter(desk).open(make_report())
    assert desk.issues == [], "an issue without its label could not be found again"
    desk.readable = False
    for ask in (lambda: adapter(desk).find("gpu-017-a3"), lambda: adapter(desk).read(f"{REPOSITORY}#1")):
        with pytest.raises(TicketsRefused, match="404"):
            ask()


def test_what_was_deleted_or_moved(desk: GitHubDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    refs = [tickets.open(make_report()).ref for _ in range(2)]
    desk.deleted, desk.moved = {1}, {2}
    assert tickets.read(refs[0]) is None
    with pytest.raises(TicketsRefused, match="moved to another repository"):
        tickets.read(refs[1])
    with pytest.raises(TicketsRefused, match="410"):
        tickets.update(refs[0], Update("u-1", "seen"))
    assert tickets.find("gpu-017-a3") == ()


def test_a_label_that_cannot_be_made_files_nothing(
    desk: GitHubDesk, make_report: ReportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_label", lambda _: Said(422, {"errors": [{"code": "invalid"}]}))
    with pytest.raises(TicketsRefused, match="make it by hand"):
        adapter(desk).open(make_report())
    assert desk.issues == []


@pytest.mark.parametrize(
    ("fault", "raised", "at_first"),
    [
        ("cut-before", TicketsUncertain, 0),
        ("cut-after", TicketsUncertain, 1),
        ("garbled-after", TicketsUncertain, 1),
        ("500", TicketsUncertain, 0),
        ("429", TicketsUnavailable, 0),
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
    assert error.value.retry_after == (timedelta(seconds=30) if fault == "429" else tickets.settles)
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


def test_the_secondary_limit_is_waited_for(desk: GitHubDesk, make_report: ReportMaker) -> None:
    desk.limited = 1
    with pytest.raises(TicketsUnavailable) as raised:
        adapter(desk).open(make_report())
    assert (raised.type, raised.value.retry_after) == (TicketsUnavailable, timedelta(minutes=1))
    adapter(desk).open(make_report())
    assert len(desk.issues) == 1


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
    "wrong",
    [
        {"repository": "x"},
        {"token": None},
        {"url": "http://far.example"},
        {"states": {"a": "b"}},
        {"charts": "a b"},
        {"other": 1},
    ],
)
def test_wrong_options(wrong: dict[str, object]) -> None:
    context = Context(cluster="lab", now=lambda: datetime(2026, 11, 29, tzinfo=UTC), folder=None, name="repairs")
    with pytest.raises(ValidationError) as raised:
        connect({"repository": REPOSITORY, "token": "hidden-1", **wrong}, context)
    assert "hidden-1" not in str(raised.value)
