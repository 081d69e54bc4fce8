"""The controller's questions, put to a stretch of history at once; their texts are those of `core.promql`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock

from quarantine.core import promql
from quarantine.core.identity import device_of
from quarantine.core.model import Device, Failed, FailureKind, Sample
from quarantine.core.narrowing import ASKED_TOGETHER, devices_of, found_by_others, key_of, parts, too_many_gone
from quarantine.core.policy import LoadedPolicy
from quarantine.core.readings import Reading
from quarantine.core.selectors import Labels
from quarantine.core.series import Grid, RangeAnswer, Track, Tracks
from quarantine.core.trigger import Form
from quarantine.ports import RangeMetrics

AWAY = 6  # so many questions in a row without any answer, and the server is taken to be away
PATIENCE = 3  # pieces of history for which it is asked again after that
_PASSING = (FailureKind.TIMEOUT, FailureKind.UNREACHABLE, FailureKind.UNAVAILABLE)
_NOBODY = (FailureKind.TIMEOUT, FailureKind.UNREACHABLE, FailureKind.REFUSED, FailureKind.MISCONFIGURED)
GIVEN_UP = 4  # questions that nobody answers, before there ever was an answer; then no more are asked


@dataclass(frozen=True, slots=True)
class Line:
    """One series on the steps of a piece: its step i is step `(i + shift) // stride` of its track."""

    track: Track
    query: str
    shift: int = 0
    stride: int = 1

    def value(self, step: int) -> float | None:
        """At a step of the piece."""
        return self.track.value((step + self.shift) // self.stride)

    def sample(self, step: int, at: datetime) -> Sample | None:
        """As the instant query at that step would have answered."""
        value = self.value(step)
        return None if value is None else Sample(self.track.labels, value, at, self.query)

    def turns(self) -> Iterator[int]:
        """The steps of the piece at which it comes or goes."""
        return self._local(self.track.turns())

    def changes(self) -> Iterator[int]:
        """The steps of the piece at which it comes, goes or has another value."""
        return self._local(self.track.changes())

    def grades(self, bounds: Sequence[float]) -> Iterator[int]:
        """The steps of the piece at which it comes, goes, or reaches or passes one of `bounds`."""
        yield from self.turns()
        steps, values = self.track.steps, self.track.values
        if len(set(values)) == 1:
            return
        sides = [[(value >= bound, value > bound) for bound in bounds] for value in values]
        yield from self._local(steps[i] for i in range(1, len(steps)) if sides[i] != sides[i - 1])

    def ends(self) -> Iterator[int]:
        """The first step of the piece at which it is there, and one past the last."""
        return self._local((self.track.steps[0], self.track.steps[-1] + 1))

    def _local(self, steps: Iterable[int]) -> Iterator[int]:
        return (step * self.stride - self.shift for step in steps)


Lines = tuple[Line, ...] | Failed


@dataclass(frozen=True, slots=True)
class Found:
    """What one reading's trigger found: what is bad, and what is beyond the bound, however lately."""

    bad: Lines
    emerging: Lines | None = None  # None: it is not told


@dataclass(slots=True)
class Asker:
    """Puts range queries, and counts them. Several threads may ask at once."""

    metrics: RangeMetrics
    timeout: timedelta
    queries: int = 0
    points: int = 0
    _answered: bool = False  # at any time
    _unanswered: int = 0  # in a row
    _pieces: int = 0  # that were begun since it answered last
    _why: str = ""
    _lock: Lock = field(default_factory=Lock)

    def begin_piece(self) -> None:
        """Time has passed: where the server was away, one question finds out whether it still is; a few times."""
        with self._lock:
            if self._answered and self._unanswered >= AWAY and self._pieces < PATIENCE:
                self._unanswered, self._pieces = AWAY - 1, self._pieces + 1

    def __call__(self, query: str, grid: Grid) -> RangeAnswer:
        """One answer; what may have been a passing trouble is asked once more.

        A server that is away would cost a time-out for each of hundreds of questions: after a few no more are put.
        """
        answer = self._ask(query, grid)
        if isinstance(answer, Failed) and answer.kind in _PASSING and self._answered:
            answer = self._ask(query, grid)
        return answer

    def _ask(self, query: str, grid: Grid) -> RangeAnswer:
        if self._unanswered >= (AWAY if self._answered else GIVEN_UP):
            return Failed(FailureKind.UNREACHABLE, self._why, query)
        answer = self.metrics.query_range(query, grid, timeout=self.timeout)
        with self._lock:
            self.queries += 1
            if isinstance(answer, Tracks):
                self._answered, self._unanswered, self._pieces = True, 0, 0
                self.points += answer.points
            elif answer.kind in _NOBODY:
                self._unanswered += 1
                self._why = answer.detail
            else:
                self._unanswered = 0  # it says no, but it is there
        return answer


