"""Checks beside one another: none hides another, none takes for ever, and no secret leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from quarantine.core.errors import ClusterRefused, ClusterUnavailable, UsageError
from quarantine.doctor import Finding, Level, Patient, examine, worst
from quarantine.doctor.finding import Skipped, good, warning
from quarantine.doctor.once import Once
from quarantine.settings import Settings, Target, Tickets

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LONG = timedelta(seconds=20)


def patient(**settings: object) -> Patient:
    return Patient(Settings(**settings), lambda: NOW)  # type: ignore[arg-type]


def fine(_: Patient) -> Iterator[Finding]:
    yield good("fine")


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (ClusterUnavailable("away"), Level.UNREACHABLE),
        (ClusterRefused("no"), Level.FAULT),
        (UsageError("wrong"), Level.FAULT),
        (Skipped("it is away"), Level.NOTE),
        (ZeroDivisionError("a secret"), Level.FAULT),
    ],
)
def test_one_that_fails_hides_neither_another_nor_what_it_found_before(error: Exception, level: Level) -> None:
    def fails(_: Patient) -> Iterator[Finding]:
        yield good("so far")
        raise error

    found = examine(patient(), LONG, [("first", fails), ("second", fine)])
    assert [(f.check, f.level) for f in found] == [
        ("first", Level.GOOD),
        ("first", level),
        ("second", Level.GOOD),
    ]
    assert "a secret" not in found[1].sentence, "what a defect says may hold anything"


def test_one_that_hangs_is_told_with_what_it_had_found() -> None:
    release = threading.Event()

    def hangs(_: Patient) -> Iterator[Finding]:
        yield good("so far")
        release.wait(20)

    found = examine(patient(), timedelta(milliseconds=200), [("slow", hangs), ("second", fine)])
    release.set()
    assert [(f.check, f.level) for f in found] == [
        ("slow", Level.GOOD),
        ("slow", Level.UNREACHABLE),
        ("second", Level.GOOD),
    ]
    assert "200ms" in found[1].sentence


def test_they_wait_beside_one_another() -> None:
    together = threading.Barrier(3, timeout=20)

    def waits(_: Patient) -> Iterator[Finding]:
        together.wait()
        yield good("met")

    found = examine(patient(), LONG, [(name, waits) for name in "abc"])
    assert [f.sentence for f in found] == ["met", "met", "met"]


def test_no_secret_of_the_settings_leaves() -> None:
    target = Target.model_validate({"kind": "x", "auth": {"api_token": "tick-hush"}, "host": "desk.example"})
    given = patient(
        database_url=SecretStr("postgresql://u:data-hush@db/q"),
        slack={"token": "xoxb-hush", "channel": "C0TEST", "app_token": "xapp-hush"},
        prometheus={"headers": {"X-Key": "head-hush"}, "bearer_token": "prom-hush"},
        pagerduty={"routing_key": "page-hush"},
        heartbeat={"url": "https://hc.example/beat-hush"},
        tickets=Tickets(targets={"t": target}, default="t"),
    )
    planted = ["data", "head", "prom", "page", "tick"]

    def tells(_: Patient) -> Iterator[Finding]:
        for name in planted:
            yield warning(f"it said {name}-hush at desk.example", f"not {name}-hush")
        yield warning("xoxb-hush and xapp-hush", "https://hc.example/beat-hush")

    found = examine(given, LONG, [("tells", tells)])
    assert "hush" not in "".join(f.sentence + f.advice for f in found)
    assert found[0].sentence == "it said *** at desk.example"


def test_the_worst_counts() -> None:
    def at(*levels: Level) -> Level:
        return worst(Finding(level, "") for level in levels)

    assert at() is Level.GOOD
    assert at(Level.GOOD, Level.WARNING, Level.NOTE) is Level.WARNING
    assert at(Level.UNREACHABLE, Level.WARNING) is Level.UNREACHABLE
    assert at(Level.FAULT, Level.UNREACHABLE) is Level.FAULT


def test_what_several_need_is_made_once_and_its_error_met_by_all() -> None:
    calls = []

    def make() -> int:
        calls.append(1)
        raise ClusterUnavailable("away")

    once = Once(make)
    for _ in range(2):
        with pytest.raises(ClusterUnavailable, match="away"):
            once()
    assert calls == [1]
