"""What every overlay must keep to: the schemas, the hardening, and references that lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest

from quarantine import __version__
from tests.k8s.conftest import OVERLAYS, Manifest, overlay, pod_of, rendered, the

# From a release that is still in use to the newest that the schemas know.
VERSIONS = ("1.29", "1.33", kubernetes_validate.latest_version())
GIVEN_BY_PEOPLE = {"quarantine-database", "quarantine-slack", "quarantine-prometheus"}  # docs/install.md


def pods(manifests: tuple[Manifest, ...]) -> Iterator[tuple[str, Manifest]]:
    for manifest in manifests:
        if manifest["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job"}:
            yield f"{manifest['kind']}/{manifest['metadata']['name']}", manifest["spec"]["template"]


def containers(pod: Manifest) -> list[dict[str, Any]]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OVERLAYS)
def test_each_document_fits_its_schema(name: str, version: str) -> None:
    for manifest in overlay(name):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_slip_would_be_found() -> None:
    slip = dict(the(overlay("observe"), "Deployment", "quarantine"))
    slip["spec"] = {**slip["spec"], "replica": 2}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(slip, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_object_is_there_once_and_has_a_namespace(name: str) -> None:
    keys = [(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in overlay(name)]
    assert len(keys) == len(set(keys))
    for kind, namespace, called in keys:
        cluster_wide = kind in {"Namespace", "ClusterRole", "ClusterRoleBinding"}
        assert (namespace is None) == cluster_wide, f"{kind} {called}"


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_pod_is_confined(name: str) -> None:
    for called, pod in pods(overlay(name)):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"], called
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), called
        assert not any("hostPath" in volume for volume in spec["volumes"]), called
        assert spec["enableServiceLinks"] is False
        for container in containers(pod):
            where = f"{called}/{container['name']}"
            kept = container["securityContext"]
            assert kept["readOnlyRootFilesystem"], where
            assert kept["allowPrivilegeEscalation"] is False, where
            assert kept["capabilities"] == {"drop": ["ALL"]}, where
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}, where
            assert container["resources"]["limits"]["memory"], where
            assert re.search(r":[^/:]+$", container["image"]), f"{where} says which version"
            assert not container["image"].endswith(":latest")


@pytest.mark.parametrize("name", OVERLAYS)
def test_only_the_controller_has_a_token(name: str) -> None:
    account = the(overlay(name), "ServiceAccount", "quarantine")
    assert account["automountServiceAccountToken"] is False
    with_token = [called for called, pod in pods(overlay(name)) if pod["spec"]["automountServiceAccountToken"]]
    assert with_token == ["Deployment/quarantine"]


@pytest.mark.parametrize("name", OVERLAYS)
def test_what_pods_name_is_there(name: str) -> None:
    """ConfigMaps, Secrets (those of people are in the docs), ports of probes, volumes of mounts."""
    made = {(m["kind"], m["metadata"]["name"]) for m in overlay(name)}
    for called, pod in pods(overlay(name)):
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        claimed = {"data"} if called == "StatefulSet/postgres" else set()
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in made
            if "secret" in volume:
                secret = volume["secret"]["secretName"]
                assert ("Secret", secret) in made or secret in GIVEN_BY_PEOPLE
        used = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
        assert used == set(volumes) | claimed, "each volume is mounted, and each mount has one"
        for container in containers(pod):
            for source in container.get("envFrom", []):
                assert source == {"secretRef": {"name": "quarantine-secrets", "optional": True}}
            for entry in container.get("env", []):
                reference = entry.get("valueFrom", {}).get("secretKeyRef")
                if reference:
                    assert reference.get("optional") or ("Secret", reference["name"]) in made
                    assert ("Secret", reference["name"]) in made or reference["name"] in GIVEN_BY_PEOPLE


@pytest.mark.parametrize("name", OVERLAYS)
def test_selectors_find_the_controller(name: str) -> None:
    labels = pod_of(overlay(name))["metadata"]["labels"].items()
    for kind in ("PodDisruptionBudget", "NetworkPolicy", "Deployment"):
        assert (
            the(overlay(name), kind, "quarantine")["spec"]["podSelector" if kind == "NetworkPolicy" else "selector"][
                "matchLabels"
            ].items()
            <= labels
        )
    assert the(overlay(name), "Service", "quarantine")["spec"]["selector"].items() <= labels
    for spread in pod_of(overlay(name))["spec"]["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"].items() <= labels


@pytest.mark.parametrize("name", OVERLAYS)
def test_one_replica_stands_by_and_no_drain_is_blocked(name: str) -> None:
    assert the(overlay(name), "Deployment", "quarantine")["spec"]["replicas"] == 2
    assert the(overlay(name), "PodDisruptionBudget", "quarantine")["spec"].keys() == {"maxUnavailable", "selector"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_image_is_of_this_version(name: str) -> None:
    images = {c["image"] for c in containers(pod_of(overlay(name)))}
    assert images == {f"registry.example.com/quarantine:{__version__}"}


def test_secrets_are_made_for_trying_it_out_alone() -> None:
    for name in ("observe", "enforce"):
        assert not any(m["kind"] == "Secret" for m in overlay(name))
    assert any(m["kind"] == "Secret" for m in overlay("dev"))


def test_the_base_renders_by_itself() -> None:
    assert len(rendered("base")) == len(overlay("observe"))
