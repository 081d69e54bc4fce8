"""What a chart shows of a case: the stretch of time for which its machine was out, and what happened in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarantine.core.cards import STANDS
from quarantine.core.case import Case
from quarantine.core.decision import State
from quarantine.core.marks import shorten

KEPT = timedelta(days=1)  # for so long after its end a case's annotation is seen to
MOST_MOMENTS = 20  # of a case; the oldest are left out
LONGEST_TAG = 100  # characters of what is before and after its colon: the width of Grafana's columns
LONGEST_TAGS = 500  # bytes of all of them as JSON: Grafana's `annotations.tags_length`, unless it is set higher
_LONGEST_TEXT = 500  # characters of a sentence


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened in a case. `url`: where more of it is to be read."""

    at: datetime
    what: str  # raw: the adapter escapes it
    url: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A stretch of time on a chart. `key` is the case's id, and there is one annotation of it."""

    key: str
    cluster: str
    since: datetime
    until: datetime  # of a case that is open: as of now
    text: str  # one sentence, raw
    moments: tuple[Moment, ...]  # oldest first
    tags: tuple[str, ...]

    @property
    def known_by(self) -> tuple[str, ...]:
        """The tags that no other annotation has together."""
        return (_tag("quarantine"), _tag("case", self.key), _tag("cluster", self.cluster))


def of_cases(state: State, cluster: str, now: datetime) -> Iterator[Annotation]:
    """Of all machines that are out of service, or were until a moment ago, by case."""
    for case in state.cases.values():
        if case.out_since is not None and (case.open or case.phase_since > now - KEPT):
            yield _annotation(case, case.out_since, cluster, now)


def _annotation(case: Case, since: datetime, cluster: str, now: datetime) -> Annotation:
    until = now if case.open else case.phase_since
    moments = tuple(sorted(_moments(case, since), key=lambda moment: moment.at))[-MOST_MOMENTS:]
    text = shorten(f"{case.node} {STANDS[case.phase]}: {case.reason}", _LONGEST_TEXT)
    # The clock of the leader before may have been ahead of ours.
    return Annotation(case.id, cluster, since, max(since, until), text, moments, tuple(_tags(case, cluster)))


def _moments(case: Case, since: datetime) -> Iterator[Moment]:
    yield Moment(since, f"taken out of service by {case.opened_by}" if case.by_person else "taken out of service")
    for left in case.leaving:
        pods = f"{len(left.pods)} pod{'' if len(left.pods) == 1 else 's'}"
        yield Moment(left.at, f"{pods} asked to leave" + (f", of {left.gang}" if left.gang else ""))
    for rung in case.rungs:
        yield Moment(rung.at, f"{rung.step}" + (f": procedure {rung.procedure}" if rung.procedure else ""))
    for run in case.runs:
        if run.ended_at is not None:
            yield Moment(run.ended_at, f"{run.purpose} {run.outcome}")
    for filing in case.filings:
        status = filing.status or filing.state.value
        yield Moment(filing.at, f"ticket {filing.ref} at {filing.target}: {status}", filing.url)
    if case.swapped_at is not None:
        yield Moment(case.swapped_at, "another machine, or part, took its place")
    if case.phase_since > since:
        yield Moment(case.phase_since, STANDS[case.phase])


def _tags(case: Case, cluster: str) -> Iterator[str]:
    """What it is found and filtered by; what is least asked for is last, and left out where there are too many."""
    found = [_tag("quarantine"), _tag("case", case.id), _tag("cluster", cluster), _tag("phase", case.phase)]
    found += [_tag("node", case.node), _tag("pool", case.pool)]
    found += [_tag("policy", name) for name in sorted({finding.policy for finding in case.findings})]
    told: list[str] = []
    for tag in dict.fromkeys(tag for tag in found if tag):
        told.append(tag)
        if len(json.dumps(told)) > LONGEST_TAGS:  # what is not ASCII counts for more than it takes
            return
        yield tag


def _tag(name: str, value: str | None = None) -> str:
    """`name:value`, as Grafana keeps it; empty where the value is."""
    if value is None:
        return name
    return f"{name}:{shorten(' '.join(value.split()), LONGEST_TAG)}" if value.strip() else ""
