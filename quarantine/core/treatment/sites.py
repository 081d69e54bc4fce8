"""The machines that are to be emptied, and what is known to run on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import Case, Effect, EffectStatus, Phase, PodRef, Purpose
from quarantine.core.draft import Draft
from quarantine.core.marks import case_on
from quarantine.core.model import Failed
from quarantine.core.response import Drain, Moment
from quarantine.core.treatment.leavers import Leavers, Look, interrupted, last_asked, left_of
from quarantine.core.treatment.moment import Job, asked_for, came_at, fresh, jobs_of, waits_for
from quarantine.core.treatment.owed import Owed
from quarantine.core.workload import Gang, Pod, Workloads

HOLDS = "drain/"  # of hold keys
BACK = "back"  # of those: pods come back
EMPTIED = (Phase.QUARANTINED, Phase.DRAINING)  # the phases in which a machine is emptied, or may begin to be


@dataclass(frozen=True, slots=True)
class Site:
    """A machine whose drain is owed and may go on, and everything that has to leave it."""

    draft: Draft
    case_id: str
    drain: Drain
    pods: tuple[Pod, ...]
    gangs: Mapping[str, Gang]

    @property
    def case(self) -> Case:
        """As this plan leaves it so far."""
        return self.draft.state.cases[self.case_id]

    @property
    def draining(self) -> bool:
        """Whether its drain has begun."""
        return self.case.phase is Phase.DRAINING

    @property
    def jobs(self) -> list[Job]:
        """What is interrupted as one, as far as it is on this machine."""
        return jobs_of(self.pods, self.gangs)

    @property
    def since(self) -> datetime:
        """When its quarantine began, from which moments and deadlines count."""
        return self.case.taken_out_at if self.draining else self.case.phase_since

    @property
    def moment(self) -> Moment:
        """What is waited for now."""
        return asked_for(self.drain, self.since, self.draft.now)

    def waits_for(self, job: Job) -> str | None:
        """What is still to happen before this job may be interrupted here; None where nothing is."""
        if job.gang is not None and job.gang.key in self.interrupted:
            return None  # half of a gang is out already: what is left of it does nothing
        return waits_for(self.moment, job, self.since, self.draft.now, stale=self._stale(job))

    def _stale(self, job: Job) -> bool:
        """Whether this job's moment came, and passed unused: by a pause, say, or for want of a place.

        A drain begins with the last of its machine's jobs, which keeps the moments of the others. What had come when it
        began is not waited for again: those pods only leave one after the other. But where they were to be asked, and
        are to be asked again, that moment was theirs, and is over.
        """
        at = came_at(self.moment, job, self.since, self.draft.now)
        if at is None or (self.draining and at <= self.case.phase_since and not self._missed(job)):
            return False
        others = () if self.draining else (j for j in self.jobs if j.training and not j.down)
        came = [came_at(self.moment, other, self.since, self.draft.now) for other in others]
        return not any(fresh(moment, self.draft.now) for moment in (at, *came) if moment is not None)

    def _missed(self, job: Job) -> bool:
        """Whether pods of this job were to be asked to leave before, and stayed.

        What stands alone and was refused is tried again all the same. Where the batch is done with and the pod does not
        even end, it was never sent.
        """
        state = self.case.effects.get(Effect.EVICT)
        unsent = state is not None and state.status is EffectStatus.DONE
        if not unsent and (job.gang is None or job.alone):
            return False
        asked = [pod for pod in job.pods if last_asked(self.case, pod.ref) is not None]
        look = self._look()
        return any(look.fate(pod) == "fresh" for pod in asked)

    @property
    def interrupted(self) -> frozenset[str]:
        """The gangs that were brought down in the drain that is under way, or are about to be.

        One whose batch was never sent, by a pause say, runs on as before: it falls at a moment of its own.
        """
        named = interrupted(self.case)
        return named if not named or self.case.is_pending(Effect.EVICT) else frozenset(filter(self._out, named))

    def _out(self, gang: str) -> bool:
        """Whether some of what was to leave with a gang has left, or ends, on whichever of its machines."""
        works, since = self.draft.snapshot.workloads, self.case.phase_since
        for case in self.draft.open_cases():
            asked = left_of(case, gang, since)
            if not asked:
                continue
            if case.phase not in EMPTIED:
                return True
            pods = seen_on(works, case.node)
            if pods is not None and asked - {pod.ref for pod in pods if not pod.terminating}:
                return True
        return False

    def leavers(self) -> Leavers:
        """Its pods, by what became of asking them."""
        return self._look().leavers()

    def has(self, gang: str) -> bool:
        """Whether pods of this gang are to be asked to leave it."""
        look = self._look()
        return any(pod.gang == gang and look.fate(pod) == "fresh" for pod in self.pods)

    def _look(self) -> Look:
        loops = hold_key(self.case_id, BACK) in self.draft.state.holds
        return Look(self.case, self.pods, self.gangs, self.draft.now, loops)

    @property
    def waiting(self) -> frozenset[PodRef]:
        """The pods whose moment has not come."""
        return frozenset(pod.ref for job in self.jobs if self.waits_for(job) is not None for pod in job.pods)


def hold_key(case_id: str, what: str = "") -> str:
    """The key of a hold about a case's drain: `drain/<case>`, and one for each other cause."""
    return f"{HOLDS}{case_id}/{what}" if what else f"{HOLDS}{case_id}"


def wanted(case: Case, due: Mapping[str, Owed]) -> Drain | None:
    """The drain that is owed for a case in a phase in which it is emptied; None where none is.

    Where the policy asks no more for one that has begun, nothing more is evicted; that the pods are gone still counts.
    """
    owed = due.get(case.id)
    if owed is None or case.phase not in EMPTIED:
        return None
    never = owed.drain.when is Moment.NEVER and case.phase is Phase.QUARANTINED
    return None if never else owed.drain


def ready(draft: Draft, case: Case) -> bool:
    """Whether pods of this machine may be asked to leave at all, whatever the moment.

    Our taint is there, so that nothing new comes; our cordon was not taken away (invariant 4); the evidence is taken.
    """
    node, mark = draft.nodes.get(case.node), case.effects.get(Effect.MARK)
    if node is None or mark is None or mark.status is not EffectStatus.DONE:
        return False
    if case_on(node, draft.rules.prefix) != case.id or (case.cordoned_by_us and not node.unschedulable):
        return False
    return not examined(draft, case)


def examined(draft: Draft, case: Case) -> bool:
    """Whether evidence is being taken on the machine, and its time is not up."""
    return case.run is not None and case.run.purpose is Purpose.EVIDENCE and draft.now < case.run.until


def seen_on(works: Workloads | Failed, node: str) -> tuple[Pod, ...] | None:
    """The pods that must leave a node; None where it was not asked, or not answered in full."""
    if isinstance(works, Failed) or node not in works.nodes:
        return None
    pods = works.nodes[node]
    return None if any(pod.gang and pod.gang not in works.gangs for pod in pods) else pods
