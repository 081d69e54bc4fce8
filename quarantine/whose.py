"""Whether the cluster that is seen is the one whose trail the ledger has."""

from __future__ import annotations

from quarantine.core.errors import ClusterRefused
from quarantine.ports import Cluster, LedgerReader

UNTOLD = (
    "this account may not see the namespace kube-system, so the ledger is not told whose trail this is, and a "
    "controller of another cluster could write it as well: grant it get on namespaces, see docs/permissions.md"
)


def identity_of(cluster: Cluster) -> str | None:
    """What no other cluster is called; None where the right to ask is missing. Raises ClusterUnavailable."""
    try:
        return cluster.identity()
    except ClusterRefused:
        return None


def require_same(cluster: Cluster, ledger: LedgerReader) -> None:
    """Raises OtherCluster where they do not belong together, ClusterUnavailable, and as the ledger."""
    ledger.require_same(identity_of(cluster))
