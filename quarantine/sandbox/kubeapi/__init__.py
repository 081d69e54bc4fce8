"""A small, honest Kubernetes API server for tests and the demo: revisions, conflicts, watches, patches, evictions.

It answers as a recording of a real one does (`tests/sandbox/kubeapi/kube-api.json`), to stock kubectl and to the
official client. It runs no containers, and leaves server-side apply out.
"""

from __future__ import annotations

from quarantine.sandbox.kubeapi.api import KubeApi
from quarantine.sandbox.kubeapi.auth import MASTERS, Rule, User, rules_of
from quarantine.sandbox.kubeapi.errors import ApiError
from quarantine.sandbox.kubeapi.faults import Fault, FaultHook, LoggedRequest
from quarantine.sandbox.kubeapi.server import KubeApiServer, serve

__all__ = [
    "MASTERS",
    "ApiError",
    "Fault",
    "FaultHook",
    "KubeApi",
    "KubeApiServer",
    "LoggedRequest",
    "Rule",
    "User",
    "rules_of",
    "serve",
]
