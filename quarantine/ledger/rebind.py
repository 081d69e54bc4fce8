"""A trail goes on for a cluster that was made anew under its old name: `quarantine db rebind`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, func, select, update

from quarantine.core.decision import Action, Decision, Kind
from quarantine.ledger import revision, trail, writer
from quarantine.ledger.engine import unhurried, writing
from quarantine.ledger.schema import cases, clusters


@dataclass(frozen=True, slots=True)
class Rebound:
    """What was forgotten, and what is left as it was."""

    cluster: str
    identity: str  # whose the trail was: see `whose`
    open_cases: int
    seq: int  # of the decision that says so


def rebind(engine: Engine, cluster: str, *, reason: str, actor: str, now: datetime) -> Rebound | None:
    """Forget whose the trail is, on record: it is then that of whoever takes the next term. None: it was not known.

    Takes a term, so that a controller that runs stops: it may be another cluster's than the one that is meant. Raises
    LedgerUnavailable, SchemaMismatch.
    """
    of_cluster = clusters.c.cluster == cluster
    with writing(engine) as connection:
        unhurried(connection)  # all that stands is read before a decision is added
        revision.hold(connection)
        # The row first, by which everybody who writes waits for the others.
        row = select(clusters.c.identity).where(of_cluster).with_for_update()
        identity: str | None = connection.execute(row).scalar_one_or_none()
        if identity is None:
            return None
        writer.succeed(connection, cluster, "quarantine db rebind", now)
        said = f"the trail is no more that of the cluster whose namespace kube-system has the uid {identity}: {reason}"
        decision = Decision(now, Kind.DECIDED, Action.REBIND, said, actor)
        after = writer.append(connection, cluster, trail.head_of(connection, cluster), [decision], now, None)
        connection.execute(update(clusters).where(of_cluster).values(identity=None))
        standing = select(func.count()).where(cases.c.cluster == cluster, cases.c.ended_at.is_(None))
        return Rebound(cluster, identity, connection.execute(standing).scalar_one(), after.head.seq)
