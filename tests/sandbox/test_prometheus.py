"""The throw-away Prometheus: it comes up, goes down, crashes and comes back, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from quarantine.core.errors import Refused, Unavailable, UsageError
from quarantine.sandbox import prometheus as module
from quarantine.sandbox.ports_free import free_port
from quarantine.sandbox.prometheus import PrometheusServer, ScrapeJob, find_binary
from quarantine.sandbox.remotewrite import Series, write

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def until(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
        pause.wait(0.05)


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_serves_and_is_gone_with_its_data_afterwards() -> None:
    with PrometheusServer() as server:
        pid, url = server.pid, server.url
        assert url.startswith("http://127.0.0.1:")
        assert server.query("vector(7)")[0]["value"][1] == "7"
        flags = requests.get(f"{url}/api/v1/status/flags", timeout=5).json()["data"]
        data = Path(flags["storage.tsdb.path"])
        assert data.is_dir()
        assert flags["query.lookback-delta"] == "5m"
    assert not running(pid)
    assert not data.exists()
    with pytest.raises(UsageError, match="not started"):
        _ = server.url


def test_data_and_port_outlive_a_crash() -> None:
    with PrometheusServer() as server:
        write(server.url, [Series({"__name__": "m"}, [(NOW, 5.0)])])
        url, pid = server.url, server.pid
        server.kill()
        assert not running(pid)
        with pytest.raises(Unavailable, match=r"did not answer .*is it running"):
            server.query("m", NOW)
        server.start()
        assert server.url == url
        assert server.query("m", NOW)[0]["value"][1] == "5"
        with pytest.raises(UsageError, match="runs already"):
            server.start()


def test_a_paused_one_accepts_and_does_not_answer_until_resumed() -> None:
    with PrometheusServer() as server:
        server.pause()
        with pytest.raises(requests.ReadTimeout):
            requests.get(f"{server.url}/-/ready", timeout=0.5)
        server.resume()
        assert requests.get(f"{server.url}/-/ready", timeout=10).status_code == 200
        server.pause()  # and a paused one can be stopped


class _SaysYes(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Quiet."""


@pytest.fixture
def port_of_another() -> Iterator[int]:
    """A server that answers 200 to everything, /-/ready included."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _SaysYes) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_port_that_another_took_first_is_given_up(port_of_another: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = iter([port_of_another, port_of_another])
    monkeypatch.setattr(module, "free_port", lambda: next(ports, None) or free_port())
    with PrometheusServer() as server:
        assert server.url != f"http://127.0.0.1:{port_of_another}"
        assert server.query("vector(1)")


def test_a_port_that_is_always_taken_ends_in_a_sentence(port_of_another: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "free_port", lambda: port_of_another)
    with pytest.raises(Refused, match=r"(?s)ended with status 1 instead of serving .*address already in use"):
        PrometheusServer().start()


def test_a_wrong_rule_file_ends_in_the_logs_tail(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text("groups: 7\n", encoding="utf-8")
    with pytest.raises(Refused, match=r"(?s)Prometheus ended with status .*its log ends:.*rules\.yml"):
        PrometheusServer(rule_files=[rules]).start()


def test_reload_reads_changed_rules_and_says_what_is_wrong(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rule = "groups: [{name: g, rules: [{record: r, expr: vector(3)}]}]\n"
    rules.write_text("groups: []\n", encoding="utf-8")
    with PrometheusServer(rule_files=[rules], evaluation_interval=timedelta(milliseconds=200)) as server:
        rules.write_text(rule, encoding="utf-8")
        server.reload()
        until(lambda: bool(server.query("r")), "the new rule is evaluated")
        rules.write_text("groups: 7\n", encoding="utf-8")
        with pytest.raises(Refused, match=r"/-/reload answered 500"):
            server.reload()
        assert "rules.yml" in server.log


def test_targets_are_followed_without_a_reload() -> None:
    job = ScrapeJob("self")
    with PrometheusServer(jobs=[job], scrape_interval=timedelta(milliseconds=500)) as server:
        assert server.query("up") == []
        target = {"targets": [server.url.removeprefix("http://")], "labels": {"instance": "10.20.0.1:9400"}}
        server.set_targets("self", [target])
        until(lambda: bool(server.query('up{instance="10.20.0.1:9400",job="self"} == 1')), "the target is up")
        with pytest.raises(UsageError, match="no scrape job 'other': self"):
            server.set_targets("other", [])


@pytest.mark.parametrize("how", ["argument", "environment", "nowhere"])
def test_a_missing_binary_is_a_users_error(how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QUARANTINE_SANDBOX_PROMETHEUS", raising=False)
    if how == "argument":
        with pytest.raises(UsageError, match=r"nothing-here \(the binary given\) is no executable"):
            find_binary("prometheus", tmp_path / "nothing-here")
    elif how == "environment":
        monkeypatch.setenv("QUARANTINE_SANDBOX_PROMETHEUS", str(tmp_path / "gone"))
        with pytest.raises(UsageError, match=r"gone \(QUARANTINE_SANDBOX_PROMETHEUS\) is no executable"):
            find_binary()
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(
            UsageError, match=r"no-such-tool was found neither on PATH .* set QUARANTINE_SANDBOX_PROMETHEUS"
        ):
            find_binary("no-such-tool")


def test_the_binary_is_found_by_environment_and_beside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("prometheus", "promtool"):
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("QUARANTINE_SANDBOX_PROMETHEUS", str(tmp_path / "prometheus"))
    assert find_binary() == tmp_path / "prometheus"
    assert find_binary("promtool") == tmp_path / "promtool"


def test_the_binary_is_found_under_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tools = tmp_path / ".tools" / "usr" / "bin"
    tools.mkdir(parents=True)
    (tools / "prometheus").write_text("#!/bin/sh\n", encoding="utf-8")
    (tools / "prometheus").chmod(0o755)
    monkeypatch.delenv("QUARANTINE_SANDBOX_PROMETHEUS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert find_binary() == tools / "prometheus"


_PARENT = """
import signal, sys
from quarantine.sandbox.prometheus import PrometheusServer
server = PrometheusServer()
server.start()
print(server.pid, server._directory, flush=True)
signal.pause()
"""


def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[0])
        assert running(pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    until(lambda: not running(pid), "Prometheus is gone")


def test_it_survives_the_thread_that_started_it() -> None:
    server = PrometheusServer()
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        assert server.query("vector(1)")
    finally:
        server.stop()
