"""Grafana's annotations, against the stand-in over HTTP: one for each case, whatever is lost on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from quarantine.adapters.grafana import Grafana, connect
from quarantine.core.annotations import Annotation, Moment
from quarantine.core.errors import AnnotatorRefused, AnnotatorUnavailable
from quarantine.sandbox.desks.grafana import GrafanaDesk
from tests.ledger.samples import NOW

TOKEN = "glsa_very-secret"
ANNOTATION = Annotation(
    "q-1",
    "lab",
    NOW,
    NOW + timedelta(minutes=3),
    "gpu-017 is out of service: it is hot",
    (Moment(NOW, "taken out of service"), Moment(NOW, "ticket GPU-7 at acme: filed", "https://desk.example/GPU-7")),
    ("quarantine", "case:q-1", "cluster:lab", "node:gpu-017"),
)


@pytest.fixture
def desk() -> Iterator[GrafanaDesk]:
    with GrafanaDesk(TOKEN) as running:
        yield running


def adapter(desk: GrafanaDesk, **more: object) -> Grafana:
    return connect({"url": desk.url, "token": SecretStr(TOKEN), **more}, lambda: NOW)


def put(grafana: Grafana, annotation: Annotation) -> str | None:
    """As who does not know whether it is there."""
    return grafana.put(annotation, grafana.find(annotation))


def test_a_case_is_one_region_of_the_organization(desk: GrafanaDesk) -> None:
    ref = put(adapter(desk), ANNOTATION)
    (made,) = desk.regions
    assert ref == str(made.id)
    assert (made.time, made.end) == (int(NOW.timestamp()) * 1000, int(NOW.timestamp() + 180) * 1000)
    assert (made.tags, made.dashboard) == (ANNOTATION.tags, "")
    assert made.text == (
        "<b>gpu-017 is out of service: it is hot</b>"
        "<br>2026-11-29 12:00 UTC taken out of service"
        '<br>2026-11-29 12:00 UTC <a href="https://desk.example/GPU-7" target="_blank" rel="noopener">'
        "ticket GPU-7 at acme: filed</a>"
    )


def test_it_is_changed_where_it_is(desk: GrafanaDesk) -> None:
    grafana = adapter(desk)
    ref = put(grafana, ANNOTATION)
    over = replace(ANNOTATION, until=NOW + timedelta(hours=1), tags=(*ANNOTATION.tags, "phase:released"))
    assert grafana.put(over, ref) == ref
    (made,) = desk.regions
    assert made.end - made.time == 3_600_000
    assert made.tags == over.tags


def test_another_process_finds_it(desk: GrafanaDesk) -> None:
    ref = put(adapter(desk), ANNOTATION)
    assert put(adapter(desk), ANNOTATION) == ref
    assert len(desk.regions) == 1


def test_one_of_another_case_or_cluster_is_not_taken_for_it(desk: GrafanaDesk) -> None:
    for tags in (("quarantine", "case:q-2", "cluster:lab"), ("quarantine", "case:q-1", "cluster:other")):
        put(adapter(desk), replace(ANNOTATION, key=tags[1].partition(":")[2], cluster=tags[2][8:], tags=tags))
    put(adapter(desk), ANNOTATION)
    assert len(desk.regions) == 3


@pytest.mark.parametrize("fault", ["cut-before", "cut-after", "garbled-after", "500"])
def test_exactly_once_though_its_answer_is_lost(desk: GrafanaDesk, fault: str) -> None:
    desk.faults["POST annotations"] = [fault]
    grafana = adapter(desk)
    with pytest.raises(AnnotatorUnavailable):
        put(grafana, ANNOTATION)
    assert put(grafana, ANNOTATION) == "1"
    assert len(desk.regions) == 1


def test_what_somebody_took_away_is_gone(desk: GrafanaDesk) -> None:
    grafana = adapter(desk)
    ref = put(grafana, ANNOTATION)
    desk.remove(1)
    assert grafana.put(ANNOTATION, ref) is None
    assert desk.regions == []


def test_another_404_is_no_word_of_grafanas(desk: GrafanaDesk) -> None:
    with pytest.raises(AnnotatorUnavailable, match="must end where /api begins"):
        connect({"url": f"{desk.url}/grafana", "token": SecretStr(TOKEN)}, lambda: NOW).put(ANNOTATION, "7")
    with pytest.raises(AnnotatorRefused, match="404"):
        put(connect({"url": f"{desk.url}/grafana", "token": SecretStr(TOKEN)}, lambda: NOW), ANNOTATION)


def test_what_comes_from_outside_is_text_and_no_html(desk: GrafanaDesk) -> None:
    evil = "<script>alert(1)</script>\n\u202e&"
    links = ('https://d/"><script>', "javascript:alert(1)", "data:text/html,x")
    moments = tuple(Moment(NOW, evil, url) for url in links)
    put(adapter(desk), replace(ANNOTATION, text=evil, moments=moments))
    text = desk.regions[0].text
    assert "<script" not in text
    assert "javascript:" not in text
    assert "data:text" not in text
    assert text.count("<a ") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt; �&amp;" in text


def test_it_may_be_tied_to_a_dashboard(desk: GrafanaDesk) -> None:
    put(adapter(desk, dashboard="training"), ANNOTATION)
    assert desk.regions[0].dashboard == "training"


def test_a_token_that_is_wrong_or_may_not_is_refused_and_told_nowhere(desk: GrafanaDesk) -> None:
    with pytest.raises(AnnotatorRefused, match="401") as wrong:
        put(adapter(desk, token=SecretStr("glsa_other-secret")), ANNOTATION)
    assert "secret" not in str(wrong.value)
    desk.role = "Viewer"
    with pytest.raises(AnnotatorRefused, match=r"403.*annotations:create"):
        put(adapter(desk), ANNOTATION)
    adapter(desk).check()
    assert desk.regions == []


def test_who_asks_to_wait_says_so(desk: GrafanaDesk) -> None:
    desk.faults["GET annotations"] = ["429"]
    with pytest.raises(AnnotatorUnavailable) as busy:
        adapter(desk).check()
    assert busy.value.retry_after == timedelta(seconds=30)


def test_the_token_never_goes_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="must begin with https"):
        connect({"url": "http://grafana.example", "token": SecretStr(TOKEN)}, lambda: NOW)
    with pytest.raises(AnnotatorRefused, match=r"token of Grafana is empty"):
        put(connect({"url": "https://grafana.example"}, lambda: NOW), ANNOTATION)
