# ruff: noqa: S101  (tests, though they are shipped)
"""Whether a ticket adapter keeps the port (`quarantine.ports.Tickets`): a class of tests to derive from.

    class TestMine(TicketContract):
        @pytest.fixture
        def desk(self) -> Tickets:
            return MyTickets(...)  # new for each test, on an empty far side

What only the far side can show (a connection cut in between, 429) is for the adapter's own tests.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.core.errors import TicketsRefused
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Machine
from quarantine.core.tickets import Answerable, Attachment, Update
from quarantine.ports import Tickets

_OPENED = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)
_PIXEL = bytes.fromhex(  # a sound PNG
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c63600000000200"
    "0148afa4710000000049454e44ae426082"
)


def example_report(key: str = "gpu-017-a3") -> CaseReport:
    """A report with everything that is hard to carry: umlauts, markup, a mention, line breaks."""
    return CaseReport(
        key=key,
        cluster="lab",
        node="gpu-017",
        machine=Machine(
            node_uid="0c0ffee0-1111-4222-8333-944444444444",
            provider_id="acme://zone-2/i-0abc",
            system_uuid="4c4c4544-0042-3510-8052-b4c04f4d4d32",
        ),
        pool="h100",
        provider="acme",
        ask="report",
        title="gpu-017: GPU 3 suspect <b>\r\nX-Forged: 1",
        reason="@everyone 91 °C [x](http://example.com) & ü",
        done="the node is cordoned and tainted",
        opened_at=_OPENED,
        opened_by="controller",
        faults=(
            Fault(
                policy="gpu-hot",
                why="It throttles.",
                device="GPU 3",
                category="GPU",
                severity="critical",
                since=_OPENED - timedelta(minutes=7),
                value="91.5 °C",
                threshold="above 78 °C for 5m",
                query='max(DCGM_FI_DEV_GPU_TEMP{cluster="lab"}) > 78',
                labels=(("gpu", "3"), ("pod", "secret-worker")),
            ),
        ),
    )


class TicketContract:
    """Derive from it, name the class `Test…`, and override `desk`."""

    @pytest.fixture
    def desk(self) -> Tickets:
        """The adapter, on an empty far side."""
        raise NotImplementedError("override the fixture `desk`")

    def test_it_says_for_how_long_a_new_ticket_may_be_missing(self, desk: Tickets) -> None:
        assert isinstance(desk.answerable, Answerable)
        assert desk.settles >= timedelta(0)

    def test_nothing_is_found_where_nothing_was_opened(self, desk: Tickets) -> None:
        assert desk.find("never-opened-1") == ()

    def test_a_new_ticket_carries_the_key_and_is_open(self, desk: Tickets) -> None:
        ticket = desk.open(example_report())

        assert (ticket.key, ticket.open, ticket.state.is_verdict) == ("gpu-017-a3", True, False)
        assert ticket.ref == ticket.ref.strip() != ""

    def test_what_was_opened_is_found_unless_it_is_blind(self, desk: Tickets) -> None:
        ticket = desk.open(example_report())
        found = [one.ref for one in desk.find(ticket.key)]

        if desk.answerable is Answerable.BLIND:
            assert found == []
        elif not desk.settles:
            assert found == [ticket.ref]

    def test_a_key_is_not_found_by_a_part_of_it(self, desk: Tickets) -> None:
        desk.open(example_report("gpu-017-a31"))

        assert desk.find("gpu-017-a3") == ()

    def test_opening_twice_is_opening_once_where_that_is_promised(self, desk: Tickets) -> None:
        refs = {desk.open(example_report()).ref, desk.open(example_report()).ref}

        assert len(refs) == 1 or desk.answerable is not Answerable.IDEMPOTENT

    def test_it_is_read_and_found_from_another_thread_too(self, desk: Tickets) -> None:
        ticket = desk.open(example_report())
        with ThreadPoolExecutor(1) as other:
            read, found = other.submit(desk.read, ticket.ref).result(), other.submit(desk.find, ticket.key).result()

        assert (read, found) == (desk.read(ticket.ref), desk.find(ticket.key))

    def test_a_ticket_is_read_by_its_reference(self, desk: Tickets) -> None:
        ticket = desk.open(example_report())
        read = desk.read(ticket.ref)

        if desk.answerable is Answerable.BLIND:
            assert read is None or read.ref == ticket.ref
        else:
            assert read is not None
            assert (read.ref, read.key, read.open) == (ticket.ref, ticket.key, True)

    def test_an_update_twice_and_an_end_twice_are_accepted(self, desk: Tickets) -> None:
        ticket = desk.open(example_report())
        said = Update(key="healthy-again-1", text="The machine is healthy again.\n@everyone")
        ended = Update(key="closed-1", text="No longer needed.", close=True)

        for update in (said, said, ended, ended):
            desk.update(ticket.ref, update)

        read = desk.read(ticket.ref)
        if desk.answerable is not Answerable.BLIND:
            assert read is not None
            assert not read.open

    def test_what_was_ended_is_still_found_and_says_how_it_ended(self, desk: Tickets) -> None:
        ticket = desk.open(example_report())
        desk.update(ticket.ref, Update(key="closed-1", text="No longer needed.", close=True))

        read = desk.read(ticket.ref)
        if desk.answerable is not Answerable.BLIND:
            assert read is not None
            assert read.state.is_verdict
            assert desk.settles or [(one.ref, one.open) for one in desk.find(ticket.key)] == [(ticket.ref, False)]

    def test_text_that_no_encoding_takes_is_carried(self, desk: Tickets) -> None:
        odd = "bell \x07 nul \x00 half \ud800 turned \u202e line\u2028end"
        ticket = desk.open(replace(example_report(), title=odd, reason=odd))

        desk.update(ticket.ref, Update(key="odd-1", text=odd))
        assert ticket.ref

    def test_what_is_long_is_carried_shortened_where_it_has_to_be(self, desk: Tickets) -> None:
        report = example_report()
        many = tuple(replace(report.faults[0], device=f"GPU {n}", query="x + " * 200) for n in range(100))
        ticket = desk.open(replace(report, title="long " * 200, reason="reason " * 5000, faults=many))

        desk.update(ticket.ref, Update(key="long-1", text="words " * 20_000))
        assert ticket.ref

    def test_a_chart_never_costs_the_ticket(self, desk: Tickets) -> None:
        chart = Attachment(name="../chart.png", media_type="image/png", content=_PIXEL)

        assert desk.open(example_report(), (chart,)).open

    def test_a_reference_of_another_system_is_no_ticket(self, desk: Tickets) -> None:
        try:
            read = desk.read("no such ticket\r\n/../x")
        except TicketsRefused as error:
            read, said = None, str(error)
        else:
            said = ""

        assert read is None
        assert "\n" not in said
