"""What Prometheus says of a fleet whose faults are known, and the ways in which it does not say it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from quarantine.core.model import Answer, Failed, FailureKind, PolicyAnswers, Sample, Samples
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.promql import tells_emerging
from quarantine.core.readings import Reading, readings_of

Place = tuple[str, str]  # a node's name, and a device's
PORT = "mlx5_0/1"
FAILED = Failed(FailureKind.UNREACHABLE, "http://prometheus:9090 refused the connection: is Prometheus up?", "q")
PARTIAL = Failed(FailureKind.PARTIAL, "http://prometheus:9090 answered in part", "q")


@dataclass
class Prometheus:
    """`bad`: by policy name, the GPUs (by UUID) and ports (by node) that its trigger finds; `warm`: those it will.

    `healthy` tells which devices are seen to be good under load; `gpus` which a node has.
    """

    gpus: Callable[[], Mapping[str, tuple[str, ...]]]
    address: Callable[[str], str]
    bad: dict[str, set[str]] = field(default_factory=dict)
    warm: dict[str, set[str]] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)  # nodes that do real work: only of them is anything seen to be good
    dark: set[str] = field(default_factory=set)  # nodes whose exporters are dead
    failing: dict[str, Failed] = field(default_factory=dict)  # by question: trigger, recovery, coverage
    empty: bool = False  # service discovery has dropped every target
    ghosts: int = 0  # devices that are bad on nodes that are none of this cluster's
    at: datetime | None = None

    def answers(self, rules: Rules, now: datetime, found: Collection[Place]) -> dict[str, PolicyAnswers]:
        """To all policies. `found`: of which it is asked whether they are good again."""
        self.at = now
        return {policy.name: self._about(policy, rules, found) for policy in rules.policies}

    def devices(self, policy: LoadedPolicy) -> list[Place]:
        """What a policy may find something about, as far as it is there."""
        found = self.gpus()
        if policy.spec.signal == "ib.downed":
            return [(name, PORT) for name in found]
        return [(name, uuid) for name, uuids in found.items() for uuid in uuids]

    def is_bad(self, policy: LoadedPolicy, place: Place) -> bool:
        """Whether a device has what the policy looks for. A port's fault is its node's place's."""
        name, device = place
        return (name if device == PORT else device) in self.bad.get(policy.name, ())

    def seen(self) -> set[str]:
        """The nodes whose exporters are scraped."""
        return set() if self.empty else self.gpus().keys() - self.dark

    def _about(self, policy: LoadedPolicy, rules: Rules, found: Collection[Place]) -> PolicyAnswers:
        seen = self.seen()
        here = [place for place in self.devices(policy) if place[0] in seen]
        bad = [place for place in here if self.is_bad(policy, place)]
        good = [p for p in here if p in found and not self.is_bad(policy, p) and p[0] in self.loaded]
        warm = [p for p in here if p[1] in self.warm.get(policy.name, ())]
        strays = [(f"ghost-{n}", f"GPU-ghost-{n}-0") for n in range(self.ghosts)]
        readings = readings_of(policy, rules)
        first, ask = readings[0], self._answer
        trigger = {r.key: ask("trigger", r, (*bad, *strays) if r is first else ()) for r in readings}
        recovery = {r.key: ask("recovery", r, good) for r in readings} if policy.spec.recovery else {}
        coverage = {r.key: self._coverage(r, here) for r in readings}
        emerging = {first.key: ask("trigger", first, (*bad, *warm))} if tells_emerging(policy) else {}
        return PolicyAnswers(trigger, recovery, coverage, self.at, emerging=emerging)

    def _answer(self, what: str, reading: Reading, places: Iterable[Place]) -> Answer:
        if what in self.failing:
            return self.failing[what]
        return Samples(tuple(self._sample(reading, place, 84.0) for place in places), what)

    def _coverage(self, reading: Reading, here: Iterable[Place]) -> Answer:
        if "coverage" in self.failing:
            return self.failing["coverage"]
        count: dict[str, int] = {}
        for name, _ in here:
            count[name] = count.get(name, 0) + 1
        return Samples(tuple(self._sample(reading, (name, ""), float(n)) for name, n in count.items()), "coverage")

    def _sample(self, reading: Reading, place: Place, value: float) -> Sample:
        assert self.at is not None
        name, device = place
        labels = {"instance": f"{self.address(name)}:9100"} if device == PORT else {"Hostname": name}
        if reading.source.node.means == "address":
            labels = {"instance": f"{self.address(name)}:9100"}
        if device == PORT:
            labels |= {"device": "mlx5_0", "port": "1"}
        elif device:
            labels |= {"UUID": device, "gpu": device.rpartition("-")[2]}
        return Sample(labels, value, self.at, query="asked")
