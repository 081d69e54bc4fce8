"""Two replicas with a Lease, one of which acts: whatever becomes of the leader, all is done, and once."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from quarantine.ledger.migrate import upgrade
from quarantine.sandbox.kubeapi import Fault, KubeApiServer, User, serve
from quarantine.sandbox.kubeapi.auth import MASTERS
from quarantine.sandbox.ports_free import free_port
from quarantine.sandbox.postgres import PostgresServer
from tests.changes import who_acted
from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import World
from tests.pages import Probed

LASTS, RENEW_WITHIN, CYCLE = 3, 2, 1  # seconds
TAKES_OVER = LASTS + CYCLE + 6  # and what a look, a cycle and a busy machine take

pytestmark = pytest.mark.timeout(240)


@dataclass
class Replica(Probed):
    """One of them, with an API server's address and an account of its own."""

    name: str
    listen: str
    kube: KubeApiServer
    process: subprocess.Popen[bytes]
    log: Path

    def is_up(self) -> bool:
        """Whether it leads or waits. Raises AssertionError where it has ended."""
        assert self.process.poll() is None, self.log.read_text()
        return self.leads or self.waits

    @property
    def writes(self) -> int:
        """How many requests of it changed something, or would have; the Lease's own are not counted."""
        return who_acted(self.kube.api.requests).count(self.name)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as made:
        upgrade(made.database("migrated"))
        yield made


@dataclass
class Pair:
    """Two replicas of one controller, of which the first was started first, and leads."""

    cluster: World
    first: Replica
    second: Replica

    def heat(self, number: int) -> str:
        """One more hot node."""
        node = self.cluster.nodes[number]
        self.cluster.heat(node)
        return node

    def acted_once(self, *nodes: str) -> None:
        """Each of these was marked, reported and told of, once; no other was, and nobody met a defect."""
        cluster = self.cluster
        until(lambda: cluster.marked() == sorted(nodes), f"{nodes} are marked")
        until(lambda: all(self._told(node) for node in nodes), f"{nodes} are told of")
        until(lambda: len(cluster.tickets()) == len(nodes), f"{nodes} are reported")
        assert sorted(one["node"] for one in cluster.tickets()) == sorted(nodes)
        assert [self._told(node) for node in nodes] == [1] * len(nodes)
        for replica in (self.first, self.second):
            assert not said(replica.log, "Traceback"), replica.log.read_text()

    def _told(self, node: str) -> int:
        return len([one for one in self.cluster.told if node in one.text])


@pytest.fixture
def pair(cluster: World, server: PostgresServer, tmp_path: Path) -> Iterator[Pair]:
    url = server.database(tmp_path.name.replace("-", "_"), template="migrated")
    users = [User(name, f"token-of-{name}", (MASTERS,)) for name in ("first", "second")]
    cluster.api.gate.users += tuple(users)
    with ExitStack() as stack:
        made = []
        for name in ("first", "second"):
            kube = stack.enter_context(serve(cluster.api))
            made.append(stack.enter_context(_replica(cluster, name, kube, url)))
            until(made[-1].is_up, f"the {name} one is up", 60)
        until(lambda: made[0].leads, "the first one leads, once it has held the new Lease for its time", TAKES_OVER)
        yield Pair(cluster, *made)
    server.drop(tmp_path.name.replace("-", "_"))


@contextmanager
def _replica(cluster: World, name: str, kube: KubeApiServer, url: str) -> Iterator[Replica]:
    folder = cluster.folder / name
    folder.mkdir()
    kube.write_kubeconfig(folder / "kubeconfig", user=name)
    listen = f"127.0.0.1:{free_port()}"
    own = replace(cluster, folder=folder)
    own.write_settings(
        policies=[str(cluster.folder / "policies")],
        tickets=cluster.settings["tickets"],
        cycle={"interval": f"{CYCLE}s", "deadline": "15s", "coverage_interval": "1m"},
        kubernetes={"kubeconfig": str(folder / "kubeconfig"), "timeout": "1s"},
        leader={"elect": True, "lasts": f"{LASTS}s", "renew_within": f"{RENEW_WITHIN}s", "every": "500ms"},
        metrics={"listen": listen},
    )
    with running(own, url=url) as process:
        yield Replica(name, listen, kube, process, folder / "run.log")


def once(cluster: World, fault: Fault) -> threading.Event:
    """The next write to a Node meets it, and sets what is returned."""
    reached = threading.Event()

    def hook(method: str, path: str) -> Fault | None:
        if method != "PATCH" or "/nodes/" not in path or reached.is_set():
            return None
        reached.set()
        return fault

    cluster.api.fault = hook
    return reached


def test_exactly_once_though_the_leader_is_paused_and_the_next_one_leaves(pair: Pair) -> None:
    cluster, first, second = pair.cluster, pair.first, pair.second
    assert first.leads
    until(lambda: second.waits, "the second one waits")
    assert f"/{first.process.pid}/" in second.word, "and says for whom"
    one = pair.heat(1)
    pair.acted_once(one)
    assert (first.writes > 0, second.writes) == (True, 0)

    reached = once(cluster, Fault(hang=1, drop=True))
    two = pair.heat(2)
    assert reached.wait(30), "it is about to mark the node"
    first.process.send_signal(signal.SIGSTOP)
    paused = time.monotonic()
    until(lambda: second.leads, "the second one leads once the Lease has run out", TAKES_OVER)
    assert time.monotonic() - paused > LASTS - RENEW_WITHIN, "not before"
    pair.acted_once(one, two)
    before = first.writes
    three = pair.heat(3)
    first.process.send_signal(signal.SIGCONT)
    until(lambda: first.waits, "it sees that its time is over")
    until(lambda: f"/{second.process.pid}/" in first.word, "and who leads now")
    pair.acted_once(one, two, three)
    assert first.writes == before
    assert said(first.log, "this process leads no more")

    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait(20) == 0
    until(lambda: first.leads, "the Lease was let go: it leads again", LASTS)
    four = pair.heat(4)
    pair.acted_once(one, two, three, four)


def test_exactly_once_though_the_leader_is_cut_off_and_the_next_one_dies_in_the_middle(pair: Pair) -> None:
    cluster, first, second = pair.cluster, pair.first, pair.second
    assert first.leads
    first.kube.stop()
    until(lambda: second.leads, "the second one leads", TAKES_OVER)
    until(lambda: first.waits, "it waits")
    assert f"/{first.process.pid}/" not in first.word, "it does not take itself for the leader"
    one = pair.heat(5)
    pair.acted_once(one)
    assert first.process.poll() is None
    first.kube.start()
    until(lambda: first.waits and f"/{second.process.pid}/" in first.word, "it waits once it sees again")
    assert first.writes == 0

    reached = once(cluster, Fault(hang=30, after=True))
    two = pair.heat(6)
    assert reached.wait(30), "it is about to mark the node"
    second.process.kill()
    died = time.monotonic()
    until(lambda: first.leads, "the first one leads again", TAKES_OVER)
    assert time.monotonic() - died > LASTS - 2, "no sooner than the Lease allows"
    pair.acted_once(one, two)
