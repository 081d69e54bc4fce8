"""What a cycle obeys: the rules in force, in which policies that are new in their version only observe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from quarantine.core import planner, rulefiles
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.rulefiles import InForce, PolicyRun
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import fold


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
        """As `planner.plan`, preceded by what is to be said of the files and of new policies."""
        about = (
            *rulefiles.file_decisions(snapshot.state, self.in_force.broken, snapshot.now, snapshot.actor),
            *rulefiles.change_decisions(snapshot.state, self.new, self.settle, snapshot.now, snapshot.actor),
        )
        # What is said of the files is of now, and no sign that the ledger is as young as the marks on the cluster.
        state = replace(fold(snapshot.state, about), recorded_until=snapshot.state.recorded_until)
        made = planner.plan(replace(snapshot, state=state), self.rules)
        return replace(made, decisions=(*about, *made.decisions))
