"""Who outranks whom, and what the values become."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from quarantine.core.errors import UsageError
from quarantine.core.model import Mode
from quarantine.settings import Settings, listen_address, load, shipped_policies
from tests.settings.writing import EMPTY, write


def test_nothing_given_observes_with_the_shipped_policies_on_sqlite() -> None:
    settings = load(None, {}, EMPTY)
    assert settings == Settings()
    assert settings.mode is Mode.OBSERVE
    assert settings.policies == (shipped_policies(),)
    assert settings.database_url.get_secret_value() == "sqlite:///quarantine.db"
    assert settings.cycle.interval == timedelta(seconds=15)
    assert settings.prometheus.delay == timedelta(0)
    assert settings.kubernetes.prefix == "quarantine.gpu"
    assert not settings.slack.enabled


def test_the_whole_file(file: Path) -> None:
    write(
        file,
        """\
cluster: fleet-1
mode: enforce
policies: [policies, /etc/more.yaml, ~/own]
database_url: postgresql+psycopg://quarantine@db/quarantine
cycle: {interval: 30s, deadline: 2m, coverage_interval: 10m}
prometheus:
  url: https://thanos.example/api/
  flavour: thanos
  timeout: 45s
  delay: 30s
  bearer_token_file: token
  ca_file: ca.pem
  headers: {X-Route: blue}
kubernetes:
  kubeconfig: kube/config
  context: training
slack:   # in use where a token comes from outside
  channel: "#gpu"
tickets: {kind: directory, directory: out}
log:
  level: DEBUG
  format: json
""",
    )
    write(file.parent / "token", "eyJ0\n")
    settings = load(file, {}, {"HOME": "/home/ops"})
    assert settings.cluster == "fleet-1"
    assert settings.mode is Mode.ENFORCE
    assert settings.policies == (file.parent / "policies", Path("/etc/more.yaml"), Path("/home/ops/own"))
    assert settings.cycle.coverage_interval == timedelta(minutes=10)
    assert settings.prometheus.flavour == "thanos"
    assert settings.prometheus.delay == timedelta(seconds=30)
    assert settings.prometheus.ca_file == file.parent / "ca.pem"
    assert settings.prometheus.bearer_token == SecretStr("eyJ0")
    assert settings.kubernetes.kubeconfig == file.parent / "kube/config"
    assert settings.tickets.directory == file.parent / "out"
    assert (settings.log.level, settings.log.format) == ("debug", "json")
    assert not settings.slack.enabled
    assert load(file, {}, {"QUARANTINE_SLACK__TOKEN": "xoxb-1"}).slack.enabled


def test_ticket_targets_with_the_options_of_their_kinds(file: Path) -> None:
    write(
        file,
        """\
tickets:
  targets:
    repairs:
      kind: github
      repository: acme/repairs
      token_file: token
      templates: letters
      url:
    desk: {kind: email, port: 25, recipients: [a@b.example], ca_file: ~/ca.pem}
    disk: {kind: directory, directory: /srv/out}
  providers: {lab: desk}
  default: repairs
  assets: machines.csv
