"""What the executor remembers of effects between two runs, for no longer than they are wanted and this process leads.

The ledger has what is certain of an attempt's end. What this process knows beyond that, the next one takes to be in
doubt, and so does this one once another may have led.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from quarantine.core.case import Effect
from quarantine.core.decision import PendingEffect
from quarantine.core.errors import Conflict, TicketsUncertain, Unavailable
from quarantine.execute.added import Ends
from quarantine.execute.run import FILES

_ON_NODES = (Effect.MARK, Effect.UNMARK, Effect.PHASE)
_DOUBTED = (*FILES, Effect.CLOSE, Effect.COMMENT, Effect.RUN)  # what is done otherwise, or not at all, where in doubt
_SHORTEST_WAIT = timedelta(seconds=1)

Asking = tuple[str, datetime]  # an effect's key, and when it was asked for: one that is asked for again is another


def asking(pending: PendingEffect) -> Asking:
    """What it is remembered by."""
    return pending.key, pending.decided_at


@dataclass(slots=True)
class Memory:
    """By the asking."""

    earliest: dict[Asking, datetime] = field(default_factory=dict)  # when one that was put off may be tried again
    ended: dict[Asking, int] = field(default_factory=dict)  # how many attempts there were when one was seen to end
    doubtful: dict[Asking, set[str]] = field(default_factory=dict)  # of comments: the remarks that were perhaps told
    ends: dict[Asking, Ends] = field(default_factory=dict)  # of closings that are not over: what was told of them

    def keep(self, pending: Iterable[PendingEffect]) -> None:
        """Forget what is not pending any more: of a case that ended, or took another way, no effect is seen again."""
        wanted = {asking(one) for one in pending}
        for memory in self._all():
            for key in memory.keys() - wanted:
                del memory[key]

    def forget(self, pending: PendingEffect) -> None:
        """It is done."""
        for memory in self._all():
            memory.pop(asking(pending), None)

    def in_doubt(self, pending: PendingEffect) -> bool:
        """Whether an earlier attempt began of which neither this process nor the ledger knows the end."""
        return pending.attempts > max(pending.ended, self.ended.get(asking(pending), 0))

    def saw_end(self, pending: PendingEffect) -> None:
        """The attempt that was begun last has ended, well or not."""
        self.ended[asking(pending)] = pending.attempts + 1

    def doubt(self, pending: PendingEffect, remarks: Iterable[str]) -> None:
        """These remarks of a comment were perhaps told."""
        self.doubtful.setdefault(asking(pending), set()).update(remarks)

    def doubts(self, pending: PendingEffect) -> set[str]:
        """The remarks of a comment that were perhaps told."""
        return self.doubtful.get(asking(pending), set())

    def told(self, pending: PendingEffect) -> Ends:
        """Of a closing: what was told, to be added to."""
        return self.ends.setdefault(asking(pending), {})

    def leaves_nothing(self, pending: PendingEffect, error: Exception) -> bool:
        """Whether an attempt that failed so has certainly done nothing, and none before it may have: for the record.

        `pending`: as it was before the attempt. What went out once without an answer stays in doubt on record, whatever
        came of the attempts after it.
        """
        if isinstance(error, TicketsUncertain) or pending.effect not in _DOUBTED:
            return False
        if pending.effect is Effect.COMMENT:
            return not self.doubts(pending)
        return pending.attempts <= pending.ended and not self.ends.get(asking(pending))

    def failed(self, pending: PendingEffect, error: Exception, now: datetime, settles: timedelta) -> None:
        """An attempt failed, at `now`. Who asks to wait is waited for.

        `settles`: for how long what was filed, and whose answer was lost, may be found not yet.
        """
        self.saw_end(pending)
        key = asking(pending)
        self.earliest.pop(key, None)
        if isinstance(error, Conflict) and pending.effect in _ON_NODES:
            self.earliest[key] = now  # no failure: the next cycle looks again
        elif isinstance(error, TicketsUncertain) and pending.effect in FILES:
            # What may be there is looked for once it would be found, whatever the adapter asks for.
            self.earliest[key] = now + max(error.retry_after or _SHORTEST_WAIT, settles)
        elif isinstance(error, Unavailable) and error.retry_after is not None:
            self.earliest[key] = now + max(error.retry_after, _SHORTEST_WAIT)

    def _all(self) -> tuple[dict[Asking, Any], ...]:
        return self.earliest, self.ended, self.doubtful, self.ends
