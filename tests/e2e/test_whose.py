"""Two clusters, one ledger and one name in it: a wrong kubeconfig, or a copied installation."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import open_ledger
from quarantine.sandbox.kubeapi import Rule, User
from quarantine.sandbox.ports_free import free_port
from quarantine.sandbox.postgres import PostgresServer
from quarantine.sandbox.prometheus import PrometheusServer
from tests.doctor.conftest import real_now
from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import World, world
from tests.pages import page

CYCLE = {"interval": "1s", "deadline": "15s", "coverage_interval": "1m"}
_numbers = count()

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def two(live_prometheus: PrometheusServer, tmp_path: Path) -> Iterator[tuple[World, World]]:
    """Each a cluster of its own; both are called `test` in their settings."""
    with ExitStack() as stack:
        made = []
        for name in ("ours", "theirs"):
            folder = tmp_path / name
            folder.mkdir()
            made.append(stack.enter_context(world(folder, f"{name}{next(_numbers)}", live_prometheus, size=4)))
        yield made[0], made[1]


@pytest.fixture
def url() -> Iterator[str]:
    with PostgresServer() as server:
        made = server.database("shared")
        upgrade(made)
        yield made


def identity(cluster: World) -> str:
    uid: str = cluster.api.get("Namespace", "kube-system")["metadata"]["uid"]
    return uid


def wrote(cluster: World) -> list[str]:
    """What was asked of the cluster but to look, and but what the doctor asks it about our rights."""
    asked = (request for request in cluster.api.requests if request.method not in ("GET", "WATCH"))
    return [f"{one.method} {one.path}" for one in asked if not one.path.endswith("/selfsubjectaccessreviews")]


def nodes_decided(url: str) -> set[str]:
    with open_ledger(url, "test", now=real_now) as ledger:
        return {row.decision.node for row in ledger.decisions() if row.decision.node is not None}


def test_a_copy_in_another_cluster_writes_nothing_until_it_is_meant(two: tuple[World, World], url: str) -> None:
    ours, theirs = two
    listen = f"127.0.0.1:{free_port()}"
    ours.write_settings(cycle=CYCLE)
    theirs.write_settings(cycle=CYCLE, metrics={"listen": listen})
    env = {"QUARANTINE_DATABASE_URL": url}
    with running(ours, url=url) as right:
        until(lambda: said(ours.folder / "run.log", "nothing to do"), "ours has begun", 90)
        theirs.heat(theirs.nodes[1])
        theirs.api.requests.clear()
        with running(theirs, url=url) as wrong:
            log, told = theirs.folder / "run.log", f"has the uid {identity(ours)}, and in this one it has"
            until(lambda: said(log, told), "it says why it waits", 90)
            until(lambda: told in page(listen, "readyz"), "it is not ready, and says why")
            until(lambda: "quarantine_ledger_writable 0.0" in page(listen, "metrics"), "it is worth an alert")
            ours.heat(ours.nodes[2])
            until(lambda: ours.marked() == [ours.nodes[2]], "ours goes on undisturbed", 90)
            until(lambda: len(ours.told) == 1, "and asks for the swap")
            assert (right.poll(), wrong.poll()) == (None, None)
            _is_told_by_commands(theirs, env)
            assert (wrote(theirs), theirs.untouched(), theirs.tickets(), theirs.slack.messages) == ([], True, [], [])
            assert nodes_decided(url) == {ours.nodes[2]}

            right.send_signal(signal.SIGTERM)
            assert right.wait(60) == 0
            done = theirs.quarantine("db", "rebind", "--reason", "made anew", env=env)
            assert done.exit_code == 0, done.output
            assert identity(ours) in done.output
            assert "1 case is open." in done.output
            until(lambda: theirs.nodes[1] in nodes_decided(url), "it goes on by itself", 90)
    again = ours.quarantine("run", "--once", env=env)
    assert again.exit_code == 3
    assert f"has the uid {identity(theirs)}" in again.output


def _is_told_by_commands(theirs: World, env: dict[str, str]) -> None:
    plan = theirs.quarantine("plan", env=env)
    assert (plan.exit_code, plan.stdout) == (3, "")
    assert "the trail of 'test'" in plan.stderr
    doctor = theirs.quarantine("doctor", env=env)
    assert doctor.exit_code == 1
    assert "the trail of 'test'" in " ".join(doctor.stdout.split())
    explained = theirs.quarantine("explain", theirs.nodes[1], env=env)
    assert explained.exit_code != 0
    assert "the trail of 'test'" in " ".join(explained.output.split())


def test_without_the_right_to_ask_a_new_trail_is_written_and_a_known_one_is_not(cluster: World) -> None:
    rules = (Rule(("list", "watch", "patch"), ("nodes",)), Rule(("list",), ("pods",)))
    cluster.write_settings(mode="observe")
    cluster.api.gate.users = (*cluster.api.users, User("quarantine", "t0ken", rules=rules))
    cluster.kube.write_kubeconfig(cluster.folder / "kubeconfig", user="quarantine")
    first = cluster.run_once()
    assert first.exit_code == 0, first.output
    assert "the ledger is not told whose trail this is" in first.output
    cluster.kube.write_kubeconfig(cluster.folder / "kubeconfig")
    assert cluster.run_once().exit_code == 0
    cluster.kube.write_kubeconfig(cluster.folder / "kubeconfig", user="quarantine")
    refused = cluster.run_once()
    assert refused.exit_code == 3
    assert "grant this account get on the namespace kube-system" in refused.output
