"""Prometheus' memory, made up: which devices a policy finds bad and good at which steps, and what is seen of nodes."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from quarantine.core import promql as texts
from quarantine.core.model import Failed, FailureKind
from quarantine.core.narrowing import devices_of
from quarantine.core.policy import Rules
from quarantine.core.readings import Reading, load_reading, readings_of
from quarantine.core.selectors import Labels
from quarantine.core.series import Grid, RangeAnswer, Track, Tracks

Steps = frozenset[int]


@dataclass(frozen=True)
class Told:
    """What is remembered of one device under one policy; steps are those of the whole grid."""

    node: str
    gpu: int
    bad: Steps = frozenset()
    good: Steps = frozenset()

    @property
    def labels(self) -> Labels:
        return {"Hostname": self.node, "UUID": f"GPU-{self.node}-{self.gpu}"}

    def raw(self) -> Labels:
        return {**self.labels, "gpu": str(self.gpu)}


@dataclass
class Remembered:
    """Answers by the very texts that `core.promql` makes, and refuses any other."""

    rules: Rules
    whole: Grid
    told: Mapping[str, Sequence[Told]]  # by policy
    seen: Mapping[int, int] = field(default_factory=lambda: {0: 8})  # devices of a node, from a step on; 0: nothing
    nodes: Sequence[str] = ()
    failing: Mapping[str, Steps] = field(default_factory=dict)  # kind of question → steps that have no answer
    asked: list[tuple[str, Grid]] = field(default_factory=list)

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta) -> RangeAnswer:
        assert timeout > timedelta(0)
        self.asked.append((promql, grid))
        kind, found = self._known[promql]
        at = [(grid.at(i) - self.whole.start) // self.whole.step for i in range(grid.count)]
        if set(at) & self.failing.get(kind, frozenset()):
            return Failed(FailureKind.REJECTED, f"http://prometheus:9090 refuses to say what is {kind}", promql)
        tracks = []
        for labels, steps in found:
            there = [i for i, step in enumerate(at) if steps is None or step in steps]
            values = [self._value(kind, at[i]) for i in there]
            if there:
                tracks.append(Track(labels, array("q", there), array("d", values)))
        if kind == "coverage":
            tracks = [_without_zeros(track) for track in tracks]
        return Tracks(tuple(track for track in tracks if track.steps), grid, promql)

    def _value(self, kind: str, step: int) -> float:
        if kind != "coverage":
            return 80.0 + step % 7  # a value changes all the time, and that is no reason to decide anything
        return float(self.seen[max(since for since in self.seen if since <= step)])

    @cached_property
    def _known(self) -> Mapping[str, tuple[str, list[tuple[Labels, Steps | None]]]]:
        known: dict[str, tuple[str, list[tuple[Labels, Steps | None]]]] = {}
        for policy in self.rules.policies:
            for reading in readings_of(policy, self.rules):  # each signal is judged by one policy alone, here
                told = self.told.get(policy.name, ())
                cheap = texts.candidates(policy, reading)
                assert cheap is not None
                known[cheap] = ("candidates", [(one.raw(), one.bad) for one in told])
                known[texts.coverage(policy, reading)] = ("coverage", [({"Hostname": n}, None) for n in self.nodes])
                load = load_reading(policy, self.rules, reading)
                for one in told:
                    group = _grouped(one, reading)
                    known[texts.bad(policy, reading, [group])] = ("bad", [(one.labels, one.bad)])
                    known[texts.describe(reading, [group])] = ("describe", [(one.raw(), None)])
                    if load is not None:
                        known[texts.good(policy, reading, load, [one.labels])] = ("good", [(one.labels, one.good)])
        return known


def _grouped(one: Told, reading: Reading) -> Labels:
    return devices_of([one.labels], reading)[0]


def _without_zeros(track: Track) -> Track:
    kept = [(step, value) for step, value in zip(track.steps, track.values, strict=True) if value]
    return Track(track.labels, array("q", [s for s, _ in kept]), array("d", [v for _, v in kept]))