def trigger(ask: Asker, policy: LoadedPolicy, reading: Reading, grid: Grid) -> Found:
    """What is bad at each step. Superset first, exact second: subqueries over a whole fleet cost seconds a step.

    The exact question is put for no more than the stretch of steps at which the superset names one of its devices.
    """
    cheap = promql.candidates(policy, reading)
    if cheap is None:
        return Found(_lines(ask, [promql.bad(policy, reading, None)], grid))
    possible = ask(cheap, grid)
    if isinstance(possible, Failed):
        return Found(possible, possible if promql.tells_emerging(policy) else None)
    told = tuple(Line(track, cheap) for track in possible.tracks if track.steps)
    exact = _exact(ask, policy, reading, possible, cheap, grid)
    return Found(exact, told if promql.tells_emerging(policy) else None)


def _exact(ask: Asker, policy: LoadedPolicy, reading: Reading, possible: Tracks, cheap: str, grid: Grid) -> Lines:
    """Which of these are bad, and when."""
    devices = devices_of((track.labels for track in possible.tracks if track.steps), reading)
    if not devices:
        return ()
    absent = policy.spec.trigger.form is Form.ABSENT
    if absent and (most := _most_at_once(possible)) > ASKED_TOGETHER:
        return Failed(FailureKind.MISCONFIGURED, too_many_gone(most, reading), cheap)
    narrow = reading.metric is not None and (absent or len(devices) <= ASKED_TOGETHER)
    found: list[Line] = []
    for part in parts(devices, reading) if narrow else [devices]:
        own = frozenset(key_of(device, reading) for device in part)
        begin, end = _stretch(track for track in possible.tracks if key_of(track.labels, reading) in own)
        query = promql.bad(policy, reading, part if narrow else None)
        lines = _lines(ask, [query], grid.part(begin, end - begin), shift=-begin)
        if isinstance(lines, Failed):
            return lines
        # A narrowed query may let others through, which are in a part of their own.
        found += (line for line in lines if key_of(line.track.labels, reading) in own)
    return _described(ask, policy, reading, tuple(found), grid) if reading.metric is not None else tuple(found)


def others(
    ask: Asker, policy: LoadedPolicy, known: Sequence[Reading], bad: Mapping[str, Lines], grid: Grid
) -> Mapping[str, Lines]:
    """What the policy's other readings say of the devices found bad, by the keys of those that are asked.

    To show where exporters disagree; and what is absent must be absent from every reading.
    """
    absent = policy.spec.trigger.form is Form.ABSENT
    named = {reading.key: _named(bad[reading.key], reading) for reading in known}
    found: dict[str, Lines] = {}
    for reading in known:
        about = found_by_others(reading, known, named, absent=absent)
        queries = [query for part in about if (query := promql.others(policy, reading, part)) is not None]
        if queries:
            found[reading.key] = _lines(ask, queries, grid)
    return found


def recovery(
    ask: Asker, policy: LoadedPolicy, reading: Reading, load: Reading, devices: Sequence[Labels], grid: Grid
) -> Lines:
    """Which of `devices` are good at each step of `grid`."""
    return _lines(ask, [promql.good(policy, reading, load, part) for part in parts(devices, reading)], grid)


