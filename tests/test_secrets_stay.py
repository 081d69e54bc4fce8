"""Whoever we talk to may fail in any way, and say all that we sent: none of our secrets is in what we say of it.

The log's redaction is the last line of defence, and is switched off here: what an adapter raises, returns or logs has
to be free of secrets by itself.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from quarantine import app, outward
from quarantine.adapters.kube import KubeSettings
from quarantine.adapters.kube import connect as connect_kube
from quarantine.adapters.prometheus import PrometheusMetrics
from quarantine.adapters.tickets.example import FULL
from quarantine.adapters.tickets.web import Web
from quarantine.core.alarms import Alarm, Urgency
from quarantine.core.annotations import Annotation
from quarantine.core.errors import QuarantineError
from quarantine.core.model import Samples
from quarantine.core.series import Grid
from quarantine.core.tickets import Update
from quarantine.doctor import Patient, examine
from quarantine.ledger.store import open_ledger
from quarantine.redaction import Redactor
from quarantine.sandbox.desks.served import Asked, Desk, Said
from quarantine.sandbox.ports_free import free_port
from quarantine.settings import Settings
from quarantine.settings.leaves import LEAVES
from tests.planted import (
    ALL,
    FIRST,
    PROXY,
    SECOND,
    SECRETS,
    Elsewhere,
    Mirror,
    found_in,
    installation,
    leaks,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ALARM = Alarm("quarantine/test/x", Urgency.ERROR, "machines fail together", NOW, "test")
ANNOTATION = Annotation("q-1", "test", NOW, NOW, "gpu-017 is out", (), ("quarantine", "case:q-1"))
Try = Callable[[Settings], object]


def test_every_setting_that_is_a_secret_is_planted() -> None:
    assert {leaf.name for leaf in LEAVES if leaf.is_secret} == set(SECRETS)


@pytest.fixture(autouse=True)
def _undefended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line of defence is not there, and the proxies of this machine are not asked."""
    monkeypatch.setattr(Redactor, "text", lambda _, text: text)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def of_tickets(settings: Settings) -> Iterator[Callable[[], object]]:
    made = outward.desks(settings, app.CLOCK)
    assert made is not None
    for name in made.names():
        desk = made.named(name)
        yield from (
            lambda desk=desk: desk.find("gpu-017-a3"),
            lambda desk=desk: desk.open(FULL),
            lambda desk=desk: desk.read("1"),
            lambda desk=desk: desk.update("1", Update("u-1", "it goes on", close=True)),
        )


def of_people(settings: Settings) -> Iterator[Callable[[], object]]:
    slack, notices = outward.notifier(settings, app.CLOCK), outward.notices(settings, app.CLOCK)
    charts = outward.annotator(settings, app.CLOCK)
    assert slack is not None
    assert notices is not None
    assert charts is not None
    yield from (
        lambda: slack.find("gpu-017-a3"),
        lambda: slack.thread("C0TEST:1700000000.000100"),
        lambda: notices.tell("k", "title", ["line"]),
        lambda: charts.put(ANNOTATION, None),
        lambda: charts.put(ANNOTATION, "7"),
    )
    for pager in outward.pagers(settings, app.CLOCK):
        yield from (lambda pager=pager: pager.fire(ALARM), lambda pager=pager: pager.clear(ALARM))


def of_sight(settings: Settings, stack: ExitStack) -> Iterator[Callable[[], object]]:
    kube, at = settings.kubernetes, NOW - timedelta(minutes=5)
    cluster = stack.enter_context(
        connect_kube(
            kubeconfig=kube.kubeconfig,
            context=None,
            api_timeout=kube.timeout,
            prefix=kube.prefix,
            user_agent="test",
            settings=KubeSettings(watch=False),
        )
    )
    metrics = stack.enter_context(PrometheusMetrics(settings.prometheus.connection()))
    grid = Grid(at, timedelta(minutes=1), 5)
    yield from (
        cluster.nodes,
        cluster.lease("default", "quarantine").read,
        lambda: metrics.query("up", at=NOW, timeout=timedelta(seconds=3)),
        lambda: metrics.query_range("up", grid, timeout=timedelta(seconds=3)),
    )


def beat(settings: Settings) -> None:
    heart = app.heart(settings)
    assert heart is not None
    with heart:
        heart.beat()
        assert heart._sending is not None
        heart._sending.result(10)


