"""Probation: begun by a remedy, a swap or evidence under load; ended by time, sight and proof, never by silence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core import fitness, planner
from quarantine.core.case import Effect, HeldBy, Phase, Purpose, RunOutcome
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import Action, Decision, Kind, RequestKind
from quarantine.core.draft import Draft
from quarantine.core.model import Mode
from quarantine.core.state import evolve
from quarantine.core.treatment.owed import release_of
from quarantine.core.treatment.probation import releases
from tests.core.treatment.floor import rank
from tests.core.treatment.life import ON_PROOF, REPLACE, REPORT, RESET, Life, actions, asked, begun, law
from tests.core.world import MINUTE, NOW, policy

HOUR = timedelta(hours=1)
RESET_ONLY = {"ladder": [RESET], "release": ON_PROOF}
EVIDENCE = {"release": ON_PROOF}
PROVEN = {**ON_PROOF, "burnIn": "burn-in"}


def on_probation(**response: object) -> Life:
    """Reset with success a moment ago, and nothing found since."""
    life = Life(law(**{**RESET_ONLY, **response}))
    life.cycles(2)
    life.hot = False
    life.ended()
    life.cycle()
    assert life.phase() is Phase.PROBATION
    return life


# --- By a remedy ------------------------------------------------------------------------------------------------------


def test_after_a_remedy_and_an_hour_of_quiet_the_machine_is_released() -> None:
    life = on_probation()
    assert life.case.findings[0].verdict == "bad", "no evidence under load was there, nor is any needed"
    assert life.cycles(59) == []
    made = life.cycle()
    assert actions(made) == [Action.RELEASE]
    assert made[0].effects == (Effect.UNMARK, Effect.CONDITION)
    assert life.phase() is Phase.RELEASED
    assert life.state.holds == {}


def test_a_trigger_that_still_looks_back_before_the_remedy_sends_nobody_back() -> None:
    life = on_probation()
    life.hot = True
    assert life.cycles(5) == []
    life.hot = False
    life.wait(HOUR)
    assert life.phase() is Phase.RELEASED


def test_what_is_still_found_after_that_is_bad_again() -> None:
    life = on_probation()
    life.hot = True
    made = life.cycles(10)
    assert actions(made)[0] is Action.PROVE
    assert "bad again on probation" in made[0].reason
    assert life.phase() is Phase.QUARANTINED


def test_a_new_finding_on_probation_joins_and_sends_back_at_once() -> None:
    life = on_probation()
    life.cool = True
    life.cycle()
    life.cool, life.hot = False, True
    assert actions(life.cycle())[:2] == [Action.JOIN, Action.PROVE]
    assert life.phase() is Phase.QUARANTINED


def test_a_machine_that_is_not_seen_has_proven_nothing() -> None:
    life = on_probation()
    life.seen = False
    life.wait(2 * HOUR)
    assert life.phase() is Phase.PROBATION
    life.seen = True
    life.cycle()
    assert life.phase() is Phase.RELEASED


def test_nothing_is_released_while_the_installation_observes() -> None:
    life = on_probation()
    life.mode = Mode.OBSERVE
    life.wait(2 * HOUR)
    assert life.phase() is Phase.PROBATION


def test_nothing_is_released_while_what_is_seen_of_the_cluster_is_not_believed() -> None:
    life = on_probation()
    held = Decision(life.at, Kind.HELD, Action.RETIRE, "r", "t", held_by=HeldBy.SIGHT, hold_key="sight")
    life.state = evolve(life.state, held)
    draft = Draft(replace(life.look(), now=life.at + 2 * HOUR), life.law)
    releases(draft)
    assert draft.decisions == []
    draft.lift("sight", "seen again")
    draft.found(judgements := planner.judge_all(draft.snapshot, life.law))
    fitness.policies_fit(draft, judgements)
    releases(draft)
    assert actions(draft.decisions)[-1] is Action.RELEASE


def test_a_release_by_hand_is_told_once_and_left_to_a_person() -> None:
    life = on_probation(release={"when": "by-hand", "probation": "1h"})
    life.wait(HOUR)
    assert (life.phase(), life.held) == (Phase.PROBATION, {HeldBy.READY})
    assert life.cycles(5) == []
    life.cycle(asked(RequestKind.RELEASE))
    assert (life.phase(), life.held) == (Phase.RELEASED, set())


def test_a_machine_whose_provider_was_told_is_left_to_a_person_too() -> None:
    life = on_probation(ladder=[REPORT, RESET])
    life.wait(2 * HOUR)
    assert (life.phase(), life.held) == (Phase.PROBATION, {HeldBy.READY})


# --- By a person's word, and by a swap --------------------------------------------------------------------------------


def test_what_a_person_says_is_repaired_proves_itself_and_closes_its_ticket() -> None:
    life = Life(law(ladder=[REPLACE], release=ON_PROOF))
    life.cycles(2)
    assert life.phase() is Phase.SWAP_REQUESTED
    life.hot = False
    life.wait(timedelta(days=1))
    life.cycle(asked(RequestKind.REPAIRED))
    assert life.phase() is Phase.PROBATION
    made = life.wait(HOUR)
    assert made[0].effects == (Effect.UNMARK, Effect.CONDITION, Effect.CLOSE)
    assert life.phase() is Phase.RELEASED


def test_a_persons_own_case_is_never_released_by_metrics() -> None:
    life = Life(law(**EVIDENCE), hot=False)
    life.cycle(asked(RequestKind.OPEN))
    life.cycle(asked(RequestKind.REPAIRED, 2))
    life.wait(2 * HOUR)
    assert (life.phase(), life.held) == (Phase.PROBATION, {HeldBy.READY})


# --- By evidence ------------------------------------------------------------------------------------------------------


def test_evidence_under_load_begins_probation_where_nobody_was_told() -> None:
    life = Life(law(**EVIDENCE), pods=(rank("r-0", "node-3"),))
    life.cycles(3)
    life.hot, life.cool = False, True
    assert actions(life.cycle()) == [Action.RECOVER, Action.PROVE]
    life.cool = False
    life.wait(HOUR)
    assert life.phase() is Phase.RELEASED


def test_quiet_is_no_evidence() -> None:
    life = Life(law(**EVIDENCE))
    life.cycles(3)
    life.hot = False
    life.wait(timedelta(days=2))
    assert life.phase() is Phase.QUARANTINED


def test_once_the_provider_was_told_no_evidence_closes_the_case() -> None:
    life = Life(law(ticket="report", **EVIDENCE))
    life.cycles(3)
    life.hot, life.cool = False, True
    life.cycles(120)
    assert life.phase() is Phase.QUARANTINED


def test_a_policy_that_leaves_it_to_people_begins_no_probation_by_evidence() -> None:
    life = Life(law(release={"when": "by-hand"}))
    life.cycles(3)
    life.hot, life.cool = False, True
    life.cycles(3)
    assert life.phase() is Phase.QUARANTINED


# --- The burn-in ------------------------------------------------------------------------------------------------------


def test_a_burn_in_is_run_once_and_must_succeed() -> None:
    life = on_probation(release=PROVEN)
    assert begun(life.trail) == ["reset-1", "burn-in-1"]
    life.running()
    life.wait(timedelta(minutes=50))
    assert life.phase() is Phase.PROBATION
    life.ended()
    life.cycles(15)
    assert life.phase() is Phase.RELEASED
    assert begun(life.trail) == ["reset-1", "burn-in-1"]


def test_a_burn_in_that_fails_sends_back_and_evidence_alone_does_not_bring_it_on_probation_again() -> None:
    life = Life(law(release=PROVEN), cool=False)
    life.cycles(3)
    life.hot, life.cool = False, True
    life.cycle()
    assert life.case.run is not None
    life.ended(RunOutcome.FAILED, "memory errors")
    made = life.cycle()
    assert "memory errors" in made[0].reason
    assert life.phase() is Phase.QUARANTINED
    life.cycles(5)
    assert life.phase() is Phase.QUARANTINED
    assert begun(life.trail) == ["burn-in-1"]
    life.cycle(asked(RequestKind.REPAIRED))
    assert (life.phase(), begun(life.trail)) == (Phase.PROBATION, ["burn-in-1", "burn-in-2"])


def test_a_burn_in_that_is_lost_is_left_to_a_person() -> None:
    life = on_probation(release=PROVEN)
    life.runs = {}
    assert life.wait(timedelta(minutes=2)) == []
    life.wait(timedelta(minutes=3))
    assert life.case.runs[-1].outcome is RunOutcome.LOST
    life.wait(2 * HOUR)
    assert (life.phase(), life.held, begun(life.trail)[1:]) == (Phase.PROBATION, {HeldBy.PROCEDURE}, ["burn-in-1"])


def test_no_burn_in_is_begun_beside_training() -> None:
    life = Life(law(release=PROVEN), pods=(rank("r-0", "node-3"),))
    life.cycles(3)
    life.hot, life.cool = False, True
    life.cycles(3)
    assert (life.phase(), begun(life.trail)) == (Phase.PROBATION, [])
    life.wait(2 * HOUR)
    assert life.phase() is Phase.PROBATION, "without its burn-in it has not proven itself"
    life.pods = ()
    life.cycle()
    assert begun(life.trail) == ["burn-in-1"]


# --- Together ---------------------------------------------------------------------------------------------------------


def test_the_strictest_release_wins() -> None:
    long = policy("a", severity="warning", response={"release": {"when": "on-proof", "probation": "6h"}})
    proven = policy("gpu-hot", response={"release": {"when": "on-proof", "burnIn": "burn-in"}})
    rules = law(long, proven)
    life = Life(rules)
    life.cycle()
    both = tuple(replace(life.case.findings[0], policy=name) for name in ("gpu-hot", "a"))
    found = release_of(replace(life.case, findings=both), rules)
    assert (found.when, found.probation, found.burn_in) == ("on-proof", timedelta(hours=6), "burn-in")
    by_hand = law(long, policy("gpu-hot", response={"release": "by-hand"}))
    assert release_of(replace(life.case, findings=both), by_hand).when == "by-hand"
    none = replace(life.case, findings=())
    assert release_of(none, rules).when == "by-hand", "where nothing says how, a person does"


def test_an_observing_policy_neither_sends_back_nor_keeps_out() -> None:
    life = on_probation()
    trial = law(policy(response={"notify": False, **RESET_ONLY}, mode="observe"))
    life.law, life.hot = trial, True
    life.cycles(20)
    assert life.phase() is Phase.PROBATION, "what it finds is not acted on"


def test_every_moment_of_a_probation_is_a_deadline() -> None:
    life = on_probation(release=PROVEN)
    since = life.case.phase_since
    run = life.case.last_run(Purpose.BURN_IN)
    assert run is not None
    assert {since + HOUR, since + 7 * MINUTE, run.until, run.asked_at + 5 * MINUTE} <= deadlines(life.state, life.law)
    assert since > NOW