def coverage(
    ask: Asker, policy: LoadedPolicy, known: Sequence[Reading], whole: Grid, first: int, count: int, pace: int
) -> Mapping[str, Lines]:
    """How many devices each reading sees of each node, at `count` steps of `whole` from `first` on.

    It is asked at every `pace`-th step. Where none of the readings sees anything, each step is asked: so does the
    controller, which wants to know when it sees again.
    """
    behind = first % pace
    slow = Grid(whole.at(first - behind), pace * whole.step, (behind + count - 1) // pace + 1)
    queries = {reading.key: promql.coverage(policy, reading) for reading in known}
    found = {key: _lines(ask, [query], slow, shift=behind, stride=pace) for key, query in queries.items()}
    answered = {key: lines for key, lines in found.items() if not isinstance(lines, Failed)}
    if pace == 1 or len(answered) < len(found):
        return found
    seen = {step for lines in answered.values() for line in lines for step in line.track.steps}
    for start, stop in _runs(step for step in range(slow.count) if step not in seen):
        begin, end = max(0, start * pace - behind), min(count, stop * pace - behind)
        for key, query in queries.items():
            closer = _lines(ask, [query], whole.part(first + begin, end - begin), shift=-begin)
            if isinstance(closer, Failed):
                return {**answered, key: closer}
            answered[key] += closer
    return answered


def uptime(ask: Asker, reading: Reading, grace: timedelta, grid: Grid, stretch: tuple[int, int]) -> Lines:
    """How long the nodes have been up, at a stretch of the steps: from the first of it to one before its end."""
    begin, end = stretch
    return _lines(ask, [promql.uptime(reading, grace)], grid.part(begin, end - begin), shift=-begin)


def _lines(ask: Asker, queries: Sequence[str], grid: Grid, *, shift: int = 0, stride: int = 1) -> Lines:
    """The answers of all, or the first failure: half an answer is none."""
    found: list[Line] = []
    for query in queries:
        answer = ask(query, grid)
        if isinstance(answer, Failed):
            return answer
        found += [Line(track, query, shift, stride) for track in answer.tracks if track.steps]
    return tuple(found)


def _described(ask: Asker, policy: LoadedPolicy, reading: Reading, lines: tuple[Line, ...], grid: Grid) -> Lines:
    """With the labels of the raw series as they are when the device turns bad; without them it is bad as well.

    Except where the bound depends on the model: the record must not name another one's.
    """
    trigger = policy.spec.trigger
    since = trigger.memory if trigger.form is Form.ABSENT else None
    by_step: dict[int, list[Labels]] = {}
    for line in lines:
        by_step.setdefault(next(line.turns()), []).append(dict(key_of(line.track.labels, reading)))
    raw = {}
    for step, devices in by_step.items():
        for part in parts(devices, reading):
            answer = ask(promql.describe(reading, part, since), grid.part(step, 1))
            if isinstance(answer, Failed) and trigger.models:
                return answer
            for track in answer.tracks if isinstance(answer, Tracks) else ():
                raw[key_of(track.labels, reading)] = track.labels

    def named(track: Track) -> Track:
        return replace(track, labels={**raw.get(key_of(track.labels, reading), {}), **track.labels})

    return tuple(replace(line, track=named(line.track)) for line in lines)


def _named(lines: Lines, reading: Reading) -> list[Device]:
    found = (device_of(reading, line.track.labels) for line in (lines if not isinstance(lines, Failed) else ()))
    return [device for device in found if device is not None and device.name]


def _stretch(tracks: Iterable[Track]) -> tuple[int, int]:
    """From the first step at which there is one of these, to one past the last."""
    ends = [(track.steps[0], track.steps[-1] + 1) for track in tracks if track.steps]
    return min(first for first, _ in ends), max(last for _, last in ends)


def _most_at_once(answer: Tracks) -> int:
    return max(Counter(step for track in answer.tracks for step in track.steps).values(), default=0)


def _runs(steps: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring numbers as (first, one past the last)."""
    start = stop = -1
    for step in steps:
        if step != stop:
            if stop > start:
                yield start, stop
            start = step
        stop = step + 1
    if stop > start:
        yield start, stop
