"""Why nothing was done: what a policy's trigger sees of a node's devices, said in one sentence per reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quarantine.core.identity import device_of
from quarantine.core.model import Answer, Device, Failed, Node
from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql import expected_samples, probes
from quarantine.core.readings import Reading
from quarantine.core.units import format_duration, format_number, format_share

Seen = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Question:
    """The probes of one reading for one node, to be asked for the same moment."""

    policy: LoadedPolicy
    reading: Reading
    queries: Mapping[str, str]


def questions(policy: LoadedPolicy, reading: Reading, said: str) -> tuple[Question, ...]:
    """One for each label that may name the node. `said`: its name or its address, as the reading's label means."""
    return tuple(Question(policy, reading, probes(policy, reading, label, said)) for label in reading.node_labels)


def names_of(node: Node, reading: Reading) -> tuple[str, ...]:
    """What a reading's node label would say of this node (an exporter's port aside)."""
    return (node.name,) if reading.source.node.means == "name" else node.addresses


def sentence(question: Question, answers: Mapping[str, Answer], only: Device | None = None) -> str | None:
    """What the trigger saw; None where there is no series of this reading at all."""
    failed = next((answer for answer in answers.values() if isinstance(answer, Failed)), None)
    name = question.policy.name
    if failed is not None:
        return f"policy {name} cannot say, since {failed.detail}"
    seen = _by_device(question.reading, answers, only)
    if not seen:
        return None
    if question.policy.spec.trigger.events is not None:
        return _events(question, seen)
    return _lasting(question, seen)


def _by_device(reading: Reading, answers: Mapping[str, Answer], only: Device | None) -> dict[Device, dict[str, float]]:
    found: dict[Device, dict[str, float]] = {}
    for part, answer in answers.items():
        for sample in answer.samples if not isinstance(answer, Failed) else ():
            device = device_of(reading, sample.labels)
            if device is not None and (only is None or device == only):
                found.setdefault(device, {})[part] = sample.value
    return found


def _lasting(question: Question, seen: Mapping[Device, Seen]) -> str:
    trigger, reading = question.policy.spec.trigger, question.reading
    unit, window = reading.signal.unit, format_duration(trigger.window)
    bound = trigger.above if trigger.above is not None else trigger.below
    side = "above" if trigger.above is not None else "below"
    assert bound is not None  # noqa: S101
    wrong = _implausible(question, seen)
    device, values = max(seen.items(), key=lambda item: (item[1].get("over", 0), item[1].get("extreme", 0)))
    if wrong is not None and not values.get("over"):
        return wrong
    full, least = expected_samples(question.policy, reading)
    if not values.get("over"):
        return _nothing(question, seen)
    over, have = int(values["over"]), int(values.get("seen", 0))
    text = (
        f"policy {question.policy.name} saw {device} {side} {format_number(bound)} {unit} in {over} of {have} samples "
        f"within {window} ({format_number(values['extreme'])} {unit} at most)"
    )
    if "now" not in values:
        return f"{text}, and nothing fresh since: unknown is not bad"
    if have < least:
        return f"{text}, where {full} samples are expected and {least} are the least that prove anything"
    wanted = format_share(1 - trigger.tolerate)
    beyond = values["now"] > bound if trigger.above is not None else values["now"] < bound
    if over < (1 - trigger.tolerate) * have - 1e-9:
        text += f", and {wanted} of them must be"
    elif beyond:
        text += ": that is bad, unless its exporter serves its cache"
    else:
        text += f", but {format_number(values['now'])} {unit} now"
    return text


def _nothing(question: Question, seen: Mapping[Device, Seen]) -> str:
    """No sample that the trigger counts was beyond its bound, though one between two of them may have been."""
    trigger, unit = question.policy.spec.trigger, question.reading.signal.unit
    up = trigger.above is not None
    nearest = {d: v for d, values in seen.items() if (v := values.get("raw_max" if up else "extreme")) is not None}
    side, bound = ("above", trigger.above) if up else ("below", trigger.below)
    assert bound is not None  # noqa: S101
    text = f"{side} {format_number(bound)} {unit} within {format_duration(trigger.window)}"
    if not nearest:
        return f"policy {question.policy.name} saw nothing {text}"
    device = (max if up else min)(nearest, key=lambda d: nearest[d])
    value = f"{format_number(nearest[device])} {unit}"
    if up and nearest[device] > bound:
        return f"policy {question.policy.name} saw {device} touch {value}, in none of the samples it counts {text}"
    return f"policy {question.policy.name} saw nothing {text}; the nearest was {device} with {value}"


def _implausible(question: Question, seen: Mapping[Device, Seen]) -> str | None:
    bounds, unit = question.reading.signal.plausible, question.reading.signal.unit
    for device, values in seen.items():
        raw = values.get("raw_max", values.get("raw"))
        if raw is not None and not bounds.min <= raw <= bounds.max:
            return (
                f"policy {question.policy.name} was told {format_number(raw)} {unit} by {device}, which is no "
                f"measurement (plausible is {format_number(bounds.min)} to {format_number(bounds.max)}): unknown"
            )
    return None


def _events(question: Question, seen: Mapping[Device, Seen]) -> str:
    trigger, reading = question.policy.spec.trigger, question.reading
    window = format_duration(trigger.window)
    wrong = _implausible(question, seen)
    if wrong is not None:
        return wrong
    device, values = max(seen.items(), key=lambda item: (item[1].get("events", 0), item[1].get("resets", 0)))
    if values.get("resets"):
        return f"policy {question.policy.name} saw the counter of {device} reset within {window}: unknown is not bad"
    top = reading.signal.saturates
    if top is not None and values.get("now", 0) >= top:
        return f"policy {question.policy.name} saw the counter of {device} full, where it counts no more: unknown"
    events = values.get("events", 0)
    assert trigger.events is not None  # noqa: S101
    enough = events >= trigger.events
    return (
        f"policy {question.policy.name} saw {format_number(events)} new {reading.signal.unit} of {device} within "
        f"{window}, and {trigger.events} {'are enough: that is bad' if enough else 'are needed'}"
    )
