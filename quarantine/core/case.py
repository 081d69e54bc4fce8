"""What is held against a machine: evidence, findings, and the case that gathers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from quarantine.core.model import Device, Machine, Severity, Verdict
from quarantine.core.record.trace import Trace
from quarantine.core.tickets import Filing, Remark


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a verdict was given, complete enough to be read a year later without Prometheus (invariant 13)."""

    query: str  # as sent
    value: float | None  # in `unit`; None where the verdict is that there is no value
    unit: str
    threshold: str  # in words: "above 78 °C for 5m, 10 % tolerated"
    at: datetime
    signal: str = ""  # what is measured, whichever exporter's metric and whatever the policy is called
    source: str = ""  # the reading it comes from: "dcgm-exporter/DCGM_FI_DEV_GPU_TEMP"
    labels: Mapping[str, str] = field(default_factory=dict)  # of the source series
    covered: int | None = None  # devices that the policy could see when it judged
    offenders: int | None = None  # devices it found bad in the same answer
    others: Mapping[str, float] = field(default_factory=dict)  # what other exporters' readings say of the device, now
    note: str = ""
    trace: Trace | None = None  # in the trail only: `evolve` leaves it out of the state, which has no use for it


class Phase(StrEnum):
    """Where a case stands. The allowed moves are `lifecycle.TRANSITIONS`."""

    SUSPECTED = "suspected"
    QUARANTINED = "quarantined"
    DRAINING = "draining"
    DRAINED = "drained"
    REMEDY = "remedy"
    SWAP_REQUESTED = "swap_requested"
    SWAPPED = "swapped"
    PROBATION = "probation"
    RELEASED = "released"
    DISMISSED = "dismissed"
    RETIRED = "retired"


class HeldBy(StrEnum):
    """What stands between a finding and its action."""

    OBSERVE_MODE = "observe-mode"
    NO_ANSWER = "no-answer"  # Prometheus failed, or the trigger and the recovery contradict each other
    NO_COVERAGE = "no-coverage"  # the policy's reach is unknown or empty, so its breaker cannot be judged
    CROWDED = "crowded"  # more devices are seen of a node than it has
    NO_SUCH_NODE = "no-such-node"
    AMBIGUOUS_NODE = "ambiguous-node"
    NOT_IN_POOL = "not-in-pool"
    IGNORED = "ignored"  # the opt-out label
    BREAKER = "breaker"
    BUDGET = "budget"
    DISMISSED = "dismissed-by-human"
    FOREIGN_MARK = "foreign-mark"  # our taint with a case that has ended
    SIGHT = "sight"  # so much is gone at once that what is seen of the cluster is not believed
    GONE = "gone"  # the node is not listed; it may be back
    GRACE = "grace"  # the machine or its driver started a moment ago
    MAINTENANCE = "maintenance"  # planned work is under way on the node
    ESCALATION = "escalation"  # not found often enough yet
    SETTLING = "settling"  # so new that others may join it
    CORRELATED = "correlated"  # machines that share something fail together: that is the suspect
    TELLS_ONLY = "tells-only"  # the policy takes no machine out
    CHANGED = "changed-policy"  # a policy that is new in its version only observes at first
    BROKEN_FILE = "broken-file"  # a policy file cannot be used as it is
    OVERDUE = "overdue"  # a phase has lasted longer than its deadline, and only a person can end it
    WAIVED = "waived"  # a person's word that the machine stays in service for a while
    PAUSED = "paused"  # a person's word that nothing new is done: in all, for a policy or for a pool
    UNCORDONED = "uncordoned"  # somebody took our cordon away and left the taint: is the machine wanted back?
    REWRITTEN = "rewritten"  # a program rewrites the taint list without our taint, again and again
    RESTORED = "restored-ledger"  # the ledger is older than the marks on the cluster
    DRAIN = "drain"  # pods do not leave: a disruption budget, no good moment, a pod that comes back
    UNKNOWN_PODS = "unknown-pods"  # which pods run on the node could not be asked
    PROCEDURE = "procedure"  # a procedure failed, or it is not known what became of it
    READY = "ready"  # proven, and the policy leaves the release to a person
    SPENT = "spent"  # every remedy of the policy was tried
    BROKEN_ANNOTATION = "broken-annotation"  # an annotation of a node under our prefix cannot be read
    GATE = "gate"  # most of a pool is new at once: is it the cluster that is?
    TRICKLE = "trickle"  # what was held before goes out a few at a time
    SAME_MACHINE = "same-machine"  # what came in exchange is what was sent away, or has a part of it that was bad
    GIVEN_UP = "given-up"  # something could not be done for a case, and is not tried again
    SAME_PLACE = "same-place"  # another machine fails as the one before it did there: the place is the suspect
    APPROVAL = "approval"  # a person has to say that another machine may be asked for
    PROVIDER = "provider"  # the provider has not done in time what was asked, or says that it will not


