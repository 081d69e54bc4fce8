"""Which machine it is: recorded, followed through reboots, and compared with what was sent away.

What is under a node's name now    the provider was told       what is decided
the machine, booted anew           or not                      IDENTIFY: the new boot id; the findings stand
the same boot, another UUID    or not                      IDENTIFY: the new UUID; it is the machine all the same
the machine, some GPUs unseen      or not                      nothing: what fell off the bus is there all the same
the machine, with another GPU in   yes                         SWAP: a part was exchanged
place of the bad one
another machine                    yes                         SWAP: it is marked until it has proven itself
another machine that was sent      yes                         SWAP without a step forward, held as the same machine
away before
another machine, as another Node   no                          the case is retired (`upkeep`)
another machine, as the same Node  no                          SWAP: the node carries our mark

Nothing is concluded from what is not seen: an exchange needs the new hardware in sight, in full number. What is new
goes on to prove itself once it is known that no GPU that was found bad came back in it. A person who says after the
exchange that the machine is repaired outranks all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from quarantine.core import restored
from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase, RunOutcome
from quarantine.core.decision import Action, Kind, State
from quarantine.core.draft import Draft
from quarantine.core.marks import machine_matches, same_hardware
from quarantine.core.model import Failed, Machine, Node
from quarantine.core.reasons import in_words
from quarantine.core.treatment import place
from quarantine.core.treatment.departed import Departed, bad_gpus, departed, first_told, told_before
from quarantine.core.treatment.endings import shown

SAME = "same/"  # of hold keys: a case in whose place something is that was sent away
_RENEWED = (Effect.MARK, Effect.PHASE, Effect.CONDITION)


def identify(draft: Draft) -> None:
    """Record what the machines of marked cases are made of, and notice what was exchanged, and for what.

    Only of nodes that carry the mark: what is marked in this cycle is looked at in a later one.
    """
    if restored.stands(draft):
        return
    gone = departed(draft.state, draft.now)
    for case in draft.open_cases():
        node = draft.nodes.get(case.node)
        if node is not None and _carries_mark(case):
            _identify(draft, case, node, gone)


def exchanged(draft: Draft, case: Case, node: Node) -> None:
    """Another machine stands where the provider was asked for one: it is marked until it has proven itself.

    One that was sent away before is marked too, and gets no further.
    """
    machine = replace(node.machine, place=place.place_of(node, draft.rules.fleet))
    gone = departed(draft.state, draft.now)
    why = _whole(draft, replace(case, machine=machine, sent_away=case.sent_away or case.machine), gone)
    phase = Phase.SWAPPED if why is None else Phase.QUARANTINED if case.phase is Phase.PROBATION else None
    came = f"another machine is in the place of {case.node} ({called(machine)}; before: {called(case.machine)})"
    _swap(draft, case, machine, came if why is None else f"{came}: {why}", phase)
    if why is not None:
        _hold(draft, draft.state.cases[case.id], why)


def remarks(state: State, case: Case) -> str:
    """What was told of the exchange of this case's machine, for the ticket; empty where nothing was."""
    told = (state.holds.get(f"{key}{case.id}") for key in (SAME, place.PLACE))
    return "; ".join(hold.reason for hold in told if hold is not None)


# --- One case ---------------------------------------------------------------------------------------------------------


def _identify(draft: Draft, case: Case, node: Node, gone: Iterable[Departed]) -> None:
    if not place.same_chassis(node.machine, case.machine):
        # Of another Node object, `upkeep` says what becomes of the case.
        if machine_matches(node, case.machine):
            exchanged(draft, case, node)
        return None
    if not same_hardware(node, case.machine):
        return None
    if (part := _new_part(draft, case, node)) is not None:
        return _swap(draft, case, *part, Phase.SWAPPED)
    _record(draft, case, node)
    case = draft.state.cases[case.id]
    why = None if _vouched_for(case) else _returned(draft, case, node, gone)
    if why is not None:
        _hold(draft, case, why)
    else:
        draft.lift(f"{SAME}{case.id}", f"nothing that was sent away is in the place of {case.node} any more")
    _step(draft, case, node, why)
    return place.suspect(draft, draft.state.cases[case.id])


