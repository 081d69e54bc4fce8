"""Bad input and bad days: one clear sentence, the right exit code, no node touched, work again afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from quarantine.sandbox.kubeapi import Fault
from quarantine.sandbox.postgres import PostgresServer
from tests.e2e.worlds import World

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def odd_prometheus(answer: Answer) -> Iterator[str]:
    """A server on the loopback that answers every request as told."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def say(status: int, body: str, kind: str = "application/json") -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        data = body.encode()
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def hang(handler: BaseHTTPRequestHandler) -> None:
    """Say nothing until the client goes."""
    handler.connection.settimeout(20)
    handler.rfile.read(1)


EMPTY: dict[str, Any] = {"status": "success", "data": {"resultType": "vector", "result": []}}
DAYS: dict[str, tuple[Answer, str]] = {
    "slow": (hang, "within"),
    "html": (say(200, "<html><body>please log in</body></html>", "text/html"), "web page"),
    "422": (
        say(422, json.dumps({"status": "error", "errorType": "execution", "error": "too many samples"})),
        "too many samples",
    ),
    "503": (say(503, "upstream connect error", "text/plain"), "503"),
    "partial": (say(200, json.dumps({**EMPTY, "warnings": ["store gateway 3 is down"]})), "store gateway 3 is down"),
    "partial-victoria": (say(200, json.dumps({**EMPTY, "isPartial": True})), "isPartial"),
    "401": (say(401, "no", "text/plain"), "401"),
    "not-prometheus": (say(200, json.dumps({"hello": "world"})), "without its status"),
}


def sentence(output: str) -> str:
    """The error as it ends on stderr, which must be one line."""
    lines = [line for line in output.splitlines() if line.startswith("quarantine: ")]
    assert len(lines) == 1, output
    assert "Traceback" not in output
    return lines[0]


@pytest.mark.parametrize("day", sorted(DAYS))
def test_prometheus_has_a_bad_day(cluster: World, day: str) -> None:
    answer, said = DAYS[day]
    cluster.heat(cluster.nodes[3])
    with odd_prometheus(answer) as url:
        cluster.write_settings(prometheus={"url": url, "timeout": "1s"})
        result = cluster.run_once()
        assert result.exit_code == 3, result.output
        assert said in sentence(result.stderr)
        assert url in result.stderr
        assert cluster.untouched()
        planned = cluster.quarantine("plan", "--output", "json")
        assert planned.exit_code == 3
        decisions = json.loads(planned.stdout)["decisions"]
        assert decisions == [], "the holds stand since the cycle before"
    cluster.write_settings()
    assert cluster.run_once().exit_code == 0
    assert cluster.marked() == [cluster.nodes[3]], "the next cycle works again"


def test_prometheus_is_down(cluster: World) -> None:
    cluster.heat(cluster.nodes[3])
    cluster.write_settings(prometheus={"url": "http://127.0.0.1:1", "timeout": "1s"})
    planned = cluster.quarantine("plan", "--output", "json")
    decisions = json.loads(planned.stdout)["decisions"]
    assert {(d["verdict"], d["action"], d["held_by"]) for d in decisions} == {("unknown", "judge", "no-answer")}
    result = cluster.run_once()
    assert result.exit_code == 3
    assert "http://127.0.0.1:1" in sentence(result.stderr)
    assert cluster.untouched()
    held = json.loads(cluster.quarantine("status", "--output", "json").stdout)["holds"]
    assert {hold["held_by"] for hold in held} == {"no-answer"}
    cluster.write_settings()
    assert cluster.run_once().exit_code == 0
    assert json.loads(cluster.quarantine("status", "--output", "json").stdout)["holds"] == []
    assert cluster.marked() == [cluster.nodes[3]]


