"""Whether what a policy calls good again fits what it calls bad: a device must never be both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quarantine.core.globs import covers, overlap
from quarantine.core.trigger import Form, ModelBound, ModelRecovery, Outside, Recovery, Trigger, camel
from quarantine.core.units import format_number

Where = tuple[str | int, ...]

# What a recovery gives for each form of the trigger.
WANTED: dict[Form, frozenset[str]] = {
    Form.ABOVE: frozenset({"below"}),
    Form.BELOW: frozenset({"above"}),
    Form.OUTSIDE: frozenset({"above", "below"}),
    Form.ABOVE_SIBLINGS: frozenset({"below"}),
    Form.EVENTS: frozenset(),
    Form.ABSENT: frozenset(),
}
_NONE_WANTED = {
    Form.EVENTS: "events recover by having none for a time: give no above or below",
    Form.ABSENT: "what is absent recovers by being seen for a time: give no above or below",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a value may not exceed, and may not fall below."""

    above: float | None
    below: float | None


def limits(bound: Trigger | ModelBound) -> Limits:
    """From where on a trigger, or its bound for a model, finds a value bad; both None for events and absence."""
    if isinstance(bound.outside, Outside):
        return Limits(bound.outside.max, bound.outside.min)
    return Limits(bound.above if bound.above is not None else bound.above_siblings, bound.below)


def incompatible(trigger: Trigger, recovery: Recovery) -> Iterator[tuple[Where, str]]:
    """(where in the recovery, sentence) for each way in which it does not fit the trigger."""
    wanted = WANTED[trigger.form]
    sound = True
    entries: list[tuple[Where, Recovery | ModelRecovery]] = [((), recovery)]
    entries += [(("models", number), own) for number, own in enumerate(recovery.models)]
    for where, entry in entries:
        if (sentence := _shape(entry, trigger.form, wanted)) is not None:
            sound = False
            yield where, sentence
    if not sound:
        return
    for where, entry, bound in _pairs(trigger, recovery):
        yield from ((where, sentence) for sentence in _clash(entry, bound))


def _shape(entry: Recovery | ModelRecovery, form: Form, wanted: frozenset[str]) -> str | None:
    given = {name for name in ("above", "below") if getattr(entry, name) is not None}
    if given == wanted:
        if entry.above is not None and entry.below is not None and entry.above >= entry.below:
            return f"no value is above {format_number(entry.above)} and below {format_number(entry.below)}"
        return None
    if form in _NONE_WANTED:
        return _NONE_WANTED[form]
    only = "" if len(wanted) == 2 else ", and only that"
    return f"its trigger is {camel(form)}, so its recovery must give {' and '.join(sorted(wanted))}{only}"


def _pairs(trigger: Trigger, recovery: Recovery) -> Iterator[tuple[Where, Recovery | ModelRecovery, Limits]]:
    """Each recovery bound with each trigger bound that may hold for the same device; of both, the first match holds."""
    bounds = [(own.model, limits(own)) for own in trigger.models] + [("*", limits(trigger))]
    entries = [(("models", n), own.model, own) for n, own in enumerate(recovery.models)]
    for number, (model, bound) in enumerate(bounds):
        earlier = [other for other, _ in bounds[:number]]
        for where, pattern, entry in entries:
            if overlap(model, pattern) and not any(covers(other, pattern) for other in earlier):
                yield where, entry, bound
            if covers(pattern, model):
                break
        else:
            yield (), recovery, bound


def _clash(entry: Recovery | ModelRecovery, bound: Limits) -> Iterator[str]:
    pairs = (("below", entry.below, bound.above), ("above", entry.above, bound.below))
    for side, good, bad in pairs:
        if good is not None and bad is not None and (good > bad if side == "below" else good < bad):
            yield (
                f"recovery {side} {format_number(good)} contradicts the trigger at {format_number(bad)}: "
                "a device could be bad and good at once"
            )
