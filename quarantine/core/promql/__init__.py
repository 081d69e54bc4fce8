"""Policy → query text. The forms, what they cost and what is wrong with the obvious ones: `docs/promql.md`.

A *reading* is one metric of one source of a signal; each is asked and judged by itself. For a reading there are four
questions: which devices *might* be bad (cheap, whole fleet), which of those *are* (exact, these devices alone), which
devices of open cases are *good again* (exact), and how many devices can be seen at all. A fifth one decides nothing:
what it was that the trigger compared, for a while up to a finding (`tracing`).
"""

from quarantine.core.promql.finding import bad, candidates, tells_emerging
from quarantine.core.promql.looking import coverage, describe, expected_samples, others, probes, uptime
from quarantine.core.promql.recovering import good

__all__ = [
    "bad",
    "candidates",
    "coverage",
    "describe",
    "expected_samples",
    "good",
    "others",
    "probes",
    "tells_emerging",
    "uptime",
]
