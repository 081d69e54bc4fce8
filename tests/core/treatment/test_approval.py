"""A swap that waits for a person's yes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import ValidationError

from quarantine.core.case import Effect, HeldBy, Phase
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import Action, Decision, Request, RequestKind
from quarantine.core.response import Approval, Response
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import PENDING
from tests.core.treatment.life import ON_PROOF, REPLACE, REPORT, RESET, Life, asked, law
from tests.core.world import NOW, policy

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
    life = Life(law(ladder=[REPLACE], approval={"within": "2h", "then": "replace"}, notify=True))
    life.cycles(3)
    assert HeldBy.APPROVAL in life.held
    life.wait(timedelta(hours=2))
    assert life.phase() is Phase.SWAP_REQUESTED
    assert not {HeldBy.APPROVAL, HeldBy.OVERDUE} & life.held


def test_silence_of_people_who_were_not_told_is_no_yes() -> None:
    """Slack was down all that time; once they are told, they have as long as everybody."""
    life = Life(law(ladder=[REPLACE], approval={"within": "2h", "then": "replace"}, notify=True))
    life.cycles(2)
    case = life.case
    silent = replace(case, told_at=None, effects={**case.effects, Effect.NOTIFY: PENDING})
    life.state = replace(life.state, cases={**life.state.cases, case.id: silent})
    life.at += timedelta(hours=3)
    life.plan()
    assert life.phase() is Phase.QUARANTINED
    life.cycle()
    assert life.phase() is Phase.QUARANTINED
    life.wait(timedelta(hours=1))
    assert life.phase() is Phase.QUARANTINED
    life.wait(timedelta(hours=1))
    assert life.phase() is Phase.SWAP_REQUESTED


def both(first: object, second: object) -> Life:
    """node-3 found hot by two policies that want different things of people; the second is fatal."""
    one = policy("gpu-hot", severity="warning", response={"ladder": [REPLACE], "notify": False, "approval": first})
    other = policy("gpu-hotter", severity="fatal", response={"ladder": [REPLACE], "notify": False, "approval": second})
    life = Life(law(one, other))
    look = life.look

    def of_both(requests: Iterable[Request] = ()) -> Snapshot:
        seen = look(requests)
        return replace(seen, answers={"gpu-hot": seen.answers["gpu-hot"], "gpu-hotter": seen.answers["gpu-hot"]})

    life.look = of_both  # type: ignore[method-assign]
    life.cycles(4)
    assert HeldBy.APPROVAL in life.held
    return life


@pytest.mark.parametrize(("first", "second"), [({}, {"by": GROUP}), ({"by": GROUP}, {}), ({"by": GROUP}, None)])
def test_every_policy_that_found_the_machine_has_its_say(first: object, second: object) -> None:
    life = both(first, second)
    assert GROUP in refusal(life.cycle(word(RequestKind.APPROVE, channel="slack")))
    life.cycle(word(RequestKind.APPROVE, 2, channel="slack", groups=(GROUP,)))
    assert life.phase() is Phase.SWAP_REQUESTED


def test_a_policy_that_is_held_or_paused_still_asks_people() -> None:
    life = both({"by": GROUP}, None)
    life.cycle(replace(asked(RequestKind.PAUSE), node="", scope="policy/gpu-hot"))
    life.cycles(3)
    assert life.phase() is Phase.QUARANTINED
    assert HeldBy.APPROVAL in life.held


def test_a_yes_of_anybody_does_not_outlive_a_stricter_policy() -> None:
    life = asking()
    life.pods_known = False
    life.cycle(word(RequestKind.APPROVE, channel="slack"))
    life.law = law(ladder=[REPLACE], approval={"by": GROUP})
    life.pods_known = True
    life.cycles(2)
    assert life.phase() is Phase.QUARANTINED


@pytest.mark.parametrize("kind", [RequestKind.APPROVE, RequestKind.DEFER])
def test_a_word_about_one_machine_is_none_about_the_next(kind: RequestKind) -> None:
    life = Life(law(ladder=[REPORT, REPLACE], approval={}, release=ON_PROOF))
    life.cycles(2)
    life.pods_known = False
    life.cycle(word(kind, until=life.at + timedelta(days=20)))
    old = life.nodes["node-3"]
    life.nodes["node-3"] = replace(old, machine=replace(old.machine, system_uuid="another", boot_id="another"))
    life.cycles(2)
    assert (life.case.approved_at, life.case.deferred_until) == (None, None)
    late = life.cycle(word(RequestKind.APPROVE, 2, at=NOW))
    assert any("was renewed" in d.reason or "waits for an approval" in d.reason for d in late)


@pytest.mark.parametrize("channel", ["slack", "Slack", "annotation", "webhook"])
def test_only_who_writes_to_the_ledger_needs_no_group(channel: str) -> None:
    life = asking(by=GROUP)
    assert GROUP in refusal(life.cycle(word(RequestKind.APPROVE, channel=channel)))
    until = life.at + timedelta(hours=4)
    assert GROUP in refusal(life.cycle(word(RequestKind.DEFER, 2, channel=channel, until=until)))


def test_nobody_is_asked_any_more_once_no_policy_wants_a_yes() -> None:
    life = asking()
    life.law = law(policy(mode="observe", response={"ladder": [REPLACE], "approval": {}, "notify": False}))
    life.cycle()
    assert HeldBy.APPROVAL not in life.held


def test_what_is_asked_stands_while_the_machine_is_let_be() -> None:
    life = asking()
    pause = Request("p9", RequestKind.PAUSE, "", "looking", "an engineer", "cli", life.at, scope="all")
    life.cycle(pause)
    life.cycles(2)
    assert HeldBy.APPROVAL in life.held


def test_nobody_is_asked_any_more_once_another_step_comes_first() -> None:
    life = asking()
    life.law = law(ladder=[{**RESET, "after": "2h"}, REPLACE], approval={})
    life.cycle()
    assert HeldBy.APPROVAL not in life.held
    assert life.phase() is Phase.QUARANTINED
    life.law = law(ladder=[REPLACE], approval={})
    life.cycle()
    assert HeldBy.APPROVAL in life.held


def test_what_a_policy_may_say() -> None:
    with pytest.raises(ValidationError, match="needs within"):
        Approval.model_validate({"then": "replace"})
    with pytest.raises(ValidationError, match="no step of this policy asks for one"):
        Response.model_validate({"ticket": "report", "approval": {}})
    with pytest.raises(ValidationError, match="needs notify"):
        Response.model_validate({"ticket": "replace", "notify": False, "approval": {"within": "1h", "then": "replace"}})
    with pytest.raises(ValidationError, match="by"):
        Approval.model_validate({"by": "@oncall"})
