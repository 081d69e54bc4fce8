"""Each check against a real Prometheus, the emulated API server, Slack's stand-in and ticket desks."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from quarantine.doctor import Finding, Level, Patient
from quarantine.doctor import cluster as kubernetes
from quarantine.doctor import prometheus as metrics
from quarantine.sandbox.desks.github import GitHubDesk
from quarantine.sandbox.desks.grafana import GrafanaDesk
from quarantine.sandbox.desks.smtp import Mailbox, MailDesk
from quarantine.sandbox.kubeapi import Rule, User
from quarantine.sandbox.kubeapi.discovery import VERSION
from quarantine.sandbox.kubeapi.faults import Fault
from quarantine.sandbox.remotewrite import write
from quarantine.settings import Settings, load
from tests.adapters.prometheus.standin import Peer, Request, Standin, vector
from tests.doctor.conftest import Examine, of, real_now
from tests.e2e.worlds import World, gauge, node_object

NOWHERE = "http://127.0.0.1:9"
LOOK = Rule(("list", "watch"), ("nodes",))


def acts_as(cluster: World, *rules: Rule) -> None:
    cluster.api.gate.users = (User("quarantine", "t0ken", rules=rules),)
    cluster.kube.write_kubeconfig(cluster.folder / "kubeconfig", user="quarantine")


def settings_of(cluster: World) -> Settings:
    return load(cluster.config, {"database_url": cluster.database_url}, {})


# --- Together ---------------------------------------------------------------------------------------------------------


def test_a_sound_cluster_has_no_fault_and_nothing_is_changed_or_said(cluster: World, examine: Examine) -> None:
    cluster.slack.reset()
    cluster.api.requests.clear()
    found = examine()
    assert {f["level"] for f in found} <= {"good", "note", "warning"}
    assert {f["check"] for f in found if f["level"] == "good"} >= {
        *("policies", "Kubernetes", "Kubernetes rights", "Prometheus", "exporters", "signals", "queries"),
        *("Slack", "tickets", "charts"),
    }
    assert cluster.untouched()
    assert not cluster.slack.messages
    assert not cluster.tickets()
    asked = {(r.method, r.path.strip("/").rpartition("/")[2]) for r in cluster.api.requests}
    assert asked == {("GET", "version"), ("GET", "nodes"), ("POST", "selfsubjectaccessreviews")}
    assert not (cluster.folder / "ledger.db").exists(), "looking makes no ledger"


def test_each_that_is_away_is_told_and_hides_no_other(cluster: World, examine: Examine) -> None:
    cluster.write_settings(
        prometheus={"url": NOWHERE, "timeout": "2s"},
        slack={"channel": "C0TEST", "base_url": f"{NOWHERE}/api/"},
    )
    cluster.kube.write_kubeconfig(cluster.folder / "kubeconfig")
    text = (cluster.folder / "kubeconfig").read_text()
    (cluster.folder / "kubeconfig").write_text(text.replace(f":{cluster.kube.url.rpartition(':')[2]}", ":9"))
    found = examine(exit_code=3, env={"QUARANTINE_DATABASE_URL": "postgresql://u:pw-hush-hush@127.0.0.1:9/q"})
    away = {f["check"] for f in found if f["level"] == "unreachable"}
    assert away == {"Kubernetes", "Prometheus", "ledger", "Slack"}
    assert "not looked at, since Prometheus did not answer" in of(found, "signals")
    assert "not looked at, since the Kubernetes API did not answer" in of(found, "Kubernetes rights")
    assert of(found, "tickets", "good")
    assert "hush" not in str(found)


def test_where_something_is_away_and_something_wrong_somebody_must_change_it(cluster: World, examine: Examine) -> None:
    acts_as(cluster, LOOK)
    cluster.write_settings(prometheus={"url": NOWHERE, "timeout": "2s"})
    levels = {f["level"] for f in examine(exit_code=1)}
    assert {"fault", "unreachable"} <= levels


# --- Policies ---------------------------------------------------------------------------------------------------------


def test_a_broken_policy_file_is_told_at_its_place_and_the_others_are_judged(cluster: World, examine: Examine) -> None:
    file = cluster.folder / "policies" / "gpu-hot.yaml"
    file.write_text("kind: Policy\nfoo: [")
    found = examine(exit_code=1)
    assert f"{file}:2:7: " in of(found, "policies", "fault")
    assert "2 of 2 policies find series" in of(found, "queries", "good")


def test_without_a_fleet_nothing_that_goes_by_it_is_looked_at(cluster: World, examine: Examine) -> None:
    (cluster.folder / "policies" / "fleet.yaml").unlink()
    found = examine(exit_code=1)
    assert "no document of kind Fleet" in of(found, "policies", "fault")
    assert "3 nodes are listed" in of(found, "Kubernetes", "good")
    assert "no sound policies" in of(found, "signals", "note")
    cluster.write_policies()


def test_enforcing_without_a_policy_that_acts_is_told(cluster: World, examine: Examine) -> None:
    def only_observe(document: dict[str, Any]) -> None:
        if document["kind"] == "Policy":
            document["spec"]["mode"] = "observe"

    cluster.write_policies(only_observe)
    assert "no policy does: nothing is acted on" in of(examine("policies"), "policies", "warning")


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def test_a_missing_right_is_told_by_what_does_not_work_without_it(cluster: World, examine: Examine) -> None:
    acts_as(cluster, LOOK, Rule(("list",), ("pods",)), Rule(("patch",), ("nodes",)))
    found = examine("Kubernetes rights", exit_code=1)
    faults = of(found, "Kubernetes rights", "fault")
    assert "the right to create pods/eviction; without it no drain goes on" in faults
    assert "create, get, list, delete jobs.batch in namespace quarantine" in faults
    assert "patch nodes;" not in faults
    assert "patch nodes/status" in of(found, "Kubernetes rights", "warning")
    assert "leases" not in faults, "no replica is elected here"


def test_an_account_that_may_only_look_is_enough_to_observe(cluster: World, examine: Examine) -> None:
    acts_as(cluster, LOOK)
    cluster.write_settings(mode="observe")
    found = examine("Kubernetes rights")
    assert not of(found, "Kubernetes rights", "fault")
    assert "not needed to observe: the right to list pods; patch nodes" in of(found, "Kubernetes rights", "note")


def test_a_policy_that_looks_at_jobs_needs_to_see_pods_also_to_observe(cluster: World, examine: Examine) -> None:
    def by_job(document: dict[str, Any]) -> None:
        if document["kind"] == "Policy":
            document["spec"]["correlation"] = {"by": ["job"], "within": "15m"}

    cluster.write_policies(by_job)
    acts_as(cluster, LOOK)
    cluster.write_settings(mode="observe")
    assert "list pods" in of(examine("Kubernetes rights", exit_code=1), "Kubernetes rights", "fault")


def test_who_leads_is_told(cluster: World) -> None:
    cluster.write_settings(leader={"elect": True, "namespace": "default"})

    def told() -> Finding:
        with Patient(settings_of(cluster), real_now) as patient:
            (found,) = kubernetes.check_leader(patient)
            return found

    assert told().level is Level.WARNING
    assert "nobody holds the Lease default/quarantine-controller" in told().sentence
    spec = {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "leaseTransitions": 2}
    for age, level, said in ((2, Level.GOOD, "pod-1 leads"), (600, Level.WARNING, "has not renewed it for 10m")):
        at = (real_now() - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        meta = {"name": "quarantine-controller", "namespace": "default"}
        cluster.api.create({"kind": "Lease", "metadata": meta, "spec": {**spec, "renewTime": at, "acquireTime": at}})
        found = told()
        cluster.api.delete("Lease", "quarantine-controller", "default")
        assert found.level is level
        assert said in found.sentence


def test_a_pool_without_nodes_is_told(cluster: World, examine: Examine) -> None:
    def elsewhere(document: dict[str, Any]) -> None:
        if document["kind"] == "Fleet":
            pool = document["spec"]["pools"][0]
            document["spec"]["pools"] = [{**deepcopy(pool), "name": "mistyped", "nodeSelector": {"gpu": "H1OO"}}, pool]

    cluster.write_policies(elsewhere)
    assert "no node is in pool mistyped" in of(examine("Kubernetes"), "Kubernetes", "warning")


@pytest.mark.parametrize(
    ("ahead", "level"), [(0, Level.GOOD), (12, Level.WARNING), (-12, Level.WARNING), (90, Level.FAULT)]
)
def test_the_api_servers_clock_is_compared_with_ours(cluster: World, ahead: int, level: Level) -> None:
    def dated(method: str, path: str) -> Fault | None:
        if path.strip("/") != "version":
            return None
        date = format_datetime(real_now() + timedelta(seconds=ahead), usegmt=True)
        return Fault(status=200, body=VERSION, headers={"Date": date})

    cluster.api.fault = dated
    with Patient(settings_of(cluster), real_now) as patient:
        found = list(kubernetes.check(patient))
    assert about_clocks(found).level is level
    assert ("behind" if ahead < 0 else "ahead of" if ahead else "agrees") in about_clocks(found).sentence


def about_clocks(found: list[Finding]) -> Finding:
    (one,) = (f for f in found if "the clock of" in f.sentence)
    return one


# --- Prometheus -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "level"), [(0, Level.GOOD), (12, Level.WARNING), (90, Level.FAULT)])
def test_prometheus_clock_is_compared_with_ours(cluster: World, late: int, level: Level) -> None:
    with Patient(settings_of(cluster), lambda: real_now() - timedelta(seconds=late)) as patient:
        found = about_clocks(list(metrics.check(patient)))
    assert found.level is level, found


def test_a_retention_that_is_shorter_than_a_policy_looks_back_is_a_fault(cluster: World) -> None:
    def forgetful(peer: Peer, request: Request) -> None:
        if request.path.endswith("/query"):
            seconds = real_now().timestamp()
            peer.reply(vector(({}, str(seconds)), at=seconds))
        else:
            peer.reply({"status": "success", "data": {"storageRetention": "30m", "version": "3.5.0"}})

    with Standin(forgetful) as server:
        cluster.write_settings(prometheus={"url": server.url, "timeout": "5s"})
        with Patient(settings_of(cluster), real_now) as patient:
            found = list(metrics.check(patient))
    (told,) = (f for f in found if "samples are kept" in f.sentence)
    assert told.level is Level.FAULT
    assert "kept for 30m, and policy nvlink-errors looks back 1h" in told.sentence
    assert "version 3.5.0" in found[0].sentence


def test_samples_that_came_long_ago_are_told_with_their_age(cluster: World) -> None:
    """The world's samples go on for three minutes; and then there are none."""
    settings = settings_of(cluster)
    for later, level, said in (
        (timedelta(minutes=6), Level.WARNING, "is taken for unknown"),
        (timedelta(minutes=30), Level.WARNING, "and has none now"),
        (timedelta(hours=3), Level.NOTE, "no sample of: dcgm-exporter"),
    ):
        start = real_now()
        with Patient(settings, lambda by=later: real_now() + by) as patient:  # type: ignore[misc]
            found = list(metrics.check_exporters(patient))
        assert real_now() - start < timedelta(minutes=1)
        assert any(f.level is level and said in f.sentence for f in found), (later, found)