def test_the_kubernetes_api_is_down(cluster: World) -> None:
    cluster.heat(cluster.nodes[3])
    cluster.api.fault = lambda *_: Fault(status=503, body="etcd is unavailable")
    result = cluster.run_once()
    assert result.exit_code == 3
    assert "503" in sentence(result.stderr)
    cluster.api.fault = None
    assert cluster.untouched()
    assert cluster.run_once().exit_code == 0
    assert cluster.marked() == [cluster.nodes[3]]


def test_rights_are_missing_for_the_write(cluster: World) -> None:
    cluster.heat(cluster.nodes[3])
    forbidden = {
        "kind": "Status",
        "status": "Failure",
        "reason": "Forbidden",
        "code": 403,
        "message": "nodes is forbidden: cannot patch",
    }
    cluster.api.fault = lambda method, _: Fault(status=403, body=forbidden) if method == "PATCH" else None
    result = cluster.run_once()
    assert result.exit_code == 3
    assert "cannot patch" in result.stderr
    assert "Traceback" not in result.stderr
    assert cluster.tickets() == [], "nothing is reported that was not taken out"
    assert cluster.slack.messages == []
    cluster.api.fault = None
    assert cluster.untouched()
    waiting = json.loads(cluster.quarantine("status", "--output", "json").stdout)["pending"]
    assert {p["effect"] for p in waiting} == {"mark", "event", "ticket", "notify", "condition"}


def test_the_ledger_is_down_and_nothing_is_done_without_its_record(cluster: World) -> None:
    cluster.heat(cluster.nodes[3])
    with PostgresServer() as postgres:
        url = postgres.database("ledger")
        assert cluster.quarantine("db", "upgrade", "--database-url", url).exit_code == 0
        assert cluster.quarantine("run", "--once", "--mode", "observe", "--database-url", url).exit_code == 0
        postgres.kill()
        result = cluster.quarantine("run", "--once", "--database-url", url)
        assert result.exit_code == 3
        assert "Traceback" not in result.output
        assert cluster.untouched()
        postgres.start()
        assert cluster.quarantine("run", "--once", "--database-url", url).exit_code == 0
        assert cluster.marked() == [cluster.nodes[3]]


def test_a_ledger_that_was_not_migrated_is_refused(cluster: World) -> None:
    with PostgresServer() as postgres:
        result = cluster.quarantine("run", "--once", "--database-url", postgres.database("empty"))
    assert result.exit_code == 3
    assert "quarantine db upgrade" in sentence(result.stderr)


def test_slack_and_tickets_are_down_and_the_node_is_out_all_the_same(cluster: World) -> None:
    cluster.heat(cluster.nodes[3])
    (cluster.folder / "tickets").write_text("a file where a folder should be")
    cluster.write_settings(slack={"channel": "C0TEST", "base_url": "http://127.0.0.1:1/api/"})
    result = cluster.run_once()
    assert result.exit_code == 3
    assert cluster.marked() == [cluster.nodes[3]]
    waiting = json.loads(cluster.quarantine("status", "--output", "json").stdout)["pending"]
    assert {p["effect"] for p in waiting} == {"ticket", "notify"}
    assert "not a directory" in next(p["last_error"] for p in waiting if p["effect"] == "ticket")
    assert next(p["attempts"] for p in waiting if p["effect"] == "notify") == 0, "it waits for the ticket's number"


