"""An effect never outlives what it was decided for: see the table of `core/overtaken.py`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Effect, EffectStatus, Phase, Run, RunOutcome
from quarantine.core.decision import Action, RequestKind
from quarantine.core.model import Machine, Mode
from tests.core.treatment.floor import pod
from tests.core.treatment.life import ON_PROOF, REBOOT, REPLACE, REPORT, RESET, Life, asked, law
from tests.core.world import MINUTE, node

HOUR = timedelta(hours=1)
OTHER = Machine("uid-x", "acme://x", "sys-x", "boot-x")


def status(life: Life, effect: Effect) -> EffectStatus | None:
    state = life.case.effects.get(effect)
    return None if state is None else state.status


def marked_only(life: Life) -> None:
    """The machine is marked, and the provider cannot be reached."""
    pending = life.case.effects[Effect.TICKET]
    life.carry_out()
    case = replace(life.case, effects={**life.case.effects, Effect.TICKET: pending})
    life.state = replace(life.state, cases={**life.state.cases, case.id: case})


def another_comes(life: Life) -> None:
    life.hot = False
    life.nodes["node-3"] = node("node-3", machine=OTHER)
    life.at += MINUTE
    life.plan()


def test_pods_are_not_asked_to_leave_a_machine_that_is_good_again() -> None:
    life = Life(law(drain="now", release=ON_PROOF))
    life.pods = (pod("web", "node-3"),)
    life.cycle()
    life.plan()
    assert (life.phase(), status(life, Effect.EVICT)) == (Phase.DRAINING, EffectStatus.PENDING)
    life.hot, life.cool = False, True
    life.at += MINUTE
    life.plan()
    assert (life.phase(), status(life, Effect.EVICT)) == (Phase.PROBATION, EffectStatus.ABANDONED)


def test_a_machine_that_is_repaired_is_not_asked_to_be_replaced_and_its_ticket_is_looked_for_in_the_end() -> None:
    life = Life(law(ladder=[REPLACE], release=ON_PROOF))
    life.cycle()
    life.plan()
    assert status(life, Effect.REPLACE) is EffectStatus.PENDING
    life.hot = False
    life.at += HOUR
    life.plan(asked(RequestKind.REPAIRED))
    assert (life.phase(), status(life, Effect.REPLACE)) == (Phase.PROBATION, EffectStatus.OVERTAKEN)
    assert life.case.told_provider, "the ticket may be there without its answer having reached us"
    life.plan(asked(RequestKind.RELEASE, 2))
    assert status(life, Effect.CLOSE) is EffectStatus.PENDING


def test_a_machine_that_came_in_exchange_is_neither_reported_nor_replaced() -> None:
    life = Life(law(ladder=[REPORT, {"do": "replace", "after": "2h"}], release=ON_PROOF))
    life.plan()
    assert status(life, Effect.TICKET) is EffectStatus.PENDING
    marked_only(life)
    life.at += 2 * HOUR
    life.plan()
    assert status(life, Effect.REPLACE) is EffectStatus.PENDING
    another_comes(life)
    assert (status(life, Effect.TICKET), status(life, Effect.REPLACE)) == (EffectStatus.OVERTAKEN,) * 2


def test_a_reset_that_was_not_begun_is_not_begun_on_probation() -> None:
    life = Life(law(ladder=[RESET], release=ON_PROOF))
    life.cycle()
    life.plan()
    assert (life.phase(), status(life, Effect.RUN)) == (Phase.REMEDY, EffectStatus.PENDING)
    life.at += MINUTE
    life.plan(asked(RequestKind.REPAIRED))
    assert (life.case.run, status(life, Effect.RUN)) == (None, EffectStatus.ABANDONED)
    assert status(life, Effect.STOP) is EffectStatus.PENDING, "it may have begun without our knowing"
    assert [run.outcome for run in life.case.loose_runs] == [RunOutcome.LOST]


def test_a_reset_that_runs_is_waited_for_though_a_person_says_repaired() -> None:
    life = Life(law(ladder=[RESET], release=ON_PROOF))
    life.cycles(2)
    life.running()
    life.cycle(asked(RequestKind.REPAIRED))
    assert life.phase() is Phase.PROBATION
    assert life.case.run is not None
    assert Effect.STOP not in life.case.effects


@pytest.mark.parametrize("by", ["another machine", "a person"])
def test_whatever_ends_a_case_ends_its_procedure(by: str) -> None:
    life = Life(law(ladder=[REBOOT]))
    life.cycles(2)
    life.running()
    run = life.case.run
    assert run is not None
    if by == "a person":
        life.plan(asked(RequestKind.RELEASE))
    else:
        another_comes(life)
    assert not life.case.open
    assert status(life, Effect.STOP) is EffectStatus.PENDING
    assert life.case.loose_runs == (run,)


def test_an_exchange_ends_the_procedure_of_the_machine_that_left() -> None:
    life = Life(law(ladder=[REPORT, REBOOT], release=ON_PROOF))
    life.cycles(3)
    life.running()
    run: Run | None = life.case.run
    assert run is not None
    another_comes(life)
    assert life.case.open
    assert status(life, Effect.STOP) is EffectStatus.PENDING
    assert [loose.name for loose in life.case.loose_runs] == [run.name]


def test_an_end_without_a_procedure_stops_none() -> None:
    life = Life(law(ladder=[RESET]))
    life.cycles(2)
    life.ended()
    life.cycle()
    life.plan(asked(RequestKind.RELEASE))
    assert Effect.STOP not in life.case.effects


def test_a_person_who_takes_out_what_was_only_suspected_makes_it_their_own() -> None:
    policy_law = law(release=ON_PROOF)
    life = Life(policy_law, mode=Mode.OBSERVE)
    life.cycle()
    assert (life.phase(), life.case.by_person) == (Phase.SUSPECTED, False)
    made = life.cycle(asked(RequestKind.OPEN))
    assert [d.action for d in made if d.request] == [Action.QUARANTINE]
    assert life.case.by_person
    assert life.case.opened_by == made[0].actor
