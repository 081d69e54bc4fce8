"""A controller that holds secrets of every sort runs against far sides that echo them: nothing that leaves has one."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import requests

from quarantine.sandbox.desks.github import GitHubDesk
from quarantine.sandbox.ports_free import free_port
from tests.e2e.test_process import running, until
from tests.e2e.worlds import CHANNEL, TOKEN, World
from tests.planted import HEADER, OF_TARGETS, SECRETS, Mirror, leaks

pytestmark = pytest.mark.timeout(300)


def installed(cluster: World, mirror: Mirror, desk: GitHubDesk, listen: str) -> None:
    """Slack, GitHub, Kubernetes and Prometheus work; pagers, charts and the heartbeat's watcher say what they hear."""

    def file(name: str, secret: str) -> str:
        (cluster.folder / name).write_text(f"{secret}\n")
        return name

    cluster.write_settings(
        log={"level": "debug", "format": "json"},
        cycle={"interval": "1s", "deadline": "15s", "coverage_interval": "1m"},
        metrics={"listen": listen},
        prometheus={"url": cluster.prometheus.url, "timeout": "5s", "headers": {"X-Api-Key": HEADER}},
        slack={"channel": CHANNEL, "base_url": cluster.slack.base_url},
        tickets={
            "targets": {
                "repairs": {
                    "kind": "github",
                    "repository": "acme/repairs",
                    "url": desk.url,
                    "token_file": file("github", OF_TARGETS["github"]),
                }
            },
            "default": "repairs",
        },
        pagerduty={"url": mirror.url, "routing_key_file": file("pager", SECRETS["pagerduty.routing_key"])},
        alertmanager={"urls": [mirror.url], "token_file": file("alerts", SECRETS["alertmanager.token"])},
        grafana={"url": mirror.url, "token_file": file("grafana", SECRETS["grafana.token"])},
        heartbeat={"url_file": file("heart", f"{mirror.url}/ping/{SECRETS['heartbeat.url']}"), "every": "1s"},
    )


def outside(cluster: World, desk: GitHubDesk) -> str:
    """All that others keep of us."""
    objects = [cluster.api.list(kind) for kind in ("Node", "Event")]
    return "\n".join([json.dumps(objects), repr(cluster.slack.messages), json.dumps(desk.issues, default=str)])


def recorded(folder: Path) -> str:
    """The whole ledger, every table."""
    with closing(sqlite3.connect(folder / "ledger.db")) as book:
        return "\n".join(book.iterdump())


def asked(cluster: World, node: str) -> str:
    """What every command says that looks."""
    commands = (
        ["status"],
        ["status", "--output", "json"],
        ["explain", node],
        ["explain", node, "--output", "json"],
        ["report"],
        ["audit", "export"],
        ["doctor", "--within", "20s"],
        ["doctor", "--within", "20s", "--output", "json"],
    )
    results = [cluster.quarantine(*command) for command in commands]
    assert all(result.output for result in results)
    return "\n".join(result.output for result in results)


def test_nothing_that_leaves_has_a_secret_and_every_line_of_the_log_is_json(cluster: World) -> None:
    node, listen = cluster.nodes[3], f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        mirror = stack.enter_context(Mirror(500))
        desk = stack.enter_context(GitHubDesk("acme/repairs", OF_TARGETS["github"]))
        installed(cluster, mirror, desk, listen)
        cluster.heat(node)
        with running(cluster) as process:
            until(lambda: len(desk.issues) == 1, "it is reported", 150)
            until(lambda: any(node in one.text for one in cluster.told), "people are told", 60)
            until(lambda: len({one.split(" ")[1].split("?")[0] for one in mirror.heard}) >= 2, "charts and heart", 60)
            served = [requests.get(f"http://{listen}/{path}", timeout=10).text for path in ("metrics", "readyz")]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        said = asked(cluster, node)
        log = (cluster.folder / "run.log").read_text(encoding="utf-8")
        assert SECRETS["heartbeat.url"] in "\n".join(mirror.heard), "it went to its own host"
        for what, text in {
            "the log": log,
            "what others keep": outside(cluster, desk),
            "the ledger": recorded(cluster.folder),
            "what commands say": said,
            "what is served": "\n".join(served),
        }.items():
            assert leaks(text) == [], what
            assert TOKEN not in text, what
    lines = [json.loads(line) for line in log.splitlines()]
    assert all(line["ts"].endswith("Z") and line["level"] and line["event"] for line in lines)
    cycles = [line["cycle"] for line in lines if line.get("about") == "cycle" and line["level"] == "info"]
    assert cycles == sorted(set(cycles)), "one sentence each"
    assert cycles
    of_cases = [line for line in lines if line.get("about") in {"decision", "effect"} and line.get("node") == node]
    assert all(line["case"] and line["cycle"] and line["term"] for line in of_cases)
    rows = [json.loads(line) for line in cluster.quarantine("audit", "export").stdout.splitlines() if line[:1] == "{"]
    numbers = {row["seq"] for row in rows}
    assert {line["decision"] for line in lines if "decision" in line} <= numbers, "each is a row of the trail"
