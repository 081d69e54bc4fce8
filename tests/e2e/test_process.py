"""`quarantine run` as a process: woken by a request, ended by SIGTERM, killed and restarted, succeeded by another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from quarantine.sandbox.kubeapi import Fault
from tests.e2e.worlds import TOKEN, World


@contextmanager
def running(
    cluster: World, log: str = "run.log", *, url: str | None = None, program: Sequence[str] = ("-m", "quarantine")
) -> Iterator[subprocess.Popen[bytes]]:
    """The controller, as anybody starts it; on the cluster's own ledger, or the one at `url`."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("QUARANTINE_")}
    env = {**clean, "QUARANTINE_SLACK__TOKEN": TOKEN, "QUARANTINE_DATABASE_URL": url or cluster.database_url}
    command = [sys.executable, *program, "run", "--config", str(cluster.config)]
    with (
        (cluster.folder / log).open("wb") as out,
        subprocess.Popen(command, stderr=out, stdout=out, env=env) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], bool], what: str, within: float = 60) -> None:
    end = time.monotonic() + within
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, what
        pause.wait(0.1)


def said(path: Path, text: str) -> bool:
    return text in path.read_text(errors="replace")


@pytest.fixture
def slow_cycles(cluster: World) -> World:
    """Cycles an hour apart: whatever happens soon was not the timer's doing."""
    cluster.write_settings(cycle={"interval": "1h", "deadline": "15s", "coverage_interval": "1h"})
    return cluster


def test_a_request_wakes_it_and_sigterm_ends_it_cleanly(slow_cycles: World) -> None:
    cluster, log = slow_cycles, slow_cycles.folder / "run.log"
    with running(cluster) as process:
        until(lambda: said(log, "nothing to do"), "the first cycle")
        assert cluster.quarantine("open", cluster.nodes[2], "--reason", "it smells of smoke").exit_code == 0
        until(lambda: cluster.marked() == [cluster.nodes[2]], "the request wakes it")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert said(log, "stopped after the running step")
    assert not said(log, "Traceback")


def test_killed_in_the_middle_and_started_again_it_ends_what_it_began(cluster: World) -> None:
    cluster.heat(cluster.nodes[5])
    cluster.write_settings(cycle={"interval": "1s", "deadline": "15s", "coverage_interval": "1m"})
    reached = threading.Event()

    def stall(method: str, path: str) -> Fault | None:
        if method == "PATCH":
            reached.set()
            return Fault(hang=30, after=True)
        return None

    cluster.api.fault = stall
    with running(cluster, "first.log") as process:
        assert reached.wait(30), "it is about to mark the node"
        process.kill()
        process.wait(10)
    cluster.api.fault = None
    with running(cluster, "second.log"):
        until(lambda: len(cluster.told) == 1, "the next one ends it")
    assert cluster.marked() == [cluster.nodes[5]]
    assert len(cluster.tickets()) == 1


def test_of_two_at_once_the_earlier_one_stops(cluster: World) -> None:
    cluster.write_settings(cycle={"interval": "1s", "deadline": "15s", "coverage_interval": "1m"})
    first_log = cluster.folder / "first.log"
    with running(cluster, "first.log") as first:
        until(lambda: said(first_log, "nothing to do"), "the first one's cycle")
        with running(cluster, "second.log") as second:
            until(lambda: said(cluster.folder / "second.log", "nothing to do"), "the second one's cycle")
            cluster.heat(cluster.nodes[1])
            until(lambda: cluster.marked() == [cluster.nodes[1]], "the second one acts")
            until(lambda: first.poll() is not None, "the first one stops")
            assert first.returncode == 1
            assert second.poll() is None
            until(lambda: len(cluster.told) == 1, "asked for once")
    assert said(first_log, "this process must stop")
    assert len(cluster.tickets()) == 1


@pytest.mark.parametrize("stderr", ["full", "gone"])
def test_a_log_that_cannot_be_written_does_not_stop_it(cluster: World, stderr: str) -> None:
    cluster.write_settings(cycle={"interval": "1s", "deadline": "15s", "coverage_interval": "1m"})
    reading, writing = os.pipe()
    os.close(reading)
    target = os.open("/dev/full", os.O_WRONLY) if stderr == "full" else writing
    clean = {key: value for key, value in os.environ.items() if not key.startswith("QUARANTINE_")}
    env = {**clean, "QUARANTINE_SLACK__TOKEN": TOKEN, "QUARANTINE_DATABASE_URL": cluster.database_url}
    command = [sys.executable, "-m", "quarantine", "run", "--config", str(cluster.config)]
    with subprocess.Popen(command, stderr=target, stdout=target, env=env) as process:
        try:
            cluster.heat(cluster.nodes[6])
            until(lambda: len(cluster.told) == 1, "it works all the same")
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
            for descriptor in {target, writing}:
                os.close(descriptor)


def test_prometheus_goes_and_comes_back(cluster: World) -> None:
    """The process goes on by itself; nothing is done in between."""
    log = cluster.folder / "run.log"
    slow = {"url": cluster.prometheus.url, "timeout": "1s"}
    cluster.write_settings(cycle={"interval": "1s", "deadline": "15s", "coverage_interval": "1m"}, prometheus=slow)
    cluster.heat(cluster.nodes[4])
    cluster.prometheus.pause()
    try:
        with running(cluster) as process:
            until(lambda: said(log, "blind in"), "it says that it is blind")
            assert process.poll() is None
            assert cluster.untouched()
            cluster.prometheus.resume()
            until(lambda: cluster.marked() == [cluster.nodes[4]], "it sees again, and acts")
    finally:
        cluster.prometheus.resume()
    assert not said(log, "Traceback")
