"""What the shipped policies ask of Prometheus, recognised by its form, and what the simulated fleet answers.

A question about some devices has the form of one about any others: it differs in what its matchers say. So each form is
kept once, made by the very functions by which the controller makes its questions, and a question that has no known form
is refused as Prometheus refuses what it cannot parse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from quarantine.core.model import DeviceKind
from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql import tracing
from quarantine.core.readings import Reading
from quarantine.core.trigger import Form, Trigger
from tests.soak.fleet import Fleet, Machine, devices

EXPORTERS = ("dcgm-exporter", "node-exporter")  # those that are installed on the simulated machines
EVENT_SHOWS = timedelta(minutes=1)  # so soon an event is counted
_LITERAL = re.compile(r'(?:=~|!=|!~|=)?"((?:[^"\\]|\\.)*)"')
# A question about several devices that no product of matchers names: "one or another or a third".
_ARMS = re.compile(r'((?:label_replace\()+vector\(1\)(?:, "", "", "", ""\))+)(?: or \1)+')
_NAMES = re.compile(r"node-[0-9]+|10\.[0-9]+\.[0-9]+\.[0-9]+|GPU-[0-9a-f]{8}-[-0-9a-f]+", re.IGNORECASE)


class About(Enum):
    """What is asked."""

    MAYBE = auto()  # which devices are beyond the bound now
    BAD = auto()
    GOOD = auto()
    SEEN = auto()  # how many devices of each node
    SHOWN = auto()  # the raw series of some devices
    UP = auto()  # for how long nodes have been up
    THERE = auto()  # which GPUs nodes have
    PAST = auto()  # the series before a finding
    OTHERS = auto()  # what another exporter says of them


@dataclass(frozen=True, slots=True)
class Question:
    """One form. `policy` is None where it makes no difference whose question it is."""

    about: About
    reading: Reading
    policy: LoadedPolicy | None = None
    length: timedelta = timedelta(0)  # of what is asked about the past as an instant query


Pair = tuple[dict[str, str], float]


def form_of(query: str) -> str:
    """The query without what its matchers and other literals say, and however they say it, and of how many devices."""
    return _ARMS.sub(r"\1", _LITERAL.sub('""', query))


def answer(question: Question, query: str, fleet: Fleet, at: datetime) -> list[Pair]:
    """The vector: labels and values, of what the fleet shows at a moment."""
    if question.reading.source.exporter not in EXPORTERS or question.about is About.OTHERS:
        return []
    named = {name.lower() for said in _LITERAL.findall(query) for name in _NAMES.findall(said.replace("\\", ""))}
    return list(_ANSWERS[question.about](question, _named(fleet, named), named, at))


def _named(fleet: Fleet, named: set[str]) -> Fleet:
    """The machines that are asked about; all of them where none is named."""
    if not named:
        return fleet
    about = Fleet()
    about.machines = {
        machine.name: machine
        for machine in fleet.machines.values()
        if machine.name in named or machine.address in named or named & _gpus(machine)
    }
    return about


# --- Answers ----------------------------------------------------------------------------------------------------------


def _maybe(question: Question, fleet: Fleet, named: set[str], at: datetime) -> Iterator[Pair]:
    yield from _faulty(question, fleet, named, at, timedelta(0))


def _bad(question: Question, fleet: Fleet, named: set[str], at: datetime) -> Iterator[Pair]:
    policy = _policy(question)
    events = policy.spec.trigger.form is Form.EVENTS
    yield from _faulty(question, fleet, named, at, EVENT_SHOWS if events else policy.spec.trigger.window)


def _faulty(question: Question, fleet: Fleet, named: set[str], at: datetime, lasting: timedelta) -> Iterator[Pair]:
    policy, kind = _policy(question), question.reading.signal.device
    if not _tells(question):
        return
    for machine, fault in fleet.faults(policy.name):
        asked = not named & _gpus(machine) or _gpu(machine, fault.device) in named or kind is not DeviceKind.GPU
        if machine.seen(at) and asked and fault.stands(at) and at - fault.begin >= lasting:
            yield _labels(question, machine, fault.device, whole=question.about is About.MAYBE), _beyond(question)


def _good(question: Question, fleet: Fleet, named: set[str], at: datetime) -> Iterator[Pair]:
    """What is asked about is at work all the time, so it is good once its fault is over for long enough."""
    policy, kind = _policy(question), question.reading.signal.device
    assert policy.spec.recovery is not None  # nobody asks where nothing recovers
    since = at - policy.spec.recovery.lasting
    for machine in fleet.machines.values():
        if not machine.seen(at) or machine.since > since:
            continue
        for device in range(devices(kind)):
            asked = kind is not DeviceKind.GPU or not named & _gpus(machine) or _gpu(machine, device) in named
            ill = any(f.policy == policy.name and f.device == device and f.touches(since, at) for f in machine.faults)
            if asked and not ill:
                yield _labels(question, machine, device), _sound(policy.spec.trigger)


def _seen(question: Question, fleet: Fleet, _: set[str], at: datetime) -> Iterator[Pair]:
    kind, absent = question.reading.signal.device, _policy(question).spec.trigger.form is Form.ABSENT
    for machine in fleet.machines.values():
        lost = {f.device for f in machine.faults if absent and f.policy == _policy(question).name and f.stands(at)}
        if machine.seen(at) and _tells(question) and len(lost) < devices(kind):
            yield _by(question.reading.node_key, machine.own), float(devices(kind) - len(lost))


def _shown(question: Question, fleet: Fleet, named: set[str], at: datetime) -> Iterator[Pair]:
    kind = question.reading.signal.device
    for machine in fleet.machines.values():
        for device in range(devices(kind)) if machine.seen(at) else ():
            if kind is not DeviceKind.GPU or _gpu(machine, device) in named:
                yield _labels(question, machine, device, whole=True), 1.0


def _up(question: Question, fleet: Fleet, _: set[str], at: datetime) -> Iterator[Pair]:
    for machine in fleet.machines.values():
        if machine.seen(at):
            yield _by(question.reading.node_key, machine.own), min(3600.0, (at - machine.since).total_seconds())


def _there(question: Question, fleet: Fleet, _: set[str], at: datetime) -> Iterator[Pair]:
    for machine in fleet.machines.values():
        for device in range(devices(DeviceKind.GPU)) if machine.seen(at) else ():
            yield _labels(question, machine, device), 1.0


_ANSWERS: Mapping[About, Callable[[Question, Fleet, set[str], datetime], Iterable[Pair]]] = {
    About.MAYBE: _maybe,
    About.BAD: _bad,
    About.GOOD: _good,
    About.SEEN: _seen,
    About.SHOWN: _shown,
    About.UP: _up,
    About.THERE: _there,
    About.PAST: _shown,
}


def _policy(question: Question) -> LoadedPolicy:
    assert question.policy is not None
    return question.policy


def _tells(question: Question) -> bool:
    """Of the metrics of one exporter that a policy judges, the first one tells of its faults."""
    return question.reading.metric is None or question.reading.metric == question.reading.source.metrics[0]


def _gpus(machine: Machine) -> set[str]:
    return {_gpu(machine, n) for n in range(devices(DeviceKind.GPU))}


def _gpu(machine: Machine, device: int) -> str:
    """As questions name it, in small letters."""
    return machine.gpu(device).lower()


def _labels(question: Question, machine: Machine, device: int, *, whole: bool = False) -> dict[str, str]:
    every = machine.labels(question.reading.signal.device, device)
    plain = question.reading.metric is not None and not (
        question.policy is not None and question.policy.spec.trigger.form is Form.ABSENT
    )
    wanted = (*question.reading.group, "gpu", "modelName") if whole and plain else question.reading.group
    return _by(wanted, every)


def _by(wanted: Iterable[str], labels: Mapping[str, str]) -> dict[str, str]:
    return {label: labels[label] for label in wanted if label in labels}


def _beyond(question: Question) -> float:
    """A value that is bad, and plausible."""
    trigger, plausible = _policy(question).spec.trigger, question.reading.signal.plausible
    bar = tracing.bar(trigger, question.reading.signal.unit, "", None)
    if bar.bound is None:
        return 1.0
    return min(bar.bound * 1.1 + 1, plausible.max) if bar.above else max(bar.bound * 0.5, plausible.min)


def _sound(trigger: Trigger) -> float:
    bar = tracing.bar(trigger, "", "", None)
    return 1.0 if bar.bound is None else bar.bound * (0.5 if bar.above else 2)
