"""What is done on the machine itself: pods asked to leave, procedures begun and ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quarantine.core import marks, seeing
from quarantine.core.case import Case, PodRef, Purpose
from quarantine.core.errors import (
    Conflict,
    EvictionBlocked,
    EvictionImpossible,
    LedgerUnavailable,
    Refused,
    Unavailable,
)
from quarantine.core.model import Node
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.workload import Class, Pod
from quarantine.execute.outcome import Outcome
from quarantine.ports import Clock, Cluster, Order, Procedures

IN_A_ROW = 3  # so many pods without an answer, one after the other: it is the server, and no pod


class Unanswered(Unavailable):
    """Some pods could not be asked, though the server answered about others."""


def evict(cluster: Cluster, case: Case, still: Callable[[], None], attempts: int = 0) -> Outcome:
    """Ask every pod of the latest batch: what is wrong with one (a webhook of its namespace, say) keeps no other, or
    half of a gang would be out.

    Raises EvictionBlocked, Refused or Unavailable once all were asked and some may not go yet, and Unavailable early
    where nothing answers. `still`: raises where this process must not go on; called before each pod. `attempts`: those
    before this one. Each begins further on, so that pods which are never answered keep the rest from nothing.
    """
    if not case.leaving:
        return Outcome(f"no pod was named that is to leave {case.node}", done=False)
    pods = case.leaving[-1].pods
    first = attempts * IN_A_ROW % max(1, len(pods))
    asked = silent = 0
    failed: list[tuple[PodRef, Unavailable | Refused]] = []
    blocked: list[tuple[PodRef, EvictionBlocked]] = []
    never: list[tuple[PodRef, EvictionImpossible]] = []
    for pod in (*pods[first:], *pods[:first]):
        still()
        try:
            asked += cluster.evict(pod)
        except LedgerUnavailable:
            raise
        except Unavailable as error:
            failed.append((pod, error))
            silent += 1
            if silent == IN_A_ROW:
                break
            continue
        except Refused as error:
            failed.append((pod, error))
        except EvictionBlocked as error:
            blocked.append((pod, error))
        except EvictionImpossible as error:
            never.append((pod, error))
        silent = 0
    if failed:
        raise _some(case, failed, answered=len(failed) > silent or asked > 0 or bool(blocked or never))
    if blocked:
        names = in_words([str(pod) for pod, _ in blocked])
        raise EvictionBlocked(f"{names} on {case.node} may not leave yet: {blocked[0][1]}")
    if never:
        names = in_words([str(pod) for pod, _ in never])
        return Outcome(f"{names} cannot be asked to leave {case.node} as things are: {never[0][1]}", done=False)
    gone = len(pods) - asked
    left = f", {gone} {'was' if gone == 1 else 'were'} gone already" if gone else ""
    return Outcome(f"{_pods(asked)} on {case.node} {'was' if asked == 1 else 'were'} asked to leave{left}")


def _some(case: Case, failed: Sequence[tuple[PodRef, Unavailable | Refused]], *, answered: bool) -> Exception:
    """What is said of pods that could not be asked."""
    said = f"{in_words([str(pod) for pod, _ in failed])} on {case.node} could not be asked to leave: {failed[0][1]}"
    away = [error for _, error in failed if isinstance(error, Unavailable)]
    if not away:
        return Refused(said)
    waits = max((error.retry_after for error in away if error.retry_after is not None), default=None)
    return (Unanswered if answered else Unavailable)(said, retry_after=waits)


def start(
    procedures: Procedures | None,
    cluster: Cluster,
    rules: Rules,
    clock: Clock,
    case: Case,
    node: Node | None,
    *,
    in_doubt: bool,
    still: Callable[[], None],
) -> Outcome:
    """Begin the procedure that the case is to run. `in_doubt`: an earlier attempt may have begun it.

    Raises Conflict where it would harm what runs on the machine, and something does. `still`: raises where it must not
    be begun any more; called last of all, since the look at the pods may take long.
    """
    run = case.run
    if run is None:
        return Outcome(f"the procedure for {case.node} has ended before it could be begun", done=False)
    spec = rules.procedures.get(run.procedure)
    if procedures is None or spec is None:
        return Outcome(f"there is no procedure {run.procedure} to run on {case.node}", done=False)
    if gone := another(node, case):
        return Outcome(gone, done=False)
    now = clock.now()
    if run.purpose is Purpose.EVIDENCE and now >= run.until:
        return Outcome(f"{run.procedure} could not be begun on {case.node} before its time was up", done=False)
    if spec.command is not None and in_doubt:
        # A Job is found again by its name. A command is not, and is never run twice (invariant 15). It counts as begun:
        # its runner does not know it, so it is lost, and a person looks.
        unknown = "the controller stopped while it was about to, so it is not begun again"
        return Outcome(f"whether {run.procedure} was begun on {case.node} is not known: {unknown}")
    if left := _in_its_way(cluster, rules, case, run.purpose):
        raise Conflict(f"{run.procedure} would harm what runs on {case.node}: {in_words([str(p.ref) for p in left])}")
    machine, taint = case.machine, marks.taint_key(rules.prefix)
    still()
    procedures.start(Order(run.started(now), spec, case.id, case.node, machine.provider_id, machine.system_uuid, taint))
    return Outcome(f"{run.procedure} is begun on {case.node} as {run.name}", run.name)


def _in_its_way(cluster: Cluster, rules: Rules, case: Case, purpose: Purpose) -> Sequence[Pod]:
    """A reset ends whatever runs, and a burn-in starves it. Evidence is taken beside it."""
    return () if purpose is Purpose.EVIDENCE else pods_on(cluster, rules, case)


def stop(procedures: Procedures | None, rules: Rules, case: Case) -> Outcome:
    """End what may still run though the case has ended or gone on without it. Raises Unavailable."""
    ended, left = [], []
    for run in case.loose_runs:
        spec = rules.procedures.get(run.procedure)
        if procedures is None or spec is None:
            left.append(f"{run.name} may still run, and there is no procedure {run.procedure} any more: end it by hand")
            continue
        try:
            procedures.stop(run, spec)
        except Refused as error:
            left.append(f"{run.name} may still run and could not be ended: {error}")
        else:
            ended.append(run.name)
    over = f"{in_words(ended)} on {case.node} {'is' if len(ended) == 1 else 'are'} ended"
    if left:
        return Outcome("; ".join([*([over] if ended else []), *left]), done=False)
    return Outcome(over if ended else f"nothing runs on {case.node} for case {case.id} any more")


def another(node: Node | None, case: Case) -> str:
    """That the case's machine is not there any more, in words; empty where it is."""
    there = node is not None and marks.machine_matches(node, case.machine)
    return "" if there else f"{case.node} is not the machine of case {case.id} any more"


def training_on(cluster: Cluster, rules: Rules, case: Case) -> list[Pod]:
    """The training that runs on the machine at this moment. Raises Conflict where it cannot be seen."""
    return [pod for pod in pods_on(cluster, rules, case) if pod.kind is Class.TRAINING]


def pods_on(cluster: Cluster, rules: Rules, case: Case) -> tuple[Pod, ...]:
    """What has to leave the machine, at this moment. Raises Conflict where it cannot be seen."""
    seen = cluster.workloads([case.node], seeing.pod_rules(rules)).nodes.get(case.node)
    if seen is None:
        raise Conflict(f"which pods run on {case.node} cannot be seen")
    return seen


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"
