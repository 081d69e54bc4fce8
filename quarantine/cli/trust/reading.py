"""From the ledger to where each policy stands. Nothing is written, and neither Prometheus nor the cluster is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from quarantine.core.record.trust import (
    Edition,
    Found,
    Standing,
    Trail,
    Wanted,
    counted_since,
    standing,
    standings,
    waiting,
)

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from quarantine.core.decision import State
    from quarantine.core.model import Mode
    from quarantine.core.policy import LoadedPolicy, PolicySpec, Rules
    from quarantine.core.record.trust.material import Stretch
    from quarantine.core.rulefiles import RuleFile
    from quarantine.ledger.pulse import Pulse
    from quarantine.ledger.trusted import Came, Held


@dataclass(frozen=True, slots=True)
class Installation:
    """Whose path it is."""

    cluster: str
    mode: Mode  # of the settings
    rules: Rules  # in force
    state: State
    pulse: Pulse | None  # of the last controller at work
    signal_files: Mapping[str, datetime]  # by signal: when the file that it is in was accepted as it is


@dataclass(frozen=True, slots=True)
class Read:
    """What was read, to be asked about any policy, in force or in a file."""

    at: Installation
    wanted: Wanted
    trails: Mapping[str, Trail]
    engine: Engine

    def in_force(self) -> tuple[Standing, ...]:
        """All policies in force, those first that people are to do something about."""
        policies = self.at.rules.policies
        return standings(self.at.rules, self.trails, self._found(policies), self.at.state.pools, self.wanted)

    def as_written(self, policies: Sequence[LoadedPolicy]) -> tuple[Standing, ...]:
        """Policies of files: where each would stand. The pools are those in force."""
        found, sizes, fleet = self._found(policies), self.at.state.pools, self.at.rules.fleet
        return tuple(
            standing(one, fleet, self.trails.get(one.name, Trail()), found.get(one.name, Found()), sizes, self.wanted)
            for one in policies
        )

    def _found(self, policies: Iterable[LoadedPolicy]) -> Mapping[str, Found]:
        from quarantine.ledger import trusted
        from quarantine.ledger.engine import reading

        moments = {
            one.name: counted_since(self.trails.get(one.name, Trail()), one.spec, self.wanted) for one in policies
        }
        begun = {name: moment for name, moment in moments.items() if moment is not None}
        with reading(self.engine) as connection:
            found = trusted.found(connection, self.at.cluster, begun, self.wanted.since)
        stands = waiting(self.at.state.cases.values())
        return {
            one.name: replace(
                found.get(one.name, Found()),
                waits=len(told := stands.get(one.name, ())),
                waiting=told[: trusted.MOST_TOLD],
            )
            for one in policies
        }


def read(engine: Engine, at: Installation, since: datetime, now: datetime) -> Read:
    """Raises LedgerUnavailable, SchemaMismatch."""
    from quarantine.ledger import trusted
    from quarantine.ledger.engine import reading

    with reading(engine) as connection:
        came = trusted.versions(connection, at.cluster)
        known = trusted.texts(connection, at.cluster, list(came))
        held = trusted.held(connection, at.cluster)
        until = now if at.pulse is None else min(now, at.pulse.at)
        first = min((versions[0].at for versions in came.values()), default=until)
        absent = trusted.unproven(connection, at.cluster, first, until)
    return Read(at, Wanted(since, now, until), _trails(came, known, held, absent), engine)


def _trails(
    came: Mapping[str, Sequence[Came]],
    known: Mapping[str, str],
    held: Mapping[str, Held],
    absent: tuple[Stretch, ...],
) -> Mapping[str, Trail]:
    from quarantine.adapters.policyfiles.kept import spec_of

    specs: dict[str, PolicySpec | None] = {}
    for version in (one.hash for versions in came.values() for one in versions):
        if version is not None and version not in specs:
            specs[version] = spec_of(known[version]) if version in known else None
    trails = {}
    for name, versions in came.items():
        editions = tuple(Edition(one.at, None if one.hash is None else specs[one.hash]) for one in versions)
        of = held.get(name)
        trails[name] = Trail(editions, tuple(of.blind) if of else (), tuple(of.tripped) if of else (), absent)
    return trails


def installation(
    cluster: str, mode: Mode, state: State, pulse: Pulse | None, files: Sequence[RuleFile], prefix: str
) -> Installation | None:
    """None where the controller has accepted no rules yet."""
    from quarantine.adapters.policyfiles.kept import in_force

    checked = in_force(files, prefix=prefix)
    if checked.rules is None:
        return None
    accepted = {one.file: one.accepted_at for one in files}
    places = {name: placed.locate()[0] for (kind, name), placed in checked.documents.items() if kind == "Signal"}
    signals = {name: accepted[file] for name, file in places.items() if file in accepted}
    return Installation(cluster, mode, checked.rules, state, pulse, signals)