def _step(draft: Draft, case: Case, node: Node, why: str | None) -> None:
    """What is new goes on to prove itself; what turns out to be what was sent away goes back."""
    if case.phase is Phase.SWAPPED and why is None and _compared(draft, case, node):
        reason = f"what is new in the place of {case.node} is marked, and proves itself first"
        fields = {"phase": Phase.PROBATION, "effects": shown(case)}
        draft.emit(draft.about_case(Kind.DECIDED, Action.PROVE, case, reason, **fields))
    elif case.phase is Phase.PROBATION and case.sent_away is not None and why is not None:
        fields = {"phase": Phase.QUARANTINED, "effects": shown(case)}
        draft.emit(draft.about_case(Kind.DECIDED, Action.PROVE, case, f"{case.node} is no exchange: {why}", **fields))


def _record(draft: Draft, case: Case, node: Node) -> None:
    """What is known now and was not; a GPU that is not seen any more stays in the record."""
    known, now = case.machine, node.machine
    machine = replace(
        known,
        boot_id=now.boot_id or known.boot_id,
        system_uuid=now.system_uuid or known.system_uuid,
        provider_id=now.provider_id or known.provider_id,
        gpus=_gpus_to_record(draft, case, node),
        place=known.place or place.place_of(node, draft.rules.fleet),
    )
    if machine == known:
        return
    told = []
    if known.boot_id and machine.boot_id != known.boot_id:
        told.append("was rebooted during the case, and what was found on it stands")
    if machine.gpus != known.gpus:
        told.append(f"has {len(machine.gpus)} GPUs: {in_words(list(machine.gpus), most=8)}")
    if known.system_uuid and machine.system_uuid != known.system_uuid:
        told.append(
            f"tells another system UUID, {machine.system_uuid}, and has not booted since: it is no other machine"
        )
    if machine.place != known.place:
        told.append(f"stands at {machine.place}")
    reason = f"{case.node} {'; it '.join(told) or 'tells more of its machine now'}"
    draft.emit(draft.about_case(Kind.DECIDED, Action.IDENTIFY, case, reason, machine=machine))


def _gpus_to_record(draft: Draft, case: Case, node: Node) -> tuple[str, ...]:
    known, seen = case.machine.gpus, _seen(draft, node)
    grown = node.gpus is not None and set(known) < set(seen)  # a machine that has just come shows them one by one
    return seen if seen and (not known or grown) else known


def _new_part(draft: Draft, case: Case, node: Node) -> tuple[Machine, str] | None:
    """The machine with another GPU in place of each that stands as bad; None where that is not seen to be so."""
    if not told_before(case, draft.now) or case.phase in (Phase.SWAPPED, Phase.PROBATION):
        return None
    if case.phase_since >= draft.now:
        return None  # it is looked at once it has been in this phase: a later step of the same plan may have led here
    known, seen = set(case.machine.gpus), set(_seen(draft, node))
    bad, new = bad_gpus(case, draft.now) & known, seen - known
    if not bad or bad & seen or not new or len(seen) != (node.gpus or len(known)):
        return None
    machine = replace(case.machine, gpus=tuple(sorted(seen)), boot_id=node.machine.boot_id or case.machine.boot_id)
    out, came = in_words(sorted(bad)), in_words(sorted(new))
    return machine, f"{out} of {case.node} was found bad and is there no more; new is {came}: a part was exchanged"


def _swap(draft: Draft, case: Case, machine: Machine, reason: str, phase: Phase | None) -> None:
    lost = None if case.run is None else replace(case.run, outcome=RunOutcome.LOST, ended_at=draft.now)
    fields = {"machine": machine, "phase": phase, "effects": _RENEWED, "run": lost}
    draft.emit(draft.about_case(Kind.DECIDED, Action.SWAP, case, reason, **fields))