def test_versions_are_told_by_build_info(cluster: World) -> None:
    series = gauge("node_exporter_build_info", cluster.nodes[0], 0, 1.0)
    other = gauge("node_exporter_build_info", cluster.nodes[1], 0, 1.0)
    versions = ("1.8.2", "1.9.0")
    labelled = [
        replace(one, labels={**one.labels, "version": version})
        for one, version in zip((series, other), versions, strict=True)
    ]
    write(cluster.prometheus.url, labelled)
    with Patient(settings_of(cluster), real_now) as patient:
        found = list(metrics.check_exporters(patient))
    assert any("node_exporter 1.8.2 (1), 1.9.0 (1)" in f.sentence for f in found), found


def test_nodes_without_a_signal_are_counted_by_pool_and_named(cluster: World, examine: Examine) -> None:
    name = f"{cluster.name}-dark"
    cluster.api.create(node_object(name, 9))
    found = of(examine("signals"), "signals", "warning")
    cluster.api.delete("Node", name)
    assert f"gpu.temperature: pool gpu 3 of 4 nodes; without it: {name}" in found


def test_a_policy_that_acts_and_sees_nothing_is_a_fault_and_one_that_observes_a_warning(
    cluster: World, examine: Examine
) -> None:
    def mistyped(document: dict[str, Any]) -> None:
        if document["kind"] == "Signal" and document["metadata"]["name"] == "gpu.temperature":
            for source in document["spec"]["sources"]:
                source["metrics"] = [f"{metric}X" for metric in source.get("metrics", [])] or ["Y"]
                source.pop("expr", None)

    cluster.write_policies(mistyped)
    told = of(examine("queries", exit_code=1), "queries", "fault")
    assert "fault: policy gpu-hot sees nothing" in told

    def observed(document: dict[str, Any]) -> None:
        mistyped(document)
        if document["kind"] == "Policy":
            document["spec"]["mode"] = "observe"

    cluster.write_policies(observed)
    assert "sees nothing" in of(examine("queries"), "queries", "warning")


