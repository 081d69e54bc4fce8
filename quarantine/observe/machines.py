"""What is looked at of the machines that cases are about: their pods, their procedures, their hardware."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core import seeing
from quarantine.core.decision import State
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.identity import Directory
from quarantine.core.model import Failed, FailureKind, Node, PolicyAnswers
from quarantine.core.policy import Rules
from quarantine.core.promql.inventory import Look
from quarantine.core.workload import RunStatus, Workloads
from quarantine.observe.asking import Asker, together
from quarantine.ports import Cluster, Procedures


def workloads(
    cluster: Cluster,
    ask: Asker,
    rules: Rules,
    state: State,
    answers: Mapping[str, PolicyAnswers],
    nodes: Mapping[str, Node],
) -> Workloads | Failed:
    """What runs where it matters, with the times of checkpoints."""
    names = seeing.with_pods(state, rules, answers, nodes)
    if not names:
        return Workloads()
    try:
        found = cluster.workloads(names, seeing.pod_rules(rules))
    except (Unavailable, Refused) as error:
        return Failed(FailureKind.UNREACHABLE, str(error))
    query = rules.fleet.workloads.checkpoint.query
    # Where it is not answered, no checkpoint is known: who waits for one waits on, and nothing else depends on it.
    said = seeing.checkpoints(ask(query), ask.now) if query is not None and found.gangs else {}
    return seeing.with_checkpoints(found, said, ask.now)


def runs(procedures: Procedures | None, rules: Rules, state: State) -> Mapping[str, RunStatus] | Failed:
    """How far the procedures have come that run for open cases."""
    wanted = seeing.runs_of(state, rules)
    if not wanted or procedures is None:
        return {}
    try:
        return procedures.look(wanted)
    except (Unavailable, Refused) as error:
        return Failed(FailureKind.UNREACHABLE, str(error))


def hardware(
    ask: Asker, rules: Rules, state: State, nodes: Mapping[str, Node]
) -> Mapping[str, tuple[str, ...]] | Failed:
    """The GPUs of the nodes whose cases are marked."""
    look = Look.of(rules, state.cases.values(), nodes, ask.now)
    queries = look.queries
    if not queries:
        return {}
    answers = {key: together([ask(query) for query in asked], asked[0]) for key, asked in queries.items()}
    return look.hardware(answers, Directory.of(nodes))
