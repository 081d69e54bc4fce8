"""The files that the rules come from: which versions are in force, which files are broken, which policies are new.

What is said of them is said in the trail like anything else: a hold under `rules/<file>` stands while a file is broken,
and one under `changed/<policy>` while a policy that was changed only observes (invariant 6).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.draft import policy_fields
from quarantine.core.fleet import FleetSpec
from quarantine.core.model import Failed, Mode, PolicyAnswers
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.response import Moment
from quarantine.core.trigger import Form

FILE, CHANGED = "rules/", "changed/"  # of hold keys: a file that is broken, a policy that is new in its version
_NO_MATTER = {"description", "owner", "mode"}  # of a policy: what changes nothing about what it finds


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A version of a file that was accepted."""

    file: str  # its path, as the settings lead to it
    text: str
    hash: str  # sha256 of the text
    revision: str | None  # git revision of the directory it came from
    accepted_at: datetime
    # The Defaults that it is read with, where those in force are others: it was accepted before them, and is kept.
    defaults: str | None = None


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file, or a directory of them, whose present version is not in force."""

    file: str
    fault: str  # the first thing that is wrong, with its place
    accepted_at: datetime | None  # when the version in force was accepted; None: no version of it is in force

    @property
    def reason(self) -> str:
        """One sentence for people."""
        if self.accepted_at is None:
            return f"nothing of {self.file} is in force: {self.fault}"
        since = f"{self.accepted_at:%Y-%m-%d %H:%M} UTC"
        return f"{self.file} stays in force as it was accepted on {since}: {self.fault}"


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds now."""

    rules: Rules
    files: tuple[RuleFile, ...]  # what the rules are made of
    broken: tuple[BrokenFile, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """For how many cycles a policy was judged in its present version; not counted beyond what is asked for."""

    version: str
    cycles: int


# --- Broken files -----------------------------------------------------------------------------------------------------


def newly_broken(state: State, broken: Iterable[BrokenFile]) -> tuple[BrokenFile, ...]:
    """Those of which the trail does not know yet."""
    return tuple(one for one in broken if FILE + one.file not in state.holds)


ADVICE = "Correct the file; it is taken up once it is sound."  # for people, under that notice


def title(count: int, cluster: str) -> str:
    """Of the notice about files that broke together."""
    return f"{count} policy file{' is' if count == 1 else 's are'} broken in cluster {cluster}"


def file_decisions(state: State, broken: Iterable[BrokenFile], now: datetime, actor: str) -> Iterator[Decision]:
    """A hold for each file that is broken, again where it is broken in another way; lifted once it is not."""
    standing = {FILE + one.file: one for one in broken}
    for key, one in standing.items():
        if key not in state.holds or state.holds[key].reason != one.reason:
            yield Decision(
                at=now,
                kind=Kind.HELD,
                action=Action.JUDGE,
                reason=one.reason,
                actor=actor,
                held_by=HeldBy.BROKEN_FILE,
                hold_key=key,
            )
    for key in state.holds:
        if key.startswith(FILE) and key not in standing:
            said = f"{key.removeprefix(FILE)} is in force as it is, or is no more"
            yield Decision(at=now, kind=Kind.DECIDED, action=Action.JUDGE, reason=said, actor=actor, hold_key=key)


# --- Policies that are new in their version ---------------------------------------------------------------------------


def version_of(policy: LoadedPolicy, rules: Rules) -> str:
    """What it finds and does, as a digest: of the policy, what it names, and what it needs of the fleet.

    Prose does not count, nor does its mode: whoever lets it act has seen it observe. Nor does what the fleet says of
    machines, whichever policy finds them: pools and budgets, signs of planned work, what is never touched.
    """
    grace = policy.spec.grace.boot is not None
    recovery = policy.spec.recovery
    named = {
        policy.spec.signal,
        recovery.load.signal if recovery is not None else None,
        rules.fleet.uptime if grace else None,
    }
    signals = {
        name: rules.signals[name].model_dump(mode="json", exclude_defaults=True, exclude={"description"})
        for name in sorted(name for name in named if name is not None)
        if name in rules.signals
    }
    spec = policy.spec.model_dump(mode="json", exclude_defaults=True, exclude=_NO_MATTER)
    meant: list[object] = [spec, signals, _needed(policy, rules.fleet)]
    if procedures := {
        name: rules.procedures[name].model_dump(mode="json", exclude_defaults=True, exclude={"description"})
        for name in sorted(policy.spec.response.procedures)
        if name in rules.procedures
    }:
        meant.append(procedures)
    return hashlib.sha256(json.dumps(meant, sort_keys=True).encode()).hexdigest()


def _needed(policy: LoadedPolicy, fleet: FleetSpec) -> dict[str, object]:
    """What a policy needs of the fleet, to find what is bad and to see what stands in the way."""
    needed: dict[str, object] = {"matchers": dict(fleet.matchers)}
    if policy.spec.grace.boot is not None:
        needed["uptime"] = fleet.uptime
    if policy.spec.correlation is not None:
        needed["topology"] = {name: fleet.topology.get(name) for name in policy.spec.correlation.by}
    if policy.spec.response.drain.when is Moment.AFTER_CHECKPOINT:
        needed["checkpoint"] = fleet.workloads.checkpoint.model_dump(exclude_none=True)
    if policy.spec.trigger.form is Form.ABSENT:
        needed["expected"] = [
            [dict(pool.node_selector), pool.expected.model_dump(exclude_none=True)] for pool in fleet.pools
        ]
    return needed


def runs_of(rules: Rules, known: Mapping[str, PolicyRun] | None, cycles: int) -> dict[str, PolicyRun]:
    """How long each policy has run so far.

    `known`: what was kept after earlier cycles. None: nothing ever was, so nothing was changed either. That there were
    no policies is knowledge, and those that come then are new.
    """
    runs = {}
    for policy in rules.policies:
        version = version_of(policy, rules)
        run = known.get(policy.name) if known is not None else None
        begun = PolicyRun(version, cycles if known is None else 0)
        runs[policy.name] = run if run is not None and run.version == version else begun
    return runs


def new_ones(rules: Rules, runs: Mapping[str, PolicyRun], cycles: int) -> tuple[LoadedPolicy, ...]:
    """The policies that would act, and have not yet observed for so many cycles."""
    enforced = (policy for policy in rules.policies if policy.spec.mode is Mode.ENFORCE)
    return tuple(policy for policy in enforced if runs[policy.name].cycles < cycles)


def observing(rules: Rules, new: Sequence[LoadedPolicy]) -> Rules:
    """The rules, in which these policies only observe."""
    names = {policy.name for policy in new}
    if not names:
        return rules
    lowered = (
        replace(p, spec=p.spec.model_copy(update={"mode": Mode.OBSERVE})) if p.name in names else p
        for p in rules.policies
    )
    return replace(rules, policies=tuple(lowered))


def ran(runs: Mapping[str, PolicyRun], answers: Mapping[str, PolicyAnswers], cycles: int) -> dict[str, PolicyRun]:
    """After a cycle: one more for each policy that was answered."""
    return {
        name: replace(run, cycles=min(run.cycles + 1, cycles)) if _answered(answers.get(name)) else run
        for name, run in runs.items()
    }


def _answered(found: PolicyAnswers | None) -> bool:
    return found is not None and not any(isinstance(answer, Failed) for answer in found.trigger.values())


def change_decisions(
    state: State, new: Sequence[LoadedPolicy], cycles: int, now: datetime, actor: str
) -> Iterator[Decision]:
    """A hold for each policy that only observes because it is new; lifted once it has."""
    standing = {CHANGED + policy.name for policy in new}
    for policy in new:
        if CHANGED + policy.name not in state.holds:
            yield Decision(
                at=now,
                kind=Kind.HELD,
                action=Action.JUDGE,
                reason=f"policy {policy.name} is new or changed, and observes for its first {cycles} cycles",
                actor=actor,
                held_by=HeldBy.CHANGED,
                hold_key=CHANGED + policy.name,
                severity=policy.spec.severity,
                **policy_fields(policy),  # type: ignore[arg-type]
            )
    for key in state.holds:
        if key.startswith(CHANGED) and key not in standing:
            said = f"policy {key.removeprefix(CHANGED)} has observed long enough, or is changed or no more"
            yield Decision(at=now, kind=Kind.DECIDED, action=Action.JUDGE, reason=said, actor=actor, hold_key=key)
