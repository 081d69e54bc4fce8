"""What providers say of their tickets, through the controller: to the trail, to `explain` and to Slack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import requests

from quarantine.adapters.tickets.webhook.signature import SIGNATURE, TIMESTAMP, callback_signature
from quarantine.sandbox.desks.github import GitHubDesk
from quarantine.sandbox.desks.webhook import WebhookDesk
from quarantine.sandbox.ports_free import free_port
from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import World

TOKEN, SECRET = "ghp-hush-hush", "0123456789abcdef0123456789abcdef"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def github() -> Iterator[GitHubDesk]:
    with GitHubDesk("acme/repairs", TOKEN) as desk:
        yield desk


@pytest.fixture
def receiver() -> Iterator[WebhookDesk]:
    with WebhookDesk(SECRET, lambda: datetime.now(UTC)) as desk:  # noqa: TID251  (as the far side does)
        yield desk


def explained(cluster: World, node: str) -> str:
    return cluster.quarantine("explain", node, "--output", "json").stdout


def on_slack(cluster: World) -> str:
    return "\n".join(f"{one.text} {json.dumps(one.blocks)}" for one in cluster.slack.messages)


def test_what_a_provider_says_of_an_issue_is_heard_by_everybody(cluster: World, github: GitHubDesk) -> None:
    seen, refused = cluster.nodes[2], cluster.nodes[5]
    (cluster.folder / "token").write_text(TOKEN)
    target = {"kind": "github", "repository": "acme/repairs", "url": github.url, "token_file": "token"}
    cluster.write_settings(tickets={"targets": {"repairs": target}, "default": "repairs"})
    cluster.heat(seen, refused)
    for _ in range(2):
        assert cluster.run_once().exit_code == 0
    of = {node: next(one for one in github.issues if node in one["body"]) for node in (seen, refused)}

    of[seen]["labels"].append({"name": "provider/acknowledged"})
    of[refused].update(state="closed", state_reason="not_planned")
    for _ in range(2):
        assert cluster.run_once().exit_code == 0
    assert "(provider/acknowledged)" in explained(cluster, seen)
    assert f"of {seen}: it was seen (provider/acknowledged)" in on_slack(cluster)
    assert "(closed (not_planned))" in explained(cluster, refused)
    assert f"of {refused}: the provider will not do it" in on_slack(cluster)
    assert cluster.marked() == [seen, refused], "no ticket's word puts a machine back in service"
    assert len(github.issues) == 2


def call_back(url: str, ref: str, key: str, secret: str) -> int:
    """As the receiver says that its ticket has changed."""
    now = datetime.now(UTC)  # noqa: TID251  (as the far side does)
    word = {"id": "w-1", "at": now.isoformat(), "ref": ref, "key": key, "status": "on it", "state": "in-progress"}
    body = json.dumps(word).encode()
    seconds = int(now.timestamp())
    headers = {TIMESTAMP: str(seconds), SIGNATURE: callback_signature(secret, seconds, body)}
    return requests.post(url, data=body, headers=headers, timeout=5).status_code


def test_a_call_back_wakes_the_controller_and_only_what_it_reads_counts(cluster: World, receiver: WebhookDesk) -> None:
    node, listen = cluster.nodes[4], f"127.0.0.1:{free_port()}"
    (cluster.folder / "secret").write_text(SECRET)
    target = {"kind": "webhook", "url": receiver.url, "secret_file": "secret"}
    cluster.write_settings(
        cycle={"interval": "1h", "deadline": "15s", "coverage_interval": "1h"},  # what happens soon is not the timer's
        tickets={"targets": {"desk": target}, "default": "desk"},
        door={"listen": listen},
    )
    cluster.heat(node)
    with running(cluster):
        until(lambda: len(receiver.tickets) == 1, "it is reported", 60)
        [(ref, ticket)] = receiver.tickets.items()
        until(lambda: any(node in one.text for one in cluster.told), "its cycle is about to end")
        ticket.now["status"] = "acknowledged"
        asked = len(receiver.asked)
        assert call_back(f"http://{listen}/tickets/desk", ref, ticket.now["key"], "f" * 32) == 401
        assert call_back(f"http://{listen}/tickets/fax", ref, ticket.now["key"], SECRET) == 404
        assert call_back(f"http://{listen}/slack", ref, ticket.now["key"], SECRET) == 404
        assert len(receiver.asked) == asked
        assert call_back(f"http://{listen}/tickets/desk", ref, ticket.now["key"], SECRET) == 202
        until(lambda: "acknowledged" in explained(cluster, node), "the ticket is read")
        until(lambda: "is acknowledged" in on_slack(cluster), "Slack tells it")
    assert "in-progress" not in explained(cluster, node), "the call's own word counts for nothing"
    assert len(receiver.tickets) == 1
    assert not said(cluster.folder / "run.log", "Traceback")
