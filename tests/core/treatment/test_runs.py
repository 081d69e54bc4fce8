"""Procedures: evidence before everything, one at a time, each with an end, and none begun twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.case import Effect, HeldBy, Phase, Purpose, RunOutcome
from quarantine.core.model import Mode
from quarantine.core.workload import RunStatus
from tests.core.treatment.floor import pod
from tests.core.treatment.life import PROCEDURES, REBOOT, REPLACE, REPORT, RESET, Life, begun, law, steps
from tests.core.world import FAILED, MINUTE


def test_evidence_is_taken_once_the_machine_is_marked_and_before_anything_else() -> None:
    life = Life(law(evidence="bug-report", drain="now", ladder=[REPORT]), pods=(pod("web", "node-3"),))
    assert (begun(life.plan()), steps(life.trail)) == ([], []), "not before the mark"
    made = life.cycles(3)
    assert (begun(made), steps(made)) == (["evidence-1"], [])
    assert life.phase() is Phase.QUARANTINED
    run = life.case.run
    assert run is not None
    assert run.output == f"s3://evidence/{life.case.id}/{run.name}/node-3"
    life.ended()
    made = life.cycle()
    assert steps(made) == ["report"]
    assert life.phase() is Phase.DRAINING
    life.cycles(3)
    assert begun(life.trail) == ["evidence-1"]


def test_nothing_waits_longer_for_evidence_than_its_limit() -> None:
    life = Life(law(evidence="bug-report", ladder=[REPORT]))
    life.cycles(2)
    life.running()
    life.wait(timedelta(minutes=57))
    assert steps(life.cycle()) == []
    assert steps(life.cycle()) == ["report"]
    assert life.case.runs[-1].outcome is RunOutcome.LATE


def test_evidence_that_fails_keeps_nothing_from_going_on() -> None:
    life = Life(law(evidence="bug-report", ladder=[REPORT]))
    life.cycles(2)
    life.ended(RunOutcome.FAILED)
    assert steps(life.cycle()) == ["report"]
    assert life.held == set()


def test_no_pod_is_sent_to_a_machine_that_is_down_and_a_command_is() -> None:
    life = Life(law(evidence="bug-report", ladder=[REPORT]))
    life.nodes["node-3"] = replace(life.nodes["node-3"], ready=False)
    life.cycles(2)
    assert (begun(life.trail), steps(life.trail)) == ([], ["report"])
    other = Life(law(evidence="node-reboot", ladder=[REPORT]))
    other.nodes["node-3"] = replace(other.nodes["node-3"], ready=False)
    other.cycles(2)
    assert begun(other.trail) == ["evidence-1"]


def test_no_answer_of_the_runner_says_nothing_also_once_the_time_is_up() -> None:
    life = Life(law(ladder=[RESET, REPLACE]))
    life.cycles(2)
    run = life.case.run
    assert run is not None
    life.runs = FAILED
    assert life.wait(timedelta(minutes=50)) == []
    assert life.wait(timedelta(minutes=15)) == []
    life.runs = {run.name: RunStatus(RunOutcome.SUCCEEDED, run.asked_at + MINUTE)}
    life.cycle()
    assert life.phase() is Phase.PROBATION, "a reset that succeeded is no failed one"


def test_a_remedy_whose_runner_is_silent_for_an_hour_beyond_its_time_is_lost() -> None:
    life = Life(law(ladder=[RESET, REPLACE]))
    life.cycles(2)
    life.runs = FAILED
    made = life.wait(timedelta(hours=2))
    assert (life.case.runs[-1].outcome, life.phase(), life.held) == (RunOutcome.LOST, Phase.REMEDY, {HeldBy.PROCEDURE})
    assert "could not be asked" in made[0].reason


def test_nothing_waits_for_evidence_whose_runner_is_silent() -> None:
    life = Life(law(evidence="bug-report", ladder=[REPORT]))
    life.cycles(2)
    life.runs = FAILED
    assert steps(life.wait(timedelta(hours=1))) == ["report"]
    assert life.case.runs[-1].outcome is RunOutcome.LOST


def test_a_reset_that_was_never_begun_was_not_tried_and_has_all_its_time_once_it_is() -> None:
    life = Life(law(ladder=[RESET, REPLACE]))
    life.cycle()
    life.plan()
    assert life.case.is_pending(Effect.RUN)
    life.at += timedelta(hours=5)
    assert life.plan() == []
    life.carry_out()
    run = life.case.run
    assert run is not None
    assert (run.started_at, run.until) == (life.at, life.at + timedelta(hours=1))
    life.at += 4 * MINUTE
    assert life.plan() == [], "its runner has five minutes from its beginning to know it"
    life.running()
    life.at += timedelta(minutes=50)
    assert life.plan() == []
    life.ended()
    life.cycle()
    assert life.phase() is Phase.PROBATION


def test_evidence_that_is_not_begun_holds_nothing_up_for_longer_than_its_limit() -> None:
    life = Life(law(evidence="bug-report", ladder=[REPORT]))
    life.cycle()
    life.plan()
    life.at += timedelta(hours=1)
    made = life.plan()
    assert "never begun" in made[0].reason
    assert (steps(made), life.case.is_pending(Effect.RUN)) == (["report"], False)


def test_a_run_that_its_runner_does_not_know_is_lost_and_not_begun_again() -> None:
    life = Life(law(ladder=[RESET, REBOOT]))
    life.cycles(2)
    life.cycles(10)
    assert (life.case.runs[-1].outcome, life.phase()) == (RunOutcome.LOST, Phase.REMEDY)
    assert (life.held, begun(life.trail)) == ({HeldBy.PROCEDURE}, ["reset-1"])


def test_a_run_that_could_not_be_started_has_failed() -> None:
    life = Life(law(ladder=[RESET, REBOOT]))
    life.cycle()
    life.plan()
    life.gave_up(Effect.RUN)
    life.at += MINUTE
    assert steps(made := life.cycle()) == ["reboot"]
    assert "could not be started" in made[0].reason
    assert [run.name.removeprefix(life.case.id) for run in life.case.runs] == ["-reset-1", "-reboot-1"]


def test_what_became_of_a_run_is_recorded_whatever_the_mode() -> None:
    life = Life(law(ladder=[RESET]))
    life.cycles(2)
    life.mode = Mode.OBSERVE
    life.ended()
    life.cycle()
    assert life.phase() is Phase.PROBATION


def test_what_a_command_printed_is_kept_where_it_names_no_place() -> None:
    life = Life(law(ladder=[REBOOT]))
    life.cycles(2)
    life.ended(RunOutcome.FAILED, "x" * 5000)
    life.cycle()
    assert life.case.last_run(Purpose.REBOOT) is not None
    assert life.case.runs[0].output == "x" * 500
    assert PROCEDURES["node-reboot"].output == ""


def test_braces_that_are_no_placeholders_stay() -> None:
    life = Life(law(evidence="bug-report"))
    odd = PROCEDURES["bug-report"].model_copy(update={"output": "{x} {node} {0} {{case}}"})
    life.law = replace(life.law, procedures={**PROCEDURES, "bug-report": odd})
    life.cycles(2)
    assert life.case.runs[0].output == f"{{x}} node-3 {{0}} {{{life.case.id}}}"
