"""A cluster whose policies are on the path of trust: real rules, real plans and a real ledger, in simulated time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.core import rulefiles
from quarantine.core.decision import Request, RequestKind
from quarantine.core.law import Law
from quarantine.core.model import Mode, Node, PolicyAnswers
from quarantine.core.rulefiles import InForce, RuleFile
from quarantine.core.snapshot import Snapshot
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import SqlLedger, open_ledger
from tests.core.world import FAILED, SIGNALS, answers, hot, node

CLUSTER = "training"
START = datetime(2026, 11, 1, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
END = START + 17 * DAY + HOUR  # of `life`
SETTLE = 2
SIZES = {"h100": 40, "a100": 10}
_API = "quarantine.gpu/v1alpha1"
_POLICY: Mapping[str, object] = {
    "description": "A warm GPU drags the whole collective.",
    "owner": "infrastructure",
    "severity": "critical",
    "signal": "gpu.temperature",
    "trigger": {"above": 78, "for": "5m"},
    "recovery": {"below": 72, "for": "30m", "load": {"signal": "gpu.tensor", "above": 0.1}},
}


def machines() -> dict[str, Node]:
    """node-0 to node-39 are of pool h100, the ten behind them of a100."""
    named = [(pool, n) for pool, first in (("h100", 0), ("a100", 40)) for n in range(first, first + SIZES[pool])]
    return {f"node-{n}": node(f"node-{n}", labels={"pool": pool}) for pool, n in named}


class PathOfTrust:
    """Files, a fleet and a ledger. `at` is now; whoever sets it forward lets time pass."""

    def __init__(self, url: str, directory: Path, *, mode: Mode = Mode.OBSERVE) -> None:
        self.directory = directory
        self.mode = mode
        self.at = START
        self.nodes = machines()
        self.asked = 0
        self._files: dict[str, RuleFile] = {}
        pools = [{"name": pool, "nodeSelector": {"pool": pool}, "provider": "acme"} for pool in SIZES]
        self.write("fleet", _document("Fleet", "fleet", {"pools": pools}))
        self.signals()
        self.ledger: SqlLedger = open_ledger(url, CLUSTER, now=lambda: self.at)
        self.term = self.ledger.take_term("test")

    def write(self, file: str, *documents: str) -> None:
        """A file of policies, as it is from now on."""
        (self.directory / f"{file}.yaml").write_text("---\n".join(documents), encoding="utf-8")

    def signals(self, description: str = "temperature") -> None:
        """The signals' file, in these words."""
        known = {name: SIGNALS[name] for name in ("gpu.temperature", "gpu.tensor")}
        found = {
            name: spec.model_dump(mode="json", by_alias=True, exclude_defaults=True) for name, spec in known.items()
        }
        found["gpu.temperature"]["description"] = description
        self.write("signals", *(_document("Signal", name, spec) for name, spec in found.items()))

    def policy(self, name: str, **changes: object) -> None:
        """A policy on the temperature in a file of its own, as it is from now on."""
        self.write(name, written(name, **changes))

    def cycle(
        self,
        found: Mapping[str, Iterable[str]] | None = None,
        *requests: Request,
        blind: Iterable[str] = (),
        cool: Iterable[str] = (),
    ) -> None:
        """One cycle of the controller: `found` nodes by policy; `blind` policies get no answer; `cool` ones recover."""
        rules = load_rules([self.directory])
        law = Law.of(InForce(rules, self._accepted()), self.ledger.policy_runs(), SETTLE)
        said = {
            p.name: self._answers((found or {}).get(p.name, ()), cool, failed=p.name in blind) for p in rules.policies
        }
        for request in requests:
            self.ledger.ask(request)
        view = self.ledger.load()
        seen = Snapshot(
            self.at, CLUSTER, self.mode, "controller test", self.nodes, said, view.state, view.requests, view.pending
        )
        made = law.plan(seen)
        self.ledger.record(self.term, made.decisions, rules.written)
        self.ledger.keep_rules(self.term, law.in_force.files, rulefiles.ran(law.runs, said, SETTLE))

    def passes(self, length: timedelta) -> None:
        """Time, in which nothing is found: a cycle each day, and one at its end."""
        self.lives(self.at + length)
        self.cycle()

    def lives(self, until: datetime) -> None:
        """The same without the cycle at its end."""
        while until - self.at > DAY:
            self.at += DAY
            self.cycle()
        self.at = until

    def ask(self, kind: RequestKind, name: str) -> Request:
        """What a person says of a node."""
        self.asked += 1
        return Request(f"r-{self.at:%d%H}-{self.asked}", kind, name, "looked at it", "ada", "cli", self.at)

    def _answers(self, names: Iterable[str], cool: Iterable[str], *, failed: bool) -> PolicyAnswers:
        bad = [replace(hot(name), at=self.at) for name in names]
        good = [replace(hot(name, value=61.0), at=self.at) for name in cool]
        return replace(answers(self.nodes, *bad, good=good, trigger=FAILED if failed else None), coverage_at=self.at)

    def _accepted(self) -> tuple[RuleFile, ...]:
        for file in sorted(self.directory.glob("*.yaml")):
            text = file.read_text(encoding="utf-8")
            known = self._files.get(str(file))
            if known is None or known.text != text:
                digest = hashlib.sha256(text.encode()).hexdigest()
                self._files[str(file)] = RuleFile(str(file), text, digest, None, self.at)
        return tuple(self._files.values())


def written(name: str, **changes: object) -> str:
    """The document of a policy on the temperature."""
    return _document("Policy", name, {**_POLICY, "mode": "observe", **changes})


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> str:
    """YAML, of which JSON is a part."""
    data = {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


# --- A life -----------------------------------------------------------------------------------------------------------

STRICTER = {
    "trigger": {"above": 70, "for": "5m"},
    "recovery": {"below": 60, "for": "30m", "load": {"signal": "gpu.tensor", "above": 0.1}},
}


@dataclass(frozen=True)
class Lived:
    """What is left of a life: a ledger, and the files that were in force at its end."""

    url: str
    files: Path


def life(directory: Path) -> Lived:
    """Six policies over 17 days; how each comes to stand is said by its name."""
    files, url = directory / "policies", f"sqlite:///{directory / 'ledger.db'}"
    files.mkdir()
    upgrade(url)
    path = PathOfTrust(url, files)
    for name in ("wrong", "quiet", "unread", "passed", "acts", "changed"):
        path.policy(name)
    path.cycle()
    path.lives(START + 5 * DAY)
    path.cycle({"acts": ["node-3"], "wrong": ["node-5", "node-6", "node-7"], "passed": ["node-41"]})
    path.at += HOUR
    path.cycle({}, path.ask(RequestKind.OPEN, "node-3"), path.ask(RequestKind.RELEASE, "node-5"))
    path.passes(DAY)
    path.cycle(blind=["quiet"], cool=["node-41"])
    path.passes(DAY)
    path.lives(START + 16 * DAY)
    path.policy("acts", mode="enforce", nodeSelector={"pool": "a100"})
    path.policy("changed", mode="enforce", **STRICTER)
    path.cycle({"unread": ["node-20"]})
    path.passes(DAY)
    path.passes(HOUR)
    path.ledger.close()
    return Lived(url, files)
