"""What the API server says of itself and of us: its version, its clock, and what we may do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, cast

from urllib3 import BaseHTTPResponse

from quarantine.adapters.kube.fields import mapping, text_at
from quarantine.adapters.kube.translate import Call, garbled
from quarantine.adapters.kube.transport import Ask, Transport

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Access:
    """One thing that may be allowed: as a SelfSubjectAccessReview asks it."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""  # empty: everywhere
    name: str = ""  # empty: any

    def __str__(self) -> str:
        """As in docs/permissions.md."""
        return f"{self.verb} {self.what}"

    @property
    def what(self) -> str:
        """All but the verb."""
        told = self.resource + (f"/{self.subresource}" if self.subresource else "")
        told += f".{self.group}" if self.group else ""
        return told + (f" in namespace {self.namespace}" if self.namespace else "")


@dataclass(frozen=True, slots=True)
class KubeInquiry:
    """Asks; changes nothing. Raises ClusterUnavailable, ClusterRefused."""

    transport: Transport
    now: Callable[[], datetime]

    def version(self) -> tuple[str, timedelta | None]:
        """The server's version, and by how much its clock is ahead of ours at the least; None: not told."""
        from kubernetes.client import VersionApi

        call = Call(self.transport.url, "asking its version", "get on /version")
        clock: list[timedelta] = []
        before = self.now()
        ask = self._ask(VersionApi(self.transport.client).get_code)

        def noted() -> BaseHTTPResponse:
            response = ask()
            after = self.now()
            with suppress(ValueError, TypeError):
                told = parsedate_to_datetime(response.headers.get("Date", ""))
                # It said so after `before` and before `after`, and has cut off what is less than a second.
                clock.append(min(max(timedelta(0), told - after), told + _SECOND - before))
            return response

        told = text_at(self.transport.fetch(call, noted), "gitVersion")
        return self.transport.without_credentials(told)[:60], clock[0] if clock else None

    def may(self, access: Access) -> bool:
        """Whether we have this right."""
        from kubernetes.client import CustomObjectsApi

        call = Call(self.transport.url, f"asking whether we may {access}", "create on selfsubjectaccessreviews")
        given = {name: value for name in Access.__slots__ if (value := getattr(access, name))}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": given},
        }
        of = ("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
        ask = self._ask(CustomObjectsApi(self.transport.client).create_cluster_custom_object, *of, body)
        allowed: Any = mapping(self.transport.fetch(call, ask).get("status")).get("allowed")
        if not isinstance(allowed, bool):
            raise garbled(call, "a review without its answer")
        return allowed

    def _ask(self, method: Callable[..., Any], *args: object) -> Ask:
        seconds = self.transport.timeout.total_seconds()
        return lambda: cast(
            BaseHTTPResponse, method(*args, _preload_content=False, _request_timeout=(seconds, seconds))
        )
