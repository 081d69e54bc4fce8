"""Which versions of the rules are in force, said in the trail whenever that changes: a policy change is a decision.

A version is a text. One that stays the same under a newer git revision is no other version: most commits touch other
files, and every decision carries the revision that its policy was read at.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from quarantine.core.decision import Action, Decision, Kind, State, Version
from quarantine.core.document import Written
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.signs import in_utc

SHORT = 12  # characters of a hash, for people


def version_decisions(state: State, rules: Rules, now: datetime, actor: str) -> Iterator[Decision]:
    """A decision for each document that comes into force, is changed, or is no more.

    `rules` are those in force. What is kept of a broken file is in force, so nothing is said of it here.
    """
    written = {one.name: one for one in rules.written}
    for name, one in written.items():
        known = state.versions.get(name)
        if known is None or known.hash != one.hash:
            yield _decision(name, _begins(one, known), now, actor, one)
    for name, known in state.versions.items():
        if name not in written:
            said = f"{_called(name)} is no more; it was in force since {in_utc(known.since)}"
            yield _decision(name, f"{said} as {_version(known)}", now, actor, None)


def _decision(name: str, reason: str, now: datetime, actor: str, one: Written | None) -> Decision:
    return Decision(
        at=now,
        kind=Kind.DECIDED,
        action=Action.POLICY,
        reason=reason,
        actor=actor,
        policy=name,
        policy_hash=None if one is None else one.hash,
        policy_revision=None if one is None else one.revision,
        severity=one.spec.severity if isinstance(one, LoadedPolicy) else None,
    )


def _begins(one: Written, known: Version | None) -> str:
    mode = f", mode {one.spec.mode}" if isinstance(one, LoadedPolicy) else ""
    if known is None:
        return f"{_called(one.name)} comes into force as {_version(one)}{mode}"
    return f"{_called(one.name)} is changed from {_version(known)}, to {_version(one)}{mode}"


def _called(name: str) -> str:
    """A name of the trail, for people: `fleet/prod` is `fleet prod`, and what has no kind is a policy."""
    kind, slash, rest = name.partition("/")
    return f"{kind} {rest}" if slash else f"policy {name}"


def _version(one: Written | Version) -> str:
    revision = f" of revision {one.revision}" if one.revision else ""
    return f"text {one.hash[:SHORT]}{revision}"