class Effect(StrEnum):
    """A side effect that a decision asks for, in the order in which a case's effects are carried out."""

    MARK = "mark"  # cordon, taint, label and annotations in one conditional write
    EVENT = "event"  # the Kubernetes Event that says why
    PHASE = "phase"  # the label that says the case's phase, and nothing else of the mark
    RUN = "run"  # start the procedure that the case's `run` names
    EVICT = "evict"  # ask the pods that the case's `leaving` names to leave
    TICKET = "ticket"  # tell the provider
    REPLACE = "replace"  # ask the provider for another machine; what is on this one may be destroyed
    NOTIFY = "notify"
    UNMARK = "unmark"  # take away exactly what MARK added
    STOP = "stop"  # end a procedure that nobody waits for any more
    CONDITION = "condition"  # the node condition HardwareSuspect, as the case stands
    CLOSE = "close"  # end the ticket of a machine that is back in service
    COMMENT = "comment"  # add to the case's tickets what has become known since


class EffectStatus(StrEnum):
    """How far a side effect has come."""

    PENDING = "pending"
    DONE = "done"
    ABANDONED = "abandoned"  # the case ended, or the world moved on, before it could be done
    OVERTAKEN = "overtaken"  # it is not asked for any more, and may have been done without its answer reaching us


@dataclass(frozen=True, slots=True)
class EffectState:
    """One side effect of a case: `ref` is what the far side calls it (a ticket number, a message)."""

    status: EffectStatus
    ref: str = ""


class Purpose(StrEnum):
    """What a procedure is run for."""

    EVIDENCE = "evidence"
    RESET = "reset"
    REBOOT = "reboot"
    BURN_IN = "burn-in"


class RunOutcome(StrEnum):
    """What became of a procedure. `LOST`: it is not known, and it is not run again by itself."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LATE = "late"  # its time was up
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a procedure on a case's machine. `name` is also that of the Kubernetes Job, where it is one."""

    name: str  # <case>-<purpose>-<n>
    purpose: Purpose
    procedure: str  # its name in the rules
    asked_at: datetime
    until: datetime  # when its time is up
    outcome: RunOutcome = RunOutcome.RUNNING
    ended_at: datetime | None = None
    output: str = ""  # where it put what it found, by its template
    started_at: datetime | None = None  # when it was begun, and `until` counts from; None: not yet, or an older record

    @property
    def since(self) -> datetime:
        """When it was begun; asked for, where it is not yet."""
        return self.started_at or self.asked_at

    def started(self, at: datetime) -> Run:
        """The same, begun now. It has all of its time from here, but for evidence: other things wait for that."""
        waited_for = self.purpose is Purpose.EVIDENCE
        return replace(self, started_at=at, until=self.until if waited_for else at + (self.until - self.since))


@dataclass(frozen=True, slots=True, order=True)
class PodRef:
    """A pod, never to be taken for another one of its name (invariant 16)."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Leaving:
    """The pods that were asked to leave a machine, together."""

    at: datetime
    pods: tuple[PodRef, ...]
    gang: str = ""  # which they are of; empty: each stands for itself


class Step(StrEnum):
    """A rung of the ladder of remedies."""

    RESET = "reset"
    REBOOT = "reboot"
    REPORT = "report"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Rung:
    """A step that was taken in a case. `number` is its place in the ladder of that time, from 0."""

    step: Step
    number: int
    at: datetime
    procedure: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One policy's bad verdict on one device. `verdict` is the latest; `evidence` that of the first bad one."""

    policy: str
    device: Device
    severity: Severity
    since: datetime
    verdict: Verdict
    evidence: Evidence
    earlier: tuple[datetime, ...] = ()  # when it began before, each time ended by a recovery; of the last 28 days
    ended: tuple[datetime, ...] = ()  # when those were good again, and this one if it is: the latest last
    shared: tuple[datetime, ...] = ()  # of the beginnings: those held since machines that share something failed

    @property
    def spells(self) -> tuple[tuple[datetime, datetime | None], ...]:
        """Every time that it began, with when it was good again; None where it is not yet.

        An older record does not say when; there it is taken to have been good again at once.
        """
        if not self.earlier and self.verdict is not Verdict.GOOD:
            return ((self.since, None),)
        over = (*self.earlier, self.since) if self.verdict is Verdict.GOOD else self.earlier
        untold = len(over) - len(self.ended)
        ends = (*over[: max(0, untold)], *self.ended[max(0, -untold) :])
        closed = tuple(zip(over, ends, strict=True))
        return closed if self.verdict is Verdict.GOOD else (*closed, (self.since, None))

    @property
    def key(self) -> tuple[str, Device]:
        """What makes it the same finding in the next cycle."""
        return (self.policy, self.device)


@dataclass(frozen=True, slots=True)
class Proof:
    """How far a machine on probation has come: what is not seen proves nothing, and what is bad begins it anew."""

    since: datetime  # from here its quiet counts: later than it began by as long as the machine was not seen
    verdict: Verdict  # good: seen, and quiet
    at: datetime  # since when it is so

    def then(self, verdict: Verdict, at: datetime) -> Proof:
        """The same, once another verdict holds."""
        if Verdict.BAD in (self.verdict, verdict):
            return Proof(at, verdict, at)
        unseen = max(at - self.at, timedelta(0)) if self.verdict is Verdict.UNKNOWN else timedelta(0)
        return Proof(self.since + unseen, verdict, at)