def _hold(draft: Draft, case: Case, why: str) -> None:
    reason = f"{why}; it is not put back in service by itself"
    held = {"held_by": HeldBy.SAME_MACHINE, "hold_key": f"{SAME}{case.id}"}
    draft.hold(draft.about_case(Kind.HELD, Action.PROVE, case, reason, **held))


# --- What came back ---------------------------------------------------------------------------------------------------


def _returned(draft: Draft, case: Case, node: Node, gone: Iterable[Departed]) -> str | None:
    """What in this case's place was sent away as bad, from here or from elsewhere."""
    return _whole(draft, case, gone) or _parts(draft, case, node, gone) or _made_again(draft, case, node)


def _whole(draft: Draft, case: Case, gone: Iterable[Departed]) -> str | None:
    machine = case.machine
    if shared_uuid(draft, machine):
        return None
    away = case.sent_away
    exchanged_part = away is not None and bool(away.gpus) and bool(machine.gpus) and away.gpus != machine.gpus
    if away is not None and not exchanged_part and place.same_chassis(machine, away):
        return f"the machine that came back to {case.node} is the one that was sent away ({called(machine)})"
    for left in gone:
        if left.case.id != case.id and left.machine is not None and place.same_chassis(machine, left.machine):
            return f"{case.node} is the machine that was sent away from {left.told} ({called(machine)})"
    return None


def _parts(draft: Draft, case: Case, node: Node, gone: Iterable[Departed]) -> str | None:
    here = {*case.machine.gpus, *_seen(draft, node)}
    if case.swapped_at is not None and (back := bad_gpus(case, draft.now) & here):
        return f"{in_words(sorted(back))} that was found bad came back to {case.node} in another machine"
    for left in gone:
        if left.case.id != case.id and (back := left.gpus & here):
            return f"{in_words(sorted(back))} that was found bad on {left.told} is in {case.node} now"
    return None


def _made_again(draft: Draft, case: Case, node: Node) -> str | None:
    """The same machine under a Node object that is younger than the first word to its provider."""
    asked, waits = first_told(case), case.sent_away is None and case.phase not in (Phase.SWAPPED, Phase.PROBATION)
    if not waits or not told_before(case, draft.now) or asked is None:
        return None
    if node.created_at is None or node.created_at <= asked:
        return None
    return f"the machine that came back to {case.node} is the one that was sent away ({called(case.machine)})"


def _compared(draft: Draft, case: Case, node: Node) -> bool:
    """Whether it could be seen whether a bad GPU came back: all of the new machine are known, or none is sought."""
    if case.sent_away is None or draft.rules.fleet.inventory is None or not bad_gpus(case, draft.now):
        return True
    wanted = node.gpus or len(case.sent_away.gpus) or 1
    return len({*case.machine.gpus, *_seen(draft, node)}) >= wanted


def _seen(draft: Draft, node: Node) -> tuple[str, ...]:
    """The GPUs that are seen of a node; none where more are seen than it has: some are another machine's."""
    known = draft.snapshot.hardware
    seen = () if isinstance(known, Failed) else known.get(node.name, ())
    return seen if node.gpus is None or len(seen) <= node.gpus else ()


def shared_uuid(draft: Draft, machine: Machine) -> bool:
    """Whether several nodes tell the same system UUID at once: a board whose maker set none. It tells no machine."""
    same = (node.machine.system_uuid == machine.system_uuid for node in draft.nodes.values())
    return bool(machine.system_uuid) and sum(same) > 1


def _vouched_for(case: Case) -> bool:
    """Whether a person said that the machine is repaired, of the one that is there now."""
    return case.renewed_at is not None and (case.swapped_at is None or case.renewed_at > case.swapped_at)


def _carries_mark(case: Case) -> bool:
    mark = case.effects.get(Effect.MARK)
    return case.marked and mark is not None and mark.status is EffectStatus.DONE


def called(machine: Machine) -> str:
    """How a machine is told from another one, for people."""
    if machine.system_uuid:
        return f"system UUID {machine.system_uuid}"
    return machine.provider_id or f"Node object {machine.node_uid}"
