"""`quarantine run` as a process beside a Postgres that is not there at its start, goes, comes back, and is shared."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from quarantine.ledger.migrate import upgrade
from quarantine.sandbox.ports_free import free_port
from quarantine.sandbox.postgres import PostgresServer
from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import World


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as made:
        yield made


@pytest.fixture
def listen(cluster: World) -> str:
    """Cycles a second apart; where the metrics are."""
    address = f"127.0.0.1:{free_port()}"
    cycle = {"interval": "1s", "deadline": "15s", "coverage_interval": "1m"}
    cluster.write_settings(cycle=cycle, metrics={"listen": address})
    return address


def scraped(listen: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{listen}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except urllib.error.URLError:
        return ""


@pytest.mark.timeout(240)
def test_down_at_the_start_and_down_again(cluster: World, server: PostgresServer, listen: str) -> None:
    """It is never started again, and `status` and the metrics say why it waits."""
    url = server.database("ledger").replace("quarantine@", "quarantine:s3cret@")
    upgrade(url)
    server.stop()
    cluster.heat(cluster.nodes[3])
    log = cluster.folder / "run.log"
    with running(cluster, url=url) as process:
        until(lambda: said(log, "nothing is begun yet: the ledger"), "it says what it waits for", 60)
        until(lambda: "quarantine_ledger_writable 0.0" in scraped(listen), "so do the metrics", 60)
        told = cluster.quarantine("status", "--database-url", url)
        assert told.exit_code == 3
        assert "cannot be reached" in told.stderr
        server.start()
        until(lambda: cluster.marked() == [cluster.nodes[3]], "it begins by itself", 60)
        until(lambda: "quarantine_ledger_writable 1.0" in scraped(listen), "the metrics know", 60)
        until(lambda: len(cluster.told) == 1, "all is done", 60)
        server.kill()
        until(lambda: said(log, "nothing was done in this cycle: the ledger"), "it says so", 60)
        until(lambda: "quarantine_ledger_writable 0.0" in scraped(listen), "the metrics know", 60)
        cluster.heat(cluster.nodes[5])
        server.start()
        until(lambda: cluster.marked() == [cluster.nodes[3], cluster.nodes[5]], "it goes on by itself", 60)
        until(lambda: len(cluster.tickets()) == 2, "one each", 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
    assert not said(log, "Traceback")
    assert not said(log, "s3cret")


def test_it_can_be_stopped_while_it_waits(cluster: World, server: PostgresServer, listen: str) -> None:
    url = server.database("ledger")
    server.stop()
    log = cluster.folder / "run.log"
    with running(cluster, url=url) as process:
        until(lambda: said(log, "nothing is begun yet"), "it waits", 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert said(log, "stopped before it could begin, as asked")


@pytest.mark.usefixtures("listen")
def test_a_ledger_that_was_not_migrated_ends_it(cluster: World, server: PostgresServer) -> None:
    """Somebody has to do something first; whoever starts it again sees whether that was done."""
    with running(cluster, url=server.database("ledger")) as process:
        assert process.wait(60) == 3
    assert said(cluster.folder / "run.log", "run `quarantine db upgrade`")


@pytest.mark.timeout(240)
def test_a_new_version_of_two_replicas(cluster: World, server: PostgresServer) -> None:
    """Both migrate, both start, and the one that began later goes on alone: nothing is done twice."""
    cluster.write_settings(cycle={"interval": "1s", "deadline": "15s", "coverage_interval": "1m"})
    url = server.database("ledger")
    command = [sys.executable, "-m", "quarantine", "db", "upgrade", "--database-url", url]
    migrating = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    for one in migrating:
        out, err = one.communicate(timeout=120)
        assert one.returncode == 0, out + err
    cluster.heat(cluster.nodes[2])
    with running(cluster, "first.log", url=url) as first, running(cluster, "second.log", url=url) as second:
        until(lambda: None not in (first.poll(), second.poll()) or first.poll() != second.poll(), "one ends", 90)
        until(lambda: len(cluster.told) == 1, "the other one acts", 90)
        ended = [process.poll() for process in (first, second)]
        assert sorted(ended, key=str) == [1, None]
    assert cluster.marked() == [cluster.nodes[2]]
    assert len(cluster.tickets()) == 1
    logs = cluster.folder / ("first.log" if ended[0] == 1 else "second.log")
    assert said(logs, "this process must stop")
