"""The container's settings, files and ports fit the program that runs in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from quarantine.adapters.policyfiles.loader import check_paths
from quarantine.cli.main import app
from quarantine.core.model import Mode
from quarantine.rulebook import PolicyFiles
from quarantine.scheduler import GRACE_S, LEAVE_S
from quarantine.settings import Settings, listen_address, load
from tests.k8s.conftest import OVERLAYS, ROOT, Manifest, container_of, overlay, pod_of, the

Lay = Callable[[Mapping[str, str]], Path]


def environment(manifests: tuple[Manifest, ...]) -> dict[str, str]:
    """The container's, with what is optional left out."""
    return {e["name"]: e["value"] for e in container_of(manifests)["env"] if "value" in e}


def settings(manifests: tuple[Manifest, ...], folder: Path) -> Settings:
    """As the program reads them; the paths that they name are those in the container."""
    text: str = the(manifests, "ConfigMap", "quarantine-settings")["data"]["quarantine.yaml"]
    (folder / "url").write_text("postgresql://writer:secret@db/quarantine\n")
    here = re.sub(r"(database_url_file:) \S+", rf"\1 {folder}/url", text)
    assert here != text
    (folder / "quarantine.yaml").write_text(here)
    return load(folder / "quarantine.yaml", {}, {k: v for k, v in environment(manifests).items() if "CONFIG" not in k})


@pytest.mark.parametrize(
    ("name", "mode"), [("observe", Mode.OBSERVE), ("enforce", Mode.ENFORCE), ("dev", Mode.OBSERVE)]
)
def test_the_settings_are_read_and_have_the_mode(name: str, mode: Mode, tmp_path: Path) -> None:
    read = settings(overlay(name), tmp_path)
    assert read.mode is mode
    assert read.log.format == "json"


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_path_is_a_mount(name: str) -> None:
    text = the(overlay(name), "ConfigMap", "quarantine-settings")["data"]["quarantine.yaml"]
    given: dict[str, Any] = yaml.safe_load(text)
    mounts = {mount["name"]: mount["mountPath"] for mount in container_of(overlay(name))["volumeMounts"]}
    assert given["policies"] == mounts["policies"]
    volumes = {volume["name"]: volume for volume in pod_of(overlay(name))["spec"]["volumes"]}
    [item] = volumes["database"]["secret"]["items"]
    assert given["database_url_file"] == f"{mounts['database']}/{item['path']}"
    assert item["key"] == "writer", "the owner's password is for the init containers"
    config = environment(overlay(name))["QUARANTINE_CONFIG"]
    assert config == f"{mounts['settings']}/quarantine.yaml"
    for container in pod_of(overlay(name))["spec"]["initContainers"]:
        [variable], [mount] = container["env"], container["volumeMounts"]
        assert variable == {"name": "QUARANTINE_DATABASE_URL_FILE", "value": f"{mount['mountPath']}/url"}
        assert mount["name"] == "owner"


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_command_exists(name: str) -> None:
    for container in [*pod_of(overlay(name))["spec"]["initContainers"], container_of(overlay(name))]:
        here: Any = typer.main.get_command(app)
        words = list(container["args"])
        while hasattr(here, "commands"):
            here = here.commands[words.pop(0)]
        here.make_context(here.name, words)  # raises for an unknown option


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_variable_is_a_setting(name: str) -> None:
    names = [entry["name"] for entry in container_of(overlay(name))["env"] if entry["name"] != "QUARANTINE_CONFIG"]
    values = {"QUARANTINE_MODE": "enforce"}
    load(None, {}, {variable: values.get(variable, "x") for variable in names})  # raises for one that is none


