"""The trail: decisions, what they add up to (`State`), and what people ask."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from quarantine.core.case import Case, Effect, Evidence, HeldBy, Leaving, Phase, Run, Rung
from quarantine.core.model import Device, Machine, Severity, Verdict
from quarantine.core.tickets import Filing, Remark


class Action(StrEnum):
    """What a decision is about."""

    QUARANTINE = "quarantine"  # cordon and taint
    JOIN = "join"  # a further finding on a machine whose case is open
    RECOVER = "recover"  # a finding turned good on positive evidence
    TICKET = "ticket"
    NOTIFY = "notify"
    RELEASE = "release"
    DISMISS = "dismiss"
    RETIRE = "retire"
    ADOPT = "adopt"
    FOLLOW = "follow"  # the node object was made again for the same machine: the case goes with it
    JUDGE = "judge"  # a policy could not be judged, or can be again
    ANSWER = "answer"  # a person's request was refused, or changes no case
    IDENTIFY = "identify"  # what hardware the machine is made of
    REMARK = "remark"  # our taint is put back after a program removed it
    DRAIN = "drain"  # the machine is being emptied, or is empty
    EVICT = "evict"  # pods are asked to leave
    RUN = "run"  # a procedure is started, or what became of it is known
    STEP = "step"  # a step of the ladder of remedies
    SWAP = "swap"  # another machine is in the place of this one
    PROVE = "prove"  # probation: it begins, or the machine has proven itself
    WAIVE = "waive"  # a person's word that the machine stays in service
    PAUSE = "pause"  # a person's word that nothing new is done
    RESUME = "resume"
    MAINTAIN = "maintain"  # a person's word that planned work is under way
    WITHDRAW = "withdraw"  # what was told the provider is taken back
    SHOW = "show"  # what people see on the Node object follows the case
    POLICY = "policy"  # a version of a policy, of the defaults or of the fleet came into force, or is no more
    HEAR = "hear"  # what the provider's ticket says has changed
    COMMENT = "comment"  # a ticket is to be told more
    APPROVE = "approve"  # whether another machine may be asked for
    DEFER = "defer"  # another machine is not to be asked for before a time
    COUNT = "count"  # how large a pool is, where that has changed: what rates of failure are measured by
    REBIND = "rebind"  # a person's word that another cluster goes on with the trail


# What is only kept on record, of the rules, the pools and the trail itself: nothing is done to a machine by it, and a
# ledger that has no more than these knows nothing of any machine.
RECORDS = frozenset({Action.POLICY, Action.COUNT, Action.REBIND})

# What the outcome of an effect is about.
ACTION_OF: Mapping[Effect, Action] = {
    Effect.MARK: Action.QUARANTINE,
    Effect.EVENT: Action.QUARANTINE,
    Effect.TICKET: Action.TICKET,
    Effect.NOTIFY: Action.NOTIFY,
    Effect.UNMARK: Action.RELEASE,
    Effect.STOP: Action.RUN,
    Effect.PHASE: Action.SHOW,
    Effect.CONDITION: Action.SHOW,
    Effect.RUN: Action.RUN,
    Effect.EVICT: Action.EVICT,
    Effect.REPLACE: Action.STEP,
    Effect.CLOSE: Action.WITHDRAW,
    Effect.COMMENT: Action.COMMENT,
}


class Kind(StrEnum):
    """What sort of row of the trail a decision is."""

    DECIDED = "decided"
    HELD = "held"
    DONE = "done"  # the outcome of a side effect
    FAILED = "failed"  # a side effect was given up for good; transient failures are attempts, not decisions


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A pool's budget as it stood when a decision was taken (machines)."""

    pool: str
    size: int
    ours: int  # out of service because of us
    out: int  # out of service for any reason
    recent: int  # taken out by us within the last hour
    limit_ours: int
    limit_out: int
    limit_recent: int
    spares: int | None = None  # held in reserve; when as many are out, only fatal findings take out more


@dataclass(frozen=True, slots=True)
class Census:
    """How large a pool is. `gpus`: as far as its nodes say how many they have."""

    nodes: int
    gpus: int
    at: datetime  # since when it is counted so


@dataclass(frozen=True, slots=True)
class Version:
    """A document of the rules in force, as the trail knows it. `hash` is over its text."""

    hash: str
    revision: str | None
    since: datetime


class WordKind(StrEnum):
    """What a person's standing word is about."""

    PAUSE = "pause"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True)
class Word:
    """A person's word that stands until it ends or is taken back. A waiver is a `Dismissal`: it is about findings."""

    key: str  # unique among those that stand: `pause/all`, `pause/policy/gpu-hot`, `maintenance/rack=r7`
    kind: WordKind
    scope: str  # of a pause: all, policy/NAME or pool/NAME; of maintenance: a node's name, or label=value,…
    by: str
    reason: str
    since: datetime
    until: datetime | None = None  # None: until it is taken back


