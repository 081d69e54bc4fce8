"""A machine's whole case, cycle by cycle: what is found, what runs there, what became of procedures, and time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase, RunOutcome
from quarantine.core.decision import ACTION_OF, Action, Decision, Kind, Request, RequestKind, State
from quarantine.core.filings import unsaid
from quarantine.core.marks import unmark
from quarantine.core.model import Failed, Mode, Node
from quarantine.core.planner import plan
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.rehearsal import written
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import fold
from quarantine.core.tickets import Filing, Heard, Ticket
from quarantine.core.workload import Pod, RunStatus, Workloads
from tests.core.world import FAILED, MINUTE, NOW, after, answers, carried_out, fleet, hot, policy, rules, snapshot

COMMAND = ProcedureSpec(description="asks the machine's BMC", command=("bmc", "{node}"), timeout=timedelta(minutes=30))
JOB = ProcedureSpec.model_validate(
    {
        "description": "runs on the machine",
        "timeout": "1h",
        "job": {"pod": {"containers": [{"name": "x", "image": "y"}]}},
        "output": "s3://evidence/{case}/{run}/{node}",
    }
)
PROCEDURES = {"gpu-reset": JOB, "node-reboot": COMMAND, "burn-in": JOB, "bug-report": JOB}
RESET, REBOOT = {"do": "reset", "by": "gpu-reset"}, {"do": "reboot", "by": "node-reboot"}
REPORT, REPLACE = {"do": "report"}, {"do": "replace"}
ON_PROOF = {"when": "on-proof", "probation": "1h"}


def law(*policies: LoadedPolicy, **response: object) -> Rules:
    """Rules with the procedures, of `gpu-hot` with this response (or of these policies)."""
    fields = {"notify": False, **response}
    found = rules(*(policies or (policy(response=fields),)), topology={"rack": "rack"})
    return replace(found, procedures=PROCEDURES)


@dataclass
class Life:
    """`node-3`, found hot at NOW. Every plan is folded and planned again, which must yield nothing."""

    law: Rules
    node: str = "node-3"
    nodes: dict[str, Node] = field(default_factory=fleet)
    state: State = field(default_factory=State)
    at: datetime = NOW
    hot: bool = True
    cool: bool = False  # positive evidence under load
    seen: bool = True  # whether the exporter of the machine is
    pods: tuple[Pod, ...] = ()
    pods_known: bool | None = True  # None: not asked about; False: asked, and not answered
    runs: dict[str, RunStatus] | Failed = field(default_factory=dict)
    mode: Mode = Mode.ENFORCE
    trail: list[Decision] = field(default_factory=list)
    tickets: dict[tuple[str, str], Heard | Failed] = field(default_factory=dict)

    @property
    def case(self) -> Case:
        """The machine's latest."""
        return [case for case in self.state.cases.values() if case.node == self.node][-1]

    def phase(self) -> Phase:
        """Of that case."""
        return self.case.phase

    @property
    def held(self) -> set[HeldBy]:
        """What is told of it."""
        return {hold.held_by for key, hold in self.state.holds.items() if key.split("/")[1:2] == [self.case.id]}

    def look(self, requests: Iterable[Request] = ()) -> Snapshot:
        """What a cycle sees."""
        visible = {name: node for name, node in self.nodes.items() if self.seen or name != self.node}
        found = answers(
            visible,
            *([hot(self.node)] if self.hot else []),
            good=[hot(self.node, value=60)] if self.cool else [],
        )
        given: Mapping[str, object] = dict.fromkeys(("gpu-hot",), found)
        base = snapshot(
            self.nodes,
            state=self.state,
            now=self.at,
            mode=self.mode,
            requests=list(requests),
            given=given,  # type: ignore[arg-type]
        )
        works: Workloads | Failed = Workloads({self.node: self.pods} if self.pods_known else {})
        known = FAILED if self.pods_known is False else works
        return replace(base, workloads=known, runs=self.runs, tickets=dict(self.tickets))

    def plan(self, *requests: Request) -> list[Decision]:
        """One cycle, not carried out."""
        look = self.look(requests)
        made: Plan = plan(look, self.law)
        self.state = after(self.state, made)
        assert plan(replace(look, state=self.state), self.law).decisions == (), "planning twice yields nothing new"
        self.trail += made.decisions
        return list(made.decisions)

    def cycle(self, *requests: Request) -> list[Decision]:
        """One cycle, carried out without trouble, a minute long."""
        made = self.plan(*requests)
        self.carry_out()
        self.at += MINUTE
        return made

    def carry_out(self) -> None:
        """Every effect that is pending is done, as by an executor without trouble; the trail tells of it."""
        after_all, self.nodes = carried_out(self.state, self.nodes, self.at)
        for case in self.state.cases.values():
            for effect, state in case.effects.items():
                if state.status is not EffectStatus.PENDING:
                    continue
                if effect is Effect.UNMARK:
                    patch = unmark(self.nodes[case.node], after_all.cases[case.id], prefix=self.law.prefix)
                    if patch is not None:
                        self.nodes[case.node] = written(self.nodes[case.node], patch)
                outcome = Decision(self.at, Kind.DONE, ACTION_OF[effect], "done", "t", case=case.id, effect=effect)
                by_us = True if effect is Effect.MARK else None
                filed = self._filed(case, effect)
                ref = filed.ref if filed is not None else "r"
                said = replace(unsaid(case)[0], said=True) if effect is Effect.COMMENT else None
                self.trail.append(replace(outcome, ref=ref, cordoned_by_us=by_us, ticket=filed, remark=said))
                self.state = fold(self.state, self.trail[-1:])

    def _filed(self, case: Case, effect: Effect) -> Filing | None:
        """The ticket that the effect files."""
        if effect not in (Effect.TICKET, Effect.REPLACE):
            return None
        ask, ref = "report" if effect is Effect.TICKET else "replace", f"T-{len(case.filings) + 1}"
        self.tickets.setdefault(("desk", ref), Heard(Ticket(ref, case.id, "open")))
        return Filing(ref, case.id, "desk", ask, self.at, status="open")

    def says(self, ref: str, **fields: object) -> None:
        """What the far side says of a ticket from now on."""
        said = self.tickets["desk", ref]
        assert isinstance(said, Heard)
        assert said.ticket is not None
        self.tickets["desk", ref] = replace(said, ticket=replace(said.ticket, **fields))  # type: ignore[arg-type]

    def cycles(self, count: int) -> list[Decision]:
        """So many of them."""
        return [decision for _ in range(count) for decision in self.cycle()]

    def wait(self, span: timedelta) -> list[Decision]:
        """Time passes without a look; then one cycle."""
        self.at += span
        return self.cycle()

    def ended(self, outcome: RunOutcome = RunOutcome.SUCCEEDED, message: str = "") -> None:
        """What the runner says of the procedure that runs."""
        assert self.case.run is not None
        assert not isinstance(self.runs, Failed)
        self.runs = {**self.runs, self.case.run.name: RunStatus(outcome, self.at, message)}

    def running(self) -> None:
        """The runner knows the procedure that runs."""
        self.ended(RunOutcome.RUNNING)

    def gave_up(self, effect: Effect) -> None:
        """The effect that is pending is refused for good."""
        assert self.case.is_pending(effect)
        refused = Decision(self.at, Kind.FAILED, ACTION_OF[effect], "r", "t", case=self.case.id, effect=effect)
        self.state = fold(self.state, [refused])
        assert self.case.effects[effect].status is EffectStatus.ABANDONED


def asked(kind: RequestKind, number: int = 1) -> Request:
    """A person's request about `node-3`."""
    return Request(f"p{number}", kind, "node-3", "seen to", "an engineer", "cli", NOW)


def steps(decisions: Iterable[Decision]) -> list[str]:
    """The rungs that were taken."""
    return [str(d.rung.step) for d in decisions if d.rung is not None]


def begun(decisions: Iterable[Decision]) -> list[str]:
    """The procedures that were begun, by the names of their runs after the case's id."""
    started = [d for d in decisions if d.run is not None and Effect.RUN in d.effects]
    return [d.run.name.removeprefix(f"{d.case}-") for d in started if d.run is not None]


def actions(decisions: Iterable[Decision]) -> list[Action]:
    """What was decided, outcomes aside."""
    return [d.action for d in decisions]
