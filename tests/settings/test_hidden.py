"""What of the settings is hidden in the log: secrets, and no word that is a name as well."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import structlog

from quarantine import logs
from quarantine.doctor import Level, Patient
from quarantine.doctor.secrets import check
from quarantine.redaction import HIDDEN
from quarantine.settings import Settings, load
from quarantine.settings.secrets import redactor

LINE = "taking out gpu-east-node-3, quarantine.gpu/suspect=q-1"


def settings(**more: str) -> Settings:
    return load(None, {}, {"QUARANTINE_CLUSTER": "gpu-east", **more})


@pytest.mark.parametrize(
    "given",
    [
        {"QUARANTINE_DATABASE_URL": "postgresql://quarantine:quarantine@db/quarantine"},
        {"QUARANTINE_DATABASE_URL": "postgresql://somebody:somebody@db/trail"},
        {"QUARANTINE_PROMETHEUS__HEADERS": json.dumps({"X-Scope-OrgID": "node-3"})},
        {"QUARANTINE_PROMETHEUS__HEADERS": json.dumps({"X-Api-Key": "gpu-east"})},
    ],
    ids=["our-own", "its-user", "a-tenant", "the-cluster"],
)
def test_a_name_that_is_a_secret_as_well_does_not_blot_out_the_log(given: dict[str, str]) -> None:
    text = f"{LINE} somebody"
    assert redactor(settings(**given)).text(text) == text


def test_other_secrets_are_hidden() -> None:
    given = settings(
        QUARANTINE_DATABASE_URL="postgresql://quarantine:hush-1234@db/quarantine",
        QUARANTINE_PROMETHEUS__HEADERS=json.dumps({"X-Api-Key": "hush-5678", "X-Scope-OrgID": "team-a"}),
    )
    assert redactor(given).text("hush-1234 hush-5678 team-a") == f"{HIDDEN} {HIDDEN} team-a"
    assert list(check(Patient(given, lambda: datetime(2026, 11, 30, tzinfo=UTC)))) == []


def test_what_a_line_is_about_is_never_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    """A secret may be a part of it."""
    given = settings(QUARANTINE_SLACK__TOKEN="gpu-ea", QUARANTINE_PAGERDUTY__ROUTING_KEY="decision")
    logs.set_up("info", "json", redactor(given), {"cluster": given.cluster})
    structlog.get_logger().info("of gpu-east", about="decision", action="release", held_by="decision")
    line = json.loads(capsys.readouterr().err)
    assert (line["cluster"], line["about"], line["held_by"]) == ("gpu-east", "decision", "decision")
    assert line["event"] == f"of {HIDDEN}st"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"QUARANTINE_DATABASE_URL": "postgresql://q:quarantine@db/trail"}, "the password of database_url"),
        ({"QUARANTINE_DATABASE_URL": "postgresql://q:p4ss@db/trail"}, "the password of database_url"),
        ({"QUARANTINE_SLACK__TOKEN": "gpu-east", "QUARANTINE_SLACK__CHANNEL": "C1"}, "slack.token"),
    ],
    ids=["our-own", "short", "the-cluster"],
)
def test_the_doctor_says_what_is_not_hidden(given: dict[str, str], name: str) -> None:
    [found] = check(Patient(settings(**given), lambda: datetime(2026, 11, 30, tzinfo=UTC)))
    assert found.level is Level.WARNING
    assert found.sentence.startswith(f"{name} is ")