""",
    )
    tickets = load(file, {}, {"HOME": "/home/ops"}).tickets
    assert {name: target.kind for name, target in tickets.chosen.items()} == {
        "repairs": "github",
        "desk": "email",
        "disk": "directory",
    }
    here = file.parent
    assert tickets.chosen["repairs"].options == {
        "repository": "acme/repairs",
        "token_file": f"{here}/token",
        "templates": f"{here}/letters",
    }, "relative to the file, and nothing is as if it were not written"
    assert tickets.chosen["desk"].options == {
        "port": 25,
        "recipients": ["a@b.example"],
        "ca_file": "/home/ops/ca.pem",
    }
    assert tickets.chosen["disk"].options == {"directory": "/srv/out"}
    assert (tickets.usual, tickets.providers, tickets.assets) == ("repairs", {"lab": "desk"}, here / "machines.csv")


def test_the_short_form_is_one_target_for_everybody(file: Path) -> None:
    tickets = load(write(file, "tickets: {kind: directory, directory: out}\n"), {}, EMPTY).tickets
    assert tickets.chosen["directory"].options == {"directory": str(file.parent / "out")}
    assert tickets.usual == "directory"
    assert load(None, {}, EMPTY).tickets.chosen == {}


def test_the_environment_alone() -> None:
    settings = load(
        None,
        {},
        {
            "PATH": "/bin",
            "QUARANTINE_CLUSTER": "c1",
            "QUARANTINE_MODE": "enforce",
            "QUARANTINE_POLICIES": "/a:/b",
            "QUARANTINE_CYCLE__INTERVAL": "1m",
            "QUARANTINE_PROMETHEUS__VERIFY": "false",
            "QUARANTINE_PROMETHEUS__HEADERS": '{"X-Route": "blue"}',
            "QUARANTINE_PROMETHEUS__USERNAME": "ops",
            "QUARANTINE_PROMETHEUS__PASSWORD": "12345",
            "QUARANTINE_LOG__LEVEL": "Warning",
        },
    )
    assert settings.cluster == "c1"
    assert settings.mode is Mode.ENFORCE
    assert settings.policies == (Path("/a"), Path("/b"))
    assert settings.cycle.interval == timedelta(minutes=1)
    assert settings.prometheus.verify is False
    assert settings.prometheus.headers == {"X-Route": "blue"}
    assert settings.prometheus.password == SecretStr("12345")
    assert settings.log.level == "warning"


def test_options_outrank_environment_outranks_file_outranks_default(file: Path) -> None:
    write(file, "cluster: of-file\nmode: enforce\nprometheus: {timeout: 7s, tenant: of-file, headers: {A: file}}\n")
    environ = {
        "QUARANTINE_CLUSTER": "of-environment",
        "QUARANTINE_PROMETHEUS__TENANT": "of-environment",
        "QUARANTINE_PROMETHEUS__HEADERS": '{"B": "environment"}',
        "QUARANTINE_PROMETHEUS__FLAVOUR": "",
    }
    settings = load(file, {"cluster": "of-option", "mode": None, "prometheus.url": "http://o:1"}, environ)
    assert settings.cluster == "of-option"
    assert settings.mode is Mode.ENFORCE  # None is not given
    assert settings.prometheus.tenant == "of-environment"
    assert settings.prometheus.timeout == timedelta(seconds=7)
    assert settings.prometheus.headers == {"B": "environment"}  # one or the other, never mixed
    assert settings.prometheus.url == "http://o:1"
    assert settings.prometheus.flavour == "prometheus"  # an empty variable counts as not set


def test_which_file_is_read(tmp_path: Path, file: Path) -> None:
    write(Path("quarantine.yaml"), "cluster: here\n")
    named = write(tmp_path / "named.yaml", "cluster: named\n")
    write(file, "cluster: given\n")
    assert load(None, {}, EMPTY).cluster == "here"
    assert load(None, {}, {"QUARANTINE_CONFIG": str(named)}).cluster == "named"
    assert load(file, {}, {"QUARANTINE_CONFIG": str(named)}).cluster == "given"
    assert load(None, {}, {"QUARANTINE_CONFIG": ""}).cluster == "here"


def test_an_empty_file_and_empty_groups_are_defaults(file: Path) -> None:
    beside = Settings(database_url=f"sqlite:///{file.parent / 'quarantine.db'}")
    assert load(write(file, ""), {}, EMPTY) == beside
    assert load(write(file, "prometheus:\nslack: {}\nkubernetes:\n  context:\n"), {}, EMPTY) == beside


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("database_url: sqlite:///led/ger.db\n", "sqlite:///{folder}/led/ger.db"),
        ("database_url: sqlite:////srv/ledger.db\n", "sqlite:////srv/ledger.db"),
        ("database_url: postgresql://u@db/q\n", "postgresql://u@db/q"),
        ("mode: observe\n", "sqlite:///{folder}/quarantine.db"),
    ],
)
def test_an_embedded_ledger_is_relative_to_its_settings(file: Path, text: str, expected: str) -> None:
    settings = load(write(file, text), {}, EMPTY)
    assert settings.database_url.get_secret_value() == expected.format(folder=file.parent)


def test_a_ledger_of_the_environment_or_the_command_line_is_as_given(file: Path) -> None:
    environ = {"QUARANTINE_DATABASE_URL": "sqlite:///here.db"}
    assert load(write(file, ""), {}, environ).database_url.get_secret_value() == "sqlite:///here.db"
    given = load(write(file, ""), {"database_url": "sqlite:///there.db"}, environ)
    assert given.database_url.get_secret_value() == "sqlite:///there.db"


def test_the_models_read_no_environment_by_themselves() -> None:
    assert os.environ["QUARANTINE_MODE"] == "enforce"
    assert Settings().mode is Mode.OBSERVE


def test_settings_do_not_change() -> None:
    settings = load(None, {}, EMPTY)
    changes: list[tuple[object, str, object]] = [
        (settings, "mode", Mode.ENFORCE),
        (settings.prometheus, "url", "http://elsewhere"),
    ]
    for model, name, value in changes:
        with pytest.raises(ValidationError):
            setattr(model, name, value)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("127.0.0.1:9469", ("127.0.0.1", 9469)),
        (":9469", ("", 9469)),
        ("[::1]:1", ("::1", 1)),
        ("pod-1:80", ("pod-1", 80)),
    ],
)
def test_where_metrics_are_served(given: str, read: tuple[str, int]) -> None:
    settings = load(None, {}, {"QUARANTINE_METRICS__LISTEN": given})
    assert listen_address(settings.metrics.listen) == read


@pytest.mark.parametrize(
    "given", ["9469", "host", "host:", "host:0", "host:65536", "http://host:9469", "a b:1", "::1:9"]
)
def test_what_is_no_address_to_listen_on(given: str) -> None:
    with pytest.raises(UsageError, match=r"QUARANTINE_METRICS__LISTEN.*host:port"):
        load(None, {}, {"QUARANTINE_METRICS__LISTEN": given})


def test_metrics_are_served_nowhere_unless_asked_for() -> None:
    assert load(None, {}, EMPTY).metrics.listen == ""


@pytest.mark.parametrize("given", ["-1", "1001", "many"])
def test_how_long_a_policy_is_new(given: str) -> None:
    assert load(None, {}, EMPTY).cycle.settle == 3
    assert load(None, {}, {"QUARANTINE_CYCLE__SETTLE": "0"}).cycle.settle == 0
    with pytest.raises(UsageError, match="QUARANTINE_CYCLE__SETTLE"):
        load(None, {}, {"QUARANTINE_CYCLE__SETTLE": given})


def test_a_list_in_the_environment_is_json() -> None:
    given = {"QUARANTINE_ALERTMANAGER__URLS": '["http://a:9093", "http://b:9093"]'}
    assert load(None, {}, given).alertmanager.urls == ("http://a:9093", "http://b:9093")
    with pytest.raises(UsageError, match=r'QUARANTINE_ALERTMANAGER__URLS is no JSON list; write it as \["one"\]'):
        load(None, {}, {"QUARANTINE_ALERTMANAGER__URLS": "http://a:9093"})


def test_slack_that_calls_in_needs_a_door() -> None:
    with pytest.raises(UsageError, match=r"slack\.signing_secret needs door\.listen"):
        load(None, {}, {"QUARANTINE_SLACK__SIGNING_SECRET": "s"})


def test_the_times_of_a_lease_are_in_order() -> None:
    with pytest.raises(UsageError, match="every must be shorter than renew_within"):
        load(None, {}, {"QUARANTINE_LEADER__RENEW_WITHIN": "20s"})