def told(settings: Settings, caplog: pytest.LogCaptureFixture) -> str:
    """All that comes of talking to everybody: what is returned, raised (with its causes) and logged; the doctor's."""
    said: list[str] = []
    structlog.reset_defaults()
    with ExitStack() as stack, capture_logs() as logs, caplog.at_level(logging.DEBUG):
        for ask in (*of_tickets(settings), *of_people(settings), *of_sight(settings, stack)):
            try:
                said.append(repr(ask()))
            except QuarantineError as error:
                said += [str(error), *traceback.format_exception(error)]
        beat(settings)
        with Patient(settings, lambda: NOW) as patient:
            said += map(repr, examine(patient, timedelta(seconds=5)))
        quiet = [record for record in caplog.records if not record.name.startswith("urllib3.connectionpool")]
        said += [record.getMessage() + (record.exc_text or "") for record in quiet]
    said += map(repr, logs)
    return "\n".join(said)


@pytest.mark.parametrize(
    ("status", "half"), [(401, FIRST), (422, SECOND), (500, FIRST)], ids=["401-first", "422-second", "500-first"]
)
def test_an_echo_of_what_was_sent_is_told_without_secrets(
    status: int, half: set[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Mirror(status) as mirror:
        text = told(installation(mirror.url, half, tmp_path), caplog)
        heard = "\n".join(mirror.heard)
    assert leaks(text) == []
    if status == 401:
        spoken = {secret for secret in ALL if secret in found_in(heard)}
        of_half = {SECRETS[name] for name in SECRETS if name not in (FIRST | SECOND) - half}
        silent = {SECRETS["database_url"], SECRETS["slack.signing_secret"], SECRETS["slack.app_token"]}
        assert of_half - silent <= spoken, "each went to its own host, or nothing is shown by this"


def test_a_redirect_to_another_host_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Elsewhere() as elsewhere, Mirror(302, elsewhere.url.replace("127.0.0.1", "localhost")) as mirror:
        text = told(installation(mirror.url, FIRST, tmp_path), caplog)
        assert mirror.heard
        assert elsewhere.asked == []
    assert leaks(text) == []


@pytest.mark.parametrize("how", ["nothing listens", "no TLS", "no such name", "no such proxy"])
def test_who_cannot_be_reached_is_told_without_secrets(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = f"http://127.0.0.1:{free_port()}"
    with Mirror(200) as plain:
        urls = {"nothing listens": silent, "no TLS": plain.url.replace("http:", "https:")}
        if how == "no such proxy":
            monkeypatch.setenv("HTTPS_PROXY", silent.replace("://", f"://robot:{PROXY}@"))
        text = told(installation(urls.get(how, "https://nobody.invalid"), FIRST, tmp_path), caplog)
    assert leaks(text) == []


def test_a_database_that_is_away_is_told_without_its_password() -> None:
    for place in (f"127.0.0.1:{free_port()}/q", "nobody.invalid/q"):
        url = f"postgresql+psycopg://quarantine:{SECRETS['database_url']}@{place}?connect_timeout=2"
        with open_ledger(url, "test", now=lambda: NOW) as ledger, pytest.raises(QuarantineError) as raised:
            ledger.load()
        assert leaks("".join(traceback.format_exception(raised.value)) + repr(ledger)) == []


class Parrot(Desk):
    """Answers well, with what it was sent: once as a title, once as the label of a series."""

    def answer(self, asked: Asked) -> Said:
        sent = " ".join(asked.headers.values())
        stamp = float(asked.query["time"]) if "time" in asked.query else 0.0
        data = {"resultType": "vector", "result": [{"metric": {"who": sent}, "value": [stamp, "1"]}]}
        return Said(200, {"status": "success", "data": data, "title": sent}, {"Content-Type": "application/json"})


def test_an_answer_that_will_be_kept_brings_no_secret_back(tmp_path: Path) -> None:
    with Parrot() as parrot:
        settings = installation(parrot.url, SECOND, tmp_path)
        web = Web(parrot.url, lambda: f"Bearer {SECRETS['grafana.token']}", name="x", now=lambda: NOW)
        body = web.call("look").get("/").body
        with PrometheusMetrics(settings.prometheus.connection()) as metrics:
            found = metrics.query("up", at=NOW, timeout=timedelta(seconds=3))
    assert isinstance(found, Samples)
    assert "***" in found.samples[0].labels["who"]
    assert isinstance(body, dict)
    assert "***" in body["title"]
    assert leaks(repr((found, body))) == []
