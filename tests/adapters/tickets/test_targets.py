"""Kinds by entry point, and which target a provider's tickets go to."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.targets import Context, ManyDesks, connect, target
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
        "breaking = third_party_desk:breaking\nnothing = third_party_desk:nothing\nemail = third_party_desk:connect\n"
    )
    (tmp_path / "third_party_desk.py").write_text(
        "from pathlib import Path\n"
        "from quarantine.adapters.tickets.directory import DirectoryTickets\n"
        "def connect(options, context):\n"
        "    return DirectoryTickets(Path(options['folder']), context.now)\n"
        "def breaking(options, context):\n"
        "    raise RuntimeError('no such thing as ' + options['token'])\n"
        "def nothing(options, context):\n"
        "    return object()\n"
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


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("breaking", "its kind 'breaking' could not make it of these options (RuntimeError)"),
        ("nothing", "what its kind 'nothing' made has no answerable, settles, find, open, read, update"),
        ("email", "several packages bring a kind 'email' (quarantine.adapters.tickets.email:connect, third_party"),
    ],
)
def test_a_kind_that_makes_no_target_is_told_in_a_sentence(kind: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        connect(kind, {"token": "hush"}, CONTEXT)
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("email", {}, "tickets.targets.acme-desk.host is missing: the kind 'email' needs it (2 more after this one)"),
        ("directory", {"directory": "x", "folder": "hush"}, "folder is no option of the kind 'directory'"),
        ("directory", {"directory": ["hush"]}, "tickets.targets.acme-desk.directory: "),
        ("directory", {"directory": "x", "categories": {"DISK": "y"}}, "acme-desk.categories.DISK: must be 'GPU'"),
        ("directory", {"directory": "x", "categories": "y"}, "acme-desk.categories: must be a valid dictionary"),
        ("directory", {"directory": "x", "templates": "/none"}, "acme-desk.templates: /none has none of the templates"),
        (
            "email",
            {"host": "127.0.0.1", "sender": "a@b.example", "recipients": ["a@b.example"], "password": "hush"},
            "tickets.targets.acme-desk: a username needs a password or password_file",
        ),
    ],
)
def test_an_option_that_is_wrong_is_told_with_its_place(kind: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        target(kind, options, CONTEXT)
    assert words in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


BUILT_IN = ("directory", "email", "github", "jira", "webhook", "zendesk")


@pytest.mark.parametrize("kind", BUILT_IN)
def test_a_built_in_kind_is_installed_and_refuses_options_in_a_sentence(kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        target(kind, {"colour": "hush"}, CONTEXT)
    assert str(caught.value).startswith(("tickets.targets.acme-desk", "ticket target acme-desk: "))
    assert "could not be loaded" not in str(caught.value)
    assert "hush" not in str(caught.value)


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
