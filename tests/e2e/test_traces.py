"""What the ledger keeps of a signal around the moment of a decision, with all parts in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.record.trace import Trace
from quarantine.ledger.store import open_ledger
from tests.e2e.worlds import STEP, World, uuid


def trail(world: World) -> list[Decision]:
    with open_ledger(world.database_url, "test", now=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as ledger:
        return [row.decision for row in ledger.decisions()]


def state(world: World) -> State:
    with open_ledger(world.database_url, "test", now=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as ledger:
        return ledger.load().state


def taken_out(world: World) -> Decision:
    (made,) = [d for d in trail(world) if d.action is Action.QUARANTINE and d.kind is Kind.DECIDED]
    return made


def trace_of(made: Decision) -> Trace:
    assert made.evidence is not None
    assert made.evidence.trace is not None
    return made.evidence.trace


def test_a_quarantine_keeps_the_samples_around_it(cluster: World) -> None:
    name = cluster.nodes[2]
    cluster.heat(name)
    result = cluster.run_once()
    assert result.exit_code == 0, result.output
    made = taken_out(cluster)
    trace = trace_of(made)
    assert made.evidence is not None
    assert made.node == name
    assert trace.raw
    assert (trace.bound, trace.above, trace.note) == (78.0, True, "")
    assert trace.since == made.evidence.at - timedelta(minutes=5)
    assert trace.query.endswith("[30m]")
    assert uuid(name, 3) in trace.query
    times, values = zip(*trace.points, strict=True)
    # It was written as cool before, a moment earlier: of two series of one GPU the hotter counts, once it is there.
    assert values[-1] == made.evidence.value == 84.0
    assert set(values[1:]) == {84.0}
    assert times[0] < trace.since
    assert made.evidence.at - STEP < times[-1] <= made.evidence.at
    assert max(b - a for a, b in pairwise(times)) <= STEP


def test_the_state_that_later_cycles_reason_from_has_none_of_it(cluster: World) -> None:
    cluster.heat(cluster.nodes[2])
    assert cluster.run_once().exit_code == 0
    assert trace_of(taken_out(cluster)).points
    (case,) = state(cluster).cases.values()
    assert [finding.evidence.trace for finding in case.findings] == [None]


@contextmanager
def passing_on(prometheus: str, odd: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A proxy that passes everything on but the questions for series, which `odd` answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._serve(self.rfile.read(int(self.headers["Content-Length"])))

        def do_GET(self) -> None:
            self._serve(b"")

        def _serve(self, body: bytes) -> None:
            (query,) = parse_qs(body.decode() or urlsplit(self.path).query)["query"]
            if query.endswith("]") or "/query_range" in self.path:
                odd(self)
                return
            kind = {"Content-Type": self.headers.get("Content-Type", "")}
            got = requests.request(self.command, f"{prometheus}{self.path}", data=body, headers=kind, timeout=20)
            self.send_response(got.status_code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(got.content)))
            self.end_headers()
            self.wfile.write(got.content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hangs(handler: BaseHTTPRequestHandler) -> None:
    """Until the client goes."""
    handler.connection.settimeout(20)
    handler.rfile.read(1)


def fails(handler: BaseHTTPRequestHandler) -> None:
    handler.send_error(503, "overloaded")


@pytest.mark.parametrize(("odd", "note"), [(hangs, "Prometheus did not answer in time"), (fails, "HTTP 503")])
def test_a_question_without_an_answer_delays_nothing_and_says_so(
    cluster: World, odd: Callable[[BaseHTTPRequestHandler], None], note: str
) -> None:
    name = cluster.nodes[5]
    cluster.heat(name)
    with passing_on(cluster.prometheus.url, odd) as url:
        cluster.write_settings(prometheus={"url": url, "timeout": "10s"})
        begun = monotonic()
        result = cluster.run_once()
        assert monotonic() - begun < 12, "the series has three seconds, whatever a question may take"
    assert result.exit_code == 0, result.output
    assert cluster.marked() == [name]
    trace = trace_of(taken_out(cluster))
    assert trace.points == ()
    assert note in trace.note
    assert trace.bound == 78.0


def test_a_plan_asks_for_none(cluster: World) -> None:
    """Nothing of it is recorded."""
    cluster.heat(cluster.nodes[1])
    asked = Event()

    def told(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        fails(handler)

    with passing_on(cluster.prometheus.url, told) as url:
        cluster.write_settings(prometheus={"url": url, "timeout": "10s"})
        decisions = cluster.plan()["decisions"]
    assert [d["node"] for d in decisions if d["action"] == "quarantine"] == [cluster.nodes[1]]
    assert not asked.is_set()
    assert not Path(cluster.folder / "ledger.db").exists()
