"""Slack and `quarantine run`: what a click, a form or a command comes to in the cluster and at the provider."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from quarantine.sandbox.ports_free import free_port
from quarantine.sandbox.slack import Delivery, Message, Person, signed
from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import CHANNEL, World

APP_TOKEN, SIGNING = "xapp-1-test-secret", "8f742231b10e8888abcd99yyyzzz85a5"
APPROVERS = "S0APPROVE"
ANN, BOB, EVE = "U0ANN", "U0BOB", "U0EVE"  # may approve; may not; is the provider's
LINKS = 2  # connections of Socket Mode that a process keeps

pytestmark = pytest.mark.timeout(180)  # of a test takes seconds, of which most are a process's start


@pytest.fixture
def asking(cluster: World) -> World:
    """Machines are swapped once one of the approvers says so; three nodes are hot. Cycles a second apart."""
    cluster.slack.workspace.app_token = APP_TOKEN
    people = (Person(ANN, "ann"), Person(BOB, "bob"), Person(EVE, "eve", team="T0ACME"))
    cluster.slack.directory.people |= {person.id: person for person in people}
    cluster.slack.directory.groups[APPROVERS] = [ANN]
    cluster.write_policies(_by_approval)
    (cluster.folder / "app-token").write_text(f"{APP_TOKEN}\n")
    slack = {"channel": CHANNEL, "base_url": cluster.slack.base_url, "app_token_file": "app-token"}
    cluster.write_settings(cycle={"interval": "1s", "deadline": "15s", "coverage_interval": "1m"}, slack=slack)
    return cluster


def _by_approval(document: dict[str, Any]) -> None:
    if document["kind"] == "Policy" and document["metadata"]["name"] == "gpu-hot":
        document["spec"]["response"] |= {"ticket": "replace", "approval": {"by": APPROVERS}}


def message_of(cluster: World, node: str) -> Message:
    """The node's message as it stands now."""
    return next(one for one in reversed(cluster.told) if node in json.dumps([one.text, one.blocks]))


def asks(cluster: World, node: str) -> bool:
    """Whether its message can be answered."""
    return any(node in one.text and "quarantine.approve" in json.dumps(one.blocks) for one in cluster.told)


def shown_to(cluster: World, user: str) -> list[str]:
    return [one.text for one in cluster.slack.ephemerals if one.user == user]


def thread_of(cluster: World, message: Message) -> str:
    told = [one for one in cluster.slack.messages if one.thread_ts == message.ts and one.ts != message.ts]
    return "\n".join(f"{one.text} {json.dumps(one.blocks, ensure_ascii=False)}" for one in told)


def explained(cluster: World, node: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.quarantine("explain", node, "--output", "json").stdout)
    return found


def click(cluster: World, user: str, node: str, word: str) -> Delivery:
    return cluster.slack.acts.click(user, message_of(cluster, node), f"quarantine.{word}").wait()


def swaps(cluster: World, node: str) -> int:
    return len([one for one in cluster.tickets() if (one["node"], one["ask"]) == (node, "replace")])


def run_command(cluster: World, user: str, text: str) -> str:
    """What the one who typed it is shown."""
    before = len(shown_to(cluster, user))
    assert cluster.slack.acts.run(user, CHANNEL, text).wait().acknowledged
    until(lambda: len(shown_to(cluster, user)) > before, f"/quarantine {text} is answered")
    return shown_to(cluster, user)[-1]


def submit(cluster: World, **values: str) -> None:
    """Answer the form that was opened last, once it is there."""
    until(lambda: any(view.open for view in cluster.slack.acts.views), "a form is opened")
    view = next(view for view in cluster.slack.acts.views if view.open)
    assert (
        cluster.slack.acts.submit(view, {key.rstrip("_"): value for key, value in values.items()}).wait().acknowledged
    )


