"""Every form of question that the controller may put, made by the functions by which it makes its questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import combinations

from quarantine.core import promql
from quarantine.core.model import Device, DeviceKind, Node
from quarantine.core.model import Machine as Identity
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.promql import inventory, tracing
from quarantine.core.readings import Reading, boot_grace, load_reading, readings, readings_of, uptime_readings
from quarantine.core.selectors import Labels
from quarantine.core.trigger import Form
from tests.soak.fleet import Fleet
from tests.soak.questions import About, Question, form_of

_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_SAMPLE = Fleet().join("node-0", _ANY_TIME)  # a machine to make forms with; its names stand for any


class Catalogue:
    """Every form that any version of the policies has asked in so far."""

    def __init__(self) -> None:
        self._forms: dict[str, Question] = {}

    def learn(self, rules: Rules) -> None:
        """These rules are in force from now on; those before may still be asked by for a cycle."""
        for query, question in _questions(rules):
            self._forms[form_of(query)] = question

    def recognise(self, query: str) -> Question | None:
        """None: no such question was ever foreseen."""
        return self._forms.get(form_of(query))


# --- Forms ------------------------------------------------------------------------------------------------------------


def _questions(rules: Rules) -> Iterator[tuple[str, Question]]:
    for policy in rules.policies:
        for reading in readings_of(policy, rules):
            yield from _of(policy, reading, rules)
    grace = boot_grace(rules)
    if grace is not None:
        for reading in uptime_readings(rules):
            yield promql.uptime(reading, grace), Question(About.UP, reading)
    yield from _hardware(rules)


def _of(policy: LoadedPolicy, reading: Reading, rules: Rules) -> Iterator[tuple[str, Question]]:
    absent = policy.spec.trigger.form is Form.ABSENT
    cheap = promql.candidates(policy, reading)
    if cheap is not None:
        yield cheap, Question(About.MAYBE, reading, policy)
    yield promql.bad(policy, reading, None), Question(About.BAD, reading, policy)
    yield promql.coverage(policy, reading), Question(About.SEEN, reading, policy)
    load = load_reading(policy, rules, reading)
    for some in _spellings(reading):
        if load is not None:
            yield promql.good(policy, reading, load, some), Question(About.GOOD, reading, policy)
        if reading.metric is not None:
            yield promql.bad(policy, reading, some), Question(About.BAD, reading, policy)
            since = policy.spec.trigger.memory if absent else None
            yield promql.describe(reading, some, since), Question(About.SHOWN, reading)
        for above in (True, False):
            for asked in tracing.questions(policy.spec.trigger, reading, some, _ANY_TIME, above=above):
                length = asked.grid.end - asked.grid.start
                yield asked.query, Question(About.PAST, reading, length=length)
    others = promql.others(policy, reading, [_device(reading)])
    if others is not None:
        yield others, Question(About.OTHERS, reading)


_NODE = Node(
    name="node-0",
    machine=Identity(""),
    resource_version="1",
    labels={},
    annotations={},
    taints=(),
    unschedulable=False,
    ready=True,
    addresses=(_SAMPLE.address,),
)


def _spellings(reading: Reading) -> Iterator[Sequence[Labels]]:
    """By which labels devices may be named: all of the group's, those that are not empty, or a node's alone.

    One question may be about several that are named in different ways.
    """
    full = _SAMPLE.labels(reading.signal.device, 0)
    each = [
        {label: full.get(label, "") for label in reading.group},
        {label: full[label] for label in reading.group if label in full},
        *({label: full.get(label, "node-0")} for label in reading.node_key),
    ]
    for count in range(1, len(each) + 1):
        yield from combinations(each, count)


def _device(reading: Reading) -> Device:
    kind = reading.signal.device
    names = {DeviceKind.GPU: _SAMPLE.gpu(0), DeviceKind.IB_PORT: "mlx5_0/1"}
    return Device(kind, names.get(kind, ""))


def _hardware(rules: Rules) -> Iterator[tuple[str, Question]]:
    """Of however long a look back: the controller takes the least of it, doubled again and again, or the memory."""
    spec = rules.fleet.inventory
    if spec is None:
        return
    signal = rules.signals[spec.signal]
    window, windows = inventory.FEWEST * signal.interval, [spec.memory]
    while window < spec.memory:
        windows.append(window)
        window *= 2
    for reading in readings(signal, rules.fleet.matchers):
        for back in windows:
            look = inventory.Look((reading,), {"node-0": back}, {"node-0": _NODE})
            for queries in look.queries.values():
                for query in queries:
                    yield query, Question(About.THERE, reading)
