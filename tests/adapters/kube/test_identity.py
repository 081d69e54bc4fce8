"""What no other cluster is called, over real HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.core.errors import ClusterRefused, ClusterUnavailable
from quarantine.sandbox.kubeapi import KubeApi, Rule, User, serve
from tests.adapters.kube.scripted import Scripted
from tests.adapters.kube.support import failure, open_cluster
from tests.adapters.kube.world import World

PATH = "/api/v1/namespaces/kube-system"
MAY = Rule(("get",), ("namespaces",), resource_names=("kube-system",))


def identity_of(api: KubeApi, folder: Path, user: str = "admin") -> str:
    """As a process sees it that has just begun."""
    with serve(api) as server:
        cluster = open_cluster(server.write_kubeconfig(folder / "kubeconfig", user=user))
        try:
            return cluster.identity()
        finally:
            cluster.close()


def test_it_is_the_uid_of_kube_system(emulated: World) -> None:
    found = emulated.cluster(watch=False).identity()
    assert (
        found == emulated._json(emulated.core.read_namespace("kube-system", _preload_content=False))["metadata"]["uid"]
    )


def test_it_is_the_same_for_a_clusters_life_and_no_other_clusters(tmp_path: Path) -> None:
    one, other = KubeApi(), KubeApi()
    assert identity_of(one, tmp_path) == identity_of(one, tmp_path)
    assert identity_of(one, tmp_path) != identity_of(other, tmp_path)


def test_the_right_to_that_one_namespace_is_enough(tmp_path: Path) -> None:
    api = KubeApi()
    api.gate.users = (User("quarantine", "t0ken", rules=(MAY,)), User("stranger", "t0ken-2"))
    assert identity_of(api, tmp_path, "quarantine")
    with pytest.raises(ClusterRefused, match=r"asking whose cluster this is.*grant get on namespaces to this user"):
        identity_of(api, tmp_path, "stranger")


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, failure(401, "Unauthorized", "Unauthorized"), ClusterRefused),
        (403, failure(403, "Forbidden", "no"), ClusterRefused),
        (404, failure(404, "NotFound", "no", kind="namespaces"), ClusterUnavailable),
        (503, b"busy", ClusterUnavailable),
        (200, b"<html>", ClusterUnavailable),
        (200, {"kind": "Namespace"}, ClusterUnavailable),
        (200, {"metadata": {"uid": ""}}, ClusterUnavailable),
        (200, {"metadata": {"uid": 7}}, ClusterUnavailable),
        (200, {"metadata": {"uid": "u" * 101}}, ClusterUnavailable),
        (200, {"metadata": {"uid": "a\x00b"}}, ClusterUnavailable),
    ],
)
def test_what_is_no_identity_is_none(
    scripted: Scripted, to_scripted: Callable[..., KubeCluster], status: int, body: Any, error: type[Exception]
) -> None:
    scripted.script = lambda exchange: exchange.answer(body, status)
    with pytest.raises(error):
        to_scripted(watch=False).identity()
    assert [exchange.path.partition("?")[0] for exchange in scripted.seen] == [PATH]
