"""The cycle: observe, judge and plan, record, act. Level-triggered; one sentence of plain English each time."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from quarantine.core.decision import Decision, Kind
from quarantine.core.errors import QuarantineError, Refused, Superseded, Unavailable
from quarantine.core.model import Failed, Mode
from quarantine.core.planner import plan
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.execute import Executed, Executor
from quarantine.observe import Observer
from quarantine.ports import Ledger


@dataclass(frozen=True, slots=True)
class CycleReport:
    """How a cycle went. `blind` and `error` are sentences for people."""

    sentence: str
    plan: Plan | None = None
    executed: Executed | None = None
    blind: tuple[str, ...] = ()  # what Prometheus did not answer
    error: QuarantineError | None = None

    @property
    def trouble(self) -> str:
        """What stood in the way, for people; empty where nothing did."""
        postponed = self.executed.postponed if self.executed else ()
        return str(self.error) if self.error is not None else "; ".join((*self.blind, *postponed))

    @property
    def complete(self) -> bool:
        """Whether every dependency answered."""
        return not self.trouble


@dataclass(slots=True)
class Controller:
    """Runs cycles for one cluster, as the writer of its ledger."""

    observer: Observer
    executor: Executor
    ledger: Ledger
    rules: Rules
    cluster: str
    mode: Mode
    actor: str
    holder: str
    _term: int | None = field(default=None)
    _written: frozenset[str] = field(default=frozenset())  # policy versions whose text the ledger has from us

    def cycle(self) -> CycleReport:
        """One cycle. Raises Superseded: this process must stop. Any other trouble waits for the next cycle."""
        log = structlog.get_logger()
        try:
            report = self._cycle()
        except Superseded:
            raise
        except (Unavailable, Refused) as error:
            report = CycleReport(f"nothing was done in this cycle: {error}", error=error)
        except QuarantineError as error:
            report = CycleReport(f"this cycle ended early: {error}", error=error)
        except Exception as error:
            log.exception("a defect ended this cycle; please report it with this traceback")
            sentence = f"this cycle ended early by a defect ({type(error).__name__}), and the next one starts afresh"
            report = CycleReport(sentence, error=QuarantineError(sentence))
        if report.error is not None:
            log.warning(report.sentence)
        else:
            log.info(report.sentence)
        return report

    def _cycle(self) -> CycleReport:
        # The ledger comes first: where it cannot be written, nothing may be done to the cluster (invariant 8).
        if self._term is None:
            self._term = self.ledger.take_term(self.holder)
        else:
            self.ledger.record(self._term, ())  # one that was succeeded while it had nothing to write learns it here
        snapshot = self.look()
        made = plan(snapshot, self.rules)
        if made.decisions:
            policies = self._unknown_policies(made)
            self.ledger.record(self._term, made.decisions, policies)
            self._written |= {policy.hash for policy in policies}
        self._tell(made)
        executed = self.executor.run(self._term, snapshot, made.bad_nodes)
        for sentence in executed.done:
            structlog.get_logger().info(sentence)
        for sentence in executed.postponed:
            structlog.get_logger().warning(sentence)
        return CycleReport(made.summary, made, executed, blind_spots(snapshot))

    def look(self) -> Snapshot:
        """What a cycle would reason from, now."""
        return self.observer.snapshot(self.ledger.load(), cluster=self.cluster, mode=self.mode, actor=self.actor)

    def _unknown_policies(self, made: Plan) -> list[LoadedPolicy]:
        named = {decision.policy_hash for decision in made.decisions}
        return [policy for policy in self.rules.policies if policy.hash in named and policy.hash not in self._written]

    def _tell(self, made: Plan) -> None:
        for decision in made.decisions:
            log = structlog.get_logger().bind(**_fields(decision))
            (log.warning if decision.kind is Kind.HELD else log.info)(decision.reason)


def _fields(decision: Decision) -> dict[str, str]:
    named = {"case": decision.case, "node": decision.node, "policy": decision.policy, "held_by": decision.held_by}
    return {key: str(value) for key, value in named.items() if value is not None}


def blind_spots(snapshot: Snapshot) -> tuple[str, ...]:
    """One sentence for each reason why policies were not answered."""
    found: dict[str, list[str]] = {}
    for name, answers in snapshot.answers.items():
        asked = (*answers.trigger.values(), *answers.recovery.values(), *answers.coverage.values())
        failed = next((answer for answer in asked if isinstance(answer, Failed)), None)
        if failed is not None:
            found.setdefault(failed.detail.rstrip("."), []).append(name)
    return tuple(
        f"{'policy' if len(names) == 1 else 'policies'} {', '.join(names)} got no answer: {detail}"
        for detail, names in found.items()
    )
