"""What the cycle needs from the world, as protocols. Adapters translate their vendor's errors into `core.errors`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from quarantine.core.alarms import Alarm
from quarantine.core.cards import Card, Fold, Reply, Thread
from quarantine.core.case import HeldBy, PodRef, Run
from quarantine.core.decision import Decision, PendingEffect, Request, State
from quarantine.core.document import Written
from quarantine.core.letters import CaseReport
from quarantine.core.marks import NodeCondition, NodeEvent, NodePatch
from quarantine.core.model import Answer, Node
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.record.report import Material
from quarantine.core.record.subjects import SubjectKind
from quarantine.core.rulefiles import InForce, PolicyRun, RuleFile
from quarantine.core.series import Grid, RangeAnswer
from quarantine.core.tickets import Answerable, Attachment, Ticket, Update
from quarantine.core.workload import PodRules, RunStatus, Workloads


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Aware, UTC."""
        ...


class Metrics(Protocol):
    """Prometheus or what speaks its API."""

    def query(self, promql: str, *, at: datetime, timeout: timedelta) -> Answer:
        """An instant query evaluated at `at`. Never raises: no answer is `Failed`. Ends within `timeout`."""
        ...


class RangeMetrics(Protocol):
    """Prometheus' memory: what an expression would have answered, at each step of a stretch of time."""

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta) -> RangeAnswer:
        """What an instant query would have answered at each step of `grid`. Never raises: no answer is `Failed`.

        It is cut into as many requests as the server's limits need, each of which ends within `timeout`. One that
        fails fails them all: half a history is none. Several threads may ask at once.
        """
        ...


class Past(Protocol):
    """What a few devices showed lately, each time in one request: for a record that must not wait."""

    def query_samples(self, promql: str, within: Grid, *, timeout: timedelta) -> RangeAnswer:
        """The samples of a range selector (`x{…}[30m]`) as they were scraped, asked at the end of `within`.

        `within` is a grid of milliseconds as long as the selector's range. Never raises: no answer is `Failed`. Ends
        within `timeout`.
        """
        ...

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta, at_once: bool) -> RangeAnswer:
        """As `RangeMetrics`; `at_once`: in one request, and where that is too much for the server it is `Failed`."""
        ...


class Cluster(Protocol):
    """The Kubernetes API, as far as it is used."""

    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name, from a watch-fed cache. Raises ClusterUnavailable when the cache may be stale."""
        ...

    def patch_node(self, patch: NodePatch) -> Node:
        """One conditional write. Raises Conflict, NodeGone, ClusterRefused, ClusterUnavailable."""
        ...

    def create_event(self, event: NodeEvent) -> None:
        """A Kubernetes Event. One of the same name that exists already is success. Raises as `patch_node`."""
        ...

    def set_condition(self, condition: NodeCondition) -> None:
        """Our condition in the node's status, and no other. Raises as `patch_node`."""
        ...

    def workloads(self, nodes: Collection[str], rules: PodRules) -> Workloads:
        """What runs on these nodes now, and the gangs of it wherever they run. Raises ClusterUnavailable, also where
        the right to see it is missing: what is not seen is not idle.
        """
        ...

    def evict(self, pod: PodRef) -> bool:
        """Ask a pod to leave, by the Eviction API with its uid. False: it is gone already, or another has its name.

        Raises EvictionBlocked where a disruption budget is in the way for now, EvictionImpossible where asking again
        will not help, ClusterRefused, ClusterUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Order:
    """A procedure to be run on a case's machine, with what its placeholders stand for."""

    run: Run
    spec: ProcedureSpec
    case: str
    node: str
    provider_id: str
    system_uuid: str
    taint: str  # the key of the one taint that its pod tolerates


class Procedures(Protocol):
    """What runs procedures: Kubernetes Jobs, and commands where the controller is."""

    def start(self, order: Order) -> None:
        """Begin it. One of this run's name that was begun already is success. Raises Unavailable, Refused."""
        ...

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        """How far they have come, by run name; one that the runner does not know is not there. Raises Unavailable."""
        ...

    def stop(self, run: Run, spec: ProcedureSpec) -> None:
        """End it where it still runs, and leave nothing of it that costs. Raises Unavailable, Refused."""
        ...


class Tickets(Protocol):
    """Where machines are reported to their provider. Raises TicketsUnavailable, TicketsRefused.

    An adapter tries once, within bounds: what is tried again, and when, and who is told, is not its business. Where it
    is not known whether something was done it raises TicketsUncertain; TicketsUnavailable says that nothing was.
    """

    @property
    def answerable(self) -> Answerable:
        """What can be known of a ticket whose opening was asked for and whose answer was lost."""
        ...

    @property
    def settles(self) -> timedelta:
        """For how long a new ticket may be missing from what `find` finds; zero where it never is."""
        ...

    def find(self, key: str) -> tuple[Ticket, ...]:
        """All tickets with this key, open and closed, oldest first; empty only where the far side says there is none.

        What is BLIND finds nothing, ever.
        """
        ...

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """File it under `report.key`. The caller has looked it up before. What could not be attached is in its note."""
        ...

    def read(self, ref: str) -> Ticket | None:
        """Its present state; None where it does not exist, or where nothing can be read at all (BLIND)."""
        ...

    def update(self, ref: str, update: Update) -> None:
        """Add to it, and end it where that is said. The same update again adds nothing; ending twice is ending once."""
        ...


