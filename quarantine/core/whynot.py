"""Why nothing was done: what a policy's trigger sees of a node's devices, said in one sentence per reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from quarantine.core.identity import device_of, named_by
from quarantine.core.model import Answer, Device, DeviceKind, Failed, Node, Sample
from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql import expected_samples, probes
from quarantine.core.readings import Reading
from quarantine.core.trigger import Form, ModelBound, Outside, Trigger, bound_for, bound_text, is_beyond
from quarantine.core.units import counted, format_duration, format_number, format_share

Seen = Mapping[str, float]
_OF_NODE = ("shown", "most")  # the parts of an answer that are about the node and not about one device


@dataclass(frozen=True, slots=True)
class Question:
    """The probes of one reading for one node, to be asked for the same moment."""

    policy: LoadedPolicy
    reading: Reading
    said: str  # the node, as the reading's label means it: its name, or an address
    queries: Mapping[str, str]


def questions(policy: LoadedPolicy, reading: Reading, said: str) -> tuple[Question, ...]:
    """One for each label that may name the node. `said`: its name or its address, as the reading's label means."""
    return tuple(Question(policy, reading, said, probes(policy, reading, label, said)) for label in reading.node_labels)


def names_of(node: Node, reading: Reading) -> tuple[str, ...]:
    """What a reading's node label would say of this node (an exporter's port aside)."""
    return (node.name,) if reading.source.node.means == "name" else node.addresses


def sentence(question: Question, answers: Mapping[str, Answer], only: Device | None = None) -> str | None:
    """What the trigger saw; None where there is no series of this reading at all."""
    failed = next((answer for answer in answers.values() if isinstance(answer, Failed)), None)
    name = question.policy.name
    if failed is not None:
        return f"policy {name} cannot say, since {failed.detail}"
    absent = question.policy.spec.trigger.form is Form.ABSENT  # what is asked about is then what is not there
    seen = _by_device(question, answers, None if absent else only)
    if not seen:
        return None
    match question.policy.spec.trigger.form:
        case Form.EVENTS:
            return _events(question, {device: values for device, (values, _) in seen.items()})
        case Form.ABSENT:
            return _there(question, answers, [values for values, _ in seen.values()])
        case Form.ABOVE | Form.BELOW | Form.OUTSIDE | Form.ABOVE_SIBLINGS:
            return _lasting(question, seen)
        case form:
            assert_never(form)


def _of_this_node(question: Question, answer: Answer) -> Iterator[Sample]:
    """A matcher may let others through that only contain the name."""
    for sample in answer.samples if not isinstance(answer, Failed) else ():
        if named_by(question.reading.source.node, sample.labels) == question.said:
            yield sample


def _by_device(
    question: Question, answers: Mapping[str, Answer], only: Device | None
) -> dict[Device, tuple[dict[str, float], str]]:
    """What each part says of each device, and the device's model."""
    reading = question.reading
    found: dict[Device, tuple[dict[str, float], str]] = {}
    for part, answer in answers.items():
        for sample in _of_this_node(question, answer) if part not in _OF_NODE else ():
            device = device_of(reading, sample.labels)
            if device is not None and (only is None or device == only):
                values, model = found.get(device, ({}, ""))
                said = sample.labels.get(reading.source.model, "") if reading.source.model is not None else ""
                found[device] = ({**values, part: sample.value}, model or said)
    return found


def _lasting(question: Question, seen: Mapping[Device, tuple[Seen, str]]) -> str:
    trigger, reading = question.policy.spec.trigger, question.reading
    unit, window = reading.signal.unit, format_duration(trigger.window)
    wrong = _implausible(question, {device: values for device, (values, _) in seen.items()})
    device = max(seen, key=lambda d: (seen[d][0].get("over", 0), seen[d][0].get("highest", 0)))
    values, model = seen[device]
    if not values.get("over"):
        return wrong if wrong is not None else _nothing(question, seen)
    bound = bound_for(trigger, model)
    full, least = expected_samples(question.policy, reading)
    over, have = counted(values["over"]) or 0, counted(values.get("seen", 0)) or 0
    text = (
        f"policy {question.policy.name} saw {device} {bound_text(bound, unit)} in {over} of {have} samples "
        f"within {window} ({_extremes(trigger.form, values, unit)})"
    )
    if "now" not in values:
        return f"{text}, and nothing fresh since: unknown is not bad"
    if have < least:
        return f"{text}, where {full} samples are expected and {least} are the least that prove anything"
    wanted = format_share(1 - trigger.tolerate)
    if over < (1 - trigger.tolerate) * have - 1e-9:
        text += f", and {wanted} of them must be"
    elif is_beyond(bound, values["now"]):
        text += ": that is bad, unless its exporter serves its cache"
        text += " or its driver was loaded a moment ago" if question.policy.spec.grace.driver is not None else ""
    else:
        text += f", but {format_number(values['now'])} {unit} now"
    return text