def test_exactly_once_a_swap_is_asked_for_by_the_click_of_one_who_may(asking: World) -> None:
    cluster, node = asking, asking.nodes[2]
    cluster.heat(node)
    with running(cluster):
        until(lambda: asks(cluster, node), "people are asked", 60)
        cluster.slack.sockets.wait_connected(LINKS)
        click(cluster, EVE, node, "approve")
        until(lambda: shown_to(cluster, EVE) != [], "an outsider is told")
        assert "only members of the workspace that runs this fleet may do this" in shown_to(cluster, EVE)[0]
        click(cluster, BOB, node, "approve")
        refused = f"bob ({BOB}) asked to approve {node}; not done, since"
        until(lambda: refused in json.dumps(explained(cluster, node)), "one outside of the group is refused")
        assert swaps(cluster, node) == 0

        delivery = click(cluster, ANN, node, "approve")
        assert cluster.slack.sockets.deliver("interactive", delivery.payload).wait().acknowledged
        until(lambda: swaps(cluster, node) == 1, "the machine is asked for")
        approved = f"ann ({ANN}) approves that another machine is asked for in place of {node}"
        until(lambda: approved in thread_of(cluster, message_of(cluster, node)), "the thread tells it")
        until(lambda: not asks(cluster, node), "its message asks no more")
    assert swaps(cluster, node) == 1
    assert len([one for one in cluster.told if node in one.text]) == 1
    said_to_ann = [text for text in shown_to(cluster, ANN) if "another machine may be asked for" in text]
    assert len(said_to_ann) == 1, "though it was delivered twice"
    assert thread_of(cluster, message_of(cluster, node)).count(approved) == 1 * 2  # as text, and as blocks
    assert not said(cluster.folder / "run.log", "Traceback")


def test_forms_put_off_and_end_a_case_and_commands_answer(asking: World) -> None:
    cluster = asking
    later, false, waived = cluster.nodes[1], cluster.nodes[3], cluster.nodes[5]
    cluster.heat(later, false)
    with running(cluster):
        until(lambda: asks(cluster, later) and asks(cluster, false), "people are asked", 60)
        cluster.slack.sockets.wait_connected(LINKS)
        old = message_of(cluster, false)

        click(cluster, ANN, later, "defer")
        submit(cluster, for_="4h", why="the run ends tonight")
        deferred = f"no other machine is asked for in place of {later} before"
        until(lambda: deferred in thread_of(cluster, message_of(cluster, later)), "it is put off")
        assert "the run ends tonight" in thread_of(cluster, message_of(cluster, later))

        click(cluster, BOB, false, "dismiss")
        submit(cluster, why="the probe was loose")
        until(lambda: cluster.marked() == [later], "a false alarm puts it back")
        until(lambda: "the probe was loose" in json.dumps(explained(cluster, false)), "with its reason on record")
        cluster.slack.acts.click(ANN, old, "quarantine.approve").wait()
        until(lambda: any("has ended" in text for text in shown_to(cluster, ANN)), "an old message means no later case")

        assert f"{later}: quarantined" in run_command(cluster, BOB, "status")
        assert "gpu-hot" in run_command(cluster, BOB, f"explain {later}")
        assert "stays in service for 2h" in run_command(cluster, ANN, f"waive {waived} for 2h it is needed tonight")
        until(lambda: f"{waived} stays in service" in cluster.quarantine("status").stdout, "the waiver is decided")
        assert "only members of the workspace" in run_command(cluster, EVE, "status")
    assert (swaps(cluster, later), swaps(cluster, false)) == (0, 0)
    assert not said(cluster.folder / "run.log", "Traceback")


def post(url: str, headers: dict[str, str], body: bytes) -> int:
    return requests.post(url, data=body, headers=headers, timeout=5).status_code


def test_exactly_once_by_the_door_a_click_counts_by_its_signature(asking: World) -> None:
    cluster, node = asking, asking.nodes[6]
    listen = f"127.0.0.1:{free_port()}"
    (cluster.folder / "signing").write_text(SIGNING)
    slack = {"channel": CHANNEL, "base_url": cluster.slack.base_url, "signing_secret_file": "signing"}
    cluster.write_settings(cycle=cluster.settings["cycle"], slack=slack, door={"listen": listen})
    cluster.heat(node)
    url = f"http://{listen}/slack"
    with running(cluster):
        until(lambda: asks(cluster, node), "people are asked", 60)
        payload = cluster.slack.acts.click_payload(ANN, message_of(cluster, node), "quarantine.approve")
        now = datetime.now(UTC)  # noqa: TID251  (as Slack does)
        assert post(url, *signed(payload, "another secret", now)) == 401
        assert post(url, *signed(payload, SIGNING, now - timedelta(minutes=6))) == 401
        assert shown_to(cluster, ANN) == []
        for _ in range(2):
            assert post(url, *signed(payload, SIGNING, now)) == 200
        until(lambda: swaps(cluster, node) == 1, "the machine is asked for")
        command = cluster.slack.acts.command_payload(ANN, CHANNEL, "status")
        assert post(url, *signed(command, SIGNING, now)) == 200
        until(lambda: any(node in text for text in shown_to(cluster, ANN)[1:]), "a command is answered")
    assert swaps(cluster, node) == 1
    assert cluster.slack.sockets.connected == 0
