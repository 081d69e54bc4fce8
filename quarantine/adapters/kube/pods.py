"""What runs on nodes now, asked of the API server: never from a cache, since what is not seen is not idle."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quarantine.adapters.kube.gangs import GangSign
from quarantine.adapters.kube.podrecords import SeenPod, gang_record, pod_record
from quarantine.adapters.kube.records import Garbled
from quarantine.adapters.kube.translate import Call, Expired, garbled
from quarantine.adapters.kube.transport import Ask, Transport
from quarantine.core.errors import ClusterRefused, ClusterUnavailable
from quarantine.core.workload import Pod, PodRules, Workloads

_MANY: Final = 30  # lists at most; with more nodes or gangs, one list of all pods costs less
_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True, slots=True)
class PodReader:
    """Lists pods. `now` is the time by which what they say of themselves is judged. Thread-safe."""

    transport: Transport
    now: Callable[[], datetime]
    monotonic: Callable[[], float] = time.monotonic

    def workloads(self, nodes: Collection[str], rules: PodRules) -> Workloads:
        """What runs on these nodes, and their gangs wherever they run. Raises ClusterUnavailable.

        Each list is of one moment, all of them together are not. It ends within the patience of one answer.
        """
        wanted = sorted(set(nodes))
        if not wanted:
            return Workloads()
        try:
            until = self.monotonic() + self.transport.patience.total_seconds()
            return _Question(self, rules, self.now(), until).answer(wanted)
        except ClusterRefused as error:
            raise ClusterUnavailable(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Question:
    reader: PodReader
    rules: PodRules
    now: datetime
    until: float  # on `monotonic`

    def answer(self, nodes: list[str]) -> Workloads:
        if len(nodes) > _MANY:
            return self._of_all(nodes)
        seen = {node: self._list(f"listing the pods on node {node}", on=node) for node in nodes}
        signs = {s.sign.key: s.sign for pods in seen.values() for s in pods if s.sign is not None}
        if len(signs) > _MANY:
            return self._of_all(nodes)
        whole = {key: [s.pod for s in self._gang(sign) if s.pod.gang == key] for key, sign in signs.items()}
        return _workloads({node: [s.pod for s in pods] for node, pods in seen.items()}, whole)

    def _of_all(self, nodes: list[str]) -> Workloads:
        on: dict[str, list[Pod]] = {node: [] for node in nodes}
        gangs: defaultdict[str, list[Pod]] = defaultdict(list)
        for seen in self._list("listing all pods"):
            if seen.pod.node in on:
                on[seen.pod.node].append(seen.pod)
            if seen.sign is not None:
                gangs[seen.sign.key].append(seen.pod)
        here = {pod.gang for pods in on.values() for pod in pods}
        return _workloads(on, {key: pods for key, pods in gangs.items() if key in here})

    def _gang(self, sign: GangSign) -> list[SeenPod]:
        labels = ",".join(f"{name}={value}" for name, value in sign.labels)
        return self._list(f"listing the pods of {sign.key}", namespace=sign.namespace, labels=labels)

    def _list(self, doing: str, *, on: str = "", namespace: str = "", labels: str = "") -> list[SeenPod]:
        transport = self.reader.transport
        call = Call(transport.url, doing, "list on pods")
        fields = f"spec.nodeName={on},{_NOT_ENDED}" if on else _NOT_ENDED
        taken: list[SeenPod] = []

        def page(token: str | None) -> Ask:
            if self.reader.monotonic() > self.until:
                raise ClusterUnavailable(call.sentence("took too long to tell what runs", "it will be tried again"))
            method, where = ("list_namespaced_pod", (namespace,)) if namespace else ("list_pod_for_all_namespaces", ())
            selection = {"field_selector": fields, "label_selector": labels or None}
            return transport.core(method, *where, **selection, limit=transport.page, _continue=token)

        def take(item: object) -> None:
            try:
                if (seen := pod_record(item, self.rules, self.now)) is not None:
                    taken.append(seen)
            except Garbled as error:
                raise garbled(call, str(error)) from error

        try:
            transport.pages(call, "PodList", page, take)
        except Expired:
            taken.clear()
            transport.pages(call, "PodList", page, take)
        if on and any(seen.pod.node != on for seen in taken):
            raise garbled(call, "the pods of another node")
        return taken


def _workloads(on: Mapping[str, list[Pod]], gangs: Mapping[str, list[Pod]]) -> Workloads:
    return Workloads(
        nodes={node: tuple(sorted(pods, key=lambda pod: pod.ref)) for node, pods in on.items()},
        gangs={key: gang_record(key, pods) for key, pods in gangs.items()},
    )
