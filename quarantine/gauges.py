"""What a cycle saw and left, as gauges: derived from its snapshot and its state each time, and counted nowhere.

Labels are bounded: by the policies, signals, exporters and pools of the files, and by our own enumerations. No label
holds the name of a node, a device, a case or a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily

from quarantine.controller import CycleReport
from quarantine.core.budget import accounts
from quarantine.core.case import Case, EffectStatus, HeldBy, Phase
from quarantine.core.decision import BudgetState, State, WordKind
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.model import Answer, Failed, Mode, PolicyAnswers, Samples, Verdict
from quarantine.core.policy import Rules
from quarantine.core.readings import readings_of
from quarantine.core.snapshot import Snapshot
from quarantine.core.units import counted

_OPEN = tuple(phase for phase in Phase if TRANSITIONS[phase].exits)  # from which there is a way on


def gauges(report: CycleReport) -> Iterator[GaugeMetricFamily]:
    """Of a cycle that came to its end; of another, none: what it did not see is not known."""
    if report.snapshot is None or report.state is None or report.law is None:
        return
    seen, state, rules = report.snapshot, report.state, report.law.rules
    yield from _installation(seen, state)
    yield from _questions(seen.answers, report.asked)
    yield _verdicts(seen.answers)
    yield from _coverage(seen.answers, rules)
    yield from _cases(state, rules, seen.now)
    yield _holds(state)
    yield from _pools([account.budget for account in accounts(seen.nodes, state, rules, seen.now).values()])
    yield from _outbox(seen)


def _installation(seen: Snapshot, state: State) -> Iterator[GaugeMetricFamily]:
    mode = _family("quarantine_mode_info", "1 for the mode of the installation, 0 for the other.", "mode")
    for one in Mode:
        mode.add_metric([one.value], float(seen.mode is one))
    yield mode
    yield GaugeMetricFamily("quarantine_nodes", "Nodes that the cluster has, of a pool or not.", len(seen.nodes))
    words = _family("quarantine_words", "People's standing words: pauses, and planned work.", "kind")
    stand = Counter(word.kind for word in state.words.values())
    for kind in WordKind:
        words.add_metric([kind.value], stand[kind])
    yield words


# --- Prometheus -------------------------------------------------------------------------------------------------------


def _questions(answers: Mapping[str, PolicyAnswers], asked: Mapping[str, float]) -> Iterator[GaugeMetricFamily]:
    yield _by(
        "quarantine_policy_query_duration_seconds",
        "How long all questions of a policy took together in the last cycle.",
        "policy",
        asked,
    )
    answered = _family("quarantine_policy_answered", "1 where a policy got all answers that it judges by.", "policy")
    failed = _family("quarantine_policy_failed", "1 where a policy's questions failed so.", "policy", "kind")
    for name, given in sorted(answers.items()):
        kinds = {answer.kind for answer in _all(given) if isinstance(answer, Failed)}
        answered.add_metric([name], float(not kinds))
        for kind in sorted(kinds):
            failed.add_metric([name, kind.value], 1)
    yield answered
    yield failed


def _all(given: PolicyAnswers) -> Iterator[Answer]:
    for some in (given.trigger, given.recovery, given.coverage):
        yield from some.values()


def _verdicts(answers: Mapping[str, PolicyAnswers]) -> GaugeMetricFamily:
    family = _family(
        "quarantine_policy_verdicts",
        "Series that the answers name as bad, or as good again; what was not answered is unknown and not here.",
        "policy",
        "verdict",
    )
    for name, given in sorted(answers.items()):
        for verdict, some in ((Verdict.BAD, given.trigger), (Verdict.GOOD, given.recovery)):
            if all(isinstance(answer, Samples) for answer in some.values()):
                family.add_metric([name, verdict.value], _named(some.values()))
    return family


def _named(answers: Iterable[Answer]) -> int:
    return sum(len(answer.samples) for answer in answers if isinstance(answer, Samples))


def _coverage(answers: Mapping[str, PolicyAnswers], rules: Rules) -> Iterator[GaugeMetricFamily]:
    nodes = _family("quarantine_signal_nodes", "Nodes of which a signal is seen by an exporter.", "signal", "exporter")
    devices = _family("quarantine_signal_devices", "Devices of which it is seen.", "signal", "exporter")
    seen: dict[tuple[str, str], tuple[int, int]] = {}
    for policy in rules.policies:
        given = answers.get(policy.name)
        exporter = {reading.key: reading.source.exporter for reading in readings_of(policy, rules)}
        for key, answer in given.coverage.items() if given is not None else ():
            if isinstance(answer, Samples) and key in exporter:
                about = (policy.measures, exporter[key])
                there = [n for sample in answer.samples if (n := counted(sample.value)) is not None]
                both = (len(there), sum(there))
                # Several metrics of one exporter may tell of the same devices.
                seen[about] = max(seen.get(about, both), both)
    for labels, (on, of) in sorted(seen.items()):
        nodes.add_metric(list(labels), on)
        devices.add_metric(list(labels), of)
    yield nodes
    yield devices


# --- Cases and holds --------------------------------------------------------------------------------------------------


def _cases(state: State, rules: Rules, now: datetime) -> Iterator[GaugeMetricFamily]:
    cases = [case for case in state.cases.values() if case.open]
    pools = {pool.name for pool in rules.fleet.pools} | {case.pool for case in cases}
    yield _by_phase(cases, pools)
    yield _oldest(cases, now)
    yield _findings(cases)
    yield _actions(cases)


def _by_phase(cases: list[Case], pools: Set[str]) -> GaugeMetricFamily:
    family = _family("quarantine_cases", "Open cases by phase and pool.", "phase", "pool")
    count = Counter((case.phase, case.pool) for case in cases)
    for phase in _OPEN:
        for pool in sorted(pools):
            family.add_metric([phase.value, pool], count[phase, pool])
    return family


def _oldest(cases: list[Case], now: datetime) -> GaugeMetricFamily:
    about = "How long the longest case of a phase has been in it; 0 where there is none."
    family = _family("quarantine_case_phase_oldest_seconds", about, "phase")
    for phase in _OPEN:
        since = [case.phase_since for case in cases if case.phase is phase]
        family.add_metric([phase.value], max(0.0, (now - min(since)).total_seconds()) if since else 0.0)
    return family


def _findings(cases: list[Case]) -> GaugeMetricFamily:
    family = _family("quarantine_findings", "Findings of open cases by verdict.", "policy", "verdict")
    found = Counter((finding.policy, finding.verdict.value) for case in cases for finding in case.findings)
    for labels, number in sorted(found.items()):
        family.add_metric(list(labels), number)
    return family


def _actions(cases: list[Case]) -> GaugeMetricFamily:
    """Of what is done again and again (a comment, a procedure) the latest counts."""
    family = _family("quarantine_case_actions", "Actions of open cases by outcome.", "action", "outcome")
    count = Counter((effect.value, stands.status) for case in cases for effect, stands in case.effects.items())
    for effect in sorted({effect for effect, _ in count}):
        for status in EffectStatus:
            family.add_metric([effect, status.value], count[effect, status])
    return family


def _holds(state: State) -> GaugeMetricFamily:
    family = _family("quarantine_holds", "Standing holds by what they wait for.", "held_by")
    held = Counter(hold.held_by for hold in state.holds.values())
    for reason in HeldBy:
        family.add_metric([reason.value], held[reason])
    return family


# --- Budgets and the outbox -------------------------------------------------------------------------------------------


def _pools(budgets: list[BudgetState]) -> Iterator[GaugeMetricFamily]:
    yield _by("quarantine_pool_machines", "Size of a pool.", "pool", {b.pool: b.size for b in budgets})
    taken = {b.pool: b.ours for b in budgets}
    yield _by("quarantine_pool_quarantined", "Machines that are out of service because of us.", "pool", taken)
    yield _by(
        "quarantine_pool_out", "Machines out of service for any reason.", "pool", {b.pool: b.out for b in budgets}
    )
    left = _family(
        "quarantine_pool_budget_left", "Machines that a budget still allows to be taken out.", "pool", "budget"
    )
    for b in budgets:
        for name, rest in (
            ("quarantined", b.limit_ours - b.ours),
            ("unavailable", b.limit_out - b.out),
            ("per_hour", b.limit_recent - b.recent),
        ):
            left.add_metric([b.pool, name], max(0, rest))
    yield left


def _outbox(seen: Snapshot) -> Iterator[GaugeMetricFamily]:
    waits = Counter(pending.effect.value for pending in seen.pending)
    yield _by("quarantine_outbox", "Actions that waited when the last cycle began.", "action", waits)
    since = [pending.decided_at for pending in seen.pending]
    yield GaugeMetricFamily(
        "quarantine_outbox_oldest_seconds",
        "How long the oldest of them had waited; 0 where none did.",
        max(0.0, (seen.now - min(since)).total_seconds()) if since else 0.0,
    )
    yield GaugeMetricFamily(
        "quarantine_outbox_attempts",
        "Attempts of the one that was tried most.",
        max((p.attempts for p in seen.pending), default=0),
    )
    yield GaugeMetricFamily("quarantine_requests", "Requests of people that the last cycle found.", len(seen.requests))


def _family(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, labels=labels)


def _by(name: str, about: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = _family(name, about, label)
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
