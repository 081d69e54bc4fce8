"""Ticket systems chosen by the settings, through `quarantine run --once`, as the far side sees it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest

from quarantine.sandbox.desks.github import GitHubDesk
from quarantine.sandbox.desks.smtp import Mailbox, MailDesk
from tests.e2e.worlds import World

SECRET = "ghp-hush-hush"


@pytest.fixture
def mail() -> Iterator[MailDesk]:
    with MailDesk(Mailbox()) as desk:
        yield desk


@pytest.fixture
def github() -> Iterator[GitHubDesk]:
    with GitHubDesk("acme/repairs", SECRET) as desk:
        yield desk


def two_providers(document: dict[str, Any]) -> None:
    """The fleet's nodes 0 to 3 are acme's, the others nordic's."""
    if document["kind"] == "Fleet":
        pool = document["spec"]["pools"][0]
        theirs = deepcopy(pool)
        theirs["nodeSelector"]["owner"] = "acme"
        document["spec"]["pools"] = [
            {**theirs, "name": "theirs", "provider": "acme"},
            {**pool, "provider": "nordic"},
        ]


def settings(world: World, mail: MailDesk, github: GitHubDesk) -> dict[str, Any]:
    (world.folder / "token").write_text(SECRET + "\n")
    return {
        "targets": {
            "repairs": {
                "kind": "github",
                "repository": "acme/repairs",
                "url": github.url,
                "token_file": "token",
                "categories": {"GPU": "Hardware/GPU"},
            },
            "desk": {
                "kind": "email",
                "host": "127.0.0.1",
                "port": mail.port,
                "security": "none",
                "sender": "quarantine@lab.example",
                "recipients": ["rma@nordic.example"],
                "templates": "letters",
            },
        },
        "providers": {"acme": "repairs"},
        "default": "desk",
        "assets": "machines.csv",
    }


def text_of(raw: bytes) -> str:
    message: Message = message_from_bytes(raw)
    parts = [part for part in message.walk() if part.get_content_type() == "text/plain"]
    return b"".join(part.get_payload(decode=True) for part in parts).decode()  # type: ignore[misc]


def test_each_provider_is_told_once_by_its_own_target_in_its_own_words(
    cluster: World, mail: MailDesk, github: GitHubDesk
) -> None:
    theirs, others = cluster.nodes[2], cluster.nodes[5]
    for node in cluster.nodes[:4]:
        cluster.api.patch_merge("Node", node, {"metadata": {"labels": {"owner": "acme"}}})
    cluster.write_policies(two_providers)
    cluster.write_settings(tickets=settings(cluster, mail, github), slack={})
    (cluster.folder / "machines.csv").write_text(f"node,serial,rack\n{theirs},J1234X5,R7\n{others},K9,R8\n")
    (cluster.folder / "letters").mkdir()
    (cluster.folder / "letters" / "title.j2").write_text("RMA {{ ticket.assets.serial | default('?') }}")
    cluster.heat(theirs, others)

    for _ in range(3):
        done = cluster.run_once()
        assert done.exit_code == 0, done.output
        assert SECRET not in done.output

    assert cluster.marked() == sorted([theirs, others])
    [issue] = github.issues
    assert f"acme://{theirs}" in issue["body"]
    assert "Hardware/GPU" in issue["body"]
    assert "- serial: `J1234X5`" in issue["body"]
    [(sender, recipients, raw)] = mail.box.taken
    assert (sender, recipients) == ("quarantine@lab.example", ("rma@nordic.example",))
    assert "RMA K9" in message_from_bytes(raw)["Subject"]
    assert f"acme://{others}" in text_of(raw)
    assert theirs not in text_of(raw)
    with closing(sqlite3.connect(cluster.folder / "ledger.db")) as book:
        assert SECRET not in "\n".join(book.iterdump())


def test_a_wrong_option_ends_it_with_its_place_before_anything_is_done(
    cluster: World, mail: MailDesk, github: GitHubDesk
) -> None:
    chosen = settings(cluster, mail, github)
    del chosen["targets"]["desk"]["templates"], chosen["assets"]
    cluster.heat(cluster.nodes[2])
    for changes, words in (
        ({"recipients": ["nobody"]}, "tickets.targets.desk.recipients.0: write a bare address in ASCII"),
        ({"colour": "blue"}, "tickets.targets.desk.colour is no option of the kind 'email'"),
        ({"templates": "none"}, "tickets.targets.desk.templates: "),
        ({"kind": "fax"}, "ticket target desk: there is no kind 'fax'; installed kinds: directory, email, github"),
    ):
        targets = {**chosen["targets"], "desk": {**chosen["targets"]["desk"], **changes}}
        cluster.write_settings(tickets={**chosen, "targets": targets})
        done = cluster.run_once()
        assert done.exit_code == 2, done.output
        assert words in done.stderr
        assert len([line for line in done.stderr.splitlines() if line.startswith("quarantine: ")]) == 1
    assert cluster.untouched()
    assert github.issues == []
    assert mail.box.taken == []


def test_a_ticket_is_ended_where_it_was_filed_whoever_takes_them_by_then(
    cluster: World, mail: MailDesk, github: GitHubDesk
) -> None:
    node = cluster.nodes[3]
    chosen = settings(cluster, mail, github)
    del chosen["targets"]["desk"]["templates"], chosen["assets"], chosen["providers"]
    cluster.write_settings(tickets={**chosen, "default": "repairs"}, slack={})
    assert cluster.run_once().exit_code == 0
    assert cluster.quarantine("open", node, "--reason", "it smells of smoke").exit_code == 0
    assert cluster.run_once().exit_code == 0
    [issue] = github.issues
    assert issue["state"] == "open"

    cluster.write_settings(tickets=chosen, slack={})
    assert cluster.quarantine("release", node, "--reason", "it was the toast").exit_code == 0
    for _ in range(2):
        done = cluster.run_once()
        assert done.exit_code == 0, done.output

    assert issue["state"] == "closed"
    assert mail.box.taken == []