FAULTS = {
    "tab": ("spec:\n\tx: 1\n", "tab"),
    "duplicate-key": ("kind: Policy\nkind: Policy\n", "kind"),
    "unknown-field": (
        "apiVersion: quarantine.gpu/v1alpha1\nkind: Policy\nmetadata: {name: x}\nspec: {treshold: 7}\n",
        "treshold",
    ),
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_broken_policy_file_is_named_with_its_line_and_stops_no_other(cluster: World, name: str) -> None:
    text, said = FAULTS[name]
    cluster.heat(cluster.nodes[3])
    (cluster.folder / "policies" / "broken.yaml").write_text(text)
    checked = cluster.check_policies()
    assert checked.exit_code == 1
    assert any(
        line.startswith(f"{cluster.folder}/policies/broken.yaml:") and said in line
        for line in checked.stdout.splitlines()
    )
    started = cluster.run_once()
    assert started.exit_code == 0, started.output
    assert not_in_force(cluster, "broken.yaml", "" if name == "unknown-field" else said), "or what is wrong before it"
    assert cluster.marked() == [cluster.nodes[3]]


def not_in_force(cluster: World, file: str, said: str) -> bool:
    """Whether `status` says that nothing of this file is, and why."""
    listed = json.loads(cluster.quarantine("status", "--output", "json").stdout)["broken_files"]
    found = next(one for one in listed if one["file"].endswith(f"/policies/{file}"))
    assert found["in_force_since"] is None
    assert f"{file}:" in found["reason"]
    assert found["reason"] in cluster.quarantine("status").stdout.replace("\n", " ")
    return said in found["reason"]


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        if document["metadata"]["name"] == "gpu-hot":
            change(document["spec"])

    return edit


EDITS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "text-for-a-number": (lambda spec: spec["trigger"].update(above="78"), "'78'"),
    "bad-duration": (lambda spec: spec["trigger"].update({"for": "5 minutes"}), "5 minutes"),
    "contradiction": (lambda spec: spec["recovery"].update(below=90), "contradicts"),
    "unknown-signal": (lambda spec: spec.update(signal="gpu.temprature"), "gpu.temprature"),
}


@pytest.mark.parametrize("name", sorted(EDITS))
def test_a_wrong_policy_is_named_with_its_line(cluster: World, name: str) -> None:
    change, said = EDITS[name]
    cluster.write_policies(edited(change))
    started = cluster.run_once()
    assert started.exit_code == 0, started.output
    assert not_in_force(cluster, "gpu-hot.yaml", said)


def test_bad_promql_is_named_with_its_line(cluster: World) -> None:
    def edit(document: dict[str, Any]) -> None:
        for source in document["spec"].get("sources", []):
            if "expr" in source:
                source["expr"] = "rate(node_infiniband_port_data_received_bytes_total[2m"

    cluster.write_policies(edit)
    cluster.heat(cluster.nodes[3])
    started = cluster.run_once()
    assert started.exit_code == 0, started.output
    assert not_in_force(cluster, "signals.yaml", "PromQL")
    assert not_in_force(cluster, "gpu-hot.yaml", "gpu.temperature")
    assert cluster.untouched()


@pytest.mark.parametrize(
    ("text", "told"), [("kind: Fleet\nspec:\n\tx: 1\n", "policies/fleet.yaml:3:1"), ("", "policies/fleet.yaml:1:1")]
)
def test_without_a_sound_fleet_nothing_starts(cluster: World, text: str, told: str) -> None:
    cluster.heat(cluster.nodes[3])
    (cluster.folder / "policies" / "fleet.yaml").write_text(text)
    for command in ("run", "plan"):
        refused = cluster.quarantine(command, *(["--once"] if command == "run" else []))
        assert refused.exit_code == 2
        assert told in sentence(refused.stderr)
    assert cluster.untouched()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"QUARANTINE_MODES": "enforce"}, "QUARANTINE_MODES"),
        ({"QUARANTINE_MODE": "enforced"}, "mode"),
        ({"QUARANTINE_PROMETHEUS__TIMEOUT": "soon"}, "timeout"),
    ],
)
def test_unknown_and_wrong_environment_is_refused(cluster: World, environment: dict[str, str], said: str) -> None:
    result = cluster.run_once(**environment)
    assert result.exit_code == 2
    assert said.lower() in sentence(result.stderr).lower()


def test_an_unknown_setting_is_refused_with_its_line(cluster: World) -> None:
    cluster.write_settings(promethius={"url": "x"})
    result = cluster.run_once()
    assert result.exit_code == 2
    assert "quarantine.yaml:" in sentence(result.stderr)
    assert "promethius" in result.stderr
