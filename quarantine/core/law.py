"""What a cycle obeys: the rules in force, in which policies that are new in their version only observe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from quarantine.core import planner, rulefiles
from quarantine.core.census import census_decisions
from quarantine.core.decision import RECORDS, Decision
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.rulefiles import InForce, PolicyRun
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import fold
from quarantine.core.versions import version_decisions


@dataclass(frozen=True)
class Law:
    """`runs`: how long each policy ran before this cycle. `settle`: for how many cycles one that is new observes."""

    in_force: InForce
    runs: Mapping[str, PolicyRun]
    settle: int

    @classmethod
    def of(cls, in_force: InForce, known: Mapping[str, PolicyRun] | None, settle: int) -> Law:
        """`known`: what the ledger has of earlier cycles; None where it never kept anything."""
        return cls(in_force, rulefiles.runs_of(in_force.rules, known, settle), settle)

    @cached_property
    def new(self) -> tuple[LoadedPolicy, ...]:
        """The policies that would act, and only observe because they are new in their version."""
        return rulefiles.new_ones(self.in_force.rules, self.runs, self.settle)

    @cached_property
    def rules(self) -> Rules:
        """To judge and plan by."""
        return rulefiles.observing(self.in_force.rules, self.new)

    def plan(self, snapshot: Snapshot) -> Plan:
        """As `planner.plan`, between what is to be said of the rules and of the pools' sizes."""
        about = tuple(self._of_rules(snapshot))
        # What is said of the files is of now, and no sign that the ledger is as young as the marks on the cluster.
        state = replace(fold(snapshot.state, about), recorded_until=snapshot.state.recorded_until)
        made = planner.plan(replace(snapshot, state=state), self.rules)
        then = fold(state, made.decisions)  # by the plan itself it may turn out that the cluster is not to be believed
        counted = census_decisions(snapshot.nodes, then, self.rules, snapshot.now, snapshot.actor)
        return replace(made, decisions=(*about, *made.decisions, *counted))

    def _of_rules(self, snapshot: Snapshot) -> Iterator[Decision]:
        state, now, actor = snapshot.state, snapshot.now, snapshot.actor
        yield from rulefiles.file_decisions(state, self.in_force.broken, now, actor)
        yield from version_decisions(state, self.in_force.rules, now, actor)
        yield from rulefiles.change_decisions(state, self.new, self.settle, now, actor)


def without_records(made: Plan) -> Plan:
    """The plan without what is only kept on record and does nothing to a machine: for who asks what would be done."""
    return replace(made, decisions=tuple(d for d in made.decisions if d.action not in RECORDS))
