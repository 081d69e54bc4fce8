"""The short series that go with a decision's evidence. Asked between deciding and recording, within a few seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from quarantine.core.case import Evidence
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.draft import NODE
from quarantine.core.model import Failed, FailureKind
from quarantine.core.narrowing import NARROWED_AT_ONCE, Key, key_of
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.promql import tracing
from quarantine.core.promql.tracing import Bar, Question
from quarantine.core.readings import Reading, readings_of
from quarantine.core.record.trace import Points, Trace, merged, thinned
from quarantine.core.series import RangeAnswer, Track
from quarantine.core.trigger import Form
from quarantine.core.units import format_duration, format_number
from quarantine.ports import Clock, Past

_ABSENT = "what is absent has no values to show"
_NONE_THERE = "Prometheus has no samples of it from that time"
_TOO_MANY = (
    f"it was not asked about: an expression is put to the whole fleet, so for {NARROWED_AT_ONCE} devices and no more"
)

_TAKES = (Action.QUARANTINE, Action.JOIN, Action.PROVE)  # with evidence; who is sent back from probation is proven bad
_Group = tuple[str, str, datetime, bool]  # policy, reading, when, which side is bad


@dataclass(frozen=True, slots=True)
class _Subject:
    """A decision (by its place) whose evidence gets a trace. `device`: the labels by which its reading knows it."""

    place: int
    evidence: Evidence
    policy: LoadedPolicy
    reading: Reading
    device: Key
    bar: Bar

    @classmethod
    def of(cls, place: int, evidence: Evidence, policy: LoadedPolicy, reading: Reading) -> Self:
        model = evidence.labels.get(reading.source.model or "", "")
        bar = tracing.bar(policy.spec.trigger, reading.signal.unit, model, evidence.value)
        return cls(place, evidence, policy, reading, key_of(evidence.labels, reading), bar)

    @property
    def asked_with(self) -> _Group:
        """Those that share it are asked about together."""
        return self.policy.name, self.reading.key, self.evidence.at, self.bar.above

    def trace(self, query: str = "", *, points: Points = (), raw: bool = False, notes: Iterable[str] = ()) -> Trace:
        """What is told of it, with what is known without asking."""
        since = self.evidence.at - self.policy.spec.trigger.window
        note = "; ".join(note for note in (self.bar.note, *notes) if note)
        return Trace(query, points, raw, self.bar.bound, self.bar.above, since, note)


def traced(
    decisions: Sequence[Decision],
    before: State,
    rules: Rules,
    past: Past,
    clock: Clock,
    *,
    limit: timedelta,
    workers: int,
) -> tuple[Decision, ...]:
    """The decisions, those that open or join a case with a trace in their evidence. Nothing else of them changes.

    What is not answered within `limit` in all gets a trace without points, and a note that says why. `before`: the
    state that the decisions were taken in.
    """
    alike: dict[_Group, list[_Subject]] = {}
    # Where time is short, what is taken out goes before what is held.
    for subject in sorted(_subjects(decisions, before, rules), key=lambda s: decisions[s.place].kind is Kind.HELD):
        alike.setdefault(subject.asked_with, []).append(subject)
    if not alike:
        return tuple(decisions)
    until, found = clock.now() + limit, dict[int, Trace]()
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="trace") as pool:
        asked = [
            (group, question, pool.submit(_ask, past, clock, question, until, limit))
            for group, subjects in alike.items()
            for question in _questions(subjects)
        ]
        for group, question, answer in asked:
            found |= _told(alike[group], question, answer.result())
    made = list(decisions)
    for subject in (subject for subjects in alike.values() for subject in subjects):
        trace = found.get(subject.place) or subject.trace(notes=[_unasked(subject)])
        made[subject.place] = replace(made[subject.place], evidence=replace(subject.evidence, trace=trace))
    return tuple(made)


def _subjects(decisions: Sequence[Decision], before: State, rules: Rules) -> Iterator[_Subject]:
    """Those that take a machine out, open its case, hold one more finding against it or send it back from probation.

    A case that is held for another reason than before was opened with its series, and gets another when it goes on.
    What is held on a node and opens no case has nothing else to be looked at: one for each time that it is recorded,
    which is once for each reason.
    """
    known = set(before.cases)
    for place, decision in enumerate(decisions):
        opens = decision.case is not None and decision.case not in known
        if decision.case is not None:
            known.add(decision.case)
        taken = decision.kind is Kind.DECIDED and decision.action in _TAKES
        opens |= decision.case is None and decision.hold_key.startswith(NODE)
        held = decision.kind is Kind.HELD and decision.action is Action.QUARANTINE and opens
        policy = rules.policy(decision.policy) if decision.policy is not None else None
        if decision.evidence is None or policy is None or not (taken or held):
            continue
        source = decision.evidence.source
        reading = next((reading for reading in readings_of(policy, rules) if reading.key == source), None)
        if reading is not None:
            yield _Subject.of(place, decision.evidence, policy, reading)


def _questions(subjects: Sequence[_Subject]) -> Iterator[Question]:
    first, devices = subjects[0], [dict(device) for device in dict.fromkeys(s.device for s in subjects)]
    trigger, at, above = first.policy.spec.trigger, first.evidence.at, first.bar.above
    return tracing.questions(trigger, first.reading, devices, at, above=above)


def _ask(past: Past, clock: Clock, question: Question, until: datetime, limit: timedelta) -> RangeAnswer:
    left = min(until - clock.now(), limit)  # the clock may be set back meanwhile
    if left <= timedelta(0):
        return Failed(FailureKind.TIMEOUT, f"it was not asked about: {_together(limit)}", "")
    if question.raw:
        answer = past.query_samples(question.query, question.grid, timeout=left)
    else:
        answer = past.query_range(question.query, question.grid, timeout=left, at_once=True)
    if isinstance(answer, Failed) and answer.kind is FailureKind.TIMEOUT:
        # Whoever reads it should not look for a setting: it is this question that may not take long.
        return replace(answer, detail=f"Prometheus did not answer in time: {_together(limit)}")
    return answer


def _together(limit: timedelta) -> str:
    return f"all series of a cycle's decisions have {format_duration(limit)} together"


def _told(subjects: Sequence[_Subject], question: Question, answer: RangeAnswer) -> dict[int, Trace]:
    """What the answer says of each of those that it was about, by their places."""
    by_device: dict[Key, list[Track]] = {}
    for track in answer.tracks if not isinstance(answer, Failed) else ():
        by_device.setdefault(_key(track.labels, question), []).append(track)
    reading = subjects[0].reading
    about = {key_of(device, reading): _key(device, question) for device in question.devices}
    found = {}
    for subject in (subject for subject in subjects if subject.device in about):
        if isinstance(answer, Failed):
            found[subject.place] = subject.trace(answer.query, notes=[answer.detail])
        else:
            found[subject.place] = _trace(subject, question, by_device.get(about[subject.device], ()))
    return found


def _trace(subject: _Subject, question: Question, tracks: Sequence[Track]) -> Trace:
    above, signal, notes = subject.bar.above, subject.reading.signal, []
    if question.raw:
        tracks, odd = _plausible(subject.reading, tracks)
        if odd:
            low, high = format_number(signal.plausible.min), format_number(signal.plausible.max)
            notes.append(f"samples outside {low} to {high} {signal.unit} are left out: {odd}")
    points = merged(tracks, question.grid, reach=signal.interval, above=above) if tracks else ()
    points, each = thinned(points, tracing.MOST, above=above)
    if each > 1:
        notes.append(f"shown is the {'highest' if above else 'lowest'} of every {each} samples")
    if not points:
        notes.append(_NONE_THERE)
    return subject.trace(question.query, points=points, raw=question.raw, notes=notes)


def _plausible(reading: Reading, tracks: Sequence[Track]) -> tuple[list[Track], int]:
    """The samples that are a measurement, as the trigger's own question has it, and how many are none."""
    bounds, odd, sound = reading.signal.plausible, 0, []
    for track in tracks:
        pairs = [(s, v) for s, v in zip(track.steps, track.values, strict=True) if bounds.min <= v <= bounds.max]
        odd += len(track.steps) - len(pairs)
        if pairs:
            kept = Track(track.labels)
            kept.steps.extend(step for step, _ in pairs)
            kept.values.extend(value for _, value in pairs)
            sound.append(kept)
    return sound, odd


def _key(labels: Mapping[str, str], question: Question) -> Key:
    return tuple((label, labels.get(label, "")) for label in question.by)


def _unasked(subject: _Subject) -> str:
    return _ABSENT if subject.policy.spec.trigger.form is Form.ABSENT else _TOO_MANY
