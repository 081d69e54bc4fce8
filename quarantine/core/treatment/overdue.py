"""When a phase has lasted too long: by the table of phases, and no sooner than what the policies themselves ask for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from quarantine.core.case import Case, Phase
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.policy import Rules
from quarantine.core.treatment.ladder import out_since
from quarantine.core.treatment.owed import enforcing, release_of

SPARE = timedelta(days=1)  # for a burn-in to be begun and a person to look, beyond what a probation takes by itself


def overdue_at(case: Case, rules: Rules) -> datetime | None:
    """When a person is told that this case does not go on; None where it has ended."""
    deadline = TRANSITIONS[case.phase].deadline
    if deadline is None:
        return None
    return max([case.phase_since + deadline, *_asked_for(case, rules)])


def _asked_for(case: Case, rules: Rules) -> Iterator[datetime]:
    """What is in order until then."""
    if case.phase is Phase.REMEDY and case.run is not None:
        yield case.run.until
    if case.phase in (Phase.QUARANTINED, Phase.DRAINED):
        steps = (step for policy in enforcing(case, rules) for step in policy.spec.response.steps)
        yield from (out_since(case) + step.after for step in steps if step.after is not None)
    if case.phase is Phase.PROBATION:
        release = release_of(case, rules)
        burn_in = rules.procedures.get(release.burn_in or "")
        takes = burn_in.timeout if burn_in is not None else timedelta(0)
        yield case.proving.since + release.probation + takes + SPARE
