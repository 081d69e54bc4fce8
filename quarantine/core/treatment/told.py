"""What people are told of drains: each cause once, for as long as it stands."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from quarantine.core.case import Case, HeldBy
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import FLAPS, Draft
from quarantine.core.marks import shorten
from quarantine.core.model import Failed
from quarantine.core.reasons import in_words
from quarantine.core.treatment.leavers import first_asked
from quarantine.core.treatment.moment import overdue
from quarantine.core.treatment.sites import BACK, EMPTIED, HOLDS, Site, hold_key
from quarantine.core.workload import Pod

_LONGEST_ERROR = 300


class Told:
    """The holds of this cycle. Lives only inside `drains()`: what was not said again by its end stands no more."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._standing: set[str] = set()

    def keep(self, case: Case) -> None:
        """Everything that was said of this case stands: it is not known whether it is over."""
        begins = hold_key(case.id, "")
        self._standing.update(k for k in self._draft.state.holds if k == begins or k.startswith(f"{begins}/"))

    def lift_others(self) -> None:
        """What stands no more. A server that answers now and then is not told of each time."""
        why = "nothing stands in the way of the drain any more, or it is over"
        for key in [k for k in self._draft.state.holds if k.startswith(HOLDS) and k not in self._standing]:
            case = self._draft.state.cases.get(key.split("/")[1])
            emptied = case is not None and case.phase in EMPTIED
            if emptied and self._draft.state.holds[key].held_by is HeldBy.UNKNOWN_PODS:
                self._draft.fade(key, why, FLAPS)
            else:
                self._draft.lift(key, why)

    def unknown(self, case: Case) -> None:
        """What runs on the machine could not be asked, so nothing is done about it (invariant 1)."""
        works = self._draft.snapshot.workloads
        why = works.detail if isinstance(works, Failed) else "the cluster's answer does not tell"
        reason = f"{case.node} is to be drained, and what runs on it is not known: {why}"
        self._say(case, "", HeldBy.UNKNOWN_PODS, reason)

    def waiting(self, site: Site) -> None:
        """The moment does not come."""
        waits = [what for job in site.jobs if (what := site.waits_for(job)) is not None]
        if waits and overdue(site.drain, site.since, self._draft.now):
            reason = f"{site.case.node} is to be drained and waits for {in_words(waits)} since {_time(site.since)}"
            self._say(site.case, "moment", HeldBy.DRAIN, reason)

    def troubles(self, site: Site) -> None:
        """Pods that were asked to leave and do not."""
        case, seen = site.case, site.leavers()
        # What was given up is tried once more now and then: that is no news, and no budget that refuses for the moment.
        again = hold_key(case.id, "stuck") in self._draft.state.holds and bool(seen.asked)
        late = [pod for pod in seen.asked if self._late(site, pod)]
        if late and not again:
            self._say(case, "blocked", HeldBy.DRAIN, self._blocked(case, late))
        if seen.stuck or again:
            which = _names(seen.stuck or seen.asked)
            reason = f"{which} cannot be evicted from {case.node}, and asking again helps little: do two disruption "
            reason += "budgets cover the same pod? mend them, or delete the pod by hand; it is tried once an hour"
            self._say(case, "stuck", HeldBy.DRAIN, reason)
        if seen.back:
            owners = in_words(list(dict.fromkeys(pod.owner or f"whoever makes {pod.ref}" for pod in seen.back)))
            reason = f"{_names(seen.back)} came back to {case.node} after being asked to leave, which is not repeated: "
            reason += f"stop {owners} from tolerating its taint, or move it by hand"
            self._say(case, BACK, HeldBy.DRAIN, reason)
        if ending := [p for p in seen.ending if self._late(site, p)]:
            reason = f"{_names(ending)} on {case.node} were told to end long ago and have not: is the kubelet there, "
            reason += "or does a finalizer hold them?"
            self._say(case, "ending", HeldBy.DRAIN, reason)

    def _late(self, site: Site, pod: Pod) -> bool:
        at = first_asked(site.case, pod.ref)
        return at is not None and self._draft.now >= at + site.drain.blocked

    def _blocked(self, case: Case, pods: list[Pod]) -> str:
        since = min(at for pod in pods if (at := first_asked(case, pod.ref)) is not None)
        errors = (p.last_error for p in self._draft.snapshot.pending if p.case == case.id and p.last_error)
        said = next(errors, "")
        why = f": {shorten(said, _LONGEST_ERROR)}" if said else "; a disruption budget may be in the way"
        return f"{_names(pods)} were asked to leave {case.node} at {_time(since)} and have not{why}"

    def _say(self, case: Case, what: str, held_by: HeldBy, reason: str) -> None:
        key = hold_key(case.id, what)
        self._standing.add(key)
        self._draft.hold(self._draft.about_case(Kind.HELD, Action.DRAIN, case, reason, held_by=held_by, hold_key=key))


def _names(pods: Iterable[Pod]) -> str:
    return in_words([str(pod.ref) for pod in pods])


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