def test_scrapes_that_are_rarer_than_the_signal_says_are_told(cluster: World, examine: Examine) -> None:
    def impatient(document: dict[str, Any]) -> None:
        if document["kind"] == "Signal" and document["metadata"]["name"] == "gpu.temperature":
            document["spec"]["interval"] = "5s"

    cluster.write_policies(impatient)
    told = of(examine("queries", exit_code=1), "queries", "fault")
    assert "has a value every 15s and not, as the signal says, every 5s" in told
    assert "write `interval: 15s`" in told


# --- Slack ------------------------------------------------------------------------------------------------------------


def test_a_token_that_is_not_taken(cluster: World, examine: Examine) -> None:
    found = examine("Slack", exit_code=1, env={"QUARANTINE_SLACK__TOKEN": "xoxb-mistyped-hush"})
    assert "invalid_auth" in of(found, "Slack", "fault")
    assert "hush" not in str(found)


def test_each_channel_is_looked_at_also_those_of_routes(cluster: World, examine: Examine) -> None:
    def routed(document: dict[str, Any]) -> None:
        if document["kind"] == "Fleet":
            document["spec"]["routes"] = [{"pool": "gpu", "channel": "C0STRANGE"}]

    cluster.write_policies(routed)
    found = examine("Slack", exit_code=1)
    assert "channel C0TEST can be read" in of(found, "Slack", "good")
    assert "channel C0STRANGE" in of(found, "Slack", "fault")


