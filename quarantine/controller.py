"""The cycle: observe, judge and plan, record, act. Level-triggered; one sentence of plain English each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import structlog
from structlog.contextvars import bind_contextvars, bound_contextvars

from quarantine import loglines, whose
from quarantine.blindspots import blind_spots
from quarantine.core import rulefiles
from quarantine.core.decision import State
from quarantine.core.document import Written
from quarantine.core.errors import LedgerUnavailable, QuarantineError, Refused, SchemaMismatch, Superseded, Unavailable
from quarantine.core.law import Law
from quarantine.core.model import Mode
from quarantine.core.policy import Rules
from quarantine.core.rulefiles import InForce, PolicyRun
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import fold
from quarantine.execute import Executed, Executor
from quarantine.loglines import Pace
from quarantine.notices import Teller
from quarantine.observe import Observer
from quarantine.ports import Ledger, LedgerView, Rulebook
from quarantine.stopwatch import Stopwatch
from quarantine.trouble import Trouble


@dataclass(frozen=True, slots=True)
class CycleReport:
    """How a cycle went. `blind` and `error` are sentences for people."""

    sentence: str
    at: datetime | None = None  # what it looked at; None where it did not come to look
    law: Law | None = None  # what was in force
    plan: Plan | None = None
    executed: Executed | None = None
    blind: tuple[str, ...] = ()  # what was asked and not answered
    error: QuarantineError | None = None
    snapshot: Snapshot | None = None  # what it saw; this and the rest only of a cycle that came to its end
    state: State | None = None  # what the trail added up to before it acted
    seconds: Mapping[str, float] = field(default_factory=dict)  # by stage, in their order
    asked: Mapping[str, float] = field(default_factory=dict)  # how long the questions of each policy took, in seconds
    ceded: bool = False  # another process may lead by now, or this one was asked to stop: it ended where it was

    @property
    def trouble(self) -> str:
        """What stood in the way, for people; empty where nothing did."""
        postponed = self.executed.postponed if self.executed else ()
        return str(self.error) if self.error is not None else "; ".join((*self.blind, *postponed))

    @property
    def complete(self) -> bool:
        """Whether every dependency answered."""
        return not self.trouble


class _Ceded(Exception):
    """Nothing more is this process's to do: another one may lead by now, or it was asked to stop."""


# Returns a sentence for each thing that is put off; raises nothing of whom it tells.
Saying = Callable[[Snapshot, State, Rules], list[str]]