def _extremes(form: Form, values: Seen, unit: str) -> str:
    high, low = (f"{format_number(values[end])} {unit}" for end in ("highest", "lowest"))
    if form is Form.OUTSIDE:
        return f"{low} to {high}"
    return f"{low} at least" if form is Form.BELOW else f"{high} at most"


def _nothing(question: Question, seen: Mapping[Device, tuple[Seen, str]]) -> str:
    """No sample that the trigger counts was beyond its bound, though one between two of them may have been."""
    trigger, unit = question.policy.spec.trigger, question.reading.signal.unit
    raw = trigger.form is not Form.ABOVE_SIBLINGS  # the series' own values are no distances
    nearest: list[tuple[float, Device, float, Trigger | ModelBound]] = []
    for device, (values, model) in seen.items():
        bound = bound_for(trigger, model)
        for end, own in (("highest", "raw_max"), ("lowest", "raw_min")):
            value = values.get(own if raw else end, values.get(end))
            if value is not None and (distance := _inside(bound, value, end)) is not None:
                nearest.append((distance, device, value, bound))
    within = f"within {format_duration(trigger.window)}"
    name = question.policy.name
    if not nearest:
        return f"policy {name} saw nothing {bound_text(trigger, unit)} {within}"
    _, device, value, bound = min(nearest, key=lambda found: found[0])
    shown, text = f"{format_number(value)} {unit}", bound_text(bound, unit)
    if is_beyond(bound, value):
        return f"policy {name} saw {device} touch {shown}, in none of the samples it counts {text} {within}"
    return f"policy {name} saw nothing {text} {within}; the nearest was {device} with {shown}"


def _inside(bound: Trigger | ModelBound, value: float, end: str) -> float | None:
    """How far a device's highest or lowest value is from being bad. None: that end is of no interest."""
    if isinstance(bound.outside, Outside):
        return bound.outside.max - value if end == "highest" else value - bound.outside.min
    if bound.below is not None:
        return value - bound.below if end == "lowest" else None
    high = bound.above if bound.above is not None else bound.above_siblings
    return high - value if high is not None and end == "highest" else None


def _implausible(question: Question, seen: Mapping[Device, Seen]) -> str | None:
    bounds, unit = question.reading.signal.plausible, question.reading.signal.unit
    for device, values in seen.items():
        for raw in (values.get("raw_max", values.get("raw")), values.get("raw_min")):
            if raw is not None and not bounds.min <= raw <= bounds.max:
                return (
                    f"policy {question.policy.name} was told {format_number(raw)} {unit} by {device}, which is no "
                    f"measurement (plausible is {format_number(bounds.min)} to {format_number(bounds.max)}): unknown"
                )
    return None


def _there(question: Question, answers: Mapping[str, Answer], seen: list[dict[str, float]]) -> str:
    """How many devices there are, which is what a trigger of absence goes by."""
    trigger, kind = question.policy.spec.trigger, question.reading.signal.device
    window = format_duration(trigger.window)
    if kind is DeviceKind.NODE:
        have = max(counted(values.get("seen", 0)) or 0 for values in seen)
        return f"policy {question.policy.name} saw {have} samples of {question.said} within {window}: it is not absent"
    node = {part: sample.value for part in _OF_NODE for sample in _of_this_node(question, answers[part])}
    least = expected_samples(question.policy, question.reading)[1]
    text = f"policy {question.policy.name} saw {_number(len(seen), kind)} of {question.said} within {window}"
    if "shown" not in node:
        return f"{text} and none now: a node that shows nothing says nothing of its devices"
    missing = counted(node.get("most", 0) - node["shown"]) or 0
    if missing > 0:
        text += f", of {_number(counted(node['most']) or 0, kind)} within {format_duration(trigger.memory)}"
        if max(values.get("seen", 0) for values in seen) < least:
            return f"{text}, in too few samples to prove anything ({least} are the least)"
        return f"{text}: that is bad, unless another exporter sees what is missing or all that are expected are seen"
    return f"{text}, and never more within {format_duration(trigger.memory)}"


def _number(count: int, kind: DeviceKind) -> str:
    word = {DeviceKind.GPU: "GPU", DeviceKind.IB_PORT: "InfiniBand port", DeviceKind.NVLINK: "NVLink"}.get(kind, "node")
    return f"{count} {word}{'' if count == 1 else 's'}"


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
