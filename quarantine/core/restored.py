"""A ledger older than the marks on the cluster, restored from a backup: it observes only, until a person says."""

from __future__ import annotations

from quarantine.core.draft import Draft


def watch(draft: Draft) -> None:
    """Lower the mode where the cluster carries marks that are younger than the ledger's newest decision."""
