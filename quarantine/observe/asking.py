"""Putting questions to Prometheus: for one moment, each within its time-out and all within the cycle's deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quarantine.core.model import Answer, Failed, FailureKind, Sample, Samples
from quarantine.ports import Clock, Metrics


@dataclass(slots=True)
class Asker:
    """Puts questions for one moment, each within its time-out and all within the cycle's deadline."""

    metrics: Metrics
    clock: Clock
    now: datetime  # the cycle's
    at: datetime  # what is asked about: `now`, or a little earlier
    until: datetime
    timeout: timedelta

    def __call__(self, query: str) -> Answer:
        left = self.until - self.clock.now()
        if left <= timedelta(0):
            detail = "the cycle's deadline passed before this could be asked: raise cycle.deadline, or ask less"
            return Failed(FailureKind.TIMEOUT, detail, query)
        answer = self.metrics.query(query, at=self.at, timeout=min(left, self.timeout))
        if isinstance(answer, Failed):
            return answer
        return Samples(tuple(replace(sample, query=query) for sample in answer.samples), query)


def together(answers: Sequence[Answer], query: str) -> Answer:
    """All of them, or the first failure: half an answer is none."""
    samples: list[Sample] = []
    for answer in answers:
        if isinstance(answer, Failed):
            return answer
        samples += answer.samples
    return Samples(tuple(samples), query)
