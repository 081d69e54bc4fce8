"""A swap that waits for a person's yes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import ValidationError

from quarantine.core.case import HeldBy, Phase
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import Action, Decision, Request, RequestKind
from quarantine.core.response import Approval, Response
from tests.core.treatment.life import REPLACE, Life, asked, law
from tests.core.world import NOW

GROUP = "S0123ABCD"


def asking(**approval: object) -> Life:
    """node-3 out, empty, and its swap asked of people."""
    life = Life(law(ladder=[REPLACE], approval=approval))
    life.cycles(2)
    assert life.phase() is Phase.QUARANTINED
    assert HeldBy.APPROVAL in life.held
    assert life.cycles(3) == []
    return life


def word(kind: RequestKind, number: int = 1, **fields: object) -> Request:
    return replace(asked(kind, number), **fields)  # type: ignore[arg-type]


def refusal(decisions: list[Decision]) -> str:
    (only,) = [d for d in decisions if d.action is Action.ANSWER]
    return only.reason


def test_a_yes_asks_for_the_machine_in_the_same_cycle() -> None:
    life = asking()
    made = life.cycle(asked(RequestKind.APPROVE))
    assert [d.action for d in made] == [Action.APPROVE, Action.STEP]
    assert made[0].actor == "an engineer (cli)"
    assert life.phase() is Phase.SWAP_REQUESTED
    assert HeldBy.APPROVAL not in life.held


def test_the_state_is_looked_at_again_when_the_yes_comes() -> None:
    """Training has begun there meanwhile: nothing is destroyed under it by an old yes."""
    life = asking()
    life.pods_known = False
    life.cycle(asked(RequestKind.APPROVE))
    assert life.phase() is Phase.QUARANTINED
    life.pods_known = True
    life.cycle()
    assert life.phase() is Phase.SWAP_REQUESTED


def test_a_yes_grows_old() -> None:
    life = asking()
    life.pods_known = False
    life.cycle(asked(RequestKind.APPROVE))
    assert life.case.approved_at is not None
    assert life.case.approved_at + timedelta(days=1) in deadlines(life.state, life.law)
    life.wait(timedelta(days=1))
    life.pods_known = True
    life.cycles(2)
    assert life.phase() is Phase.QUARANTINED
    assert HeldBy.APPROVAL in life.held


def test_a_yes_is_good_for_one_request() -> None:
    life = asking()
    life.cycle(asked(RequestKind.APPROVE))
    again = life.cycle(asked(RequestKind.APPROVE, 2))
    assert "waits for an approval" in refusal(again)


def test_not_now_is_kept_and_then_asked_again() -> None:
    life = asking()
    until = life.at + timedelta(hours=4)
    (made,) = life.cycle(word(RequestKind.DEFER, until=until))
    assert made.until == until
    assert HeldBy.APPROVAL not in life.held
    assert life.cycles(3) == []
    assert until in deadlines(life.state, life.law)
    life.wait(timedelta(hours=4))
    assert HeldBy.APPROVAL in life.held
    assert life.phase() is Phase.QUARANTINED


def test_a_yes_ends_a_not_now() -> None:
    life = asking()
    life.cycle(word(RequestKind.DEFER, until=life.at + timedelta(hours=4)))
    life.cycle(asked(RequestKind.APPROVE, 2))
    assert life.phase() is Phase.SWAP_REQUESTED


def test_a_swap_that_nobody_has_to_approve_can_be_put_off_too() -> None:
    life = Life(law(ladder=[{**REPLACE, "after": "1h"}]))
    life.cycles(2)
    life.cycle(word(RequestKind.DEFER, until=NOW + timedelta(hours=5)))
    life.wait(timedelta(hours=2))
    assert life.phase() is Phase.QUARANTINED
    life.wait(timedelta(hours=3))
    assert life.phase() is Phase.SWAP_REQUESTED


@pytest.mark.parametrize(
    ("until", "why"), [(None, "none was given"), (NOW, "has passed"), (NOW + timedelta(days=90), "30 days at most")]
)
def test_a_not_now_needs_a_sensible_end(until: object, why: str) -> None:
    assert why in refusal(asking().cycle(word(RequestKind.DEFER, until=until)))


def test_on_slack_only_the_group_may_say_it() -> None:
    life = asking(by=GROUP)
    assert GROUP in refusal(life.cycle(word(RequestKind.APPROVE, channel="slack")))
    assert GROUP in refusal(life.cycle(word(RequestKind.APPROVE, 2, channel="slack", groups=("S9OTHER",))))
    life.cycle(word(RequestKind.APPROVE, 3, channel="slack", groups=("S9OTHER", GROUP)))
    assert life.phase() is Phase.SWAP_REQUESTED


def test_who_may_write_to_the_ledger_may_say_it() -> None:
    life = asking(by=GROUP)
    life.cycle(asked(RequestKind.APPROVE))
    assert life.phase() is Phase.SWAP_REQUESTED


def test_a_word_about_an_earlier_case_is_refused() -> None:
    life = asking()
    assert "about case q-old" in refusal(life.cycle(word(RequestKind.APPROVE, case="q-old")))


def test_when_nobody_answers_people_are_told_and_it_goes_on_waiting() -> None:
    life = asking(within="2h")
    since = life.state.holds[f"approval/{life.case.id}"].since
    assert since + timedelta(hours=2) in deadlines(life.state, life.law)
    life.wait(timedelta(hours=2))
    assert {HeldBy.APPROVAL, HeldBy.OVERDUE} <= life.held
    assert life.phase() is Phase.QUARANTINED
    life.cycle(asked(RequestKind.APPROVE))
    assert not {HeldBy.APPROVAL, HeldBy.OVERDUE} & life.held


def test_when_nobody_answers_it_may_go_on() -> None:
    life = asking(within="2h", then="replace")
    life.wait(timedelta(hours=2))
    assert life.phase() is Phase.SWAP_REQUESTED
    assert not {HeldBy.APPROVAL, HeldBy.OVERDUE} & life.held


def test_what_a_policy_may_say() -> None:
    with pytest.raises(ValidationError, match="needs within"):
        Approval.model_validate({"then": "replace"})
    with pytest.raises(ValidationError, match="no step of this policy asks for one"):
        Response.model_validate({"ticket": "report", "approval": {}})
    with pytest.raises(ValidationError, match="by"):
        Approval.model_validate({"by": "@oncall"})
