"""The directory adapter as a ticket system: once per case, whole files, and words for what goes wrong."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from quarantine.adapters.tickets import directory
from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.files import only_writer
from quarantine.core.errors import TicketsRefused, TicketsUnavailable
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Attachment, Ticket, TicketState, Update
from quarantine.ports import Tickets

Maker = Callable[..., CaseReport]
Clock = Callable[[], datetime]
Advance = Callable[[timedelta], None]
Calls = tuple[Callable[[], object], ...]
REF = "R-20261129-gpu-017-a3"
KEY = "gpu-017-a3"


class Killed(BaseException):
    """The process ends here."""


def contents(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir() if p.suffix in (".md", ".json")}


def say(tickets: DirectoryTickets, text: str) -> None:
    tickets.update(REF, Update("-".join(text.split()), text))


def end(tickets: DirectoryTickets, reason: str) -> None:
    tickets.update(REF, Update("ended", reason, close=True))


def test_it_is_the_port(tickets: DirectoryTickets) -> None:
    port: Tickets = tickets

    assert port.find(KEY) == ()


def test_nothing_is_found_before_it_is_opened_and_looking_writes_nothing(
    tickets: DirectoryTickets, folder: Path
) -> None:
    assert tickets.find(KEY) == ()
    assert tickets.read(REF) is None
    assert not folder.exists()


def test_open_writes_a_ticket_for_people_and_one_for_programs(
    tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    ticket = tickets.open(make_report())

    assert ticket == Ticket(ref=REF, key=KEY, status="open", url=(folder / f"{REF}.md").as_uri())
    assert set(contents(folder)) == {f"{REF}.md", f"{REF}.json"}
    assert tickets.find(KEY) == (ticket,)
    assert tickets.read(REF) == ticket


def test_the_json_has_the_documented_fields(tickets: DirectoryTickets, folder: Path, make_report: Maker) -> None:
    tickets.open(make_report())

    document = json.loads((folder / f"{REF}.json").read_bytes())
    fault = document.pop("faults")[0]

    assert fault["device"] == "GPU 3 (GPU-5f1c7c1e-93f3-1d0e-8d0c-0c6a8a0b9d11)"
    assert (fault["value"], fault["threshold"]) == ("91.5 °C", "above 78 °C for 5m, 10% tolerated")
    assert fault["since"] == "2026-11-29T03:05:05Z"
    assert document["machine"]["system_uuid"] == "4c4c4544-0042-3510-8052-b4c04f4d4d32"
    assert document["opened_at"] == "2026-11-29T03:12:05Z"
    assert document["filed_at"] == "2026-11-29T03:12:15Z"
    assert (document["version"], document["status"], document["comments"]) == (1, "open", [])
    docstring = directory.__doc__ or ""
    assert [name for name in (*document, *fault) if name not in docstring] == []


def test_a_ticket_of_an_earlier_version_tells_nothing_of_the_provider_and_can_be_changed(
    tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    tickets.open(make_report(provider_description="Acme", provider_contact="the night shift"))
    path = folder / f"{REF}.json"
    document = json.loads(path.read_bytes())
    assert (document.pop("provider_description"), document.pop("contact")) == ("Acme", "the night shift")
    path.write_text(json.dumps(document), encoding="utf-8")

    say(tickets, "still there")

    assert json.loads(path.read_bytes())["contact"] == ""


def test_opening_twice_gives_the_same_ticket_and_changes_nothing(
    tickets: DirectoryTickets, folder: Path, make_report: Maker, advance: Advance
) -> None:
    first = tickets.open(make_report())
    before = contents(folder)
    advance(timedelta(days=2))

    again = tickets.open(make_report(reason="said otherwise", opened_at=make_report().opened_at + timedelta(days=1)))

    assert again == first
    assert contents(folder) == before


def test_a_key_is_not_found_by_its_beginning_or_end(tickets: DirectoryTickets, make_report: Maker) -> None:
    tickets.open(make_report(key="20261130-a"))
    tickets.open(make_report(key="a-b"))

    assert tickets.find("a") == ()
    assert tickets.find("b") == ()
    assert tickets.find("20261130-a") != ()


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_exactly_once_when_killed_while_filing(
    step: int, moment: str, folder: Path, make_report: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = DirectoryTickets(folder, clock)
    kill_at_replace(monkeypatch, step, moment)
    with pytest.raises(Killed):
        tickets.open(make_report())
    monkeypatch.undo()

    # What the executor does after an ambiguous failure: look, and file only where there is none.
    revived = DirectoryTickets(folder, clock)
    found = revived.find(KEY)
    assert len(found) == (1 if step == 2 and moment == "after" else 0)
    ticket = found[0] if found else revived.open(make_report())

    assert ticket.ref == REF
    untroubled = DirectoryTickets(folder.parent / "untroubled", clock)
    untroubled.open(make_report())
    assert contents(folder) == contents(folder.parent / "untroubled")
    assert [p.name for p in folder.iterdir() if p.suffix == ".tmp"] == []


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["comment", "close"])
def test_exactly_once_when_killed_while_changing(
    step: int, moment: str, verb: str, folder: Path, make_report: Maker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = DirectoryTickets(folder, clock)
    tickets.open(make_report())
    change = Update("found-1", "another finding", close=verb == "close")
    kill_at_replace(monkeypatch, step, moment)
    with pytest.raises(Killed):
        tickets.update(REF, change)
    monkeypatch.undo()

    tickets.update(REF, change)

    document = json.loads((folder / f"{REF}.json").read_bytes())
    markdown = (folder / f"{REF}.md").read_text(encoding="utf-8")
    assert markdown.count("another finding") == 1
    if verb == "comment":
        assert [c["text"] for c in document["comments"]] == ["another finding"]
    else:
        assert (document["status"], document["close_reason"]) == ("closed", "another finding")


def kill_at_replace(monkeypatch: pytest.MonkeyPatch, step: int, moment: str) -> None:
    calls = 0
    real = os.replace

    def replace(source: object, target: object, **kwargs: object) -> None:
        nonlocal calls
        calls += 1
        if calls == step and moment == "before":
            raise Killed
        real(source, target, **kwargs)  # type: ignore[arg-type]
        if calls == step:
            raise Killed

    monkeypatch.setattr(os, "replace", replace)


def test_exactly_once_when_many_file_at_the_same_time(folder: Path, make_report: Maker, clock: Clock) -> None:
    writers = [DirectoryTickets(folder, clock, patience=30) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        filed = list(pool.map(lambda writer: writer.open(make_report()), writers))
        list(pool.map(lambda pair: say(pair[1], f"finding {pair[0]}"), enumerate(writers)))

    assert len(set(filed)) == 1
    document = json.loads((folder / f"{REF}.json").read_bytes())
    assert sorted(c["text"] for c in document["comments"]) == [f"finding {n}" for n in range(8)]


def test_another_writer_that_does_not_let_go_is_told_and_nothing_is_written(
    tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    folder.mkdir()
    with only_writer(folder, 0), pytest.raises(TicketsUnavailable, match="another process holds its lock"):
        tickets.open(make_report())

    assert contents(folder) == {}


def test_markdown_that_was_removed_is_written_again_when_filed_again(
    tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    tickets.open(make_report())
    before = contents(folder)
    (folder / f"{REF}.md").unlink()

    tickets.open(make_report())

    assert contents(folder) == before


def test_comments_are_kept_in_order_and_a_repeated_one_is_not(
    tickets: DirectoryTickets, folder: Path, make_report: Maker, advance: Advance
) -> None:
    tickets.open(make_report())
    for key, text in (("a", "first"), ("a", "first"), ("b", "second"), ("c", "first"), ("a", "first")):
        advance(timedelta(minutes=1))
        tickets.update(REF, Update(key, text))

    comments = json.loads((folder / f"{REF}.json").read_bytes())["comments"]
    assert [(c["text"], c["at"][14:16]) for c in comments] == [("first", "13"), ("second", "15"), ("first", "16")]
    markdown = (folder / f"{REF}.md").read_text(encoding="utf-8")
    assert markdown.index("03:13:15 UTC") < markdown.index("second") < markdown.index("03:16:15 UTC")


def test_a_closed_ticket_is_not_found_can_be_read_and_is_not_filed_again(
    tickets: DirectoryTickets, make_report: Maker, folder: Path
) -> None:
    tickets.open(make_report())
    end(tickets, "machine was swapped")
    end(tickets, "a later word")

    read = tickets.read(REF)
    assert read is not None
    assert tickets.find(KEY) == (read,)
    assert not read.open
    assert read.status == "closed"
    assert tickets.open(make_report()) == read
    document = json.loads((folder / f"{REF}.json").read_bytes())
    assert (document["close_reason"], document["closed_at"]) == ("machine was swapped", "2026-11-29T03:12:15Z")
    assert "machine was swapped" in (folder / f"{REF}.md").read_text(encoding="utf-8")


def test_the_providers_side_may_set_the_status_and_add_fields(
    tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    tickets.open(make_report())
    path = folder / f"{REF}.json"
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps(document | {"status": "acknowledged", "rma": "4711"}))

    (found,) = tickets.find(KEY)
    assert (found.status, found.state) == ("acknowledged", TicketState.ACKNOWLEDGED)
    say(tickets, "thanks")

    assert json.loads(path.read_bytes())["rma"] == "4711"
    assert "status `acknowledged`" in (folder / f"{REF}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("status", "state", "open_"),
    [
        ("open", TicketState.FILED, True),
        (" New ", TicketState.FILED, True),
        ("In Progress", TicketState.IN_PROGRESS, True),
        ("with the vendor since Tuesday", TicketState.IN_PROGRESS, True),
        ("no_fault_found", TicketState.NO_FAULT_FOUND, False),
        ("Replaced", TicketState.REPLACED, False),
        ("CLOSED", TicketState.CLOSED, False),
    ],
)
def test_what_the_providers_side_writes_is_told_in_our_words(
    status: str, state: TicketState, open_: bool, tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    tickets.open(make_report())
    path = folder / f"{REF}.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"status": status}))
    (found,) = tickets.find(KEY)
    assert (found.status, found.state, found.open) == (status, state, open_)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("chart.png", "chart.png"),
        ("../../etc/passwd", "etc-passwd"),
        ("a\x00b\n.svg", "a-b-.svg"),
        ("x.json", "x.json.txt"),
        ("", "attachment"),
    ],
)
def test_what_is_attached_lies_beside_the_ticket_under_a_name_of_ours(
    name: str, kept: str, tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    tickets.open(make_report(), [Attachment(name, "image/png", b"\x89PNG\r\n")])
    assert (folder / f"{REF}.{kept}").read_bytes() == b"\x89PNG\r\n"
    assert [ticket.ref for ticket in tickets.find(KEY)] == [REF]


HOSTILE_NAMES = ["../x", "a/b", "..", "", "A", "a.b", "a\n", "a b", "-a", "x" * 300, "a\x00b", "ä"]


@pytest.mark.parametrize("key", HOSTILE_NAMES)
def test_a_key_that_is_no_case_id_is_refused(
    key: str, tickets: DirectoryTickets, make_report: Maker, folder: Path
) -> None:
    with pytest.raises(TicketsRefused, match="is no key of a ticket"):
        tickets.find(key)
    with pytest.raises(TicketsRefused, match="is no key of a ticket"):
        tickets.open(make_report(key=key))
    assert not folder.exists()


@pytest.mark.parametrize("ref", [*HOSTILE_NAMES, "R-20261129-../../x", "R-2026-a", "R-20261129-a\n", "gpu-017-a3"])
def test_a_reference_that_is_none_of_ours_is_refused(ref: str, tickets: DirectoryTickets, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    calls: Calls = (lambda: tickets.read(ref), lambda: tickets.update(ref, Update("x", "x")))
    for call in calls:
        with pytest.raises(TicketsRefused, match="is no ticket of this folder"):
            call()
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_changing_a_ticket_that_is_not_there_is_refused(tickets: DirectoryTickets, folder: Path) -> None:
    with pytest.raises(TicketsRefused, match=f"there is no ticket {REF}, since there is no folder"):
        say(tickets, "x")
    folder.mkdir()
    with pytest.raises(TicketsRefused, match=f"there is no ticket {REF} in "):
        end(tickets, "x")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": 2}', b"\xff\xfe", b"null"])
def test_a_damaged_ticket_is_never_taken_for_none(
    damage: bytes, tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    tickets.open(make_report())
    (folder / f"{REF}.json").write_bytes(damage)

    calls: Calls = (
        lambda: tickets.find(KEY),
        lambda: tickets.open(make_report()),
        lambda: say(tickets, "x"),
    )
    for call in calls:
        with pytest.raises(TicketsRefused, match=f"{REF}.json is not a ticket: .*; put it right") as caught:
            call()
        assert "\n" not in str(caught.value)
    assert (folder / f"{REF}.json").read_bytes() == damage


def test_a_ticket_copied_under_another_name_is_refused(
    tickets: DirectoryTickets, folder: Path, make_report: Maker
) -> None:
    tickets.open(make_report())
    (folder / "R-20261129-other.json").write_bytes((folder / f"{REF}.json").read_bytes())

    with pytest.raises(TicketsRefused, match="holds another ticket"):
        tickets.find("other")


def test_a_file_where_the_folder_should_be(tickets: DirectoryTickets, folder: Path, make_report: Maker) -> None:
    folder.write_text("not a folder")

    calls: Calls = (lambda: tickets.find(KEY), lambda: tickets.open(make_report()))
    for call in calls:
        with pytest.raises(TicketsRefused, match="must be a folder: name another") as caught:
            call()
        assert str(folder) in str(caught.value)


def test_a_folder_below_a_file(tmp_path: Path, clock: Clock, make_report: Maker) -> None:
    (tmp_path / "file").write_text("")
    tickets = DirectoryTickets(tmp_path / "file" / "tickets", clock)

    with pytest.raises(TicketsRefused, match="must be a folder"):
        tickets.open(make_report())


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (errno.EACCES, TicketsRefused, "permission denied; let this process write there"),
        (errno.EROFS, TicketsRefused, "read-only file system; mount it writable"),
        (errno.ENOSPC, TicketsUnavailable, "no space left on device; free some space"),
        (errno.EDQUOT, TicketsUnavailable, "quota"),
        (errno.EIO, TicketsUnavailable, "input/output error; look at the file system"),
        (errno.ESTALE, TicketsUnavailable, "look at the file system"),
    ],
)
@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_the_file_systems_no_is_one_sentence_with_the_path(
    code: int,
    kind: type[Exception],
    words: str,
    call: str,
    tickets: DirectoryTickets,
    folder: Path,
    make_report: Maker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(kind, match=words) as caught:
        tickets.open(make_report())
    monkeypatch.undo()

    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert tickets.find(KEY) == ()
    tickets.open(make_report())
    assert tickets.find(KEY) != ()


def test_a_planted_link_is_not_written_through(
    tickets: DirectoryTickets, folder: Path, make_report: Maker, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    folder.mkdir()
    (folder / f".{REF}.json.tmp").symlink_to(victim)

    with pytest.raises(TicketsRefused):
        tickets.open(make_report())

    assert victim.read_text() == "untouched"
