"""Questions to a Prometheus whose failure is the end of the check, and what selectors are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarantine.core.errors import Unavailable
from quarantine.core.model import Failed, FailureKind, Sample
from quarantine.core.readings import Reading
from quarantine.core.selectors import quote, required_labels
from quarantine.core.units import counted, format_duration
from quarantine.ports import Metrics

LOOKBACK = timedelta(minutes=10)  # a series without a sample for so long is none


@dataclass(frozen=True, slots=True)
class Rejected:
    """The server will refuse this query again and again. `why` is its sentence."""

    why: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Puts questions for one moment."""

    metrics: Metrics
    at: datetime
    timeout: timedelta

    def __call__(self, query: str) -> Sequence[Sample] | Rejected:
        """The samples. Raises Unavailable where there is no answer: nothing was checked then."""
        answer = self.metrics.query(query, at=self.at, timeout=self.timeout)
        if not isinstance(answer, Failed):
            return answer.samples
        if answer.kind is FailureKind.REJECTED:
            return Rejected(answer.detail)
        raise Unavailable(answer.detail)

    def number(self, query: str) -> int:
        """The one number of an answer; 0 where there is none."""
        answer = self(query)
        return 0 if isinstance(answer, Rejected) or not answer else counted(answer[0].value) or 0


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric with its matchers, each as PromQL writes it: `cluster="a"`."""

    metric: str
    matchers: tuple[str, ...] = ()

    def text(self, matchers: Sequence[str] | None = None) -> str:
        """As PromQL; with other matchers than its own."""
        given = self.matchers if matchers is None else matchers
        return f"{self.metric}{{{','.join(given)}}}" if given else self.metric

    def series(self, matchers: Sequence[str] | None = None) -> str:
        """Its series that had a sample lately."""
        return f"last_over_time({self.text(matchers)}[{format_duration(LOOKBACK)}])"


def selectors_of(reading: Reading) -> Iterator[Selector]:
    """What a reading by metrics selects: its metric, what must move with it, and what maps it to nodes."""
    if reading.metric is None:
        return
    fixed = {**reading.matchers, **reading.source.match}
    own = tuple(f"{k}={quote(v)}" for k, v in fixed.items())
    own += tuple(f'{label}!=""' for label in required_labels(reading.source))
    yield Selector(reading.metric, own)
    if reading.source.heartbeat is not None:
        yield Selector(reading.source.heartbeat, own)
    if (via := reading.source.node.via) is not None:
        of_fleet = tuple(f"{k}={quote(v)}" for k, v in reading.matchers.items())
        named = tuple(f'{label}!=""' for label in (*via.by, *reading.node_labels))
        yield Selector(via.metric, of_fleet + named)
