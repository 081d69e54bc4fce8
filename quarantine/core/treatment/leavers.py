"""What became of the pods of a machine that is being emptied, as they are seen now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, Leaving, Phase, PodRef
from quarantine.core.workload import Class, Gang, Pod

AGAIN = timedelta(hours=1)  # a pod that could not be evicted is asked again: somebody may have mended its budgets
MOST_RETURNS = 2  # so often a pod that comes back is asked again; more would be a loop
SEPARATOR = ", "  # between the gangs of one batch: no name of Kubernetes contains it


@dataclass(frozen=True, slots=True)
class Leavers:
    """The pods on one machine. Services before training, and the lowest priority first."""

    fresh: tuple[Pod, ...]  # to be asked
    asked: tuple[Pod, ...]  # the request is under way
    ending: tuple[Pod, ...]  # terminating, by whomever
    stuck: tuple[Pod, ...]  # asked, and the request was given up
    back: tuple[Pod, ...]  # came back so often that asking again is no use


@dataclass(frozen=True, slots=True)
class Look:
    """One machine's pods as they are seen now, and what its case remembers of them."""

    case: Case
    pods: tuple[Pod, ...]
    gangs: Mapping[str, Gang]
    now: datetime
    loops: bool  # pods came back too often already, and people were told: until they are gone, none is asked again

    def leavers(self) -> Leavers:
        """Every pod by what became of asking it."""
        found: dict[str, list[Pod]] = {"fresh": [], "asked": [], "ending": [], "stuck": [], "back": []}
        for pod in sorted(self.pods, key=_order):
            found[self.fate(pod)].append(pod)
        return Leavers(**{name: tuple(of) for name, of in found.items()})

    def fate(self, pod: Pod) -> str:
        """The name of the field of `Leavers` that this pod belongs to."""
        if pod.terminating:
            return "ending"
        last = last_asked(self.case, pod.ref)
        if last is not None and self.case.is_pending(Effect.EVICT) and pod.ref in self.case.leaving[-1].pods:
            return "asked"
        if last is not None and self.now < last + AGAIN:
            return "stuck"
        # To bring a gang down again costs all of it, and what put it here would put it here once more.
        together = pod.gang in self.gangs and self.gangs[pod.gang].pods > 1
        most = 0 if together or self.loops else MOST_RETURNS
        return "back" if self._returns(pod) > most else "fresh"

    def _returns(self, pod: Pod) -> int:
        """How often what is this pod was asked to leave before, and came back to the machine under another uid.

        A StatefulSet's pod has its name again, which nothing but its successor can have. A ReplicaSet's has a new one
        that begins with its owner's: of such there may be several at a time, so it is counted by their number.
        """
        born = pod.created_at or pod.started_at or self.now
        named, alike = set(), set()
        for leaving in batches(self.case):
            for ref in leaving.pods:
                if ref.uid == pod.ref.uid or ref.namespace != pod.ref.namespace:
                    continue
                if ref.name == pod.ref.name:
                    named.add(ref.uid)
                elif leaving.at < born and _siblings(pod, ref.name):
                    alike.add(ref.uid)
        if named or not alike:
            return len(named)
        at_a_time = sum(1 for other in self.pods if other.owner == pod.owner)
        return max(1, len(alike) // at_a_time)


def _order(pod: Pod) -> tuple[bool, int, PodRef]:
    return (pod.kind is Class.TRAINING, pod.priority, pod.ref)


def batches(case: Case) -> tuple[Leaving, ...]:
    """What was asked in the drain that is under way: an earlier one of the same case is over."""
    if case.phase is not Phase.DRAINING:
        return ()
    return tuple(leaving for leaving in case.leaving if leaving.at >= case.phase_since)


def interrupted(case: Case) -> frozenset[str]:
    """The gangs that were to be brought down in the drain that is under way."""
    return frozenset(key for leaving in batches(case) for key in gangs_in(leaving))


def gangs_in(leaving: Leaving) -> list[str]:
    """The keys of the gangs of one batch."""
    return leaving.gang.split(SEPARATOR) if leaving.gang else []


def left_of(case: Case, gang: str, since: datetime) -> frozenset[PodRef]:
    """The pods that were to leave a machine together with a gang, since then."""
    batch = (leaving.pods for leaving in case.leaving if leaving.at >= since and gang in gangs_in(leaving))
    return frozenset(ref for pods in batch for ref in pods)


def first_asked(case: Case, ref: PodRef) -> datetime | None:
    """When this very pod was asked to leave for the first time; None: it never was."""
    return next((leaving.at for leaving in batches(case) if ref in leaving.pods), None)


def last_asked(case: Case, ref: PodRef) -> datetime | None:
    """When this very pod was asked to leave for the last time; None: it never was."""
    return next((leaving.at for leaving in reversed(batches(case)) if ref in leaving.pods), None)


def _siblings(pod: Pod, name: str) -> bool:
    """Whether both were made by the same owner, which gives its pods names that are never used twice."""
    stem = pod.owner.rpartition("/")[2]
    generated = bool(stem) and not pod.owner.startswith("StatefulSet ")
    return generated and name.startswith(f"{stem}-") and pod.ref.name.startswith(f"{stem}-")
