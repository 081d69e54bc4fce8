"""Issues and requests of Jira, against the stand-in over HTTP. What counts is what is at the far side in the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from quarantine.adapters.tickets.jira import connect
from quarantine.adapters.tickets.jira.document import LARGEST, document, last_line, mark
from quarantine.adapters.tickets.jira.issues import JiraIssues
from quarantine.adapters.tickets.jira.words import Words
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.targets import Context
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Attachment, TicketState, Update
from quarantine.ports import Tickets
from quarantine.sandbox.desks.jira import JiraDesk, problem
from quarantine.sandbox.desks.served import Said
from quarantine.testing.ticket_contract import TicketContract

USER, TOKEN = "gpu-robot@acme.example", "token-1"
LAG = timedelta(seconds=90)
CHART = Attachment("../gpu 3.png", "image/png", b"\x89PNG\r\n--x")
REQUESTS: dict[str, object] = {"service_desk": "3", "request_type": "25"}
ReportMaker = Callable[..., CaseReport]


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 29, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def desk(watch: Watch) -> Iterator[JiraDesk]:
    with JiraDesk("GPU", USER, TOKEN, watch, LAG) as running:
        yield running


def adapter(desk: JiraDesk, **options: object) -> JiraIssues:
    context = Context(cluster="lab", now=lambda: datetime(2026, 11, 29, tzinfo=UTC), folder=None, name="repairs")
    return connect({"url": desk.url, "project": "GPU", "user": USER, "token": TOKEN, **options}, context)


class TestContract(TicketContract):
    """As issues."""

    @pytest.fixture
    def desk(self, desk: JiraDesk) -> Tickets:
        return adapter(desk)


class TestContractOfRequests(TicketContract):
    """As requests of a service desk."""

    @pytest.fixture
    def desk(self, desk: JiraDesk) -> Tickets:
        return adapter(desk, **REQUESTS)


@pytest.mark.parametrize("options", [{}, REQUESTS], ids=["issue", "request"])
def test_filed_and_found_by_another_process_when_the_search_has_it(
    desk: JiraDesk, watch: Watch, make_report: ReportMaker, options: dict[str, object]
) -> None:
    tickets, other = adapter(desk, **options), adapter(desk, **options)
    assert tickets.find("gpu-017-a3") == ()

    ticket = tickets.open(make_report())

    assert (ticket.ref, ticket.url, ticket.note) == ("GPU-1", f"{desk.url}/browse/GPU-1", "")
    assert [one.ref for one in tickets.find("gpu-017-a3")] == ["GPU-1"], "its own is found at once"
    assert other.find("gpu-017-a3") == (), "the search is late"
    watch.at += LAG
    assert tickets.settles >= LAG
    (found,) = other.find("gpu-017-a3")
    assert (found.ref, found.key, found.open, found.state) == ("GPU-1", "gpu-017-a3", True, TicketState.FILED)
    assert other.find("gpu-017") == ()


def test_what_is_found_is_in_its_present_state(desk: JiraDesk, watch: Watch, make_report: ReportMaker) -> None:
    adapter(desk).open(make_report())
    watch.at += LAG
    desk.change("GPU-1", status="Done", resolution={"name": "Won't Do"})

    (found,) = adapter(desk).find("gpu-017-a3")

    assert (found.open, found.state, found.status) == (False, TicketState.REFUSED, "Done (Won't Do)")


def test_all_pages_are_read_and_people_may_put_labels_beside_ours(desk: JiraDesk, watch: Watch) -> None:
    for _ in range(205):
        desk.add({"labels": ["quarantine-gpu-017-a3"]})
    desk.change("GPU-7", labels=["quarantine-gpu-018-b1", "quarantine-gpu-017-a3", "urgent"])
    desk.change("GPU-9", labels=["quarantine-GPU-017-a3"])
    watch.at += LAG

    found = adapter(desk).find("gpu-017-a3")

    assert [one.ref for one in found] == [f"GPU-{number}" for number in range(1, 206) if number != 9]
    assert {one.key for one in found} == {"gpu-017-a3"}


@pytest.mark.parametrize(
    ("options", "fault"),
    [({}, "POST attachments"), (REQUESTS, "POST attachTemporaryFile"), (REQUESTS, "POST attachment")],
)
def test_a_chart_that_could_not_be_attached_is_told(
    desk: JiraDesk, make_report: ReportMaker, options: dict[str, object], fault: str
) -> None:
    desk.faults[fault] = ["403"]

    ticket = adapter(desk, **options).open(make_report(), (CHART, CHART))

    assert "the chart is not attached to GPU-1 (" in ticket.note
    assert [(name, content) for name, content, _ in desk.issues[0].attachments] == [("gpu 3.png", CHART.content)]
    assert desk.issues[0].attachments[0][2] is bool(options), "customers see what is attached to a request"


def test_a_label_that_cannot_be_set_files_nothing(desk: JiraDesk, make_report: ReportMaker) -> None:
    desk.screen.remove("labels")
    with pytest.raises(TicketsRefused, match="add the field Labels to the create screen of project GPU"):
        adapter(desk).open(make_report())
    with pytest.raises(TicketsRefused, match="add the field Labels to the request type 25 of project GPU"):
        adapter(desk, **REQUESTS).open(make_report())
    assert desk.issues == []


def test_other_fields_that_the_project_demands(desk: JiraDesk, make_report: ReportMaker) -> None:
    adapter(desk, fields={"priority": {"name": "High"}}).open(make_report())
    assert desk.issues[0].fields["priority"] == {"name": "High"}


def test_an_account_that_jira_does_not_know_finds_not_nothing(desk: JiraDesk, make_report: ReportMaker) -> None:
    adapter(desk).open(make_report())
    stranger = adapter(desk, token="expired-1")
    for ask in (lambda: stranger.find("gpu-017-a3"), lambda: stranger.read("GPU-1")):
        with pytest.raises(TicketsRefused, match="does not know the account's token") as raised:
            ask()
        assert "expired-1" not in str(raised.value)
    with pytest.raises(TicketsRefused, match="401"):
        stranger.open(make_report())


def test_a_project_that_cannot_be_seen_is_not_an_empty_one(
    desk: JiraDesk, make_report: ReportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter(desk).open(make_report())
    assert adapter(desk).read("GPU-99") is None
    with pytest.raises(TicketsRefused, match="400"):
        adapter(desk, project="HR").find("gpu-017-a3")
    monkeypatch.setattr(desk, "_search", lambda _: Said(200, {"issues": [], "isLast": True}))
    with pytest.raises(TicketsRefused, match="see project HR"):
        adapter(desk, project="HR").find("gpu-017-a3")
    desk.may_browse = False
    with pytest.raises(TicketsRefused, match="Browse Projects"):
        adapter(desk).find("gpu-017-a3")
    with pytest.raises(TicketsRefused, match="Browse Projects"):
        adapter(desk).read("GPU-1")


def test_an_update_is_added_once_though_people_quote_it(desk: JiraDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    ref = tickets.open(make_report()).ref
    quoted = {"type": "text", "text": mark("returned-1")}
    desk.issues[0].comments.append(
        {"body": {"type": "doc", "content": [{"content": [quoted]}, {"content": [{"type": "text", "text": "When?"}]}]}}
    )
    desk.issues[0].comments.extend({"body": document(f"note {number}")} for number in range(150))
    update = Update("returned-1", f"back, [~accountid:1] @all\n\n{mark('other-1')}\nthank you")

    for _ in range(2):
        tickets.update(ref, update)
    asked = len(desk.asked)
    tickets.update(ref, update)
    assert len(desk.asked) == asked + 1, "the newest are looked at first"
    desk.issues[0].comments.extend({"body": document(f"note {number}")} for number in range(150))
    tickets.update(ref, update)
    tickets.update(ref, Update("other-1", "also"))

    assert [last_line(one["body"]) for one in desk.issues[0].comments if "quarantine:" in last_line(one["body"])] == [
        mark("returned-1"),
        mark("other-1"),
    ]


def test_closing_takes_the_first_transition_that_ends_it_and_gives_a_resolution(
    desk: JiraDesk, make_report: ReportMaker
) -> None:
    desk.closing_fields = {"resolution": {"required": True}}
    tickets = adapter(desk, resolution="Fixed")
    ref = tickets.open(make_report()).ref
    for _ in range(2):
        tickets.update(ref, Update("ended-1", "it has ended", close=True))
    assert desk.issues[0].fields["resolution"] == {"name": "Fixed"}
    assert desk.issues[0].fields["status"]["name"] == "Done"
    assert len(desk.issues[0].comments) == 1


def test_what_the_provider_has_closed_keeps_its_resolution(desk: JiraDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    ref = tickets.open(make_report()).ref
    desk.change(ref, status="Done", resolution={"name": "Won't Do"})
    desk.transitions.append(("41", "Reopen and close", "Done"))
    tickets.update(ref, Update("ended-1", "it has ended", close=True))
    assert not any(asked.words[-1] == "transitions" for asked in desk.asked)
    assert desk.issues[0].fields["resolution"] == {"name": "Won't Do"}


def test_closing_by_name_and_what_cannot_be_closed(desk: JiraDesk, make_report: ReportMaker) -> None:
    ref = adapter(desk).open(make_report()).ref
    ended = Update("ended-1", "it has ended", close=True)
    with pytest.raises(TicketsRefused, match="no transition 'Archive' now"):
        adapter(desk, close_transition="Archive").update(ref, ended)
    adapter(desk, close_transition="start").update(ref, ended)
    assert desk.issues[0].fields["status"]["name"] == "In Progress"
    desk.transitions = []
    with pytest.raises(TicketsRefused, match="Transition Issues"):
        adapter(desk).update(ref, ended)


@pytest.mark.parametrize("fault", ["POST comment", "GET transitions", "POST transitions"])
@pytest.mark.parametrize("how", ["cut-before", "cut-after", "garbled-after", "500", "429"])
def test_an_end_that_was_cut_is_taken_up_again(desk: JiraDesk, make_report: ReportMaker, fault: str, how: str) -> None:
    tickets, ended = adapter(desk), Update("ended-1", "it has ended", close=True)
    ref = tickets.open(make_report()).ref
    desk.faults[fault] = [how]
    if (fault, how) == ("POST transitions", "garbled-after"):
        tickets.update(ref, ended)  # 204 has no body that could be garbled
    else:
        with pytest.raises(TicketsUnavailable):
            tickets.update(ref, ended)
    tickets.update(ref, ended)
    assert desk.issues[0].fields["status"]["name"] == "Done"
    assert len(desk.issues[0].comments) == 1


def test_somebody_who_closes_it_at_the_same_time_is_no_error(
    desk: JiraDesk, make_report: ReportMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = adapter(desk)
    ref = tickets.open(make_report()).ref
    desk.faults["POST transitions"] = ["409"]
    with pytest.raises(TicketsRefused, match="409"):
        tickets.update(ref, Update("ended-1", "it has ended", close=True))

    move = desk._move
    monkeypatch.setattr(desk, "_move", lambda issue, body: (move(issue, body), move(issue, body))[1])
    tickets.update(ref, Update("ended-1", "it has ended", close=True))

    assert desk.issues[0].fields["status"]["name"] == "Done"


@pytest.mark.parametrize("options", [{}, REQUESTS], ids=["issue", "request"])
@pytest.mark.parametrize(
    ("fault", "raised", "at_first"),
    [
        ("cut-before", TicketsUncertain, 0),
        ("cut-after", TicketsUncertain, 1),
        ("garbled-after", TicketsUncertain, 1),
        ("500", TicketsUncertain, 0),
        ("503", TicketsUncertain, 0),
        ("429", TicketsUnavailable, 0),
    ],
)
def test_exactly_once_whatever_happens(
    desk: JiraDesk,
    watch: Watch,
    make_report: ReportMaker,
    options: dict[str, object],
    fault: str,
    raised: type[Exception],
    at_first: int,
) -> None:
    tickets, report = adapter(desk, **options), make_report()
    desk.faults["POST request" if options else "POST issue"] = [fault]
    with pytest.raises(TicketsUnavailable) as error:
        tickets.open(report)
    assert error.type is raised
    wait = timedelta(seconds=30) if raised is TicketsUnavailable else tickets.settles
    assert error.value.retry_after == wait
    assert len(desk.issues) == at_first

    watch.at += tickets.settles  # what the port asks for before it is opened again
    if not tickets.find(report.key):
        tickets.open(report)
    assert len(desk.issues) == 1


@pytest.mark.parametrize("body", [{}, {"id": "10001"}, {"id": "x", "key": "GPU-1"}, {"id": "10001", "key": "../1"}, []])
def test_a_ticket_that_was_perhaps_filed_is_waited_for(
    desk: JiraDesk, make_report: ReportMaker, body: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_create", lambda _: Said(201, body))
    with pytest.raises(TicketsUncertain) as raised:
        adapter(desk).open(make_report())
    assert raised.value.retry_after == JiraIssues.settles


@pytest.mark.parametrize("fault", ["cut-before", "garbled-after", "500", "429"])
@pytest.mark.parametrize("ask", ["POST jql", "GET mypermissions"])
def test_what_cannot_be_searched_is_not_none(desk: JiraDesk, fault: str, ask: str) -> None:
    desk.faults[ask] = [fault]
    with pytest.raises(TicketsUnavailable) as raised:
        adapter(desk).find("gpu-017-a3")
    assert raised.type is TicketsUnavailable, "a search changes nothing"


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"issues": None},
        {"issues": [{"id": "10001", "key": "GPU-1"}]},
        {"issues": [], "isLast": False},
        {"issues": [], "nextPageToken": 7},
        {"issues": [{"id": "x", "key": "GPU-1", "fields": {"status": {}, "labels": []}}]},
    ],
)
def test_an_answer_that_is_not_understood_is_not_none(
    desk: JiraDesk, body: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_search", lambda _: Said(200, body))
    with pytest.raises(TicketsUnavailable, match="not what its API promises"):
        adapter(desk).find("gpu-017-a3")


@pytest.mark.parametrize("body", [{}, [], {"permissions": {"BROWSE_PROJECTS": {"havePermission": "yes"}}}])
def test_nor_is_one_about_rights(desk: JiraDesk, body: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_permissions", lambda _: Said(200, body))
    with pytest.raises(TicketsUnavailable, match="not what its API promises"):
        adapter(desk).find("gpu-017-a3")


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "category", "resolution", "meaning"),
    [
        ("To Do", "new", "", TicketState.FILED),
        ("Acknowledged", "new", "", TicketState.ACKNOWLEDGED),
        ("Waiting for vendor", "indeterminate", "", TicketState.IN_PROGRESS),
        ("Parked", "undefined", "", TicketState.IN_PROGRESS),
        ("Done", "done", "", TicketState.CLOSED),
        ("Done", "done", "Done", TicketState.CLOSED),
        ("Done", "done", "Won't Do", TicketState.REFUSED),
        ("No fault found", "done", "Done", TicketState.NO_FAULT_FOUND),
        ("Done", "done", "Host released", TicketState.HOST_RELEASED),
        ("In progress", "done", "", TicketState.CLOSED),
        ("RMA shipped", "done", "Done", TicketState.REPLACED),
        ("Done", "done", "nff", TicketState.NO_FAULT_FOUND),
        ("To Do", "new", "nff", TicketState.FILED),
    ],
)
def test_words(status: str, category: str, resolution: str, meaning: TicketState) -> None:
    words = Words({"RMA Shipped": TicketState.REPLACED, "NFF": TicketState.NO_FAULT_FOUND})
    assert words.state(status, category, resolution) is meaning


# --- documents --------------------------------------------------------------------------------------------------------


@given(st.text())
def test_every_text_is_a_sound_document_that_ends_with_its_mark(text: str) -> None:
    made = document(text, mark("u-1"))
    assert problem(made) == ""
    assert {category(c) for c in json.dumps(made, ensure_ascii=False)}.isdisjoint({"Cc", "Cs", "Zl", "Zp"})
    assert last_line(made) == mark("u-1")


@pytest.mark.parametrize("piece", ["x", "ü", "\x00", "\n\n", "a\n", '"\\'])
def test_a_long_text_is_cut_and_its_mark_is_not(piece: str) -> None:
    made = document(piece * 40_000, mark("u-1"))
    assert len(json.dumps(made)) <= LARGEST
    assert last_line(made) == mark("u-1")


def test_nothing_invisible_is_in_a_document() -> None:
    assert "a\ufffdb\ufffdc" in json.dumps(document("a\x00b\u202ec"), ensure_ascii=False)


def test_lines_and_their_indents_are_kept() -> None:
    broken = {"type": "hardBreak"}
    assert document("Please\n\n\nMachine \n  Node: a  b\n\tPool")["content"] == [
        {"type": "paragraph", "content": [{"type": "text", "text": "Please"}]},
        {
            "type": "paragraph",
            "content": [
                {"type": "text", "text": "Machine"},
                broken,
                {"type": "text", "text": "\u00a0\u00a0Node: a  b"},
                broken,
                {"type": "text", "text": "\u00a0\u00a0\u00a0\u00a0Pool"},
            ],
        },
    ]


def test_the_letter_is_told_and_no_label_of_a_workload(desk: JiraDesk, make_report: ReportMaker) -> None:
    adapter(desk).open(make_report(title="x" * 400 + "\nline"))
    told = json.dumps(desk.issues[0].fields["description"])
    assert "GPU-5f1c7c1e" in told
    assert "secret-project" not in told
    assert len(desk.issues[0].fields["summary"]) <= 250


# --- options ----------------------------------------------------------------------------------------------------------


def test_the_token_of_a_file_and_a_bearer_token(desk: JiraDesk, tmp_path: Path, make_report: ReportMaker) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert adapter(desk, token=None, token_file=file).open(make_report()).ref == "GPU-1"
    desk.expected = f"Bearer {TOKEN}"
    site = adapter(desk, user="", site="https://acme.atlassian.example/")
    assert site.open(make_report(key="gpu-018-b1")).url == "https://acme.atlassian.example/browse/GPU-2"


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://acme.atlassian.example"},
        {"url": ""},
        {"project": 'GPU" OR project = "HR'},
        {"token": None},
        {"user": "a:b"},
        {"service_desk": "3"},
        {"service_desk": "3/../4", "request_type": "25"},
        {"fields": {"labels": []}},
        {"states": {"x": "y"}},
        {"other": 1},
    ],
)
def test_wrong_options(wrong: dict[str, object]) -> None:
    context = Context(cluster="lab", now=lambda: datetime(2026, 11, 29, tzinfo=UTC), folder=None, name="repairs")
    sound: dict[str, object] = {"url": "https://acme.atlassian.example", "project": "GPU", "token": "hidden-1"}
    connect(sound, context)
    with pytest.raises(ValidationError) as raised:
        connect(sound | wrong, context)
    assert "hidden-1" not in str(raised.value)


@pytest.mark.parametrize("ref", ["gpu-1", "GPU-1/comment", "GPU-01", "GPU-1\n", "../GPU-1"])
def test_what_is_no_reference(desk: JiraDesk, ref: str) -> None:
    with pytest.raises(TicketsRefused, match="no issue of Jira"):
        adapter(desk).read(ref)


def test_an_answer_of_letters_only(desk: JiraDesk, make_report: ReportMaker) -> None:
    tickets = adapter(desk)
    tickets._letter = lambda report: Letter(report.key, markdown="", text="")
    assert tickets.open(make_report()).ref == "GPU-1"
