"""What is refused, and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarantine.settings import Settings, load
from tests.settings.writing import refused, write


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("cluster: a\npromtheus:\n  url: http://a\n", 2, "promtheus is no setting; did you mean prometheus."),
        ("log:\n  level: info\n  fromat: json\n", 3, "log.fromat is no setting; did you mean log.format."),
        ("databaseUrl: sqlite:///x\n", 1, "did you mean database_url."),
        ("channel: '#gpu'\n", 1, "channel is no setting; did you mean slack.channel."),
        ("log:\n  zzz: 1\n", 2, "log.zzz is no setting; there are level, format."),
        ("cycle:\n  interval: 15\n", 2, "cycle.interval: 15 is no duration: write a number with its unit"),
        ("cycle: {interval: 10m}\n", 1, "cycle: coverage_interval may not be shorter than interval."),
        ("mode: on_fire\n", 1, "mode must be observe or enforce."),
        ("\nlog: {level: loud}\n", 2, "log.level must be debug, info, warning or error."),
        ("slack: true\n", 1, "slack must be a mapping of names to values."),
        ("policies: []\n", 1, "policies may not be empty."),
        ("policies: [a, {b: c}]\n", 1, "policies.1 "),
        ("cluster: Fleet One\n", 1, "'Fleet One' is no name"),
        ("prometheus:\n  url: prometheus:9090\n", 2, "prometheus.url is no http or https URL"),
        ("prometheus:\n  url: http://u:secret@h\n", 2, "prometheus.url may hold no credentials"),
        ("prometheus:\n  url: http://h/?a=secret\n", 2, "prometheus.url may not go on after its path"),
        ("prometheus:\n  headers:\n    authorization: secret\n", 1, "headers may hold no credentials"),
        ("prometheus: {tenant: a, headers: {x-scope-orgid: b}}\n", 1, "the tenant is given twice"),
        ("prometheus: {password_file: secret, bearer_token_file: secret, username: a}\n", 1, "give either"),
        ("prometheus: {password_file: secret}\n", 1, "a password needs its username"),
        ("prometheus: {key_file: k}\n", 1, "key_file needs its cert_file"),
        ("cycle:\n  deadline: 10s\n", 2, "prometheus.timeout may not be longer than cycle.deadline, which is 10s."),
        ("kubernetes:\n  prefix: quarantine.gpu/\n", 2, "kubernetes.prefix is no prefix of a label"),
        ("slack:\n  base_url: http://slack.example/api/\n", 2, "would send the token in the clear"),
        ("tickets:\n  kind: directory\n", 1, "go together"),
        ("tickets:\n  targets: [a]\n", 2, "tickets.targets must be a mapping of names to values."),
        ("tickets:\n  targets:\n    acme: email\n", 3, "tickets.targets.acme must be a mapping of names to values."),
        ("tickets:\n  targets:\n    acme:\n      host: a\n", 3, "tickets.targets.acme.kind is missing."),
        ("tickets:\n  targets:\n    Acme Inc: {kind: email}\n  default: a\n", 3, "'Acme Inc' is no name"),
        ("tickets:\n  targets:\n    acme: {kind: email}\n", 1, "name one as the default, or give providers"),
        (
            "tickets:\n  targets:\n    acme: {kind: email}\n  default: acne\n",
            1,
            "tickets: default has the target 'acne', which is not there; there are acme.",
        ),
        (
            "tickets:\n  targets:\n    acme: {kind: email}\n  providers: {lab: ''}\n",
            1,
            "provider 'lab' has the target '', which is not there; there are acme.",
        ),
        (
            "tickets: {kind: directory, directory: a, targets: {b: {kind: c}}, default: b}\n",
            1,
            "is short for one target; beside others write it as",
        ),
        ("tickets:\n  tragets: {}\n", 2, "tickets.tragets is no setting; did you mean tickets.targets."),
        ("database_url: mysql://h/d\n", 1, "is neither Postgres nor SQLite"),
        ("a: 1\na: 2\n", 2, "the key `a` is there twice"),
        ("cluster: yes\n", 1, ""),
    ],
)
def test_a_fault_in_the_file_is_told_with_its_line(file: Path, text: str, line: int, words: str) -> None:
    write(file, text)
    write(file.parent / "secret", "hush-hush\n")
    message = refused(file)
    assert message.startswith(f"{file}:{line}: ")
    assert words in message
    assert "hush" not in message
    assert "secret@" not in message


def test_several_faults_are_counted(file: Path) -> None:
    assert refused(write(file, "one: 1\ntwo: 2\nthree: 3\n")).endswith("(2 more after this one).")


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("QUARANTINE_PROMETHEUS_URL", "did you mean QUARANTINE_PROMETHEUS__URL."),
        ("QUARANTINE_MOOD", "did you mean QUARANTINE_MODE."),
        ("quarantine_mode", "did you mean QUARANTINE_MODE."),
        ("QUARANTINE_PROMETHEUS", "is no setting but a group of them; set its parts"),
        ("QUARANTINE_PROMETHEUS__PORT", "is no setting"),
        ("QUARANTINE_KUBERNETES__SERVICE_HOST", "is no setting"),
        ("QUARANTINE_PORT", "is no setting"),
        ("QUARANTINE_XYZZY", "see the reference"),
        ("QUARANTINE_TESTS", "is no setting"),
        ("QUARANTINE_TICKETS__TARGETS__ACME__TOKEN", "single options of ticket targets have no variables"),
    ],
)
def test_an_unknown_variable_is_refused(variable: str, words: str) -> None:
    message = refused(environ={variable: "9090"})
    assert f"The variable {variable} " in message
    assert words in message


def test_variables_that_are_not_ours_are_left_alone() -> None:
    environ = {
        "QUARANTINE_TEST_KUBECONFIG": "x",
        "QUARANTINE_NODE": "gpu-1",
        "QUARANTINE_CASE": "q-1",
        "QUARANTINE_RUN": "q-1-reset-1",
        "QUARANTINE_SANDBOX_PROMETHEUS": "x",
        # what Kubernetes adds for Services called quarantine and quarantine-metrics
        "QUARANTINE_SERVICE_HOST": "10.0.0.7",
        "QUARANTINE_SERVICE_PORT": "8080",
        "QUARANTINE_SERVICE_PORT_METRICS": "8080",
        "QUARANTINE_PORT": "tcp://10.0.0.7:8080",
        "QUARANTINE_PORT_8080_TCP": "tcp://10.0.0.7:8080",
        "QUARANTINE_PORT_8080_TCP_PROTO": "tcp",
        "QUARANTINE_PORT_8080_TCP_PORT": "8080",
        "QUARANTINE_PORT_8080_TCP_ADDR": "10.0.0.7",
        "QUARANTINE_METRICS_SERVICE_HOST": "10.0.0.8",
        "QUARANTINE_METRICS_PORT_9090_TCP_ADDR": "10.0.0.8",
    }
    assert load(None, {}, environ) == Settings()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"QUARANTINE_MODE": "on"}, "QUARANTINE_MODE must be observe or enforce."),
        ({"QUARANTINE_PROMETHEUS__VERIFY": "perhaps"}, "QUARANTINE_PROMETHEUS__VERIFY must be a valid boolean"),
        ({"QUARANTINE_PROMETHEUS__TIMEOUT": "20"}, "QUARANTINE_PROMETHEUS__TIMEOUT: '20' is no duration"),
        ({"QUARANTINE_PROMETHEUS__HEADERS": "X-A: b"}, "QUARANTINE_PROMETHEUS__HEADERS is no JSON object"),
        ({"QUARANTINE_PROMETHEUS__HEADERS": "[1]"}, "QUARANTINE_PROMETHEUS__HEADERS must be a mapping"),
        ({"QUARANTINE_TICKETS__TARGETS": "acme"}, "QUARANTINE_TICKETS__TARGETS is no JSON object"),
        (
            {"QUARANTINE_TICKETS__TARGETS": '{"acme": {"token": "hush"}}'},
            "QUARANTINE_TICKETS__TARGETS: acme.kind is missing",
        ),
        ({"QUARANTINE_PROMETHEUS__PASSWORD": "x"}, "QUARANTINE_PROMETHEUS__PASSWORD: a password needs its username"),
        ({"QUARANTINE_CYCLE__DEADLINE": "5s"}, "QUARANTINE_CYCLE__DEADLINE: prometheus.timeout may not be longer"),
    ],
)
def test_a_wrong_value_in_the_environment_names_its_variable(environ: dict[str, str], message: str) -> None:
    assert refused(environ=environ).startswith(message)


def test_a_wrong_option_is_named_as_one(file: Path) -> None:
    write(file, "mode: observe\n")
    assert refused(file, {"mode": "loud"}).startswith("--mode must be observe or enforce")
    assert refused(file, {"prometheus.url": "x"}).startswith("--prometheus-url is no http")
    assert "did you mean database_url" in refused(file, {"databas_url": "x"})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for message in (refused(tmp_path / "no.yaml"), refused(environ={"QUARANTINE_CONFIG": str(tmp_path / "no.yaml")})):
        assert message.startswith(f"{tmp_path / 'no.yaml'}:1: ")
        assert "no such file" in message
