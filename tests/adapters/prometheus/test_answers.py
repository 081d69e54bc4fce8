"""What a server may say, word by word: each has its kind and one sentence that helps."""

from __future__ import annotations

import gzip
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from quarantine.adapters.prometheus import Flavour, PrometheusMetrics, PrometheusSettings
from quarantine.core.model import Answer, Failed, FailureKind, Samples
from tests.adapters.prometheus.standin import Peer, Request, Script, Standin, vector

AT = datetime.fromtimestamp(1_700_000_000, UTC)
TEN = timedelta(seconds=10)
HTML = b"<!DOCTYPE html><html><body>Sign in to continue</body></html>"


def says(body: object, status: str = "200 OK", **headers: str) -> Script:
    return lambda peer, _: peer.reply(body, status, **headers)


def ask(script: Script, **settings: Any) -> Answer:
    with Standin(script) as server, PrometheusMetrics(PrometheusSettings(server.url, **settings)) as metrics:
        return metrics.query("up", at=AT, timeout=TEN)


def failure(script: Script, **settings: Any) -> Failed:
    answer = ask(script, **settings)
    assert isinstance(answer, Failed), answer
    assert answer.query == "up"
    assert answer.detail.startswith("http://127.0.0.1:")
    assert "/api/v1/query " in answer.detail
    assert answer.detail.endswith(".")
    assert "\n" not in answer.detail
    assert "; " in answer.detail  # what, and what to do
    return answer


def error(kind: str, text: str) -> dict[str, str]:
    return {"status": "error", "errorType": kind, "error": text}


# --- Answers ----------------------------------------------------------------------------------------------------------


def test_samples_keep_labels_and_values_as_they_are_measured() -> None:
    answer = ask(
        says(
            vector(
                ({"__name__": "up", "node": "a", "gpu": "0"}, "81.5"),
                ({"node": "b"}, "NaN"),
                ({}, "+Inf"),
                ({"node": "d"}, "-Inf"),
                ({"node": "e"}, "9.223372036854775794e18"),
            )
        )
    )
    assert isinstance(answer, Samples)
    assert answer.query == "up"
    assert [dict(s.labels) for s in answer.samples] == [
        {"node": "a", "gpu": "0"},
        {"node": "b"},
        {},
        {"node": "d"},
        {"node": "e"},
    ]
    values = [s.value for s in answer.samples]
    assert values[0] == 81.5
    assert math.isnan(values[1])
    assert values[2:] == [math.inf, -math.inf, 9.223372036854775794e18]
    assert {s.at for s in answer.samples} == {AT}


def test_an_empty_vector_is_an_answer() -> None:
    assert ask(says(vector())) == Samples((), "up")


def test_infos_are_no_warnings() -> None:
    body = vector(({"node": "a"}, "1")) | {"infos": ["PromQL info: metric might not be a counter"]}
    assert isinstance(ask(says(body)), Samples)


def test_empty_warnings_are_none() -> None:
    assert isinstance(ask(says(vector() | {"warnings": [], "isPartial": False})), Samples)


def test_a_compressed_answer_is_read() -> None:
    body = gzip.compress(json.dumps(vector(({"node": "a"}, "1"))).encode())
    answer = ask(says(body, Content_Encoding="gzip"))
    assert isinstance(answer, Samples)
    assert len(answer.samples) == 1


def test_a_chunked_answer_is_read() -> None:
    def script(peer: Peer, _: Request) -> None:
        body = json.dumps(vector(({"node": "a"}, "1"))).encode()
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:7], body[7:]))
        peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n")

    assert isinstance(ask(script), Samples)


