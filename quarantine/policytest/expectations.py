"""Whether what happened in a test is what it expects. Pure: looks and decisions in, sentences out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarantine.backtest.engine import Step
from quarantine.core import case as controller
from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Device, Failed, Verdict
from quarantine.core.planner import judge_all
from quarantine.core.policy import Rules
from quarantine.core.units import format_duration
from quarantine.policytest.format import Case, Expected
from quarantine.policytest.loading import Test
from quarantine.policytest.machines import device

Decided = tuple[timedelta, Decision]  # when in the test, and what


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as the test expects. Where it is about a device at a time, that can be looked into."""

    sentence: str
    node: str | None = None
    device: Device | None = None
    at: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Happened:
    """A run of a test: the looks at the fleet at which something was decided or was to be looked at."""

    start: datetime
    interval: timedelta
    steps: Sequence[Step]

    def look(self, time: timedelta) -> Step:
        """The last look until a time of the test. Raises KeyError where it was not asked for."""
        at = self.moment(time)
        found = next((step for step in self.steps if step.at == at), None)
        if found is None:
            raise KeyError(f"nobody looked at {time}")
        return found

    def moment(self, time: timedelta) -> datetime:
        """The look that tells of a time of the test: the last one until then."""
        return self.start + time // self.interval * self.interval

    @property
    def decisions(self) -> Iterator[tuple[timedelta, Decision]]:
        """All decisions, in order of time."""
        for step in self.steps:
            for decision in step.plan.decisions:
                yield step.at - self.start, decision


def problems(test: Test, happened: Happened) -> list[Problem]:
    """All that is not as expected, in the order of the test's fields."""
    found = list(_unanswered(happened))
    if found:
        return found  # the rest only follows from it
    found += _verdicts(test, happened)
    found += _phases(test.case, happened)
    found += _decisions(test, happened)
    return found


def verdict(step: Step, rules: Rules, node: str, judged: Device) -> Verdict:
    """What the controller holds of a device at a look. Good: it was found bad, and has positively been good since."""
    judgements = judge_all(step.snapshot, rules)
    if any((o.node.name, o.device) == (node, judged) for judgement in judgements for o in judgement.bad):
        return Verdict.BAD
    # A case that never took the machine out ends with its last finding, and is remembered.
    found = [case for case in step.state.cases.values() if case.node == node and _finding(case, judged) is not None]
    latest = max(found, key=lambda case: case.opened_at, default=None)
    finding = _finding(latest, judged) if latest is not None else None
    recovered = finding is not None and finding.verdict is Verdict.GOOD
    if recovered or any((node, judged) in judgement.good for judgement in judgements):
        return Verdict.GOOD
    return Verdict.UNKNOWN


def _finding(case: controller.Case, judged: Device) -> controller.Finding | None:
    return next((finding for finding in case.findings if finding.device == judged), None)


def _unanswered(happened: Happened) -> Iterator[Problem]:
    for step in happened.steps:
        for answers in step.answers.values():
            for answer in (*answers.trigger.values(), *answers.recovery.values(), *answers.coverage.values()):
                if isinstance(answer, Failed):
                    time = format_duration(step.at - happened.start)
                    yield Problem(f"at {time} a question was not answered: {answer.detail}; the query: {answer.query}")
                    return


def _verdicts(test: Test, happened: Happened) -> Iterator[Problem]:
    case = test.case
    kind = test.rules.signal_of(test.policy).device
    looked = [(case.node, case.device, case.verdicts)]
    looked += [(other.node or case.node, other.device, other.verdicts) for other in case.others]
    for node, name, verdicts in looked:
        judged = device(name, node, kind)
        for time, wanted in verdicts.items():
            found = verdict(happened.look(time), test.rules, node, judged)
            if found is not wanted:
                sentence = f"at {format_duration(time)} {judged} of {node} was {found}, not {wanted}"
                yield Problem(sentence, node, judged, time)


def _phases(case: Case, happened: Happened) -> Iterator[Problem]:
    for time, wanted in case.phases.items():
        found = happened.look(time).state.open_case_of(case.node)
        phase = found.phase if found is not None else None
        if phase is not wanted:
            yield Problem(
                f"at {format_duration(time)} the case of {case.node} was {phase or 'none'}, not {wanted or 'none'}"
            )


# --- Decisions --------------------------------------------------------------------------------------------------------


def _decisions(test: Test, happened: Happened) -> Iterator[Problem]:
    case = test.case
    decided = list(happened.decisions)
    expected = case.decisions or ()
    for wanted in expected:
        like = [(time, d) for time, d in decided if _is_like(d, wanted, case)]
        if not any(_in_time(time, wanted) for time, _ in like):
            yield _missing(wanted, case, like, decided)
    for time, decision in decided:
        if decision.kind is not Kind.DECIDED:
            continue
        told = f"{decision.action} of {decision.node} was decided at {format_duration(time)}"
        if decision.action in case.never:
            yield Problem(f"{told}, and never should be: {decision.reason}")
        elif decision.action is Action.QUARANTINE and not any(_is_like(decision, e, case) for e in expected):
            yield Problem(f"{told}, and no decision of the test expects it: {decision.reason}")


def _is_like(decision: Decision, wanted: Expected, case: Case) -> bool:
    """Apart from its time. A policy is held itself, and so of no node."""
    kind = Kind.DECIDED if wanted.held is None else Kind.HELD
    node = wanted.node or case.node
    return (
        decision.kind is kind
        and decision.held_by is wanted.held
        and wanted.action in (None, decision.action)
        and (decision.node == node or (decision.node is None and wanted.held is not None))
    )


def _in_time(time: timedelta, wanted: Expected) -> bool:
    return (wanted.after is None or time > wanted.after) and (wanted.by is None or time <= wanted.by)


def _missing(wanted: Expected, case: Case, like: Sequence[Decided], decided: Sequence[Decided]) -> Problem:
    node = wanted.node or case.node
    what = str(wanted.action or "decision") + (f" of {node}" if wanted.action is not Action.JUDGE else "")
    if wanted.held is not None:
        what += f" held by {wanted.held}"
    when = f" after {format_duration(wanted.after)}" if wanted.after is not None else ""
    when += f" by {format_duration(wanted.by)}" if wanted.by is not None else ""
    sentence = f"no {what} was decided{when}"
    if like:
        return Problem(f"{sentence}, but at {', '.join(format_duration(time) for time, _ in like)}")
    instead = _instead(wanted, node, decided)
    return Problem(sentence + (f"; it was held by {instead}" if instead else ""))


def _instead(wanted: Expected, node: str, decided: Sequence[Decided]) -> str:
    """What stood in the way of the action that was to be taken."""
    held: dict[HeldBy, timedelta] = {}
    for time, decision in decided:
        if wanted.held is None and decision.held_by is not None and decision.node in (node, None):
            held.setdefault(decision.held_by, time)
    return ", ".join(f"{by} at {format_duration(time)}" for by, time in held.items())


def timeline(verdicts: Mapping[timedelta, Verdict]) -> str:
    """Verdicts over time, told where they change: `unknown from 0s, bad from 15m, good from 45m`."""
    told = []
    before: Verdict | None = None
    for time, found in sorted(verdicts.items()):
        if found is not before:
            told.append(f"{found} from {format_duration(time)}")
            before = found
    return ", ".join(told)
