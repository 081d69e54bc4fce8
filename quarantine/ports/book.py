"""The trail, and the rules: what is kept, and what is read of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from quarantine.core.case import HeldBy
from quarantine.core.decision import Decision, PendingEffect, Request, State
from quarantine.core.document import Written
from quarantine.core.record.report import Material
from quarantine.core.record.subjects import SubjectKind
from quarantine.core.rulefiles import InForce, PolicyRun, RuleFile


class Rulebook(Protocol):
    """Where the rules come from."""

    def read(self) -> InForce:
        """What is in force now, and the same object as before where nothing changed.

        Raises UsageError where no version of the rules was ever sound.
        """
        ...


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What a cycle reads from the ledger, in one transaction."""

    state: State
    pending: tuple[PendingEffect, ...]
    requests: tuple[Request, ...]  # not answered yet, oldest first


@dataclass(frozen=True, slots=True)
class TrailRow:
    """A decision with its place in the chain."""

    seq: int
    decision: Decision
    hash: str


@dataclass(frozen=True, slots=True)
class EndedHold:
    """A hold that stood and ended. `pool`: the machine's, where it was one machine's."""

    key: str
    held_by: HeldBy
    pool: str


class LedgerReader(Protocol):
    """What reading commands need. Raises LedgerUnavailable, SchemaMismatch."""

    def load(self) -> LedgerView:
        """The present state."""
        ...

    def decisions(self, *, node: str | None = None, case: str | None = None) -> Iterator[TrailRow]:
        """The trail in order, of a node or of a case; streamed."""
        ...

    def ask(self, request: Request) -> None:
        """Append what a person asks; the leader's next cycle decides."""
        ...

    def rule_files(self) -> tuple[RuleFile, ...]:
        """The versions of the policy files that were accepted last."""
        ...

    def policy_runs(self) -> Mapping[str, PolicyRun] | None:
        """By policy: for how many cycles its present version was judged. None: `keep_rules` was never called."""
        ...

    def waiting(self) -> frozenset[str]:
        """The ids of requests that no decision has answered yet; cheap enough to be asked every second."""
        ...

    def require_same(self, identity: str | None) -> None:
        """Raises OtherCluster where the trail is known to be another cluster's than this (`Cluster.identity`).

        None: it could not be asked, for want of a right; raised too where the trail is known to be some cluster's.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sighting:
    """A name under which hardware was known: on which Node object, and in which of that cluster's decisions."""

    cluster: str
    kind: SubjectKind
    value: str
    node: str
    node_uid: str
    machine: str  # `subjects.machine_key`
    first_seq: int
    last_seq: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Filed:
    """A row of the trail, and in whose trail it is."""

    cluster: str
    row: TrailRow


class Archive(Protocol):
    """All clusters of one ledger, to be read. Raises LedgerUnavailable, SchemaMismatch."""

    def clusters(self) -> tuple[str, ...]:
        """Those that have a trail, by name."""
        ...

    def sightings(self, name: str) -> tuple[Sighting, ...]:
        """Where a node name, a machine (its key, or any of its names) or a GPU was seen; empty: nowhere."""
        ...

    def history(self, name: str) -> Iterator[Filed]:
        """Everything ever decided about what is called so, in order of time, streamed. See `quarantine history`."""
        ...

    def material(self, since: datetime, until: datetime, cluster: str | None = None) -> Material:
        """What a report of that time is made from: of one cluster, or of all of them."""
        ...


class Ledger(LedgerReader, Protocol):
    """The audit trail, its projections and the outbox, of one cluster. Every write carries the writer's term.

    Raises LedgerUnavailable, SchemaMismatch, and Superseded where the term is not the writer's any more.
    """

    def take_term(self, holder: str, identity: str | None = None) -> int:
        """Become the writer for the cluster of this identity: earlier terms can write no more.

        Where the ledger does not know yet whose the trail is, this is kept. Raises OtherCluster as `require_same`:
        then nothing is written, and whoever has the term keeps it.
        """
        ...

    def record(self, term: int, decisions: Sequence[Decision], policies: Sequence[Written] = ()) -> int:
        """Append decisions, fold them, put their effects into the outbox: one transaction, all or nothing.

        Returns the number of the newest row of the trail. With no decisions: still the writer, and able to write.
        """
        ...

    def keep_rules(self, term: int, files: Sequence[RuleFile], runs: Mapping[str, PolicyRun]) -> None:
        """These are the versions in force, and no others; those that are kept already stay as they are."""
        ...

    def attempt(self, term: int, key: str, at: datetime) -> None:
        """About to try an effect: committed before it is tried."""
        ...

    def postpone(self, term: int, key: str, error: str, *, ended: bool = False) -> None:
        """The attempt failed, and a later cycle tries again. `ended`: it is certain that it left nothing done."""
        ...

    def settle(self, term: int, key: str, outcome: Decision) -> int:
        """The effect has its outcome: append it, fold it, take it out of the outbox. Returns the row's number."""
        ...

    def ended_holds(self, since: datetime) -> tuple[EndedHold, ...]:
        """The holds that ended since then, each time that one did."""
        ...