# --- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        ("400 Bad Request", error("bad_data", "parse error: unexpected end of input"), "rejected", "parse error"),
        (
            "422 Unprocessable Entity",
            error("execution", "query processing would load too many samples into memory"),
            "rejected",
            "too many samples",
        ),
        ("422 Unprocessable Entity", error("execution", "err-mimir-max-chunks-per-query"), "rejected", "err-mimir"),
        ("401 Unauthorized", b"no org id\n", "refused", "no org id"),
        ("403 Forbidden", HTML, "refused", "HTTP 403"),
        ("429 Too Many Requests", b"slow down", "unavailable", "slow down"),
        ("500 Internal Server Error", error("internal", "disk full"), "unavailable", "disk full"),
        ("502 Bad Gateway", HTML, "unavailable", "HTTP 502"),
        ("503 Service Unavailable", b"Service Unavailable", "unavailable", "HTTP 503"),
        ("503 Service Unavailable", error("timeout", "query timed out in expression evaluation"), "timeout", "timed"),
        ("504 Gateway Timeout", HTML, "unavailable", "HTTP 504"),
        ("404 Not Found", b"404 page not found", "misconfigured", "404 page not found"),
        ("405 Method Not Allowed", b"", "misconfigured", "HTTP 405"),
        ("414 URI Too Long", HTML, "rejected", "HTTP 414"),
        ("400 Bad Request", HTML, "garbled", "a web page"),
        ("400 Bad Request", b"Client sent an HTTP request to an HTTPS server.", "garbled", "an HTTPS server"),
        ("204 No Content", b"", "garbled", "nothing"),
        ("200 OK", error("bad_data", "unknown function"), "rejected", "unknown function"),
        ("200 OK", error("timeout", "query timed out"), "timeout", "query timed out"),
    ],
)
def test_refusals_have_their_kind_and_the_servers_words(status: str, body: object, kind: str, words: str) -> None:
    failed = failure(says(body, status, Content_Type="text/html" if body is HTML else "application/json"))
    assert failed.kind == kind
    assert words in failed.detail
    assert "<" not in failed.detail


def test_a_redirect_is_not_followed() -> None:
    with Standin(says(vector())) as other:
        failed = failure(says(b"", "302 Found", Location=f"{other.url}/login?state=secret"), username="ops")
        assert failed.kind is FailureKind.MISCONFIGURED
        assert "secret" not in failed.detail
        assert other.connections == 0


# --- Not complete, or not what it should be ---------------------------------------------------------------------------


def test_warnings_make_an_answer_partial() -> None:
    failed = failure(says(vector(({}, "1")) | {"warnings": ["No StoreAPIs matched for this query"]}))
    assert failed.kind is FailureKind.PARTIAL
    assert "No StoreAPIs matched" in failed.detail


def test_is_partial_makes_an_answer_partial() -> None:
    assert failure(says(vector(({}, "1")) | {"isPartial": True})).kind is FailureKind.PARTIAL


def data(**fields: object) -> dict[str, object]:
    return {"status": "success", "data": fields}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (HTML, "a web page"),
        (b"", "nothing"),
        (b"up 1\n", "no JSON"),
        (b'{"status":"success","data":{"resultType":"vector","result":[', "no JSON"),
        (b'{"status": "\xff"}', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        ([], "JSON of another shape"),
        ({}, "without its status"),
        ({"status": "success"}, "without its result"),
        (data(resultType="vector", result=None), "without its result"),
        (data(resultType="matrix", result=[]), "a matrix instead of a vector"),
        (data(resultType="scalar", result=[1_700_000_000, "1"]), "a scalar instead of a vector"),
        (data(resultType="string", result=[1_700_000_000, "x"]), "a string instead of a vector"),
        (data(resultType="vector", result=[7]), "no labels or no value"),
        (data(resultType="vector", result=[{"metric": {}, "value": [1_700_000_000, 1]}]), "no labels or no value"),
        (data(resultType="vector", result=[{"metric": {}, "values": [[1, "1"]]}]), "no labels or no value"),
        (data(resultType="vector", result=[{"metric": {"a": 1}, "value": [1_700_000_000, "1"]}]), "no text"),
        (
            data(resultType="vector", result=[{"metric": {}, "histogram": [1_700_000_000, {"count": "3"}]}]),
            "native histogram",
        ),
        (vector(({}, "hot")), "no number"),
        (vector(({}, "1_0")), "no number"),
        (vector(({}, "1"), at=1_700_000_060), "another time"),
        (vector(({}, "1"), at=math.nan), "another time"),
    ],
)
def test_anything_else_is_garbled(body: object, words: str) -> None:
    failed = failure(says(body, Content_Type="text/html" if body is HTML else "application/json"))
    assert failed.kind is FailureKind.GARBLED
    assert words in failed.detail