@dataclass(slots=True)
class Controller:
    """Runs cycles for one cluster, as the writer of its ledger."""

    observer: Observer
    executor: Executor
    ledger: Ledger
    rulebook: Rulebook
    teller: Teller
    cluster: str
    mode: Mode
    actor: str
    holder: str
    settle: int  # cycles for which a policy that is new in its version only observes
    outward: Sequence[Saying] = ()  # what else is told of each cycle, once it has acted
    _term: int | None = field(default=None)
    _written: frozenset[str] = field(default=frozenset())  # policy versions whose text the ledger has from us
    _kept: tuple[InForce, Mapping[str, PolicyRun]] | None = field(default=None)  # what the ledger has from us of both
    _newest: datetime | None = field(default=None)  # of the decisions that we have seen in the ledger, or put there
    _acts: bool = field(default=False)  # whether this cycle has come so far
    _trouble: Trouble = field(default_factory=Trouble)
    _pace: Pace = field(default_factory=Pace)
    _cycles: int = field(default=0)  # of this process

    def cycle(self) -> CycleReport:
        """One cycle. Raises Superseded: this process must stop. Any other trouble waits for the next cycle.

        Whether this process leads (`executor.leads`) is asked before each thing that only a leader may do.
        """
        self._cycles += 1
        with bound_contextvars(cycle=self._cycles, term=self._term):
            return self._attempt()

    def _attempt(self) -> CycleReport:
        self._acts, defect = False, None
        try:
            report = self._cycle()
        except Superseded:
            raise
        except _Ceded as ceded:
            self.step_down()
            structlog.get_logger().info(str(ceded), about="cycle")
            return CycleReport(str(ceded), ceded=True)
        except (Unavailable, Refused) as error:
            what = "this cycle ended early" if self._acts else "nothing was done in this cycle"
            report = CycleReport(f"{what}: {error}", error=error)
        except QuarantineError as error:
            report = CycleReport(f"this cycle ended early: {error}", error=error)
        except Exception as error:  # noqa: BLE001  (said, with its traceback)
            what = f"this cycle ended early by a defect ({type(error).__name__}), and the next one starts afresh"
            sentence, defect = f"{what}; please report it with its traceback", error
            report = CycleReport(sentence, error=QuarantineError(sentence))
        if report.error is not None:
            self._forget()
            self._trouble.failed(report.sentence, defect)
        else:
            self._trouble.ended()
            structlog.get_logger().info(report.sentence, about="cycle", **_counts(report))
        return report

    @property
    def acts(self) -> bool:
        """Whether the running cycle, or else the last one, came as far as to do something outside the ledger."""
        return self._acts

    def step_down(self) -> None:
        """Another process may have taken over: before the next cycle a new term is taken, and nothing is taken as kept.

        To be called between cycles.
        """
        self._term = None
        self.executor.tenure += 1
        self.observer.forget()
        self._forget()

    def keep_up(self) -> None:
        """While another process leads: the rules as they are now, for those whom this one answers."""
        with suppress(QuarantineError):
            self.observer.rules = self.executor.rules = self._law().rules

    def look_at_ledger(self) -> None:
        """Raises SchemaMismatch where it has another schema than this code, OtherCluster where it is another cluster's
        than the one that is seen, LedgerUnavailable and ClusterUnavailable where that is not known.
        """
        self.ledger.policy_runs()  # a few rows: the schema is looked at with whatever is asked
        whose.require_same(self.executor.cluster, self.ledger)

    def _cycle(self) -> CycleReport:
        watch = Stopwatch()
        # The ledger comes first: where it cannot be written, nothing may be done to the cluster (invariant 8).
        self._still_leads()
        if self._term is None:
            self._term = self._new_term()
            bind_contextvars(term=self._term)
        else:
            self.ledger.record(self._term, ())  # one that was succeeded while it had nothing to write learns it here
        view = self.ledger.load()
        self._see(view)
        watch.ended("load")
        law = self._law()
        watch.ended("rules")
        snapshot = self._look(law, view)
        watch.ended("observe")
        made = law.plan(snapshot)
        watch.ended("plan")
        self._still_leads()
        if made.decisions:
            made = replace(made, decisions=self.observer.traced(made.decisions, view.state))
            texts = self._unknown_texts(law, made)
            loglines.decisions(made.decisions, self.ledger.record(self._term, made.decisions, texts))
            in_force = {one.hash for one in law.in_force.rules.written}
            self._written = (self._written | {text.hash for text in texts}) & in_force
        state = fold(view.state, made.decisions)
        self._newest = state.recorded_until
        self.teller.broke(rulefiles.newly_broken(view.state, law.in_force.broken), snapshot.now)
        self._keep(self._term, law, snapshot)
        self.teller.held(state.holds.values(), snapshot.now)
        watch.ended("record")
        self._acts = True
        executed = self.executor.run(self._term, snapshot, made)
        untold, ceded = self._speak(snapshot, state, law)
        executed = replace(executed, postponed=(*executed.postponed, *untold))
        for sentence in untold:
            self._pace.tell(sentence, snapshot.now, about="telling")
        watch.ended("act")
        return CycleReport(
            made.summary,
            snapshot.now,
            law,
            made,
            executed,
            blind_spots(snapshot),
            snapshot=snapshot,
            state=state,
            seconds=watch.seconds,
            asked=self.observer.asked,
            ceded=ceded,
        )

    def _new_term(self) -> int:
        """Of the trail of the cluster that is seen, and of no other's."""
        identity = whose.identity_of(self.executor.cluster)
        self._still_leads()  # the answer may have taken long
        term = self.ledger.take_term(self.holder, identity)
        if identity is None:
            structlog.get_logger().warning(whose.UNTOLD)
        return term

    def _still_leads(self) -> None:
        """Raises `_Ceded`: a process may have been paused for long, or asked to stop, between any two lines."""
        if why := self.executor.barred():
            raise _Ceded(f"{why}, so nothing was done in this cycle")

    def _speak(self, snapshot: Snapshot, state: State, law: Law) -> tuple[list[str], bool]:
        """Tell everybody how things stand: a sentence for each thing that is put off, and whether another may lead.

        Whoever is told is somebody else's: one that fails keeps nothing from the others. A ledger that fails is raised
        once all were told.
        """
        says: list[Callable[[], list[str]]] = [lambda: self.teller.tell(law.in_force.broken)]
        says += [partial(say, snapshot, state, law.rules) for say in self.outward]
        untold: list[str] = []
        failed: LedgerUnavailable | SchemaMismatch | None = None
        for say in says:
            if why := self.executor.barred():
                untold.append(f"{why}, so what is left to be told is for who leads next")
                return untold, True
            try:
                untold += say()
            except Superseded:
                raise
            except (LedgerUnavailable, SchemaMismatch) as error:
                failed = error
            except Exception as error:  # noqa: BLE001  (said, and put off)
                structlog.get_logger().exception("a defect kept something from being told; please report this")
                untold.append(f"telling of this cycle is put off by a defect ({type(error).__name__}: {error})")
        if failed is not None:
            raise failed
        return untold, False

    def _see(self, view: LedgerView) -> None:
        """A ledger may lose what it said it had kept, also between two cycles and without an error."""
        until = view.state.recorded_until
        if self._newest is not None and (until is None or until < self._newest):
            since = "anything" if until is None else f"what was recorded after {until:%Y-%m-%d %H:%M:%S} UTC"
            structlog.get_logger().warning(
                f"the ledger does not have {since}, though it had: it was restored from a backup, or a failover lost "
                "its last commits; the cycle goes on from what it has, and looks up what may have been done"
            )
            self._forget()
        self._newest = until

    def _forget(self) -> None:
        """Of a ledger that failed it is not known what it has kept: it is given all of it again."""
        self._written, self._kept = frozenset(), None

    def _law(self) -> Law:
        known = self._kept[1] if self._kept is not None else self.ledger.policy_runs()
        return Law.of(self.rulebook.read(), known, self.settle)

    def _look(self, law: Law, view: LedgerView) -> Snapshot:
        self.observer.rules = self.executor.rules = law.rules
        return self.observer.snapshot(view, cluster=self.cluster, mode=self.mode, actor=self.actor)

    def _keep(self, term: int, law: Law, snapshot: Snapshot) -> None:
        """What was in force in this cycle, for whoever starts after us; only where it changed."""
        runs = rulefiles.ran(law.runs, snapshot.answers, self.settle)
        if self._kept is None or self._kept[0] is not law.in_force or self._kept[1] != runs:
            self.ledger.keep_rules(term, law.in_force.files, runs)
            self._kept = (law.in_force, runs)

    def _unknown_texts(self, law: Law, made: Plan) -> list[Written]:
        """What decided, or came into force, and is not known to be kept in full."""
        named = {decision.policy_hash for decision in made.decisions}
        return [one for one in law.in_force.rules.written if one.hash in named and one.hash not in self._written]


def _counts(report: CycleReport) -> dict[str, float]:
    """What a program would count of it."""
    done, postponed = (report.executed.done, report.executed.postponed) if report.executed is not None else ((), ())
    decided = len(report.plan.decisions) if report.plan is not None else 0
    seconds = round(sum(report.seconds.values()), 3)
    return {
        "seconds": seconds,
        "decisions": decided,
        "done": len(done),
        "postponed": len(postponed),
        "blind": len(report.blind),
    }