def test_the_port_is_one_port_everywhere(tmp_path: Path) -> None:
    manifests = overlay("observe")
    _, port = listen_address(settings(manifests, tmp_path).metrics.listen)
    [named] = container_of(manifests)["ports"]
    assert named == {"name": "metrics", "containerPort": port}
    service = the(manifests, "Service", "quarantine")
    assert [p["port"] for p in service["spec"]["ports"]] == [port]
    assert service["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    [ingress] = the(manifests, "NetworkPolicy", "quarantine")["spec"]["ingress"]
    assert ingress["ports"] == [{"port": "metrics", "protocol": "TCP"}]


def test_the_network_lets_by_what_the_settings_name(tmp_path: Path) -> None:
    manifests = overlay("dev")
    allowed = {
        port["port"]
        for rule in the(manifests, "NetworkPolicy", "quarantine")["spec"]["egress"]
        for port in rule["ports"]
    }
    read = settings(manifests, tmp_path)
    prometheus = int(read.prometheus.url.rpartition(":")[2])
    assert {53, 443, 6443, 5432, prometheus} == allowed
    [postgres] = the(manifests, "NetworkPolicy", "postgres")["spec"]["ingress"]
    [source] = postgres["from"]
    assert source["podSelector"]["matchLabels"].items() <= pod_of(manifests)["metadata"]["labels"].items()


@pytest.mark.parametrize("name", OVERLAYS)
def test_it_gets_longer_to_end_in_than_it_takes(name: str, tmp_path: Path) -> None:
    """The running step, the thread that renews the Lease, and the request that lets it go."""
    read = settings(overlay(name), tmp_path)
    takes = GRACE_S + read.leader.renew_within.total_seconds() + read.kubernetes.timeout.total_seconds()
    assert takes <= LEAVE_S
    assert pod_of(overlay(name))["spec"]["terminationGracePeriodSeconds"] >= LEAVE_S + 10


def test_the_probes_ask_what_is_served() -> None:
    container = container_of(overlay("observe"))
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}


# --- Policies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["observe", "enforce"])
def test_the_config_map_is_the_policy_files_without_their_tests(name: str) -> None:
    data = the(overlay(name), "ConfigMap", "quarantine-policies")["data"]
    files = {p.name: p.read_text() for p in (ROOT / "policies").glob("*.yaml") if not p.name.endswith("_test.yaml")}
    assert data == files, "policies/Kustomization names each"
    assert sum(map(len, data.values())) < 900_000, "a ConfigMap holds a mebibyte"


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_kubelet_s_mount_of_it_is_read(name: str, mounted: Lay) -> None:
    folder = mounted(the(overlay(name), "ConfigMap", "quarantine-policies")["data"])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    book = PolicyFiles([folder], prefix="quarantine.gpu", now=lambda: now, accepted=tuple)
    in_force = book.read()
    assert not in_force.broken
    assert len(in_force.rules.policies) == len(list((ROOT / "docs/policies").glob("*.md"))) - 1
    pools = [pool.name for pool in in_force.rules.fleet.pools]
    assert pools == (["dev"] if name == "dev" else ["gpu"]), "an overlay's own fleet file is in the shared one's place"


@pytest.mark.parametrize("name", OVERLAYS)
def test_it_never_runs_on_a_machine_that_it_judges(name: str, mounted: Lay) -> None:
    """For each pool, one of the labels by which its machines are known keeps the pod away."""
    affinity = pod_of(overlay(name))["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert len(terms) == 1, "terms are alternatives: with a second one it could run where the first forbids"
    kept_away = {e["key"] for e in terms[0]["matchExpressions"] if e["operator"] == "DoesNotExist"}
    rules = check_paths([mounted(the(overlay(name), "ConfigMap", "quarantine-policies")["data"])])
    assert rules.rules is not None
    for pool in rules.rules.fleet.pools:
        assert kept_away & set(pool.node_selector), f"a machine of pool {pool.name} could carry the controller"


def test_procedures_have_the_right_to_run_where_they_say() -> None:
    documents = yaml.safe_load_all((ROOT / "policies/procedures.yaml").read_text())
    named = {document["spec"]["job"]["namespace"] for document in documents if "job" in document["spec"]}
    roles = [m for m in overlay("enforce") if m["kind"] == "Role" and m["rules"][0]["apiGroups"] == ["batch"]]
    assert {role["metadata"]["namespace"] for role in roles} == named
    spaces = {m["metadata"]["name"]: m["metadata"]["labels"] for m in overlay("enforce") if m["kind"] == "Namespace"}
    for namespace in named:
        assert spaces[namespace]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert spaces["quarantine-system"]["pod-security.kubernetes.io/enforce"] == "restricted"