@dataclass(frozen=True, slots=True)
class Decision:
    """One immutable record of the trail. `held_by` set: what `action` would have been, had nothing stood in the way."""

    at: datetime
    kind: Kind
    action: Action
    reason: str  # one sentence for people
    actor: str  # "controller <version>", or the person and the channel
    node: str | None = None
    machine: Machine | None = None
    case: str | None = None
    phase: Phase | None = None  # of the case, once this decision holds
    device: Device | None = None
    policy: str | None = None
    policy_hash: str | None = None
    policy_revision: str | None = None
    severity: Severity | None = None
    verdict: Verdict | None = None
    held_by: HeldBy | None = None
    hold_key: str = ""  # for a hold, and for what lifts it: what it is about
    evidence: Evidence | None = None
    budget: BudgetState | None = None
    effects: tuple[Effect, ...] = ()  # asked for by this decision
    effect: Effect | None = None  # whose outcome this is
    ref: str = ""  # what the far side calls it
    cordoned_by_us: bool | None = None
    request: str | None = None  # the request that this answers
    until: datetime | None = None  # how long a person's dismissal, waiver, pause or maintenance stands
    pool: str = ""
    run: Run | None = None  # a procedure as it stands after this decision: the case's latest, or a new one
    leaving: Leaving | None = None  # pods that are asked to leave by this decision
    rung: Rung | None = None  # a step that is taken by this decision
    word: Word | None = None  # a person's word that begins to stand
    unword: str = ""  # the key of one that ends
    gate: bool | None = None  # True: opens a case for a machine that is new here
    provider: str = ""  # who replaces the machine, by the pool's word in the fleet file
    census: Census | None = None  # of `pool`, from now on
    ticket: Filing | None = None  # a ticket of the case, as it stands after this decision
    remark: Remark | None = None  # what is to be added to a ticket, or what became of that
    approves: tuple[str, ...] = ()  # the user groups whose yes this is; `*`: of somebody who needs none


@dataclass(frozen=True, slots=True)
class Hold:
    """A standing hold, recorded once and again when `held_by` changes."""

    key: str
    held_by: HeldBy
    reason: str
    since: datetime
    policy: str = ""  # whose word is held back; empty where it is no policy's


@dataclass(frozen=True, slots=True)
class Dismissal:
    """A human put the node back: the findings of that case are not acted on again until `until` (invariant 4)."""

    node: str
    machine: Machine
    findings: tuple[tuple[str, Device], ...]  # (signal, device): whatever the policy is called
    until: datetime
    reason: str
    waiver: bool = False  # nothing that is not fatal takes the machine out meanwhile, whether it was known or not
    by: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What the trail says, folded: see `state.evolve`. Cases include recently ended ones."""

    cases: Mapping[str, Case] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    dismissals: tuple[Dismissal, ...] = ()
    quarantined_at: tuple[tuple[datetime, str], ...] = ()  # (when, pool), for the pace
    answered: frozenset[str] = frozenset()  # ids of answered requests
    ended: Set[str] = frozenset()  # ids of all cases that ended, however long ago: never opened again
    words: Mapping[str, Word] = field(default_factory=dict)  # that stand, by key
    recorded_until: datetime | None = None  # when the newest decision was taken, of `RECORDS` none; None: there is none
    versions: Mapping[str, Version] = field(default_factory=dict)  # in force, by the trail: see `core.versions`
    pools: Mapping[str, Census] = field(default_factory=dict)  # by name, as counted last

    def open_case_of(self, node: str) -> Case | None:
        """The open case of a node name; there is at most one."""
        return next((c for c in self.cases.values() if c.node == node and c.open), None)


LONGEST_REASON = 2000  # characters of a person's reason: it is read in tickets, in Slack and in the log


class RequestKind(StrEnum):
    """What a person may ask."""

    OPEN = "open"
    RELEASE = "release"
    WAIVE = "waive"
    PAUSE = "pause"
    RESUME = "resume"
    MAINTAIN = "maintain"
    REPAIRED = "repaired"  # the machine was repaired or replaced, says a person or the provider
    ADOPT = "adopt"  # the ledger is older than the marks on the cluster: take them over
    APPROVE = "approve"  # another machine may be asked for
    DEFER = "defer"  # not now: it is asked again after a while
    UNKNOWN = "unknown"  # of a newer version: answered, and not done


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asked, appended to the ledger; the leader's next cycle decides."""

    id: str
    kind: RequestKind
    node: str
    reason: str
    actor: str
    channel: str  # cli, slack, annotation
    at: datetime
    until: datetime | None = None  # of a waiver, a pause, maintenance; until when it is put off
    scope: str = ""  # of a pause, a resumption, maintenance; `node` is empty then
    case: str = ""  # the one that is meant, by its id; empty: the one that was open when it was asked
    groups: tuple[str, ...] = ()  # of Slack: the user groups that the person was seen to be in


@dataclass(frozen=True, slots=True)
class PendingEffect:
    """A side effect in the outbox: decided, perhaps tried, with no outcome yet."""

    key: str  # idempotency key: <case>/<effect>
    case: str
    effect: Effect
    decided_at: datetime
    attempts: int = 0
    last_attempt_at: datetime | None = None
    last_error: str = ""
    ended: int = 0  # of how many attempts it is on record that the last one ended, with nothing left to be doubted
