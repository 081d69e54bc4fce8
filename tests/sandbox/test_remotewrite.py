"""Remote write: the bytes, and what a real Prometheus makes of them."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from quarantine.core.errors import Refused, Unavailable
from quarantine.sandbox.notation import series
from quarantine.sandbox.ports_free import free_port
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import STALE, STALE_BITS, Series, masked, snappy, varint, write

START = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        yield server


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (-1, "ffffffffffffffffff01")],
)
def test_varint(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_snappy_is_a_length_and_one_literal() -> None:
    assert snappy(b"") == b"\x00"
    assert snappy(b"abc") == b"\x03\xfc\x02\x00\x00\x00abc"
    assert snappy(b"x" * 300) == b"\xac\x02\xfc\x2b\x01\x00\x00" + b"x" * 300


def test_the_stale_marker_has_prometheus_bits() -> None:
    assert STALE_BITS == 0x7FF0000000000002
    assert struct.pack("<d", STALE) == STALE_BITS.to_bytes(8, "little")


def value_at(server: PrometheusServer, promql: str, at: datetime) -> dict[str, float]:
    return {item["metric"].get("i", ""): float(item["value"][1]) for item in server.query(promql, at)}


def test_history_is_queried_at_its_own_time(prometheus: PrometheusServer) -> None:
    sent = write(
        prometheus.url,
        [
            series({"__name__": "history", "i": "a", "empty": ""}, "60+1x10", start=START, interval=MINUTE),
            series({"i": "b", "__name__": "history"}, "84x10", start=START, interval=MINUTE),
        ],
    )
    assert sent == 22
    assert value_at(prometheus, "history", START + 3 * MINUTE) == {"a": 63, "b": 84}
    assert value_at(prometheus, "max_over_time(history[3m])", START + 5 * MINUTE) == {"a": 65, "b": 84}
    assert value_at(prometheus, "history", START - MINUTE) == {}
    labels = prometheus.query("history", START)[0]["metric"]
    assert sorted(labels) == ["__name__", "i"]


def test_a_stale_marker_ends_a_series_at_once_and_a_gap_does_not(prometheus: PrometheusServer) -> None:
    write(
        prometheus.url,
        [
            series({"__name__": "ends", "i": "stale"}, "1 1 stale", start=START, interval=MINUTE),
            series({"__name__": "ends", "i": "gap"}, "1 1 _", start=START, interval=MINUTE),
        ],
    )
    assert value_at(prometheus, "ends", START + 1 * MINUTE) == {"stale": 1, "gap": 1}
    assert value_at(prometheus, "ends", START + 2 * MINUTE) == {"gap": 1}
    assert value_at(prometheus, "ends", START + 7 * MINUTE) == {}
    # The marker is no sample, and an ordinary NaN is one.
    assert value_at(prometheus, "count_over_time(ends[3m])", START + 2 * MINUTE) == {"stale": 2, "gap": 2}
    write(prometheus.url, [series({"__name__": "ends", "i": "nan"}, "1 1 NaN", start=START, interval=MINUTE)])
    assert value_at(prometheus, "count_over_time(ends{i='nan'}[3m])", START + 2 * MINUTE) == {"nan": 3}


def test_extreme_values_and_labels_arrive_unchanged(prometheus: PrometheusServer) -> None:
    odd = 'quote " backslash \\ newline \n accent é'
    extremes = [9223372036854775794.0, -0.0, 5e-324, 1.7976931348623157e308, float("inf")]
    samples = [(START + n * MINUTE, value) for n, value in enumerate(extremes)]
    write(prometheus.url, [Series({"__name__": "extreme", "text": odd}, samples)])
    for at, value in samples:
        (item,) = prometheus.query("extreme", at)
        assert item["metric"]["text"] == odd
        assert float(item["value"][1]) == value


def test_thousands_of_series_over_hours_go_in_order_of_time() -> None:
    """Five hours is more than the head accepts out of order: series by series, all but the first would be refused."""
    count, steps = 3_000, 60
    every = timedelta(minutes=5)
    samples = [(START + n * every, float(n)) for n in range(steps + 1)]
    fleet = (Series({"__name__": "many", "i": str(i)}, samples) for i in range(count))
    with PrometheusServer(out_of_order=timedelta(milliseconds=1)) as server:
        assert write(server.url, fleet, batch=20_000) == count * (steps + 1)
        for step in (0, 30, steps):
            (item,) = server.query(f"count(many == {step})", START + step * every)
            assert item["value"][1] == str(count)
        assert "out of" not in server.log


def test_older_history_is_accepted_after_newer(prometheus: PrometheusServer) -> None:
    late = START + timedelta(days=2)
    write(prometheus.url, [Series({"__name__": "past"}, [(late, 2.0)])])
    write(prometheus.url, [Series({"__name__": "past"}, [(START, 1.0)])])
    assert value_at(prometheus, "past", START) == {"": 1}
    assert value_at(prometheus, "past", late) == {"": 2}


def test_milliseconds_are_as_good_as_datetimes(prometheus: PrometheusServer) -> None:
    ms = int(START.timestamp() * 1000)
    write(prometheus.url, [Series({"__name__": "ms"}, [(ms, 1.0), (ms + 500, 2.0)])])
    assert value_at(prometheus, "ms", START + timedelta(milliseconds=400)) == {"": 1}
    assert value_at(prometheus, "ms", START + timedelta(milliseconds=500)) == {"": 2}


def test_a_time_without_a_zone_is_a_mistake(prometheus: PrometheusServer) -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        write(prometheus.url, [Series({"__name__": "m"}, [(START.replace(tzinfo=None), 1.0)])])


def test_what_prometheus_refuses_is_told_with_its_words(prometheus: PrometheusServer) -> None:
    newest = START + timedelta(days=20)
    write(prometheus.url, [Series({"__name__": "twice"}, [(newest, 1.0)])])
    with pytest.raises(Refused, match=r"/api/v1/write answered 400: .*duplicate sample"):
        write(prometheus.url, [Series({"__name__": "twice"}, [(newest, 2.0)])])
    assert value_at(prometheus, "twice", newest) == {"": 1}


class _Scripted(BaseHTTPRequestHandler):
    status = 500

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"no luck")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Quiet."""


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (500, Unavailable, "answered 500: no luck"),
        (404, Refused, "answered 404: no luck .*--web.enable-remote-write-receiver"),
        (401, Refused, "answered 401"),
    ],
)
def test_errors_name_the_url_and_hide_its_password(
    status: int, error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Scripted, "status", status)
    with HTTPServer(("127.0.0.1", 0), _Scripted) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        with pytest.raises(error, match=says) as caught:
            write(f"http://writer:hunter2@127.0.0.1:{server.server_port}", [Series({"__name__": "m"}, [(START, 1.0)])])
        server.shutdown()
        thread.join()
    assert "hunter2" not in str(caught.value)
    assert f"127.0.0.1:{server.server_port}/api/v1/write" in str(caught.value)


def test_nobody_there_is_unavailable_and_leaks_nothing() -> None:
    with pytest.raises(Unavailable, match="is Prometheus running there") as caught:
        write(f"http://writer:hunter2@127.0.0.1:{free_port()}", [Series({"__name__": "m"}, [(START, 1.0)])])
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_masked() -> None:
    assert masked("http://u:p@h:1/x?token=t") == "http://***@h:1/x"
    assert masked("http://h:1/x") == "http://h:1/x"