@dataclass(frozen=True, slots=True)
class Case:
    """The triage of one machine, from first finding to its end."""

    id: str
    node: str
    machine: Machine
    phase: Phase
    opened_at: datetime
    phase_since: datetime
    findings: tuple[Finding, ...]
    opened_by: str  # "controller", or the person who opened it
    reason: str
    held_by: HeldBy | None = None
    effects: Mapping[Effect, EffectState] = field(default_factory=dict)
    cordoned_by_us: bool | None = None  # None until the node was written
    pool: str = ""
    provider: str = ""  # who replaces the machine
    by_person: bool = False  # a person opened it: no metric ends it
    runs: tuple[Run, ...] = ()  # oldest first; the last one may still be running
    leaving: tuple[Leaving, ...] = ()  # oldest first
    rungs: tuple[Rung, ...] = ()  # oldest first
    sent_away: Machine | None = None  # the machine that the case was about, once another one took its place
    gate: bool = False  # a machine that is new here, and marked until it has proven itself
    put_back: tuple[datetime, ...] = ()  # when our taint was put back after a program had removed it
    boots: tuple[str, ...] = ()  # boot ids that the machine had before, during the case
    booted_at: datetime | None = None  # when it was last noticed that it had booted, during the case
    swapped_at: datetime | None = None  # when it was last noticed that another machine, or part, took its place
    out_since: datetime | None = None  # when it was decided to take the machine out; None: never, or an older record
    renewed_at: datetime | None = None  # when another machine took its place, or a person said that it was repaired
    proof: Proof | None = None  # of the latest probation that was disturbed; None: none was
    filings: tuple[Filing, ...] = ()  # oldest first
    remarks: tuple[Remark, ...] = ()  # oldest first
    approved_at: datetime | None = None  # when a person last said that another machine may be asked for
    approved_by: tuple[str, ...] = ()  # whose yes that is, see `Decision.approves`
    told_at: datetime | None = None  # when people were told of the case
    deferred_until: datetime | None = None  # a person's word that it is not to be asked for before

    @property
    def taken_out_at(self) -> datetime:
        """Since when the machine is out of service; of an older record, since its present phase."""
        return self.out_since or self.phase_since

    @property
    def stay_since(self) -> datetime:
        """Since when the machine is in its phase as it is now: a repair, or another machine, begins it anew."""
        return max(self.phase_since, self.renewed_at or self.phase_since)

    @property
    def proving(self) -> Proof:
        """How far the machine has come on this probation; undisturbed, it is quiet since that began."""
        begun = self.stay_since
        disturbed = self.proof is not None and self.proof.at >= begun
        return self.proof if self.proof is not None and disturbed else Proof(begun, Verdict.GOOD, begun)

    @property
    def run(self) -> Run | None:
        """The procedure that is running; None where none is."""
        return self.runs[-1] if self.runs and self.runs[-1].outcome is RunOutcome.RUNNING else None

    def last_run(self, purpose: Purpose) -> Run | None:
        """The latest run for this purpose."""
        return next((run for run in reversed(self.runs) if run.purpose is purpose), None)

    @property
    def loose_runs(self) -> tuple[Run, ...]:
        """Procedures that may still run though nobody waits for them: the case has ended, or has gone on without."""
        over = (RunOutcome.LOST,) if self.open else (RunOutcome.LOST, RunOutcome.RUNNING)
        return tuple(run for run in self.runs if run.outcome in over)

    def is_pending(self, effect: Effect) -> bool:
        """Whether this effect was asked for and has no outcome yet."""
        state = self.effects.get(effect)
        return state is not None and state.status is EffectStatus.PENDING

    @property
    def told_provider(self) -> bool:
        """Whether the provider was, or is about to be, asked for something: no metric closes the case then.

        So it is while a replacement is waited for, whoever asked for it in the end.
        """
        return self.phase in (Phase.SWAP_REQUESTED, Phase.SWAPPED) or any(
            (state := self.effects.get(effect)) is not None and state.status is not EffectStatus.ABANDONED
            for effect in (Effect.TICKET, Effect.REPLACE)
        )

    @property
    def waits_for_mark(self) -> bool:
        """Whether it was decided to mark the node for what was found on it, and it has never been marked yet.

        What is new in its place is marked for being new: no evidence of that grows old.
        """
        mark = self.effects.get(Effect.MARK)
        pending = mark is not None and mark.status is EffectStatus.PENDING
        new = self.gate or self.sent_away is not None
        return self.marked and pending and self.cordoned_by_us is None and not new

    @property
    def open(self) -> bool:
        """False once it has ended; an ended case never changes again."""
        return self.phase not in (Phase.RELEASED, Phase.DISMISSED, Phase.RETIRED)

    @property
    def marked(self) -> bool:
        """Whether the node carries, or is about to carry, our taint."""
        return self.open and self.phase is not Phase.SUSPECTED
