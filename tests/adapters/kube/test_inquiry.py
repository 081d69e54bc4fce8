"""What the API server says of itself and of our rights."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.adapters.kube.inquiry import Access
from quarantine.core.errors import ClusterRefused, ClusterUnavailable
from quarantine.sandbox.kubeapi import KubeApi, Rule, User, serve
from quarantine.sandbox.kubeapi.discovery import VERSION
from quarantine.sandbox.kubeapi.faults import Fault
from tests.adapters.kube.scripted import Scripted
from tests.adapters.kube.support import AT, open_cluster
from tests.adapters.kube.world import World

PATCH = Access("patch", "nodes", subresource="status")
LEASE = Access("get", "leases", "coordination.k8s.io", namespace="here", name="ours")


def test_the_version_and_no_clock_where_none_is_told(emulated: World) -> None:
    assert emulated.cluster(watch=False).inquiry.version() == (VERSION["gitVersion"], None)


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(minutes=3), timedelta(hours=-2)])
def test_the_clock_is_that_of_the_answer(tmp_path: Path, emulator: KubeApi, ahead: timedelta) -> None:
    date = format_datetime(AT + ahead, usegmt=True)
    emulator.fault = lambda *_: Fault(status=200, body=VERSION, headers={"Date": date})
    with serve(emulator) as server:
        cluster = open_cluster(server.write_kubeconfig(tmp_path / "kubeconfig"))
        try:
            found = cluster.inquiry.version()[1]
        finally:
            cluster.close()
    emulator.fault = None
    assert found is not None
    assert abs(found - ahead) <= timedelta(seconds=1)


def test_a_version_that_says_what_was_sent(scripted: Scripted, to_scripted: Callable[..., KubeCluster]) -> None:
    scripted.script = lambda exchange: exchange.answer({"gitVersion": exchange.headers["Authorization"]})
    assert to_scripted(watch=False).inquiry.version()[0] == "Bearer ***"


def test_a_right_is_there_or_not(tmp_path: Path) -> None:
    api = KubeApi()
    rules = (
        Rule(("patch",), ("nodes/status",)),
        Rule(("get",), ("leases",), ("coordination.k8s.io",), ("ours",), "here"),
    )
    api.gate.users = (User("quarantine", "t0ken", rules=rules),)
    with serve(api) as server:
        cluster = open_cluster(server.write_kubeconfig(tmp_path / "kubeconfig", user="quarantine"))
        try:
            may = cluster.inquiry.may
            assert may(PATCH)
            assert not may(Access("patch", "nodes"))
            assert may(LEASE)
            assert not may(Access("get", "leases", "coordination.k8s.io", namespace="here"))
            assert not may(Access("get", "leases", "coordination.k8s.io", namespace="there", name="ours"))
        finally:
            cluster.close()
        assert str(LEASE) == "get leases.coordination.k8s.io in namespace here"
        assert str(PATCH) == "patch nodes/status"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(status=403, body="no"), ClusterRefused),
        (Fault(status=503, body="no"), ClusterUnavailable),
        (Fault(status=201, body={"kind": "SelfSubjectAccessReview"}), ClusterUnavailable),
        (Fault(status=201, body={"status": {"allowed": "yes"}}), ClusterUnavailable),
        (Fault(drop=True), ClusterUnavailable),
    ],
)
def test_what_is_no_answer_is_no_right_and_no_lack_of_one(
    tmp_path: Path, emulator: KubeApi, fault: Fault, error: type[Exception]
) -> None:
    emulator.fault = lambda *_: fault
    with serve(emulator) as server:
        cluster = open_cluster(server.write_kubeconfig(tmp_path / "kubeconfig"))
        try:
            with pytest.raises(error):
                cluster.inquiry.may(PATCH)
        finally:
            cluster.close()
    emulator.fault = None