class Desks(Protocol):
    """Which ticket system a provider has. Several in one fleet are normal."""

    def names(self) -> tuple[str, ...]:
        """All targets, whether a provider has them at present or not."""
        ...

    def of(self, provider: str) -> tuple[str, Tickets] | None:
        """The name of the target that takes this provider's tickets, and the target; None: none is configured."""
        ...

    def named(self, target: str) -> Tickets:
        """The target of this name, which a ticket was filed with. Raises TicketsRefused where it is there no more."""
        ...


class Notifier(Protocol):
    """Slack. Raises NotifierUnavailable, NotifierRefused. Each verb tries once, within bounds.

    What was posted is known by its reference. What shows a message again (`show`) may be said twice; before what adds
    to it (`post`, `fold`, `tell`, `attach`) is said again, the caller looks up whether it is there.
    """

    @property
    def home(self) -> str:
        """The settings' channel, as references begin with it."""
        ...

    def find(self, key: str, channel: str = "") -> str | None:
        """The reference of the message of this case id, or `Fold.key`; None only where the far side says there is none.

        `channel`: the report's. The settings' channel is looked through as well, since routes change.
        """
        ...

    def post(self, card: Card) -> str:
        """Tell of a case, in its report's channel. Returns the message's reference."""
        ...

    def fold(self, fold: Fold) -> str:
        """Tell of several cases in one message. Returns its reference."""
        ...

    def show(self, ref: str, what: Card | Fold) -> None:
        """What the message says from now on, in place of what it said."""
        ...

    def thread(self, ref: str) -> Thread:
        """What was told, and attached, in the thread of a message. What was added a moment ago may be missing."""
        ...

    def tell(self, ref: str, reply: Reply) -> None:
        """Add to the thread of a message."""
        ...

    def attach(self, ref: str, picture: Attachment, text: str) -> None:
        """Add a picture to the thread of a message; `text` says what it shows, for those who do not see it."""
        ...


class Notices(Protocol):
    """Where people are told what concerns no single machine. Raises as `Notifier`."""

    def find(self, key: str) -> str | None:
        """The reference of the notice with this key; None only where the far side says that there is none."""
        ...

    def tell(self, key: str, title: str, lines: Sequence[str], advice: str = "") -> str:
        """Say it, and what to do. The caller has looked it up before, if an earlier attempt is in doubt.

        Returns its reference.
        """
        ...


class Pager(Protocol):
    """What wakes people. Raises PagerUnavailable, PagerRefused.

    Both of its verbs say how things are, and may be said again: nothing is doubled by it, and what is unknown there is
    over already.
    """

    @property
    def name(self) -> str:
        """For people: which one it is."""
        ...

    @property
    def repeats(self) -> timedelta | None:
        """How often an alarm that stands must be said again, or the far side takes it for over; None: once will do."""
        ...

    def fire(self, alarm: Alarm) -> None:
        """It stands."""
        ...

    def clear(self, alarm: Alarm) -> None:
        """It stands no more. Of the alarm, the key is enough."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Who may act, as the cluster keeps it."""

    holder: str  # empty: nobody
    lasts: timedelta  # unchanged for so long, it is anybody's
    transitions: int  # how often it has changed hands
    since: datetime  # since when this holder has it, by its clock
    at: datetime  # when it was last renewed, by its clock: for people
    version: str = ""  # that was read; empty: there is none yet


class Leases(Protocol):
    """One Lease. Raises ClusterUnavailable, ClusterRefused."""

    def read(self) -> LeaseRecord | None:
        """None: there is none."""
        ...

    def write(self, record: LeaseRecord) -> LeaseRecord:
        """Replace what has the record's version, or make it. Raises Conflict where that is not what is there."""
        ...


class Heart(Protocol):
    """The sign of life that somebody else watches."""

    def beat(self) -> None:
        """The controller lives, and sees. Returns at once, and never raises."""
        ...


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

    def take_term(self, holder: str) -> int:
        """Become the writer: earlier terms can write no more."""
        ...

    def record(self, term: int, decisions: Sequence[Decision], policies: Sequence[Written] = ()) -> None:
        """Append decisions, fold them, put their effects into the outbox: one transaction, all or nothing.

        With no decisions: still the writer, and able to write.
        """
        ...

    def keep_rules(self, term: int, files: Sequence[RuleFile], runs: Mapping[str, PolicyRun]) -> None:
        """These are the versions in force, and no others; those that are kept already stay as they are."""
        ...

    def attempt(self, term: int, key: str, at: datetime) -> None:
        """About to try an effect: committed before it is tried."""
        ...

    def postpone(self, term: int, key: str, error: str) -> None:
        """The attempt failed, and a later cycle tries again."""
        ...

    def settle(self, term: int, key: str, outcome: Decision) -> None:
        """The effect has its outcome: append it, fold it, and take the effect out of the outbox."""
        ...

    def ended_holds(self, since: datetime) -> tuple[EndedHold, ...]:
        """The holds that ended since then, each time that one did."""
        ...
