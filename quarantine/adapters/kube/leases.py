"""One Lease of coordination.k8s.io at the API server: read, and written under the version that was read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes.client.exceptions import ApiException

from quarantine.adapters.kube.fields import mapping, moment, text_at
from quarantine.adapters.kube.records import MANAGER
from quarantine.adapters.kube.translate import Call, garbled, parse_status
from quarantine.adapters.kube.transport import Transport
from quarantine.core.errors import QuarantineError
from quarantine.ports import LeaseRecord

_LONGEST = timedelta(hours=1)  # that another's Lease is believed to last


@dataclass(frozen=True, slots=True)
class KubeLease:
    """Implements `ports.Leases`. Needs get, create and update on this Lease."""

    transport: Transport
    namespace: str
    name: str

    def read(self) -> LeaseRecord | None:
        """None: there is none. Raises ClusterRefused, ClusterUnavailable."""
        call = self._call("reading", "get")
        ask = self.transport.leases("get_namespaced_custom_object", self.namespace, self.name)
        try:
            return self._record(call, self.transport.fetch(call, ask))
        except QuarantineError as error:
            if _is_missing(error):
                return None
            raise

    def write(self, record: LeaseRecord) -> LeaseRecord:
        """Replace what has this version, or make it where it has none.

        Raises Conflict, ClusterRefused, ClusterUnavailable; the last also where it was deleted meanwhile, which the API
        server answers with a 500.
        """
        body = self._body(record)
        if record.version:
            call = self._call("renewing", "update")
            ask = self.transport.leases(
                "replace_namespaced_custom_object", self.namespace, self.name, body, field_manager=MANAGER
            )
        else:
            call = self._call("making", "create")
            ask = self.transport.leases("create_namespaced_custom_object", self.namespace, body, field_manager=MANAGER)
        return self._record(call, self.transport.fetch(call, ask))

    def _call(self, doing: str, verb: str) -> Call:
        return Call(
            self.transport.url, f"{doing} lease {self.namespace}/{self.name}", f"{verb} on leases.coordination.k8s.io"
        )

    def _body(self, record: LeaseRecord) -> dict[str, Any]:
        meta = {"name": self.name, "namespace": self.namespace}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta | ({"resourceVersion": record.version} if record.version else {}),
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": max(1, round(record.lasts.total_seconds())),
                "leaseTransitions": record.transitions,
                "acquireTime": _micro(record.since),
                "renewTime": _micro(record.at),
            },
        }

    def _record(self, call: Call, raw: object) -> LeaseRecord:
        meta, spec = mapping(mapping(raw).get("metadata")), mapping(mapping(raw).get("spec"))
        version = text_at(meta, "resourceVersion")
        if not version:
            raise garbled(call, "a Lease without a resourceVersion")
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        lasts = timedelta(seconds=seconds) if isinstance(seconds, int) and seconds > 0 else timedelta(seconds=15)
        at = moment(spec.get("renewTime"))
        since = moment(spec.get("acquireTime")) or at
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        return LeaseRecord(
            holder=text_at(spec, "holderIdentity"),
            lasts=min(lasts, _LONGEST),
            transitions=transitions if isinstance(transitions, int) else 0,
            since=since or epoch,
            at=at or epoch,
            version=version,
        )


def _is_missing(error: QuarantineError) -> bool:
    """Whether the API server itself says that this Lease is not there; a proxy's 404 says nothing."""
    answer = error.__cause__
    if not isinstance(answer, ApiException) or answer.status != 404:
        return False
    status = parse_status(answer.body)
    return status.reason == "NotFound" and status.details.get("kind") == "leases"


def _micro(at: datetime) -> str:
    """A MicroTime, as the API server writes it."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
