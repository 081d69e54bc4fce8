"""What can go wrong, as a tree. Each message is one sentence: what happened, where, and what to do.

QuarantineError
├── UsageError            the person's input is wrong (exit 2)
├── Unavailable           a dependency could not be reached or did not answer (exit 3); try again later
│   ├── ClusterUnavailable
│   ├── LedgerUnavailable
│   ├── TicketsUnavailable
│   │   └── TicketsUncertain   it may have been done
│   ├── NotifierUnavailable
│   ├── PagerUnavailable
│   └── AnnotatorUnavailable
├── Refused               a dependency answered no, and will again until somebody changes something (exit 3)
│   ├── ClusterRefused, TicketsRefused, NotifierRefused, PagerRefused, AnnotatorRefused
│   ├── SchemaMismatch    the ledger's schema is older or newer than the code
│   └── OtherCluster      the ledger's trail is another cluster's than the one that is seen
├── EvictionBlocked       a disruption budget is in the way for now
├── EvictionImpossible    a pod will never be let go as things are
├── Conflict              the object changed since it was read; read again and plan again
├── NodeGone              the node, or the node of that uid, does not exist any more
└── Superseded            another writer has the term: stop at once
"""

from __future__ import annotations

from datetime import timedelta


class QuarantineError(Exception):
    """The root: everything that this package raises on purpose."""


class UsageError(QuarantineError):
    """The input of a person is wrong."""


class Unavailable(QuarantineError):
    """A dependency could not be reached. `retry_after` is what it asked for, if it did."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ClusterUnavailable(Unavailable):
    """The Kubernetes API."""


class LedgerUnavailable(Unavailable):
    """The database. Nothing may be done to the cluster meanwhile (invariant 8)."""


class TicketsUnavailable(Unavailable):
    """The ticket system. Before a ticket is opened again it is looked up all the same: another process may have."""


class TicketsUncertain(TicketsUnavailable):
    """The request went out and its answer did not come, or cannot be understood: what it asked for may be done."""


class NotifierUnavailable(Unavailable):
    """Slack. After a post, it may or may not have happened: look up before posting again."""


class PagerUnavailable(Unavailable):
    """What wakes people. An alarm may be sent again: both of its ends are known by a key."""


class AnnotatorUnavailable(Unavailable):
    """Grafana. What was asked for may be done: it is looked up before it is asked for again."""


class Refused(QuarantineError):
    """A dependency said no."""


class ClusterRefused(Refused):
    """401, 403, 422: rights are missing, or the API server finds our write invalid."""


class TicketsRefused(Refused):
    """The ticket system says that the request is wrong."""


class NotifierRefused(Refused):
    """Slack says that the request is wrong: no such channel, a bad token."""


class PagerRefused(Refused):
    """The pager says that the alarm is wrong, or does not know us."""


class AnnotatorRefused(Refused):
    """Grafana says that the request is wrong, or that the token may not do it."""


class SchemaMismatch(Refused):
    """The ledger has another schema than this code."""


class OtherCluster(Refused):
    """The trail is another cluster's than the one that answers, or whose it is cannot be told: nothing is written."""


class EvictionBlocked(QuarantineError):
    """429: a PodDisruptionBudget allows no disruption now. Back off, and let others go first."""


class EvictionImpossible(QuarantineError):
    """500 for overlapping budgets, 422, or no right to evict: tell a person."""


class Conflict(QuarantineError):
    """409: the object is not what was read."""


class NodeGone(QuarantineError):
    """404, or another uid under the same name."""


class Superseded(QuarantineError):
    """Another process has taken the term of this cluster's ledger."""
