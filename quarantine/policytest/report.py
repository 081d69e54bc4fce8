"""Outcomes for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quarantine.adapters.policyfiles.faults import printable, shorten
from quarantine.policytest.runner import Outcome

_LONGEST = 1500  # characters of a line of evidence: a query is long, and is to be copied whole


def of_file(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of one file's tests: one where all passed, else each failure with its evidence."""
    first = outcomes[0].test
    failed = [outcome for outcome in outcomes if not outcome.passed]
    seconds = sum(outcome.seconds for outcome in outcomes)
    count = f"{len(outcomes)} test{'' if len(outcomes) == 1 else 's'}"
    result = f"{len(failed)} of {count} failed" if failed else f"{count} passed"
    yield printable(f"{first.file}: {result} ({seconds:.1f} s)")
    for outcome in failed:
        test = outcome.test
        for problem in outcome.problems:
            yield printable(shorten(f"{test.file}:{test.line}: {test.case.name}: {problem}", _LONGEST))
        for line in outcome.evidence:
            yield "    " + printable(shorten(line, _LONGEST))


def total(outcomes: Sequence[Outcome], seconds: float) -> str:
    """One line for all of them."""
    failed = sum(1 for outcome in outcomes if not outcome.passed)
    policies = len({outcome.test.policy.name for outcome in outcomes})
    ran = f"{len(outcomes)} test{'' if len(outcomes) == 1 else 's'}"
    of = f"{policies} polic{'y' if policies == 1 else 'ies'}"
    return f"{ran} of {of} in {seconds:.1f} s: {f'{failed} failed' if failed else 'all passed'}"


def as_data(outcomes: Sequence[Outcome], seconds: float) -> dict[str, object]:
    """As JSON has it."""
    return {
        "passed": sum(1 for outcome in outcomes if outcome.passed),
        "failed": sum(1 for outcome in outcomes if not outcome.passed),
        "seconds": round(seconds, 3),
        "tests": [
            {
                "file": outcome.test.file,
                "line": outcome.test.line,
                "policy": outcome.test.policy.name,
                "name": outcome.test.case.name,
                "passed": outcome.passed,
                "seconds": round(outcome.seconds, 3),
                "problems": list(outcome.problems),
                "evidence": list(outcome.evidence),
            }
            for outcome in outcomes
        ],
    }
