"""The ladder: the next rung when one fails or the fault is back, under nobody's pods, and never the same twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.case import Effect, HeldBy, Phase, Rung, RunOutcome, Step
from quarantine.core.decision import RequestKind
from quarantine.core.model import Machine
from quarantine.core.response import LadderStep
from quarantine.core.treatment.ladder import climbed, next_rung
from tests.core.treatment.floor import pod, rank
from tests.core.treatment.life import ON_PROOF, REBOOT, REPLACE, REPORT, RESET, Life, asked, begun, law, steps
from tests.core.world import NOW, node, policy

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def test_a_report_goes_out_at_once_and_whatever_runs_there() -> None:
    life = Life(law(ladder=[REPORT, REPLACE]), pods=(rank("r-0", "node-3"),))
    assert steps(life.cycle()) == ["report"]
    assert steps(life.cycles(60)) == []
    assert (life.phase(), life.held) == (Phase.QUARANTINED, set())


def test_a_replacement_is_asked_for_once_no_training_runs_there() -> None:
    life = Life(law(ladder=[REPLACE], notify=True), pods=(rank("r-0", "node-3"), pod("web", "node-3")))
    life.cycles(3)
    assert life.phase() is Phase.QUARANTINED
    life.pods = (pod("web", "node-3"),)
    assert steps(made := life.cycle()) == ["replace"]
    assert made[0].effects == (Effect.PHASE, Effect.REPLACE)
    assert life.phase() is Phase.SWAP_REQUESTED
    life.hot = False
    assert life.cycles(120) == [], "it waits for the other machine, and quiet metrics close nothing"


def test_what_runs_there_must_be_known() -> None:
    life = Life(law(ladder=[REPLACE]), pods_known=None)
    life.cycles(3)
    assert life.held == set(), "nobody asked yet"
    life.pods_known = False
    life.cycles(3)
    assert (life.held, life.phase()) == ({HeldBy.UNKNOWN_PODS}, Phase.QUARANTINED)
    life.pods_known = True
    life.cycle()
    assert (life.held, life.phase()) == (set(), Phase.SWAP_REQUESTED)


def test_no_pod_is_on_a_machine_that_is_reset() -> None:
    life = Life(law(ladder=[RESET], drain="never"), pods=(pod("web", "node-3"),))
    life.cycles(5)
    assert life.phase() is Phase.QUARANTINED
    life.pods = ()
    assert begun(life.cycle()) == ["reset-1"]
    assert life.phase() is Phase.REMEDY


def test_a_drain_goes_before_a_remedy() -> None:
    life = Life(law(ladder=[REBOOT], drain="now"), pods=(pod("web", "node-3"),))
    assert steps(life.cycles(3)) == []
    assert life.phase() is Phase.DRAINING
    life.pods = ()
    assert steps(life.plan()) == ["reboot"], "what is empty is worked on in the same plan"


def test_pods_that_are_back_on_a_drained_machine_keep_it_from_being_rebooted() -> None:
    late = {**REBOOT, "after": "1h"}
    life = Life(law(ladder=[late], drain="now"))
    life.cycles(3)
    assert life.phase() is Phase.DRAINED
    life.pods = (pod("back", "node-3"),)
    life.wait(HOUR)
    assert (life.phase(), life.held) == (Phase.DRAINED, {HeldBy.DRAIN})
    life.pods = ()
    life.cycle()
    assert (life.phase(), life.held) == (Phase.REMEDY, set())


def test_the_next_rung_follows_the_one_that_failed() -> None:
    life = Life(law(ladder=[RESET, REBOOT, REPLACE]))
    life.cycles(2)
    life.ended(RunOutcome.FAILED, "nvidia-smi: GPU is in use")
    assert steps(made := life.cycle()) == ["reboot"]
    assert "GPU is in use" in made[0].reason
    assert life.phase() is Phase.REMEDY
    life.running()
    assert life.wait(timedelta(minutes=20)) == []
    late = life.wait(timedelta(minutes=10))
    assert (steps(late), late[0].run.outcome if late[0].run else None) == (["replace"], RunOutcome.LATE)
    assert [run.outcome for run in life.case.runs] == [RunOutcome.FAILED, RunOutcome.LATE]


def test_what_is_back_after_a_remedy_gets_the_next_rung_and_in_the_end_a_person() -> None:
    life = Life(law(ladder=[RESET, REBOOT], release=ON_PROOF))
    life.cycles(2)
    for expected in (["reboot"], []):
        life.ended()
        life.cycle()
        assert life.phase() is Phase.PROBATION
        made = life.cycles(10)
        assert steps(made) == expected, "found again: it was not the reset's doing that it looked quiet"
    assert (life.phase(), life.held) == (Phase.QUARANTINED, {HeldBy.SPENT})
    life.cycle(asked(RequestKind.RELEASE))
    assert life.held == set()


def test_a_rung_waits_for_its_time() -> None:
    life = Life(law(ladder=[REPORT, {**REPLACE, "after": "2d"}]))
    life.cycles(3)
    life.at = NOW + 2 * DAY - timedelta(minutes=1)
    assert steps(life.cycle()) == []
    assert steps(life.cycle()) == ["replace"]


def test_a_machine_that_was_out_before_begins_after_what_was_tried_then() -> None:
    life = Life(law(ladder=[RESET, REBOOT, REPLACE], release=ON_PROOF))
    life.cycles(2)
    life.hot = False
    life.ended()
    life.cycle()
    life.wait(2 * HOUR)
    assert life.phase() is Phase.RELEASED
    life.hot = True
    life.wait(3 * DAY)
    assert steps(life.cycle()) == ["reboot"]
    other = Life(life.law, state=life.state, nodes=life.nodes, node="node-4", at=life.at)
    other.cycle()
    assert steps(other.cycle()) == ["reset"], "of another machine, nothing was tried"


def test_what_was_tried_long_ago_or_for_something_else_counts_for_nothing() -> None:
    life = Life(law(ladder=[RESET, REPLACE], release=ON_PROOF))
    life.cycles(2)
    life.hot = False
    life.ended()
    life.cycle()
    life.wait(2 * HOUR)
    ended, life.hot = life.state, True
    life.wait(30 * DAY)
    assert steps(life.cycle()) == ["reset"]
    again = Life(life.law, state=ended, at=NOW + DAY)
    old = again.case
    found = tuple(replace(f, evidence=replace(f.evidence, signal="ib.downed")) for f in old.findings)
    again.state = replace(ended, cases={old.id: replace(old, findings=found)})
    again.cycle()
    assert steps(again.cycle()) == ["reset"]


def test_the_only_rung_is_taken_in_every_case() -> None:
    life = Life(law(ticket="report"))
    assert steps(life.cycle()) == ["report"]
    life.hot = False
    life.cycle(asked(RequestKind.RELEASE))
    life.hot = True
    life.wait(8 * DAY)
    assert [case.rungs[0].step for case in life.state.cases.values()] == [Step.REPORT, Step.REPORT]


def test_a_repeat_offender_goes_to_the_last_rung_at_once() -> None:
    often = {"times": 1, "within": "7d"}
    life = Life(law(ladder=[RESET, REBOOT, REPLACE], repeat=often, release=ON_PROOF))
    life.cycles(2)
    assert life.case.rungs[0].step is Step.RESET
    life.hot = False
    life.ended()
    life.cycle()
    life.wait(2 * HOUR)
    life.hot = True
    life.wait(DAY)
    life.cycle()
    assert [rung.step for rung in life.case.rungs] == [Step.REPLACE]


def test_an_older_versions_ticket_is_not_filed_again() -> None:
    life = Life(law(ladder=[REPORT, REPLACE]))
    life.cycle()
    case = life.case
    life.state = replace(life.state, cases={case.id: replace(case, rungs=(), out_since=None)})
    assert steps(life.cycle()) == ["replace"]


def test_a_procedure_that_is_no_more_is_told() -> None:
    life = Life(law(ladder=[RESET]))
    life.law = replace(life.law, procedures={})
    life.cycles(3)
    assert (life.phase(), life.held) == (Phase.QUARANTINED, {HeldBy.PROCEDURE})


def test_a_replacement_that_nobody_could_be_asked_for_is_told() -> None:
    life = Life(law(ladder=[REPLACE]))
    life.cycle()
    life.plan()
    life.gave_up(Effect.REPLACE)
    life.cycle()
    assert (life.phase(), life.held) == (Phase.SWAP_REQUESTED, {HeldBy.PROCEDURE})
    assert life.case.told_provider, "people may have asked"
    life.hot = False
    life.cycle(asked(RequestKind.REPAIRED))
    assert (life.phase(), life.held) == (Phase.PROBATION, set())


def test_a_persons_case_is_reported_and_nothing_else() -> None:
    life = Life(law(ladder=[RESET], drain="now", evidence="bug-report"), hot=False)
    made = life.cycle(asked(RequestKind.OPEN))
    assert (steps(made), begun(made)) == (["report"], [])
    assert [e for d in made for e in d.effects][-2:] == [Effect.TICKET, Effect.NOTIFY]
    assert life.cycles(5) == []


def test_the_ladder_of_the_most_severe_finding_is_climbed() -> None:
    mild = policy("gpu-mild", severity="warning", response={"notify": False, "ladder": [REPORT]})
    grave = policy("gpu-hot", severity="fatal", response={"notify": False, "ladder": [RESET, REPLACE]})
    life = Life(law(mild, grave))
    life.cycle()
    assert begun(life.cycle()) == ["reset-1"]


def test_a_report_that_was_answered_and_did_not_help_is_told() -> None:
    """The provider repaired the machine, and it is bad again: no rung is left, and nobody would come."""
    life = Life(law(ladder=[REPORT], release=ON_PROOF, notify=True))
    life.cycles(2)
    life.hot = False
    life.cycle(asked(RequestKind.REPAIRED))
    life.cycles(20)
    life.hot = True
    life.cycles(20)
    assert (life.phase(), life.held) == (Phase.QUARANTINED, {HeldBy.SPENT})
    life.hot = False
    life.cycle(asked(RequestKind.REPAIRED, 2))
    assert (life.phase(), life.held) == (Phase.PROBATION, set())


OTHER = Machine("uid-x", "acme://x", "sys-x", "boot-x")


def test_another_machine_has_the_ladder_for_itself() -> None:
    late = {**REPLACE, "after": "1h"}
    life = Life(law(ladder=[RESET, REPORT, late], release=ON_PROOF))
    life.cycles(2)
    life.ended(RunOutcome.FAILED)
    life.cycles(2)
    assert steps(life.wait(HOUR)) == ["replace"]
    life.hot = False
    life.nodes["node-3"] = node("node-3", machine=OTHER)
    life.cycles(20)
    assert life.phase() is Phase.PROBATION
    life.hot = True
    assert begun(life.cycles(3)) == ["reset-2"]
    life.ended(RunOutcome.FAILED)
    assert steps(life.cycles(3)) == ["report"], "and the time of the last rung counts from when it came"
    came = life.case.swapped_at
    assert came is not None
    life.at = came + HOUR
    assert steps(life.cycle()) == ["replace"]


def test_a_word_of_a_repair_does_not_part_what_was_tried_on_a_machine() -> None:
    """In a later case, what was tried between the exchange and the repair was tried on the new machine."""
    life = Life(law(ladder=[REPLACE, RESET], release=ON_PROOF))
    life.cycles(2)
    case = replace(life.case, machine=OTHER, sent_away=life.case.machine, swapped_at=NOW + HOUR)
    tried = (Rung(Step.REPLACE, 0, NOW), Rung(Step.RESET, 1, NOW + 2 * HOUR, "gpu-reset"))
    case = replace(case, rungs=tried, renewed_at=NOW + 3 * HOUR, phase=Phase.RELEASED)
    later = replace(case, id="q-2", sent_away=None, swapped_at=None, rungs=(), phase=Phase.QUARANTINED, out_since=NOW)
    both = replace(life.state, cases={case.id: case, later.id: later})
    ladder = [LadderStep(do=Step.RESET, by="gpu-reset"), LadderStep(do=Step.REPORT)]
    assert next_rung(both, later, ladder) == 1


def by(step: Step) -> str:
    return "p" if step in (Step.RESET, Step.REBOOT) else ""


rungs = st.lists(st.sampled_from(Step).map(lambda step: Rung(step, 0, NOW, by(step))))
ladders = st.lists(st.sampled_from(Step).map(lambda step: LadderStep(do=step, by=by(step) or None)))


@given(taken=rungs, ladder=ladders)
def test_climbing_never_goes_back_and_never_beyond_the_end(taken: list[Rung], ladder: list[LadderStep]) -> None:
    behind = [climbed(taken[:n], ladder) for n in range(len(taken) + 1)]
    assert behind == sorted(behind)
    assert behind[-1] <= len(ladder)
    same = [Rung(step.do, n, NOW, step.by or "") for n, step in enumerate(ladder)]
    assert [climbed(same[:n], ladder) for n in range(len(ladder) + 1)] == list(range(len(ladder) + 1))
