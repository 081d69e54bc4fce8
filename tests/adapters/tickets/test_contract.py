"""The shipped suite for adapters, on the directory: it passes there, and it sees an adapter that breaks the port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.targets import Context, target
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Attachment, Ticket
from quarantine.ports import Tickets
from quarantine.testing.ticket_contract import TicketContract


def _now() -> datetime:
    return datetime(2026, 11, 29, 4, tzinfo=UTC)


class TestDirectory(TicketContract):
    """The embedded default keeps the port."""

    @pytest.fixture
    def desk(self, tmp_path: Path) -> Tickets:
        return DirectoryTickets(tmp_path / "tickets", _now)


class TestAsTheSettingsHaveIt(TicketContract):
    """With the options that every kind has."""

    @pytest.fixture
    def desk(self, tmp_path: Path) -> Tickets:
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "title.j2").write_text("RMA {{ ticket.node }}")
        options = {
            "directory": str(tmp_path / "tickets"),
            "templates": str(tmp_path / "letters"),
            "categories": {"GPU": "Hardware"},
        }
        return target("directory", options, Context("lab", _now, None, "disk"))


class _Forgetful(DirectoryTickets):
    """Finds nothing, and answers with another key."""

    def find(self, key: str) -> tuple[Ticket, ...]:  # noqa: ARG002  (the port's)
        return ()

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        return replace(super().open(report, attachments), key="other")


def test_the_suite_sees_an_adapter_that_breaks_the_port(tmp_path: Path) -> None:
    suite, desk = TicketContract(), _Forgetful(tmp_path / "tickets", _now)

    with pytest.raises(AssertionError):
        suite.test_a_new_ticket_carries_the_key_and_is_open(desk)
    with pytest.raises(AssertionError):
        suite.test_what_was_opened_is_found_unless_it_is_blind(desk)
