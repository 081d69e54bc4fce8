"""The Lease at an API server: conditional, and what its absence means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.adapters.kube.leases import KubeLease
from quarantine.core.errors import ClusterUnavailable, Conflict
from quarantine.ports import LeaseRecord
from quarantine.sandbox.kubeapi import KubeApi
from tests.adapters.kube.scripted import Scripted
from tests.adapters.kube.world import World

AT = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)
MINE = LeaseRecord("pod-1/7/abc", timedelta(seconds=15), 0, AT, AT)


@pytest.fixture
def lease(emulated: World) -> KubeLease:
    return emulated.cluster(watch=False).lease("default", emulated.run)


def test_a_whole_second_is_written_with_its_microseconds(lease: KubeLease) -> None:
    whole = AT.replace(microsecond=0)
    made = lease.write(replace(MINE, since=whole, at=whole))
    assert (made.since, made.at) == (whole, whole)


def test_it_is_made_renewed_and_read_as_written(lease: KubeLease) -> None:
    assert lease.read() is None
    made = lease.write(MINE)
    assert made.version
    assert lease.read() == made
    assert (made.holder, made.lasts, made.since, made.at) == (MINE.holder, MINE.lasts, AT, AT)
    later = LeaseRecord("pod-1/7/abc", timedelta(seconds=15), 0, AT, AT + timedelta(seconds=2), made.version)
    renewed = lease.write(later)
    assert renewed.version != made.version
    assert renewed.at == AT + timedelta(seconds=2)


def test_who_comes_second_is_refused(lease: KubeLease) -> None:
    made = lease.write(MINE)
    lease.write(LeaseRecord("pod-2", timedelta(seconds=15), 1, AT, AT, made.version))
    with pytest.raises(Conflict):
        lease.write(LeaseRecord("pod-3", timedelta(seconds=15), 1, AT, AT, made.version))
    with pytest.raises(Conflict):
        lease.write(MINE)  # which makes one
    held = lease.read()
    assert held is not None
    assert held.holder == "pod-2"


def test_one_that_was_deleted_meanwhile_is_looked_at_again(lease: KubeLease, emulator: KubeApi) -> None:
    made = lease.write(MINE)
    emulator.delete("Lease", lease.name)
    with pytest.raises(ClusterUnavailable):
        lease.write(made)
    assert lease.read() is None


def test_it_is_released_with_an_empty_holder(lease: KubeLease) -> None:
    made = lease.write(MINE)
    lease.write(LeaseRecord("", timedelta(seconds=1), 0, AT, AT, made.version))
    held = lease.read()
    assert held is not None
    assert held.holder == ""
    assert held.lasts == timedelta(seconds=1)


def test_a_proxys_404_is_no_absence(scripted: Scripted, to_scripted: Callable[..., KubeCluster]) -> None:
    scripted.script = lambda exchange: exchange.answer(b"<html>not here</html>", 404, "text/html")
    with pytest.raises(ClusterUnavailable):
        to_scripted(watch=False).lease("default", "q").read()


def test_what_is_garbled_is_no_lease(scripted: Scripted, to_scripted: Callable[..., KubeCluster]) -> None:
    scripted.script = lambda exchange: exchange.answer({"kind": "Lease", "spec": {"leaseDurationSeconds": "x"}})
    with pytest.raises(ClusterUnavailable):
        to_scripted(watch=False).lease("default", "q").read()
