"""What is owed: of several findings the strongest response, and nothing where anything stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.case import Effect, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, RequestKind, Word, WordKind
from quarantine.core.draft import Draft
from quarantine.core.policy import LoadedPolicy
from quarantine.core.response import Drain, Moment
from quarantine.core.state import evolve
from quarantine.core.treatment import owed as module
from quarantine.core.treatment.owed import Owed, needs_pods, owed
from tests.core.treatment.life import REPLACE, REPORT, RESET, Life, asked, law
from tests.core.world import NOW, policy


def due(life: Life) -> Mapping[str, Owed]:
    """By the state as it is."""
    draft = Draft(life.look(), life.law)
    return owed(draft)


def out(*policies: LoadedPolicy, findings: tuple[str, ...] = (), **response: object) -> Life:
    """`node-3` quarantined and marked; its one finding stands by each of `findings`."""
    life = Life(law(*policies, **response))
    life.cycle()
    if findings:
        case = life.case
        both = tuple(
            replace(case.findings[0], policy=name, since=case.findings[0].since + timedelta(seconds=n))
            for n, name in enumerate(findings)
        )
        life.state = replace(life.state, cases={case.id: replace(case, findings=both)})
    return life


def test_the_least_patient_drain_and_the_gravest_ladder_win() -> None:
    mild = policy("mild", severity="warning", response={"drain": "now", "ladder": [REPORT], "evidence": "bug-report"})
    grave = policy(
        "gpu-hot",
        severity="fatal",
        response={"drain": {"when": "when-idle", "deadline": "1h"}, "ladder": [RESET], "evidence": "burn-in"},
    )
    life = out(mild, grave, findings=("mild", "gpu-hot"))
    found = due(life)[life.case.id]
    assert found.drain == Drain(when=Moment.NOW)
    assert [step.do for step in found.steps] == ["reset"]
    assert found.evidence == "burn-in", "the gravest finding's goes first"
    assert found.notify


def test_a_ladder_of_a_milder_finding_counts_where_the_gravest_has_none() -> None:
    mild = policy("mild", severity="warning", response={"ladder": [REPLACE]})
    grave = policy("gpu-hot", severity="fatal", response={})
    life = out(mild, grave, findings=("gpu-hot", "mild"))
    assert [step.do for step in due(life)[life.case.id].steps] == ["replace"]


drains = st.builds(
    lambda when, hours, then: Drain.model_validate(
        {"when": when}
        if when in (Moment.NEVER, Moment.NOW)
        else {"when": when, **({"deadline": f"{hours}h", "then": then} if hours else {})}
    ),
    st.sampled_from(Moment),
    st.integers(0, 5),
    st.sampled_from(["hold", "now"]),
)


@given(st.lists(drains, min_size=1, max_size=4))
def test_no_drain_waits_less_than_the_one_that_wins(found: list[Drain]) -> None:
    first = min(found, key=module._patience)
    assert first.when.rank == max(drain.when.rank for drain in found)
    same = [drain for drain in found if drain.when is first.when]
    spans = [drain.deadline for drain in same if drain.deadline is not None]
    assert first.deadline == (min(spans) if spans else None)
    rivals = [drain for drain in same if drain.deadline == first.deadline]
    assert first.then == ("now" if any(drain.then == "now" for drain in rivals) else "hold")


def _hold(life: Life, held_by: HeldBy, key: str) -> None:
    held = Decision(NOW, Kind.HELD, Action.REMARK, "r", "t", held_by=held_by, hold_key=key)
    life.state = evolve(life.state, held)


@pytest.mark.parametrize(
    ("held_by", "key"),
    [
        (HeldBy.UNCORDONED, "uncordoned/{case}"),
        (HeldBy.REWRITTEN, "mark/{case}"),
        (HeldBy.RESTORED, "mark/{case}"),
        (HeldBy.SIGHT, "sight"),
    ],
)
def test_nothing_is_owed_where_somebody_else_has_a_hand_in_it(held_by: HeldBy, key: str) -> None:
    life = out(drain="now", ladder=[RESET])
    assert due(life)
    _hold(life, held_by, key.format(case=life.case.id))
    assert not due(life)


def test_nothing_is_owed_under_a_pause_or_planned_work() -> None:
    life = out(drain="now", ladder=[RESET])
    words = {
        "pause/pool/gpu": Word("pause/pool/gpu", WordKind.PAUSE, "pool/gpu", "p", "r", NOW),
        "pause/policy/gpu-hot": Word("pause/policy/gpu-hot", WordKind.PAUSE, "policy/gpu-hot", "p", "r", NOW),
        "maintenance/node-3": Word(
            "maintenance/node-3", WordKind.MAINTENANCE, "node-3", "p", "r", NOW, NOW + timedelta(days=1)
        ),
    }
    for key, word in words.items():
        before = life.state
        life.state = replace(before, words={key: word})
        assert not due(life), key
        life.state = before
    assert due(life)


def test_a_policy_that_only_observes_owes_nothing() -> None:
    life = out(drain="now", ladder=[RESET])
    life.law = law(policy(mode="observe", response={"drain": "now", "ladder": [RESET]}))
    assert not due(life)


def test_what_may_be_a_groups_doing_owes_nothing() -> None:
    alone = policy(response={"drain": "now"}, correlation={"by": ["rack"], "machines": 2, "within": "1h"})
    life = out(alone)
    case = life.case
    (finding,) = case.findings
    shared = replace(finding, shared=(finding.since,))
    life.state = replace(life.state, cases={case.id: replace(case, findings=(shared,))})
    assert due(life), "alone it counts"
    settling = policy(
        response={"drain": "now"}, correlation={"by": ["rack"], "machines": 2, "within": "1h", "settle": "30m"}
    )
    life.law = law(settling)
    assert not due(life), "others may still join it"


def test_a_persons_case_owes_a_report_and_a_message_and_no_drain() -> None:
    life = Life(law(drain="now", ladder=[RESET], evidence="bug-report"), hot=False)
    life.plan(asked(RequestKind.OPEN))
    case = life.case
    life.state = replace(life.state, cases={case.id: replace(case, effects={Effect.MARK: case.effects[Effect.MARK]})})
    found = due(life)[case.id]
    assert (found.drain.when, [s.do for s in found.steps], found.evidence) == (Moment.NEVER, ["report"], "")
    assert (found.notify, found.release.when) == (True, "by-hand")


def test_what_is_all_done_is_not_asked_about_again() -> None:
    life = Life(law(ticket="report", notify=True))
    life.cycle()
    assert not due(life), "the ticket is filed, people are told, and nothing is to be drained"
    assert life.phase() is Phase.QUARANTINED


def test_of_which_machines_the_pods_matter() -> None:
    assert not needs_pods(out(ticket="report").case, law(ticket="report"))
    for response in ({"drain": "now"}, {"ladder": [REPLACE]}, {"release": {"burnIn": "burn-in"}}):
        assert needs_pods(out(**response).case, law(**response)), response
    case = replace(out(drain="now").case, phase=Phase.SUSPECTED)
    assert not needs_pods(case, law(drain="now"))
