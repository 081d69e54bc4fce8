"""Probation: begun by a remedy, a swap or evidence under load; ended by time, sight and proof, never by silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core import fitness, planner
from quarantine.core.case import Effect, HeldBy, Phase, Proof, Purpose, RunOutcome
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import Action, Decision, Kind, Request, RequestKind
from quarantine.core.draft import Draft
from quarantine.core.explain import story
from quarantine.core.model import Mode, Samples, Verdict
from quarantine.core.record.chart import chart
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import evolve
from quarantine.core.treatment.owed import release_of
from quarantine.core.treatment.probation import releases
from quarantine.core.workload import Pod
from tests.core.treatment.floor import pod, rank
from tests.core.treatment.life import ON_PROOF, REPLACE, REPORT, RESET, Life, actions, asked, begun, law
from tests.core.world import FAILED, MINUTE, NOW, answers, policy, seen

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


def test_the_decision_that_sends_back_says_by_which_policy_and_on_what_evidence() -> None:
    life = on_probation()
    timed(life)
    found = life.case.findings[0]
    life.hot = True
    (back,) = (d for d in life.cycles(10) if d.action is Action.PROVE)
    of = life.law.policy("gpu-hot")
    assert of is not None
    assert (back.policy, back.policy_hash, back.policy_revision) == (of.name, of.hash, of.revision)
    assert (back.device, back.severity) == (found.device, of.spec.severity)
    assert back.evidence is not None
    assert (back.evidence.value, back.evidence.query) == (84.0, found.evidence.query)
    assert back.evidence.at > found.evidence.at, "as it is measured now, not as it was before the remedy"
    assert any("measured 84 °C" in line for line in story([(1, back)])[0].evidence)
    drawn = chart("node-3", list(enumerate(life.trail)), life.case.id)
    assert drawn is not None
    assert [panel.at for panel in drawn.panels] == [found.evidence.at, back.evidence.at]
    assert drawn.panels[1].title.endswith("bad again on probation")
    assert [mark.text for mark in drawn.marks].count("bad again: quarantined") == 1


def test_what_joins_and_sends_back_at_once_is_drawn_once() -> None:
    life = on_probation()
    life.cool = True
    life.cycle()
    life.cool, life.hot = False, True
    life.cycle()
    drawn = chart("node-3", list(enumerate(life.trail)), life.case.id)
    assert drawn is not None
    assert len(drawn.panels) == 1


def unseen(life: Life) -> None:
    life.seen = False


def unready(life: Life) -> None:
    life.nodes["node-3"] = replace(life.nodes["node-3"], ready=None)


def worked_on(life: Life) -> None:
    noted = {**life.nodes["node-3"].annotations, "quarantine.gpu/maintenance-until": (life.at + 2 * HOUR).isoformat()}
    life.nodes["node-3"] = replace(life.nodes["node-3"], annotations=noted)


def unanswered(life: Life) -> None:
    look = life.look

    def blind(requests: Iterable[Request] = ()) -> Snapshot:
        found = look(requests)
        said = found.answers["gpu-hot"]
        return replace(found, answers={"gpu-hot": replace(said, trigger=dict.fromkeys(said.trigger, FAILED))})

    life.look = blind  # type: ignore[method-assign]


def timed(life: Life) -> None:
    """What Prometheus says bears the time at which it is asked."""
    look = life.look

    def now(requests: Iterable[Request] = ()) -> Snapshot:
        found = look(requests)
        said = found.answers["gpu-hot"].trigger
        dated = {
            key: replace(answer, samples=tuple(replace(sample, at=found.now) for sample in answer.samples))
            for key, answer in said.items()
            if isinstance(answer, Samples)
        }
        return replace(found, answers={"gpu-hot": replace(found.answers["gpu-hot"], trigger=dated)})

    life.look = now  # type: ignore[method-assign]


def again(life: Life) -> None:
    life.seen = True
    noted = {k: v for k, v in life.nodes["node-3"].annotations.items() if k != "quarantine.gpu/maintenance-until"}
    life.nodes["node-3"] = replace(life.nodes["node-3"], ready=True, annotations=noted)
    vars(life).pop("look", None)


@pytest.mark.parametrize("lost", [unseen, unready, worked_on, unanswered])
def test_time_in_which_a_machine_is_not_seen_proves_nothing(lost: Callable[[Life], None]) -> None:
    life = on_probation()
    life.cycles(20)
    lost(life)
    assert [(d.action, d.verdict) for d in life.cycles(70) if d.action is Action.PROVE] == [(Action.PROVE, "unknown")]
    assert life.phase() is Phase.PROBATION
    again(life)
    assert [(d.action, d.verdict) for d in life.cycle() if d.action is Action.PROVE] == [(Action.PROVE, "good")]
    assert actions(life.cycles(38)) == []
    life.cycles(2)
    assert life.phase() is Phase.RELEASED, "the twenty minutes before count, and the trigger could find it bad again"


def test_a_clock_that_is_set_back_records_a_loss_once() -> None:
    life = on_probation()
    life.at -= timedelta(hours=8)
    life.seen = False
    assert [d.verdict for d in life.cycles(30) if d.action is Action.PROVE] == ["unknown"]
    life.seen = True
    assert len([d for d in life.cycles(30) if d.action is Action.PROVE]) <= 1


def test_a_loss_at_the_end_leaves_the_trigger_time_to_find_what_is_bad() -> None:
    life = on_probation()
    life.cycles(58)
    life.seen = False
    life.cycle()
    life.seen = True
    life.cycles(7)
    assert life.phase() is Phase.PROBATION
    life.cycles(2)
    assert life.phase() is Phase.RELEASED


def test_sight_that_comes_and_goes_is_recorded_a_few_times_an_hour() -> None:
    life = on_probation()
    made = []
    for minute in range(60):
        life.seen = minute % 2 == 1
        made += life.cycle()
    assert len([d for d in made if d.action is Action.PROVE]) <= 12
    assert life.phase() is Phase.PROBATION


def test_a_gpu_that_is_off_the_bus_is_not_found_bad_and_proves_nothing() -> None:
    life = on_probation()
    life.nodes = {name: replace(node, gpus=8) for name, node in life.nodes.items()}
    look = life.look

    def seven(requests: Iterable[Request] = ()) -> Snapshot:
        others = {name: node for name, node in life.nodes.items() if name != "node-3"}
        here = seen({"node-3": life.nodes["node-3"]}, devices=7).samples
        counted = Samples((*seen(others).samples, *here), "coverage")
        return replace(look(requests), answers={"gpu-hot": answers(life.nodes, coverage=counted)})

    life.look = seven  # type: ignore[method-assign]
    told = life.cycles(120)
    assert life.phase() is Phase.PROBATION
    assert [d.reason for d in told if "sees 7 of its 8 devices" in d.reason] == [told[0].reason]


def test_what_was_bad_on_probation_and_could_not_be_acted_on_begins_it_anew() -> None:
    life = on_probation()
    life.cool = True
    life.cycle()
    life.cool = False
    life.cycles(40)
    pause = Request("x", RequestKind.PAUSE, "", "r", "p", "cli", NOW, scope="policy/gpu-hot", until=life.at + HOUR)
    life.hot = True
    life.cycle(pause)
    life.cycles(9)
    life.hot = False
    life.cycle()
    over = life.at
    life.cycles(58)
    assert life.phase() is Phase.PROBATION
    life.cycles(3)
    assert life.phase() is Phase.RELEASED
    assert life.at > over + 58 * MINUTE
    assert sum(1 for d in life.trail if d.action is Action.PROVE and d.verdict is not None) == 2


def test_what_was_told_of_a_proven_machine_is_taken_back_when_it_is_bad() -> None:
    life = on_probation(release={"when": "by-hand", "probation": "1h"})
    life.wait(HOUR)
    assert life.held == {HeldBy.READY}
    life.cycle(Request("x", RequestKind.PAUSE, "", "r", "p", "cli", NOW, scope="policy/gpu-hot"))
    life.hot = True
    life.cycle()
    assert (life.phase(), life.held) == (Phase.PROBATION, set())


@given(st.lists(st.tuples(st.sampled_from(Verdict), st.integers(0, 90)), max_size=12))
def test_only_quiet_minutes_since_it_was_bad_last_count(story: list[tuple[Verdict, int]]) -> None:
    proof, at, quiet = Proof(NOW, Verdict.GOOD, NOW), NOW, 0
    for verdict, minutes in story:
        proof = proof.then(verdict, at)
        quiet = 0 if verdict is Verdict.BAD else quiet + minutes * (verdict is Verdict.GOOD)
        at += minutes * MINUTE
    assert at - proof.then(Verdict.GOOD, at).since == quiet * MINUTE


def test_no_probation_is_shorter_than_what_the_trigger_needs() -> None:
    response = {"ladder": [RESET], "release": {**ON_PROOF, "probation": "5m"}}
    slow = policy(trigger={"above": 78, "for": "30m"}, response=response)
    life = Life(law(slow))
    life.cycles(2)
    life.hot = False
    life.ended()
    life.cycles(32)
    assert life.phase() is Phase.PROBATION
    life.cycles(2)
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


def test_evidence_of_last_week_begins_no_probation_and_evidence_of_now_does() -> None:
    life = Life(law(release={"when": "by-hand"}))
    life.cycles(2)
    life.hot, life.cool = False, True
    life.cycle()
    life.cool = False
    life.wait(timedelta(days=6))
    life.law = law(**EVIDENCE)
    life.cycles(3)
    assert life.phase() is Phase.QUARANTINED
    life.cool = True
    life.cycle()
    assert life.phase() is Phase.PROBATION


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


@pytest.mark.parametrize(
    ("pods", "known"), [((rank("r-0", "node-3"),), True), ((pod("web", "node-3"),), True), ((), None), ((), False)]
)
def test_no_burn_in_is_begun_beside_what_runs_or_may_run(pods: tuple[Pod, ...], known: bool | None) -> None:
    life = Life(law(release=PROVEN), pods=pods, pods_known=known)
    life.cycles(3)
    life.hot, life.cool = False, True
    life.cycles(3)
    assert (life.phase(), begun(life.trail)) == (Phase.PROBATION, [])
    life.wait(2 * HOUR)
    assert life.phase() is Phase.PROBATION, "without its burn-in it has not proven itself"
    life.pods, life.pods_known = (), True
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


def test_a_policy_that_is_made_to_observe_keeps_its_word_on_the_release() -> None:
    strict = {"when": "on-proof", "probation": "6h", "burnIn": "burn-in"}
    loose = policy("gpu-hot", response={"release": ON_PROOF})
    life = Life(law(loose))
    life.cycle()
    both = replace(life.case, findings=tuple(replace(life.case.findings[0], policy=n) for n in ("gpu-hot", "strict")))
    observing = policy("strict", mode="observe", response={"release": strict})
    found = release_of(both, law(loose, observing))
    assert (found.when, found.probation, found.burn_in) == ("on-proof", timedelta(hours=6), "burn-in")
    none = law(policy("gpu-hot", mode="observe", response={"release": ON_PROOF}), observing)
    assert release_of(both, none).when == "by-hand", "where none of them acts, a person releases"
    telling = policy("strict", response={"taint": False})
    assert release_of(both, law(loose, telling)).when == "on-proof", "it never took a machine out"


def test_an_observing_policy_does_not_send_back() -> None:
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
