"""When what runs on a machine may be interrupted: what a policy's `drain` waits for, and whether it has come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from quarantine.core.response import Drain, Moment
from quarantine.core.workload import Class, Gang, Pod

FRESH = timedelta(minutes=15)  # what a job did after its checkpoint or restart is lost: so much of it may be
TOLD_AFTER = timedelta(days=1)  # a moment without a deadline is waited for, and people are told after so long


@dataclass(frozen=True, slots=True)
class Job:
    """What is interrupted as one: a gang, or a training pod that is of none."""

    name: str  # the gang's key, or the pod's namespace and name
    pods: tuple[Pod, ...]  # of it on one machine
    gang: Gang | None = None

    @property
    def alone(self) -> bool:
        """Whether it is a single pod: nothing falls with it, so it leaves at the pace of all others."""
        return self.gang is None or self.gang.pods <= 1

    @property
    def training(self) -> bool:
        """Whether an interruption costs it what it did since its last checkpoint."""
        return any(pod.kind is Class.TRAINING for pod in self.pods)

    @property
    def down(self) -> bool:
        """Whether nothing of it runs anywhere, so that an interruption costs nothing."""
        if any(pod.running for pod in self.pods):
            return False
        return self.gang is None or (self.gang.pods > 0 and self.gang.running == 0)

    @property
    def checkpoint_at(self) -> datetime | None:
        """Of the whole job; None where it is not known."""
        return self.gang.checkpoint_at if self.gang is not None else self.pods[0].checkpoint_at

    @property
    def started_at(self) -> datetime | None:
        """When what started last of it did; None where it is not known."""
        return self.gang.youngest if self.gang is not None else self.pods[0].started_at


def jobs_of(pods: Iterable[Pod], gangs: Mapping[str, Gang]) -> list[Job]:
    """The gangs on a machine, and the training that is of none. Every pod's gang must be in `gangs`."""
    together: dict[str, list[Pod]] = {}
    found = []
    for pod in pods:
        if pod.gang:
            together.setdefault(pod.gang, []).append(pod)
        elif pod.kind is Class.TRAINING:
            found.append(Job(f"pod {pod.ref}", (pod,)))
    return [*(Job(key, tuple(of), gangs[key]) for key, of in together.items()), *found]


def asked_for(drain: Drain, since: datetime, now: datetime) -> Moment:
    """The moment that is waited for now. `since`: of the quarantine."""
    late = drain.deadline is not None and now >= since + drain.deadline
    return Moment.NOW if late and drain.then == "now" else drain.when


def overdue(drain: Drain, since: datetime, now: datetime) -> bool:
    """Whether people are to be told that the moment does not come."""
    return now >= since + (drain.deadline or TOLD_AFTER)


def came_at(when: Moment, job: Job, since: datetime, now: datetime) -> datetime | None:
    """When the moment of this job came that is waited for: the latest checkpoint or restart since then, if any was.

    What is not known has not happened, and neither has what is dated in the future.
    """
    match when:
        case Moment.AFTER_CHECKPOINT:
            at = job.checkpoint_at
        case Moment.ON_RESTART:
            at = job.started_at
        case _:
            return None
    return at if at is not None and since < at <= now else None


def fresh(at: datetime, now: datetime) -> bool:
    """Whether a moment that came is one still. After it, another one is waited for: a pause may last for hours."""
    return now < at + FRESH


def waits_for(when: Moment, job: Job, since: datetime, now: datetime, *, stale: bool = False) -> str | None:
    """What is still to happen before this job may be interrupted; None where nothing is.

    `stale`: the moment that has come is one no more, so that the next one is waited for.
    """
    if not job.training or when is Moment.NOW:
        return None
    match when:
        case Moment.NEVER | Moment.WHEN_IDLE:
            return f"the end of {job.name}"
        case Moment.AFTER_CHECKPOINT:
            if job.down or (came_at(when, job, since, now) is not None and not stale):
                return None
            known = job.checkpoint_at
            last = "none is known" if known is None else f"the last one is of {known:%Y-%m-%d %H:%M:%S} UTC"
            return f"a checkpoint of {job.name} ({last})"
        case Moment.ON_RESTART:
            come = job.down or (came_at(when, job, since, now) is not None and not stale)
            return None if come else f"the next restart of {job.name}"
        case _:
            assert_never(when)


def why_now(drain: Drain, when: Moment, jobs: Iterable[Job]) -> str:
    """Why a drain begins: for people."""
    if when is Moment.NOW and drain.when is not Moment.NOW:
        return "what was waited for did not happen before the deadline"
    if not any(job.training for job in jobs):
        return "no training runs there"
    match when:
        case Moment.AFTER_CHECKPOINT:
            return "the training there has written a checkpoint since the quarantine, or is down"
        case Moment.ON_RESTART:
            return "the training there is down, or has started anew since the quarantine"
        case Moment.NOW:
            return "its policy waits for nothing"
        case Moment.NEVER | Moment.WHEN_IDLE:
            return "no training runs there"
        case _:
            assert_never(when)
