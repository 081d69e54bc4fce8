"""Tell people, once, of what needs one: policy files that broke, and holds that nothing but a person ends.

What the trail learns of is told, and tried again until it has been said. After a restart, what stands and may not have
been told is looked up by its key before it is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.core import rulefiles
from quarantine.core.case import HeldBy
from quarantine.core.decision import Hold
from quarantine.core.draft import NODE, case_key
from quarantine.core.errors import NotifierUnavailable, Refused, Unavailable
from quarantine.core.incidents import INCIDENT
from quarantine.core.rulefiles import FILE, BrokenFile
from quarantine.ports import Clock, Notices

LONGEST_WAIT = timedelta(minutes=5)
YOUNG = timedelta(days=1)  # a hold that stood for longer before this process began was told, or is in `status`
MOST_AT_ONCE = 5  # notices a cycle: what people cannot read at once need not be said at once

# By what holds: the title and what to do. One notice tells all that a cycle holds for the same reason.
NEEDS_A_PERSON: Mapping[HeldBy, tuple[str, str]] = {
    HeldBy.OVERDUE: (
        "a case waits for a person",
        "`quarantine explain NODE` tells its story. It ends when the machine is released, repaired or replaced.",
    ),
    HeldBy.UNCORDONED: (
        "a machine under a case was uncordoned",
        "Cordon it again, and its drain goes on; or release it with `quarantine release NODE --reason …`.",
    ),
    HeldBy.REWRITTEN: (
        "a program keeps removing the taint of a case",
        "Keep the program from it, name it among the fleet file's automata, or release the machine.",
    ),
    HeldBy.RESTORED: (
        "the ledger is older than the marks on the nodes, so nothing is done",
        "If the ledger was restored from a backup, `quarantine adopt --reason …` takes the marks over.",
    ),
    HeldBy.DRAIN: (
        "pods do not leave a machine",
        "Look at the pods, their disruption budgets and their job; `quarantine explain NODE` tells what is waited for.",
    ),
    HeldBy.PROCEDURE: (
        "a procedure failed, or it is not known what became of it",
        "Look at the machine. `quarantine repaired NODE` lets it prove itself, `quarantine release NODE` puts it back.",
    ),
    HeldBy.READY: (
        "a machine has proven itself and waits for its release",
        "`quarantine release NODE --reason …` puts it back in service.",
    ),
    HeldBy.SPENT: (
        "every remedy of the policy was tried",
        "Have the machine repaired or replaced; then `quarantine repaired NODE --reason …`.",
    ),
    HeldBy.SAME_MACHINE: (
        "what was sent away is back",
        "Show the ticket's serial numbers to the provider; `quarantine repaired NODE` overrules it. One that is in "
        "service again without a case is taken out by `quarantine open NODE`.",
    ),
    HeldBy.SAME_PLACE: (
        "the fault stays with the place and not with the machine",
        "Look at the cable, the optic, the switch port or the slot before another machine is sent away.",
    ),
    HeldBy.GIVEN_UP: (
        "something could not be done for a case, and is not tried again",
        "Do it by hand, as its reason says; `quarantine history NODE` tells what stood in the way.",
    ),
    HeldBy.PROVIDER: (
        "a provider has not done what was asked",
        "Its ticket says how far it is. `quarantine repaired NODE` once the machine is mended or another one, "
        "`quarantine release NODE` puts it back as it is.",
    ),
    HeldBy.BROKEN_ANNOTATION: (
        "an annotation on a node cannot be read, and counts for nothing",
        "Write it as its reason says.",
    ),
    HeldBy.BREAKER: (
        "a policy finds too much bad to be believed",
        "Look for a mistyped threshold, a metric that was renamed or a roll-out. It is judged afresh in each cycle.",
    ),
    HeldBy.SIGHT: (
        "nodes or marks of most cases are gone at once",
        "Is this the right cluster and prefix? No case is ended meanwhile.",
    ),
    HeldBy.GATE: (
        "most of a pool is new at once, so its gate stands open",
        "If the cluster was made again, nothing is to be done. If the machines are new, have them proven by hand.",
    ),
    HeldBy.FOREIGN_MARK: (
        "a node carries our taint for a case that does not explain it",
        "Remove the taint by hand once you know where it comes from.",
    ),
    HeldBy.CORRELATED: (
        "machines that share something fail together",
        "Look at what they share first. Their drains and tickets wait meanwhile.",
    ),
}
_OF_ONE_MACHINE = (HeldBy.BREAKER, HeldBy.RESTORED)  # held for it too, and told as a whole


@dataclass(frozen=True, slots=True)
class _Notice:
    what: str  # for whoever reads that it is put off
    title: str
    lines: tuple[str, ...]
    advice: str


@dataclass(slots=True)
class _Tries:
    earliest: datetime
    doubt: bool  # an earlier attempt, perhaps of another process, may have got through
    count: int = 0


@dataclass(slots=True)
class Teller:
    """Remembers what is still to be said, and what was said of the holds that stand."""

    notices: Notices | None
    clock: Clock
    cluster: str
    may: Callable[[], bool] = lambda: True  # whether this process may still tell anything
    tenure: Callable[[], int] = lambda: 0  # another one: another process may have told meanwhile
    _tenure: int = 0
    _broken: dict[str, Sequence[BrokenFile]] = field(default_factory=dict)
    _holds: dict[str, tuple[Hold, ...]] = field(default_factory=dict)
    _tries: dict[str, _Tries] = field(default_factory=dict)  # of what is still to be said
    _told: set[str] = field(default_factory=set)  # of the holds that stand
    _began: datetime | None = None

    def broke(self, broken: Sequence[BrokenFile], at: datetime) -> None:
        """These broke together; the trail has it. What a process that ended did not get to say is in `status`."""
        if broken and self.notices is not None:
            key = f"{FILE}{at.isoformat()}"
            self._broken[key] = broken
            self._tries[key] = _Tries(at, doubt=False)

    def held(self, holds: Iterable[Hold], at: datetime) -> None:
        """These holds stand as of a cycle that looked at `at`; the trail has them."""
        if self.notices is None:
            return
        if self._tenure != (tenure := self.tenure()):
            self._tenure, self._began = tenure, at
            for tries in self._tries.values():
                tries.doubt = True
        self._began = self._began or at
        self._holds = _together(holds)
        for key, group in self._holds.items():
            since = group[0].since
            if key not in self._told and key not in self._tries and since > at - YOUNG:
                self._tries[key] = _Tries(at, doubt=since < self._began)
        self._told &= self._holds.keys()

    def tell(self, still: Sequence[BrokenFile]) -> list[str]:
        """Say what is due. `still`: what is broken now, since what was repaired meanwhile concerns nobody.

        Returns a sentence for each notice that is put off.
        """
        standing = {one.file for one in still}
        put_off: list[str] = []
        said = 0
        for key, tries in sorted(self._tries.items(), key=lambda item: (item[1].count, item[1].earliest, item[0])):
            notice = self._notice(key, standing)
            if notice is None:
                self._forget(key)
            elif self.clock.now() >= tries.earliest and said < MOST_AT_ONCE and self.may():
                said += 1
                trouble = self._say(key, notice, tries)
                if trouble is not None:
                    put_off.append(f"telling people of {notice.what} is put off: {trouble}")
                if isinstance(trouble, Unavailable):
                    break  # the next one would only wait as long again
        return put_off

    def _notice(self, key: str, standing: Collection[str]) -> _Notice | None:
        """What is to be said under this key as things are; None where nothing is."""
        if key in self._broken:
            lines = tuple(one.reason for one in self._broken[key] if one.file in standing)
            title = rulefiles.title(len(lines), self.cluster)
            return _Notice("broken policy files", title, lines, rulefiles.ADVICE) if lines else None
        group = self._holds.get(key)
        if group is None:
            return None
        what, advice = NEEDS_A_PERSON[group[0].held_by]
        many = f" ({len(group)} times)" if len(group) > 1 else ""
        title = f"{what[0].upper()}{what[1:]} in cluster {self.cluster}{many}"
        return _Notice(f"what needs a person ({what})", title, tuple(hold.reason for hold in group), advice)

    def _say(self, key: str, notice: _Notice, tries: _Tries) -> Exception | None:
        """Say it, and why it could not be said."""
        assert self.notices is not None  # noqa: S101  (nothing is remembered without it)
        tries.count += 1
        doubt, tries.doubt = tries.doubt, True
        try:
            if not doubt or self.notices.find(key) is None:
                if not self.may():  # the look took long
                    raise NotifierUnavailable("another process may lead by now")
                self.notices.tell(key, notice.title, notice.lines, notice.advice)
        except (Unavailable, Refused) as error:
            wait = min(timedelta(seconds=2 ** min(tries.count, 9)), LONGEST_WAIT)
            asked = error.retry_after if isinstance(error, Unavailable) else None
            tries.earliest = self.clock.now() + (max(wait, asked) if asked is not None else wait)
            return error
        self._told.add(key)
        self._forget(key)
        return None

    def _forget(self, key: str) -> None:
        self._tries.pop(key, None)
        self._broken.pop(key, None)


def _together(holds: Iterable[Hold]) -> dict[str, tuple[Hold, ...]]:
    """The holds that need a person, by the key of the notice that tells of them: of one kind and one cycle."""
    found: dict[str, tuple[Hold, ...]] = {}
    for hold in sorted(filter(needs_a_person, holds), key=lambda hold: hold.key):
        key = f"hold/{hold.held_by}/{hold.since.isoformat()}"
        found[key] = (*found.get(key, ()), hold)
    return found


def needs_a_person(hold: Hold) -> bool:
    """Whether people are told of a hold by itself, rather than with what it is a part of."""
    if hold.held_by is HeldBy.CORRELATED:
        return hold.key.startswith(INCIDENT)
    if hold.held_by in _OF_ONE_MACHINE and hold.key.startswith((case_key(""), NODE)):
        return False
    return hold.held_by in NEEDS_A_PERSON
