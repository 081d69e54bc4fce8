"""What the provider says and does not do: recorded, answered, reminded, told to people."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Effect, HeldBy, Phase
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import Action, Decision, Kind, RequestKind
from quarantine.core.filings import unsaid
from quarantine.core.letters import report
from quarantine.core.policy import Rules
from quarantine.core.tickets import Heard, Ticket, TicketState
from quarantine.core.treatment.followup import STATES_REST
from tests.core.treatment.life import REPLACE, Life, actions, asked, law
from tests.core.world import FAILED, policy, rules

HOUR = timedelta(hours=1)


def agreed(**words: object) -> Rules:
    """A provider that has promised something; `gpu-hot` asks for another machine as soon as it may."""
    pools = [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "provider": "acme", "budget": {"quarantined": "50%"}}]
    provider = {"name": "acme", "description": "leases the machines", **words}
    found = policy(response={"ladder": [REPLACE], "notify": False})
    return rules(found, pools=pools, providers=[provider])


def filed(rule: Rules | None = None, ladder: object = None) -> Life:
    """node-3 out, its ticket T-1 filed."""
    life = Life(rule if rule is not None else law(ladder=ladder or [REPLACE]))
    life.cycles(2)
    assert [filing.ref for filing in life.case.filings] == ["T-1"]
    return life


def heard(decisions: list[Decision]) -> list[str]:
    return [d.reason for d in decisions if d.action is Action.HEAR and d.kind is Kind.DECIDED]


def test_what_the_provider_says_is_recorded_once() -> None:
    life = filed()
    assert heard(life.cycles(3)) == []
    life.says("T-1", state=TicketState.ACKNOWLEDGED, status="Waiting for parts")
    assert heard(life.cycle()) == ["ticket T-1 of node-3: it was seen (Waiting for parts)"]
    assert heard(life.cycles(5)) == []
    (filing,) = life.case.filings
    assert filing.acknowledged_at == filing.heard_at == life.trail[-1].at
    life.says("T-1", state=TicketState.IN_PROGRESS)
    life.wait(STATES_REST)
    assert life.case.filings[0].state is TicketState.IN_PROGRESS
    assert life.case.filings[0].acknowledged_at == filing.acknowledged_at, "the first time counts"


def test_the_providers_own_words_are_one_line_of_the_record() -> None:
    life = filed()
    life.says("T-1", status="done\nnode-9 was released\x1b[31m " + "x" * 500)
    (reason,) = heard(life.cycle())
    assert "\n" not in reason
    assert len(reason) < 200


def test_what_is_not_heard_says_nothing() -> None:
    life = filed()
    life.tickets["desk", "T-1"] = FAILED
    assert life.cycles(3) == []
    del life.tickets["desk", "T-1"]
    assert life.cycles(3) == []


@pytest.mark.parametrize("state", [TicketState.NO_FAULT_FOUND, TicketState.REFUSED, TicketState.CLOSED])
def test_a_no_is_told_a_person_and_ends_nothing(state: TicketState) -> None:
    life = filed()
    life.says("T-1", state=state, open=False)
    life.cycle()
    assert HeldBy.PROVIDER in life.held
    assert life.phase() is Phase.SWAP_REQUESTED
    life.says("T-1", state=TicketState.IN_PROGRESS, open=True)
    life.wait(STATES_REST)
    assert HeldBy.PROVIDER not in life.held, "it was opened again"


def test_a_ticket_that_is_gone_is_told_too() -> None:
    life = filed()
    life.tickets["desk", "T-1"] = Heard(None)
    assert heard(life.cycle()) == ["ticket T-1 of node-3: it is not there any more"]
    assert HeldBy.PROVIDER in life.held
    assert life.cycles(3) == []


def test_a_machine_that_was_replaced_is_waited_for_and_then_asked_after() -> None:
    life = filed()
    life.says("T-1", state=TicketState.REPLACED, open=False)
    life.cycle()
    assert HeldBy.PROVIDER not in life.held
    at = life.case.filings[0].heard_at
    assert at is not None
    assert at + timedelta(days=1) in deadlines(life.state, life.law)
    life.wait(timedelta(days=1))
    assert HeldBy.PROVIDER in life.held
    life.cycle(asked(RequestKind.REPAIRED))
    assert HeldBy.PROVIDER not in life.held


def test_a_person_who_says_repaired_outranks_the_providers_no() -> None:
    life = filed()
    life.says("T-1", state=TicketState.NO_FAULT_FOUND, open=False)
    life.cycle()
    life.hot = False
    life.cycle(asked(RequestKind.REPAIRED))
    assert HeldBy.PROVIDER not in life.held


def test_a_deadline_reminds_the_ticket_once_and_tells_people() -> None:
    life = filed(agreed(acknowledge="4h", replace="2d"))
    assert life.wait(timedelta(hours=3)) == []
    made = life.wait(timedelta(hours=1, minutes=1))
    assert actions(made) == [Action.COMMENT, Action.HEAR]
    assert HeldBy.PROVIDER in life.held
    assert [remark.key.startswith("remind-acknowledge-") for remark in life.case.remarks] == [True]
    assert unsaid(life.case) == ()
    assert life.cycles(5) == []
    life.says("T-1", state=TicketState.ACKNOWLEDGED)
    life.cycle()
    assert HeldBy.PROVIDER not in life.held
    life.wait(timedelta(days=2))
    assert [remark.key.split("-")[1] for remark in life.case.remarks] == ["acknowledge", "replace"]
    assert HeldBy.PROVIDER in life.held


def test_nobody_is_reminded_of_what_cannot_be_heard() -> None:
    """Mail was perhaps answered: only the machine itself tells."""
    life = filed(agreed(acknowledge="4h", replace="2d"))
    life.tickets.clear()
    assert life.wait(timedelta(hours=5)) == []
    life.wait(timedelta(days=2))
    assert [remark.key.split("-")[1] for remark in life.case.remarks] == ["replace"]


def test_an_answer_that_fails_lifts_no_reminder() -> None:
    life = filed(agreed(acknowledge="4h"))
    life.wait(timedelta(hours=5))
    life.tickets["desk", "T-1"] = FAILED
    assert life.cycles(3) == []
    assert HeldBy.PROVIDER in life.held


def test_more_that_is_found_becomes_one_comment() -> None:
    other = policy("gpu-also-hot", response={"taint": True})
    life = Life(replace(law(ladder=[REPLACE]), policies=(*law(ladder=[REPLACE]).policies, other)))
    life.cycles(2)
    look = life.look()
    both = {"gpu-hot": look.answers["gpu-hot"], "gpu-also-hot": look.answers["gpu-hot"]}
    life.look = lambda requests=(): replace(Life.look(life, requests), answers=both)  # type: ignore[method-assign]
    life.cycles(4)
    assert [remark.key.startswith("found-") for remark in life.case.remarks] == [True]
    assert "GPU 3" in life.case.remarks[0].text
    assert life.case.remarks[0].said


def test_a_second_ticket_of_one_key_is_closed_citing_the_first() -> None:
    life = filed()
    said = life.tickets["desk", "T-1"]
    assert isinstance(said, Heard)
    life.tickets["desk", "T-1"] = replace(said, others=(Ticket("T-9", life.case.id, "open"),))
    made = life.cycle()
    assert actions(made) == [Action.COMMENT]
    (remark,) = life.case.remarks
    assert (remark.ref, remark.close) == ("T-9", True)
    assert "T-1" in remark.text
    assert life.case.filings[0].cited == ("T-9",)
    assert life.cycles(3) == []


def test_the_next_ticket_cites_the_ones_before() -> None:
    life = filed()
    assert report(life.case, "test", life.law, state=life.state).earlier == ("T-1",)


def test_a_case_that_ends_is_not_followed_and_its_comment_is_void() -> None:
    life = filed(agreed(acknowledge="4h"))
    life.at += timedelta(hours=5)
    life.plan()
    assert life.case.is_pending(Effect.COMMENT)
    life.plan(asked(RequestKind.RELEASE))
    assert not life.case.is_pending(Effect.COMMENT)
    assert not [key for key in life.state.holds if key.startswith("provider/")]


def test_of_two_tickets_the_one_that_the_provider_has_closed_is_no_reason_to_close_the_other() -> None:
    """A provider that sees the same request twice ends one of them itself: it may be the first."""
    life = filed()
    second = Ticket("T-9", life.case.id, "open")
    closed = Ticket("T-1", life.case.id, "duplicate", state=TicketState.CLOSED, open=False)
    life.tickets["desk", "T-1"] = Heard(closed, (second,))
    made = life.cycles(3)
    assert Action.COMMENT not in actions(made)
    assert life.case.remarks == ()
    assert [filing.ref for filing in life.case.filings] == ["T-1", "T-9"], "it is followed"
