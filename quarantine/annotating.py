"""Charts kept in step with what stands: one annotation for each machine that is out, from its first moment to its end.

It remembers what is there for as long as the process leads; one that begins to looks each up before it makes it. What
was taken away by a person is not made again. Whoever shows charts is asked little at a time, and let rest where it
fails: nothing else waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core.annotations import Annotation, of_cases
from quarantine.core.decision import State
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from quarantine.pacing import Tries
from quarantine.ports import Annotator, Clock

AT_ONCE = 10  # annotations in a cycle; what is left waits for the next one
WITHIN = timedelta(seconds=5)  # nothing is begun later in a cycle
LONGER_EVERY = timedelta(minutes=5)  # how often the end of one that stands is moved to now
LONGEST_REST = timedelta(minutes=10)  # of one that fails, and of all of them
SETTLES = timedelta(seconds=30)  # for so long what was made, and whose answer was lost, may be found not yet
_REFUSED_AFTER = 2  # refusals in a row, and it is not about one annotation any more


@dataclass(slots=True)
class _Kept:
    """What is known of a case's annotation."""

    ref: str | None = None  # None: not known
    said: Annotation | None = None  # what it shows; None: not known
    gone: bool = False  # it was there, and somebody took it away
    tries: Tries = field(default_factory=Tries)

    def rank(self, wanted: Annotation) -> tuple[int, datetime] | None:
        """What comes first: what is not there, then what has changed, then what has to be longer. None: it is right."""
        if self.gone or self.said == wanted:
            return None
        if self.said is None:
            return 0, wanted.since
        if replace(self.said, until=wanted.until) != wanted:
            return 1, self.said.until
        # It ended as it was said, or is to be longer by a good deal.
        return (2, self.said.until) if wanted.until >= self.said.until + LONGER_EVERY else None


@dataclass(slots=True)
class Annotating:
    """The charts of one cluster."""

    annotator: Annotator
    clock: Clock
    cluster: str
    may: Callable[[], bool] = lambda: True  # whether this process may still tell anything
    tenure: Callable[[], int] = lambda: 0  # another one: another process may have told meanwhile
    _tenure: int = 0
    _kept: dict[str, _Kept] = field(default_factory=dict)  # by case
    _tries: Tries = field(default_factory=Tries)  # of all of them

    def tell(self, snapshot: Snapshot, state: State, rules: Rules) -> list[str]:  # noqa: ARG002  (a `Saying`)
        """Bring up to date what is due. Returns a sentence where something is put off."""
        if self._tenure != (tenure := self.tenure()):
            self._tenure, self._kept = tenure, {}  # each is looked up anew
        wanted = {one.key: one for one in of_cases(state, self.cluster, snapshot.now)}
        self._kept = {key: self._kept.get(key, _Kept()) for key in wanted}
        began = self.clock.now()
        if not self._tries.due(began):
            return []
        trouble: list[str] = []
        refused = 0
        for annotation in self._due(wanted.values(), began)[:AT_ONCE]:
            if self.clock.now() >= began + WITHIN or not self.may():
                break
            kept = self._kept[annotation.key]
            try:
                if kept.ref is None:
                    kept.ref = self.annotator.find(annotation)
                    if not self.may():
                        break  # to look took long
                kept.ref = self.annotator.put(annotation, kept.ref)
            except Refused as error:
                kept.tries.failed(self.clock.now(), LONGEST_REST)
                trouble, refused = [f"annotating a chart is put off: {error}"], refused + 1
                if refused >= _REFUSED_AFTER:
                    self._tries.failed(self.clock.now(), LONGEST_REST)
                    break
                continue
            except Unavailable as error:
                # It may have been made: it is looked up, once it would be found.
                rest = max(error.retry_after or SETTLES, SETTLES)
                kept.tries.failed(self.clock.now(), LONGEST_REST)  # one that is always the cause keeps no other waiting
                self._tries.failed(self.clock.now(), LONGEST_REST, at_least=rest)
                return [f"annotating charts is put off: {error}"]
            kept.said, kept.gone = annotation, kept.ref is None
            kept.tries.done()
            self._tries.done()
            refused = 0
        return trouble

    def _due(self, wanted: Iterable[Annotation], now: datetime) -> list[Annotation]:
        """What is to be said, in its order: what has failed least comes first."""
        ranked = [(self._kept[one.key], one) for one in wanted]
        found = [
            (kept.tries.count, rank, one)
            for kept, one in ranked
            if kept.tries.due(now) and (rank := kept.rank(one)) is not None
        ]
        return [one for *_, one in sorted(found, key=lambda each: each[:2])]
