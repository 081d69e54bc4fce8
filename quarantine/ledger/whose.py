"""Whose a trail is: the one cluster that writes it, by what no other cluster is called (`Cluster.identity`).

A wrong kubeconfig, or a copied installation with the same `cluster` and the same database, would else go on with a
trail in which every machine has vanished: the name in the settings is what people wrote.
"""

from __future__ import annotations

from sqlalchemy import Connection, select

from quarantine.core.errors import OtherCluster
from quarantine.ledger.schema import clusters
from quarantine.ledger.text import fit
from quarantine.ledger.url import masked


def identity(connection: Connection, cluster: str) -> str | None:
    """Of the cluster whose trail this is; None: it is not known yet, or there is no trail."""
    return connection.execute(select(clusters.c.identity).where(clusters.c.cluster == cluster)).scalar_one_or_none()


def require(connection: Connection, cluster: str, seen: str | None) -> None:
    """Raise OtherCluster where the trail is known to be another cluster's than that of the identity `seen`.

    None: the cluster did not say, for want of a right. It is refused as well where the trail is known to be some
    cluster's: what a wrong kubeconfig leads to seldom grants anything.
    """
    known = identity(connection, cluster)
    if known is None or (seen is not None and fit(seen) == known):
        return
    trail = f"the trail of {cluster!r} in {masked(connection.engine.url)}"
    whose = f"is that of the cluster whose namespace kube-system has the uid {known}"
    if seen is None:
        raise OtherCluster(
            f"{trail} {whose}, and whether this is it cannot be told; grant this account get on the namespace "
            "kube-system, or correct the kubeconfig"
        )
    raise OtherCluster(
        f"{trail} {whose}, and in this one it has {seen}; correct the kubeconfig, cluster or database_url, or run "
        "`quarantine db rebind` where the cluster was made anew"
    )