def test_what_is_heard_by_needs_the_apps_token(cluster: World, examine: Examine) -> None:
    found = examine("Slack", exit_code=1, env={"QUARANTINE_SLACK__APP_TOKEN": "xapp-mistyped-hush"})
    assert "Slack tells who people are" in of(found, "Slack", "good")
    assert "Socket Mode" in of(found, "Slack", "fault")
    assert "hush" not in str(found)


def test_half_of_slacks_settings_is_a_fault_and_none_is_not(cluster: World, examine: Examine) -> None:
    cluster.write_settings(slack={"base_url": cluster.slack.base_url})
    assert "there is no channel" in of(examine("Slack", exit_code=1), "Slack", "fault")
    assert "no token and channel" in of(examine("Slack", env={"QUARANTINE_SLACK__TOKEN": ""}), "Slack", "note")


# --- Tickets ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def desks() -> Iterator[tuple[GitHubDesk, MailDesk]]:
    with GitHubDesk("acme/repairs", "ghp-right-hush") as github, MailDesk(Mailbox()) as mail:
        yield github, mail


@pytest.mark.parametrize(("token", "level"), [("ghp-right-hush", "good"), ("ghp-wrong-hush", "fault")])
def test_each_target_is_asked_for_a_ticket_that_cannot_be(
    cluster: World, examine: Examine, desks: tuple[GitHubDesk, MailDesk], token: str, level: str
) -> None:
    github, mail = desks
    (cluster.folder / "github-token").write_text(token)
    cluster.write_settings(
        tickets={
            "targets": {
                "repairs": {
                    "kind": "github",
                    "repository": "acme/repairs",
                    "url": github.url,
                    "token_file": str(cluster.folder / "github-token"),
                },
                "desk": {
                    "kind": "email",
                    "host": "127.0.0.1",
                    "port": mail.port,
                    "security": "none",
                    "sender": "quarantine@lab.example",
                    "recipients": ["rma@nordic.example"],
                },
                "broken": {"kind": "jira", "mistyped": 1},
            },
            "providers": {"nobody": "desk"},
        }
    )
    found = examine("tickets", exit_code=1)
    assert "target repairs (github)" in of(found, "tickets", level)
    assert "target broken (jira)" in of(found, "tickets", "fault")
    assert "target desk (email): it is reached, and lets us in" in of(found, "tickets", "good")
    assert not mail.box.taken
    warned = of(found, "tickets", "warning")
    assert "no target takes the tickets of: provider" in warned
    assert "no provider of the fleet file: nobody" in warned
    assert "no provider of the fleet uses: broken, desk, repairs" in warned
    assert "hush" not in str(found)


# --- Alarms -----------------------------------------------------------------------------------------------------------


def test_grafana_is_asked_with_the_token_and_nothing_is_made(cluster: World, examine: Examine) -> None:
    assert "not annotated" in of(examine("Grafana"), "Grafana", "note")
    with GrafanaDesk("glsa_hush", role="Viewer") as desk:
        cluster.write_settings(grafana={"url": desk.url})
        given = {"QUARANTINE_GRAFANA__TOKEN": "glsa_hush"}
        assert "Grafana takes the token" in of(examine("Grafana", env=given), "Grafana", "good")
        assert {asked.method for asked in desk.asked} == {"GET"}
        wrong = examine("Grafana", env={"QUARANTINE_GRAFANA__TOKEN": "other-hush"}, exit_code=1)
        assert "401" in of(wrong, "Grafana", "fault")
        assert "hush" not in str(wrong)
    away = examine("Grafana", env=given, exit_code=3)
    assert "could not look for an annotation with Grafana" in of(away, "Grafana", "unreachable")


def test_that_nobody_is_woken_matters_once_machines_are_taken_out(cluster: World, examine: Examine) -> None:
    assert "nobody is woken" in of(examine("alarms"), "alarms", "warning")
    cluster.write_settings(mode="observe")
    assert "nobody is woken" in of(examine("alarms"), "alarms", "note")
    secrets = {
        "QUARANTINE_PAGERDUTY__ROUTING_KEY": "0123456789abcdef0123456789abcdef",
        "QUARANTINE_HEARTBEAT__URL": "https://hc.example/beat-hush",
    }
    told = of(examine("alarms", env=secrets), "alarms", "good")
    assert "PagerDuty is configured" in told
    assert "a heartbeat is configured" in told
    assert "hush" not in told
