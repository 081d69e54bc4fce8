"""Kinds by entry point, and which target a provider's tickets go to."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.targets import Context, ManyDesks, connect
from quarantine.core.errors import TicketsRefused, UsageError


def _now() -> datetime:
    return datetime(2026, 11, 29, tzinfo=UTC)


CONTEXT = Context(cluster="lab", now=_now, folder=None, name="acme-desk")


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs a distribution with a sound kind and a broken one, as pip would."""
    meta = tmp_path / "third_party_desk-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-desk\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text(
        "[quarantine.tickets]\nthird = third_party_desk:connect\nbroken = third_party_gone:connect\n"
    )
    (tmp_path / "third_party_desk.py").write_text(
        "from pathlib import Path\n"
        "from quarantine.adapters.tickets.directory import DirectoryTickets\n"
        "def connect(options, context):\n"
        "    return DirectoryTickets(Path(options['folder']), context.now)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "third_party_desk", raising=False)


@pytest.mark.usefixtures("third_party")
def test_a_third_partys_kind_is_found_beside_a_broken_one(tmp_path: Path) -> None:
    made = connect("third", {"folder": str(tmp_path / "out")}, CONTEXT)

    assert isinstance(made, DirectoryTickets)


@pytest.mark.usefixtures("third_party")
def test_a_broken_kind_is_named_once_it_is_used() -> None:
    with pytest.raises(UsageError, match=r"acme-desk: its kind 'broken' \(third_party_gone:connect\) could not be"):
        connect("broken", {}, CONTEXT)


@pytest.mark.usefixtures("third_party")
def test_an_unknown_kind_lists_what_is_there() -> None:
    with pytest.raises(UsageError, match=r"no kind 'nix'; installed kinds: .*third"):
        connect("nix", {}, CONTEXT)


def test_a_provider_has_its_target_and_others_the_default(tmp_path: Path) -> None:
    one, two = (DirectoryTickets(tmp_path / name, _now) for name in ("one", "two"))
    desks = ManyDesks({"one": one, "two": two}, {"acme": "two"}, "one")

    assert desks.of("acme") == ("two", two)
    assert desks.of("other") == ("one", one)
    assert ManyDesks({"one": one}).of("acme") is None


def test_a_target_that_is_gone_is_said_in_a_sentence(tmp_path: Path) -> None:
    desks = ManyDesks({"one": DirectoryTickets(tmp_path, _now)})

    with pytest.raises(TicketsRefused, match=r"no ticket target 'two' any more; there are one"):
        desks.named("two")


def test_a_name_that_is_no_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"provider acme has the ticket target 'two', which is not there"):
        ManyDesks({"one": DirectoryTickets(tmp_path, _now)}, {"acme": "two"})
