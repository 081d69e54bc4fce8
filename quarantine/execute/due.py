"""Which effects may be tried now: the order they go in, what they wait for, and how slowly they are tried again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from quarantine.core import marks, overtaken, pauses
from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import PendingEffect, State
from quarantine.core.maintenance import under_way
from quarantine.core.model import Mode, Node
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.treatment.leavers import AGAIN
from quarantine.core.upkeep import MARK_LATE
from quarantine.execute.memory import Asking, asking
from quarantine.ports import LedgerView

LONGEST_WAIT = timedelta(minutes=5)
EVICTIONS_WAIT = timedelta(seconds=10)  # after the first refusal: a budget frees itself with a pod that gets ready
TICKET_FIRST = timedelta(minutes=2)
EVICT_WITHIN = AGAIN  # longer ago, and the moment at which its pods were to leave has passed: the plan looks anew

# What takes away, or only shows: neither the observing mode nor a pause stops it.
ALWAYS = frozenset({Effect.UNMARK, Effect.STOP, Effect.CONDITION, Effect.CLOSE, Effect.PHASE})
ON_NODES = frozenset(
    {Effect.MARK, Effect.UNMARK, Effect.PHASE, Effect.CONDITION, Effect.RUN, Effect.EVICT, Effect.REPLACE}
)
TO_THE_MACHINE = frozenset({Effect.RUN, Effect.EVICT, Effect.REPLACE})  # needs our taint there, at this moment
_AFTER_MARK = frozenset({Effect.EVENT, Effect.PHASE, Effect.TICKET, Effect.NOTIFY, *TO_THE_MACHINE})
SPEECH = frozenset({Effect.TICKET, Effect.REPLACE, Effect.NOTIFY, Effect.CLOSE, Effect.COMMENT})
_ORDER = list(Effect)
_NEVER = datetime.min.replace(tzinfo=UTC)

Place = tuple[bool, datetime, datetime, str, int]  # in the order of what is tried


def trying(
    view: LedgerView, snapshot: Snapshot, made: Plan, earliest: Mapping[Asking, datetime], now: datetime
) -> list[PendingEffect]:
    """What is wanted and has rested, in order. `earliest`: what this process knows better."""
    state = view.state
    reports = {pending.case: order(pending) for pending in view.pending if pending.effect is Effect.TICKET}

    def turn(pending: PendingEffect) -> tuple[Place, int]:
        # A swap is asked for after the fault was reported, also where only the report was tried before.
        own = order(pending)
        after = reports.get(pending.case, own) if pending.effect is Effect.REPLACE else own
        return max(own, after), _ORDER.index(pending.effect)

    return [
        pending
        for pending in sorted(view.pending, key=turn)
        if wanted(pending, state.cases[pending.case], state, snapshot, made)
        and rested(pending, state.cases[pending.case], earliest.get(asking(pending)), now)
    ]


def order(pending: PendingEffect) -> Place:
    """Oldest decision first, a case's effects as they follow one another; evictions that were refused go after others.

    What is said to providers and people comes last of all, or the machines of all cases would wait for one who does not
    answer. Of it, what was never tried is first, then what was not for longest: each gets its turn.
    """
    says = pending.effect in SPEECH
    again = says or (pending.effect is Effect.EVICT and pending.attempts > 0)
    last = pending.last_attempt_at if again else None
    return (says, last or _NEVER, pending.decided_at, pending.case, _ORDER.index(pending.effect))


def wanted(pending: PendingEffect, case: Case, state: State, snapshot: Snapshot, made: Plan) -> bool:
    """Whether it is to be done at all for now: the switch may have been thrown after it was decided."""
    if pending.effect not in ALWAYS:
        if snapshot.mode is Mode.OBSERVE or made.observe_only:
            return False
        if _paused(pending, case, state, snapshot.now):
            return False
    late = snapshot.now >= pending.decided_at + MARK_LATE
    # On old evidence alone no machine is marked. A newcomer is marked on none, and so is what came for another one.
    on_evidence = not case.by_person and not case.gate and case.sent_away is None
    return not (case.waits_for_mark and late and on_evidence and case.node not in made.bad_nodes)


def rested(pending: PendingEffect, case: Case, earliest: datetime | None, now: datetime) -> bool:
    """Whether it has waited long enough since it failed. `earliest`: what this process knows better."""
    last = pending.last_attempt_at
    # A batch that was decided since must not wait: a gang leaves all its machines together.
    if last is None or (pending.effect is Effect.EVICT and case.leaving and case.leaving[-1].at > last):
        return True
    if earliest is not None:
        return now >= earliest
    first = EVICTIONS_WAIT / 2 if pending.effect is Effect.EVICT else timedelta(seconds=1)
    return now >= last + min(first * (1 << min(pending.attempts, 9)), LONGEST_WAIT)


def missed(pending: PendingEffect, case: Case, now: datetime) -> bool:
    """Whether pods were to leave, or were last asked to, so long ago that they may be at another moment by now."""
    if not case.leaving:
        return False
    at = case.leaving[-1].at
    return now >= max(at, pending.last_attempt_at or at) + EVICT_WITHIN


def fits(pending: PendingEffect, case: Case, node: Node | None, state: State, rules: Rules, now: datetime) -> bool:
    """Whether the case and its node, as they are at this moment, let it be done. Else the next plan sees why not."""
    shows = pending.effect is Effect.CONDITION and case.open
    if (shows or pending.effect in _AFTER_MARK) and not _done(case, Effect.MARK):
        return False
    if not overtaken.in_place(pending.effect, case):
        return False  # an older record: what was left behind is void by now
    if pending.effect is Effect.RUN and case.is_pending(Effect.STOP):
        return False  # one procedure at a time on a machine
    if pending.effect is Effect.NOTIFY and now < pending.decided_at + TICKET_FIRST:
        # The message names the ticket, so it waits for it a while; longer, and people should be told all the same.
        return not any(case.is_pending(effect) for effect in (Effect.TICKET, Effect.REPLACE))
    if pending.effect not in TO_THE_MACHINE or node is None or not marks.machine_matches(node, case.machine):
        return True  # what is said of a machine that is gone is said by the effect itself
    return _undisturbed(pending, case, node, state, rules, now)


def _undisturbed(pending: PendingEffect, case: Case, node: Node, state: State, rules: Rules, now: datetime) -> bool:
    """Whether nobody has a hand on the machine."""
    if marks.case_on(node, rules.prefix) != case.id:
        return False  # somebody wants the machine back
    if under_way({node.name: node}, state.words.values(), rules, now):
        return False  # somebody works on it
    return pending.effect is not Effect.EVICT or node.unschedulable or not case.cordoned_by_us


def _paused(pending: PendingEffect, case: Case, state: State, now: datetime) -> bool:
    """A person's pause, of everything, of the case's pool, or of every policy that found its machine bad."""
    out_already = case.cordoned_by_us is not None or case.sent_away is not None
    if pending.effect in (Effect.MARK, Effect.EVENT) and (case.by_person or out_already):
        return False  # a person asked for this very machine; or it is out already, and its mark is only put back
    if not state.words:
        return False
    if pauses.pause(state.words, now, pool=case.pool) is not None:
        return True
    policies = {finding.policy for finding in case.findings}
    return bool(policies) and all(pauses.pause(state.words, now, policy=name) is not None for name in policies)


def _done(case: Case, effect: Effect) -> bool:
    state = case.effects.get(effect)
    return state is not None and state.status is EffectStatus.DONE
