"""`plan(snapshot, rules)`: the one place where it is decided what is done, for dry-run, backtest and tests alike."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core import asked, fitness, givenup, incidents, recovery, restored, strays, triage, upkeep
from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Hold, Kind
from quarantine.core.draft import JUDGE, Draft
from quarantine.core.identity import Directory
from quarantine.core.judge import Judgement, judge
from quarantine.core.model import Mode
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.treatment import drain, followup, gate, probation, proceed, returned, runs, swap
from quarantine.core.treatment.owed import owed


def plan(snapshot: Snapshot, rules: Rules) -> Plan:
    """Pure: the same snapshot and rules give the same plan, and planning again on its result gives nothing new.

    People come first, then what the cluster says of open cases and what became of procedures, then new findings (the
    strongest first, so that they get what budget is left), then what follows from them: evidence, drains, remedies.
    """
    draft = Draft(snapshot, rules)
    judgements = judge_all(snapshot, rules)
    draft.found(judgements)
    restored.watch(draft)
    asked.requests(draft)
    upkeep.cases(draft)
    upkeep.marks(draft)
    followup.heard(draft)
    swap.identify(draft)
    gate.newcomers(draft)
    runs.outcomes(draft)
    fit = fitness.policies_fit(draft, judgements)
    for judgement in fit:
        strays.strays(draft, judgement)
    asked.waiting(draft)
    # What ends comes before what begins: the budget that it frees is there in the same plan.
    upkeep.late_marks(draft)
    recovery.recoveries(draft, judgements)
    probation.releases(draft)
    draft.count_budgets()
    triage.offences(draft, fit)
    probation.turns(draft, fit)
    due = owed(draft)
    proceed.examine(draft, due)
    drain.drains(draft, due)
    proceed.proceed(draft, due)
    returned.returned(draft)
    followup.answered(draft)
    givenup.given_up(draft)
    upkeep.deadlines(draft)
    incidents.incidents(draft)
    upkeep.sweep(draft)
    decisions = tuple(draft.decisions)
    return Plan(
        now=snapshot.now,
        decisions=decisions,
        summary=summary(snapshot, judgements, decisions, draft.state.holds),
        bad_nodes=frozenset(draft.bad_now),
        observe_only=draft.mode is Mode.OBSERVE,
    )


def judge_all(snapshot: Snapshot, rules: Rules) -> list[Judgement]:
    """The verdicts of every policy that was asked."""
    directory = Directory.of(snapshot.nodes)
    asked_of = [policy for policy in rules.policies if policy.name in snapshot.answers]
    return [judge(policy, snapshot.answers[policy.name], rules, directory, snapshot.uptime) for policy in asked_of]


def summary(
    snapshot: Snapshot, judgements: list[Judgement], decisions: tuple[Decision, ...], holds: Mapping[str, Hold]
) -> str:
    """The cycle in one plain English sentence."""
    bad = sum(len(judgement.bad) for judgement in judgements)
    blind = [judgement.policy.name for judgement in judgements if judgement.failed is not None]
    taken = [d.node or "" for d in decisions if d.kind is Kind.DECIDED and d.action is Action.QUARANTINE]
    held = sorted({str(d.held_by) for d in decisions if d.kind is Kind.HELD})
    cases = sum(1 for case in snapshot.state.cases.values() if case.open)
    parts = [f"{_number(bad, 'finding')} on {len(snapshot.nodes)} nodes, {_number(cases, 'open case')}"]
    if taken:
        parts.append(f"taking out {in_words(taken)}")
    if held:
        parts.append(f"holding back because of {', '.join(held)}")
    if blind:
        parts.append(f"blind in {in_words(blind)}")
    if standing := [h for h in holds.values() if h.key.startswith(JUDGE) and h.held_by is not HeldBy.NO_ANSWER]:
        told = [f"{hold.key.removeprefix(JUDGE)} ({hold.held_by})" for hold in standing]
        parts.append(f"policies that are held: {in_words(told)}")
    other = len(decisions) - len(taken) - sum(1 for d in decisions if d.kind is Kind.HELD)
    if other:
        parts.append(f"{other} further decision{'' if other == 1 else 's'}")
    if not decisions and len(parts) == 1:
        parts.append("nothing to do")
    return "; ".join(parts)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
