"""What the record of a decision must have, whatever was decided: it is read a year later, without Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from quarantine.core.case import Effect, Evidence, Phase
from quarantine.core.decision import RECORDS, Action, Decision, Kind
from quarantine.core.waivers import BY_ANNOTATION

OF_A_FINDING = {Action.JOIN, Action.RECOVER}
# Nobody else decides so.
OF_A_PERSON = {Action.ANSWER, Action.WAIVE, Action.PAUSE, Action.MAINTAIN, Action.APPROVE, Action.DEFER}
CHANNELS = ("(cli)", "(slack)", "(annotation)")


def missing(decision: Decision) -> list[str]:
    """What it lacks, in words; empty where it is whole."""
    return [what for what, there in _needed(decision) if not there]


def _needed(d: Decision) -> Iterator[tuple[str, bool]]:
    yield "an aware time", d.at.tzinfo is not None
    yield "a reason of one sentence", bool(d.reason) and "\n" not in d.reason
    yield "an actor", bool(d.actor)
    if d.kind in (Kind.DONE, Kind.FAILED):
        yield "whose outcome it is", d.effect is not None and d.case is not None
        return
    if d.case is not None:
        yield "the node of its case", d.node is not None
        yield "the machine of its case", d.machine is not None
    if d.pool and d.action is not Action.COUNT:
        yield "the provider of its pool", bool(d.provider)
    if d.kind is Kind.HELD:
        yield "what holds it", d.held_by is not None and bool(d.hold_key)
    if d.policy is not None and d.action not in RECORDS and d.action is not Action.JUDGE:
        yield "the version of its policy", d.policy_hash is not None and d.policy_revision is not None
    if d.device is not None or d.action in OF_A_FINDING:
        yield "device, policy, verdict and evidence", None not in (d.device, d.policy, d.verdict, d.evidence)
    if d.evidence is not None:
        yield from _evidence(d.evidence, d)
    yield from _people(d)
    yield from _of_tickets(d)
    yield from _of_its_kind(d)


def _evidence(found: Evidence, d: Decision) -> Iterator[tuple[str, bool]]:
    yield "the query as sent", bool(found.query)
    yield "the unit", bool(found.unit)
    yield "the threshold in words", bool(found.threshold)
    yield "the time of the value", found.at.tzinfo is not None
    yield "what was measured, and by whom", bool(found.signal) and bool(found.source)
    if found.value is not None:
        yield "the source's labels", bool(found.labels)
    if d.action in (Action.QUARANTINE, Action.JOIN) and d.kind is Kind.DECIDED:
        yield "how much the policy saw", found.covered is not None


def _people(d: Decision) -> Iterator[tuple[str, bool]]:
    by_person = not d.actor.startswith("controller")
    if d.request is not None:
        yield "the person with the channel", by_person and d.actor.endswith(CHANNELS)
    elif by_person:
        yield "an annotation, or a request", d.actor == BY_ANNOTATION or d.actor.endswith(CHANNELS)
    if d.action in OF_A_PERSON and d.kind is Kind.DECIDED:
        yield "the person's word that it answers", d.request is not None or d.actor == BY_ANNOTATION
    if d.action is Action.WAIVE:
        yield "the machine that is waived", d.node is not None and d.machine is not None
    if d.action in (Action.WAIVE, Action.MAINTAIN) and d.kind is Kind.DECIDED:
        yield "when the word ends", d.until is not None
    if d.action in (Action.PAUSE, Action.MAINTAIN):
        yield "the word", d.word is not None and bool(d.word.by) and bool(d.word.reason)
    if d.action is Action.RESUME:
        yield "the word that ends", bool(d.unword)


def _of_tickets(d: Decision) -> Iterator[tuple[str, bool]]:
    if d.kind is Kind.HELD:
        return
    if d.action is Action.HEAR:
        yield "the ticket as it was heard of", d.ticket is not None and bool(d.ref)
    if d.action is Action.COMMENT:
        yield "the ticket", bool(d.ref) or d.remark is not None
    if d.action is Action.DEFER:
        yield "until when", d.until is not None


def _of_its_kind(d: Decision) -> Iterator[tuple[str, bool]]:
    if d.kind is Kind.HELD:
        return
    match d.action:
        case Action.QUARANTINE:
            yield (
                "case, phase and mark",
                d.case is not None and d.phase is Phase.QUARANTINED and Effect.MARK in d.effects,
            )
            yield "its pool's budget as it stood", d.budget is not None or not d.pool
        case Action.EVICT:
            yield "the pods", d.leaving is not None
        case Action.RUN:
            yield "the procedure", d.run is not None
        case Action.STEP:
            yield "the rung", d.rung is not None
        case Action.ADOPT | Action.FOLLOW | Action.IDENTIFY | Action.SWAP | Action.RETIRE | Action.REMARK:
            yield "case and machine", d.case is not None and d.machine is not None
        case Action.RELEASE | Action.DISMISS | Action.TICKET | Action.NOTIFY | Action.DRAIN:
            yield "case and machine", d.case is not None and d.machine is not None
        case Action.POLICY:
            yield "the document", d.policy is not None
        case Action.COUNT:
            yield "pool and size", bool(d.pool) and d.census is not None
        case _:
            pass