def test_a_message_of_any_length_becomes_one_short_line() -> None:
    failed = failure(says(error("bad_data", "no\nsuch\x1b[31m " + "x" * 5000), "400 Bad Request"))
    assert "no such [31m xxx" in failed.detail
    assert len(failed.detail) < 500


def test_secrets_that_come_back_are_masked(tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("eyJ-hidden-token\n")

    def echo(peer: Peer, request: Request) -> None:
        peer.reply(error("bad_data", f"odd header {request.headers}"), "400 Bad Request")

    failed = failure(echo, bearer_token=token, headers={"X-Api-Key": "hidden-key"})
    assert "Bearer ***" in failed.detail
    assert "hidden" not in failed.detail


def test_a_secret_at_the_edge_of_what_is_quoted_is_masked_whole() -> None:
    for padding in range(285, 302):
        body = error("bad_data", "x" * padding + "s3cr3t-t0ken")
        assert "s3" not in failure(says(body, "400 Bad Request"), bearer_token=SecretStr("s3cr3t-t0ken")).detail


# --- Questions --------------------------------------------------------------------------------------------------------


def asked(query: str = "up", at: datetime = AT, **settings: Any) -> Request:
    with Standin(lambda peer, r: peer.reply(vector(({}, "1"), at=float(r.parameters["time"])))) as server:
        with PrometheusMetrics(PrometheusSettings(server.url + "/prom/", **settings)) as metrics:
            assert isinstance(metrics.query(query, at=at, timeout=TEN), Samples)
        (request,) = server.requests
    assert request.path == "/prom/api/v1/query"
    assert request.parameters["query"] == query
    return request


def test_a_question_is_pinned_to_its_time_and_bounded_at_the_server_too() -> None:
    request = asked(at=AT + timedelta(milliseconds=7, microseconds=900))
    assert request.method == "GET"
    assert request.parameters["time"] == "1700000000.007"
    assert 8000 < int(request.parameters["timeout"].removesuffix("ms")) < 10_000


def test_the_settings_bound_the_time_as_well() -> None:
    request = asked(timeout=timedelta(seconds=4))
    assert int(request.parameters["timeout"].removesuffix("ms")) < 4000


def test_a_long_query_goes_into_the_body() -> None:
    request = asked(" or ".join(f'up{{node="n{i} é&+%"}}' for i in range(1000)))
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.url_length == len("/prom/api/v1/query")


@pytest.mark.parametrize(
    ("flavour", "expected"),
    [
        (Flavour.PROMETHEUS, {}),
        (Flavour.THANOS, {"dedup": "true", "partial_response": "false", "max_source_resolution": "0s"}),
        (Flavour.VICTORIAMETRICS, {"deny_partial_response": "1", "nocache": "1"}),
        (Flavour.MIMIR, {}),
    ],
)
def test_each_flavour_is_told_to_fail_rather_than_to_answer_in_part(flavour: Flavour, expected: dict[str, str]) -> None:
    parameters = asked(flavour=flavour).parameters
    assert {k: v for k, v in parameters.items() if k not in {"query", "time", "timeout"}} == expected


def test_tenant_and_headers_are_sent() -> None:
    headers = asked(tenant="gpu-fleet", headers={"X-Route": "blue"}).headers
    assert headers["x-scope-orgid"] == "gpu-fleet"
    assert headers["x-route"] == "blue"
    assert "authorization" not in headers


def test_a_query_that_is_no_text_is_rejected_and_not_sent() -> None:
    with Standin(says(vector())) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        answer = metrics.query('up{node="\ud800"}', at=AT, timeout=TEN)
        assert isinstance(answer, Failed)
        assert answer.kind is FailureKind.REJECTED
        assert server.requests == []
