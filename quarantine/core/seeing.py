"""What a cycle looks at beyond the nodes and the policies' answers: only where something could follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from quarantine.core.case import Case, Effect, EffectStatus, Phase, PodRef, Run
from quarantine.core.decision import State
from quarantine.core.identity import Directory
from quarantine.core.model import Answer, Node, PolicyAnswers, Samples
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.readings import readings_of
from quarantine.core.treatment.owed import needs_pods
from quarantine.core.workload import Gang, Pod, PodRules, Workloads

BY_JOB = "job"  # in `correlation.by`: machines on which pods of one gang run
AHEAD = timedelta(minutes=5)  # a checkpoint that is later than this from now is a clock's error, not a checkpoint

PodKey = tuple[str, str]  # namespace and name


def pod_rules(rules: Rules) -> PodRules:
    """How pods are told apart, by the fleet file."""
    said = rules.fleet.workloads
    return PodRules(rules.prefix, said.gang_labels, said.training, said.checkpoint.annotation or "")


def with_pods(
    state: State, rules: Rules, answers: Mapping[str, PolicyAnswers], nodes: Mapping[str, Node]
) -> frozenset[str]:
    """The nodes whose pods matter: machines that may be drained or worked on, and those that a job may tie together."""
    cases = (case for case in state.cases.values() if case.marked and _matters(case, rules))
    return frozenset(c.node for c in cases if c.node in nodes) | _found_by_job(rules, answers, nodes)


def _matters(case: Case, rules: Rules) -> bool:
    """Whether it matters what runs on its machine; also where a policy that was changed since asks no more."""
    return case.phase is Phase.DRAINING or case.is_pending(Effect.REPLACE) or needs_pods(case, rules)


def _found_by_job(rules: Rules, answers: Mapping[str, PolicyAnswers], nodes: Mapping[str, Node]) -> frozenset[str]:
    """Whose pods tell whether it is one job that fails: what is found bad now by policies that group by it."""
    grouping = [p for p in rules.policies if p.spec.correlation is not None and BY_JOB in p.spec.correlation.by]
    if not grouping:
        return frozenset()
    directory = Directory.of(nodes)
    found: set[str] = set()
    for policy in grouping:
        said = answers.get(policy.name)
        bad = _named(policy, rules, said.trigger, directory) if said is not None else set()
        # What is beyond the bound and has not lasted yet may be of the same job; alone, it is nobody's concern.
        found |= bad | (_named(policy, rules, said.emerging, directory) if said is not None and bad else set())
    return frozenset(found)


def _named(policy: LoadedPolicy, rules: Rules, said: Mapping[str, Answer], directory: Directory) -> set[str]:
    """The nodes that a policy's answers, by reading key, are about."""
    found = set()
    for reading in readings_of(policy, rules):
        answer = said.get(reading.key)
        for sample in answer.samples if isinstance(answer, Samples) else ():
            node = directory.node(reading.source.node, sample.labels)
            if isinstance(node, Node):
                found.add(node.name)
    return found


def runs_of(state: State, rules: Rules) -> list[tuple[Run, ProcedureSpec]]:
    """The procedures that are running for open cases, as far as the rules still know how they are looked at."""
    running = (case.run for case in state.cases.values() if case.open and _begun(case))
    known = ((run, rules.procedures.get(run.procedure)) for run in running if run is not None)
    return [(run, spec) for run, spec in known if spec is not None]


def _begun(case: Case) -> bool:
    """Whether its procedure was begun, or may have been."""
    effect = case.effects.get(Effect.RUN)
    return effect is not None and effect.status is not EffectStatus.ABANDONED


def checkpoints(answer: Answer, now: datetime) -> dict[PodKey, datetime]:
    """When each pod's job wrote its last checkpoint, by the fleet's query; of no answer, nothing is known."""
    found: dict[PodKey, datetime] = {}
    for sample in answer.samples if isinstance(answer, Samples) else ():
        key = (sample.labels.get("namespace", ""), sample.labels.get("pod", ""))
        at = _time_of(sample.value, now)
        if all(key) and at is not None:
            found[key] = max(at, found.get(key, at))
    return found


def with_checkpoints(known: Workloads, said: Mapping[PodKey, datetime], now: datetime) -> Workloads:
    """The later of what a pod's annotation and the query say, of each pod and of each gang.

    Times that lie in the future are not believed, whoever says them.
    """
    nodes = {name: tuple(_told(pod, said, now) for pod in pods) for name, pods in known.nodes.items()}
    seen: dict[str, set[PodRef]] = {}
    for pod in (pod for pods in nodes.values() for pod in pods if pod.gang):
        seen.setdefault(pod.gang, set()).add(pod.ref)
    gangs = {key: _gang_told(gang, gang.members | seen.get(key, set()), said, now) for key, gang in known.gangs.items()}
    return Workloads(nodes, gangs)


def _told(pod: Pod, said: Mapping[PodKey, datetime], now: datetime) -> Pod:
    times = (pod.checkpoint_at, said.get((pod.ref.namespace, pod.ref.name)))
    return replace(pod, checkpoint_at=_latest(times, now))


def _gang_told(gang: Gang, pods: Iterable[PodRef], said: Mapping[PodKey, datetime], now: datetime) -> Gang:
    """Where every pod is told of, the job's checkpoint is as old as its oldest part; else one pod speaks for all."""
    told = [at for pod in pods if (at := said.get((pod.namespace, pod.name))) is not None]
    queried = min(told) if told and len(told) >= gang.pods else max(told, default=None)
    return replace(gang, checkpoint_at=_latest((gang.checkpoint_at, queried), now))


def _latest(times: Iterable[datetime | None], now: datetime) -> datetime | None:
    return max((at for at in times if at is not None and at <= now + AHEAD), default=None)


def _time_of(value: float, now: datetime) -> datetime | None:
    """A sample's value as a time; None for what is none, such as 0 of a gauge that was never set."""
    if not 0 < value <= (now + AHEAD).timestamp():
        return None
    return datetime.fromtimestamp(value, UTC)
