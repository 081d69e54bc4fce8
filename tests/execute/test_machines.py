"""Pods asked to leave and procedures begun: what the last look forbids is not done, and nothing is done twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Effect, Leaving, Phase, Purpose, Run, RunOutcome
from quarantine.core.decision import Action, Word, WordKind
from quarantine.core.errors import (
    ClusterRefused,
    ClusterUnavailable,
    EvictionBlocked,
    EvictionImpossible,
    Superseded,
)
from quarantine.core.model import Mode
from quarantine.core.workload import Class
from quarantine.execute import due
from tests.execute.lab import NODE, Lab, pod, refs


def leave(here: Lab, *names: str) -> None:
    """These pods run on the machine, and are to leave it."""
    here.kube.pods[NODE] = tuple(pod(name) for name in names)
    here.decide(Action.DRAIN, phase=Phase.DRAINING)
    leaving = Leaving(here.clock.at, tuple(refs(names)))
    here.decide(Action.EVICT, phase=Phase.DRAINING, leaving=leaving, effects=(Effect.EVICT,))


PHASES = {Purpose.RESET: Phase.REMEDY, Purpose.BURN_IN: Phase.PROBATION}


def order(here: Lab, purpose: Purpose = Purpose.EVIDENCE, by: str = "bug-report") -> Run:
    """A procedure is to be run."""
    run = Run(f"{here.case.id}-{purpose}-1", purpose, by, here.clock.at, here.clock.at + timedelta(hours=1))
    here.decide(Action.RUN, run=run, effects=(Effect.RUN,), phase=PHASES.get(purpose))
    return run


def test_every_pod_of_a_batch_is_asked_and_those_that_are_gone_are_no_trouble(here: Lab) -> None:
    leave(here, "a", "b", "c")
    here.kube.pods[NODE] = (pod("a"), pod("c"))
    done = here.act().done
    assert here.kube.evicted == ["a", "c"]
    assert f"2 pods on {NODE} were asked to leave, 1 was gone already" in done
    assert here.status(Effect.EVICT) == "done"


def test_a_pod_that_may_not_go_yet_keeps_no_other_and_is_asked_ever_more_slowly(here: Lab) -> None:
    leave(here, "a", "b")
    here.kube.answers["a"] = EvictionBlocked("its disruption budget allows none")
    assert any("jobs/a" in said and "allows none" in said for said in here.act().postponed)
    assert here.kube.evicted == ["b"]
    (row,) = here.ledger.load().pending
    assert (row.attempts, here.act().postponed) == (1, ())
    waits = []
    for attempts in range(2, 9):
        waited = 0
        while here.ledger.load().pending[0].attempts < attempts:
            here.later(seconds=5)
            waited += 5
            here.act()
        waits.append(waited)
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    del here.kube.answers["a"]
    here.later(minutes=5)
    here.act()
    assert here.kube.evicted == ["b", "a"]


def test_a_batch_that_is_decided_later_does_not_wait_for_the_one_that_was_refused(here: Lab) -> None:
    leave(here, "a")
    here.kube.answers["a"] = EvictionBlocked("not now")
    here.act()
    here.later(seconds=1)
    here.kube.pods[NODE] = (pod("a"), pod("b"))
    here.decide(Action.EVICT, leaving=Leaving(here.clock.at, tuple(refs(["a", "b"]))), effects=(Effect.EVICT,))
    here.act()
    assert here.kube.evicted == ["b"]


def test_one_that_never_will_be_let_go_is_given_up_once_all_were_asked(here: Lab) -> None:
    leave(here, "a", "b")
    here.kube.answers["a"] = EvictionImpossible("two budgets cover it")
    done = here.act().done
    assert here.kube.evicted == ["b"]
    assert any("jobs/a cannot be asked to leave" in said and "two budgets cover it" in said for said in done)
    assert here.status(Effect.EVICT) == "abandoned"


def test_evictions_that_were_refused_let_others_go_first(here: Lab) -> None:
    leave(here, "a")
    here.kube.answers["a"] = EvictionBlocked("not now")
    here.act()
    order(here)
    here.later(minutes=1)
    here.kube.answers.clear()
    done = here.act().done
    assert done[-1].startswith("1 pod on")
    assert len(done) == 2


def test_nobody_is_evicted_once_the_cordon_is_gone(here: Lab) -> None:
    leave(here, "a")
    here.kube.change(unschedulable=False)
    assert here.act() == here.act()
    assert here.kube.evicted == []
    assert here.ledger.load().pending[0].attempts == 0, "no attempt is made: the next plan asks"
    here.kube.change(unschedulable=True)
    here.act()
    assert here.kube.evicted == ["a"]


def test_nothing_is_done_to_a_machine_whose_taint_is_gone(here: Lab) -> None:
    leave(here, "a")
    order(here)
    taints = here.kube.held[NODE].taints
    here.kube.change(taints=())
    here.act()
    assert here.kube.evicted == []
    assert here.runner.begun == {}
    here.kube.change(taints=taints)
    here.act()
    here.decide(Action.DRAIN, phase=Phase.DRAINED)
    here.decide(Action.STEP, phase=Phase.SWAP_REQUESTED, effects=(Effect.REPLACE,))
    here.kube.change(taints=())
    here.act()
    assert here.tickets.find(f"{here.case.id}-replace") == ()


def test_another_machine_under_the_name_is_let_alone(here: Lab) -> None:
    leave(here, "a")
    order(here)
    node = here.kube.held[NODE]
    here.kube.change(machine=replace(node.machine, node_uid="another"))
    here.act()
    assert here.kube.evicted == []
    assert here.runner.begun == {}
    assert here.status(Effect.EVICT) == here.status(Effect.RUN) == "abandoned"


def test_a_batch_that_was_held_up_for_long_is_not_asked_to_leave_at_another_moment(here: Lab) -> None:
    leave(here, "a")
    here.mode = Mode.OBSERVE
    here.act()
    here.later(hours=1)
    here.mode = Mode.ENFORCE
    assert any("the moment" in said and "has passed" in said for said in here.act().done)
    assert here.kube.evicted == []


def test_whoever_was_succeeded_asks_no_further_pod(here: Lab) -> None:
    leave(here, "a", "b", "c")

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(here.kube, name)

        def evict(self, ref: object) -> bool:
            gone = here.kube.evict(ref)  # type: ignore[arg-type]
            here.later(seconds=10)
            here.ledger.take_term("another", here.kube.uid)
            return gone

    here.executor.cluster = Slow()  # type: ignore[assignment]
    with pytest.raises(Superseded):
        here.act()
    assert here.kube.evicted == ["a"]


@pytest.mark.parametrize("scope", ["all", "pool/gpu", "policy/gpu-hot"])
def test_a_pause_stops_what_is_new_and_nothing_that_takes_away(here: Lab, scope: str) -> None:
    word = Word(f"pause/{scope}", WordKind.PAUSE, scope, "an engineer", "maintenance of the fabric", here.clock.at)
    here.decide(Action.PAUSE, word=word)
    leave(here, "a")
    order(here)
    here.decide(Action.TICKET, effects=(Effect.TICKET, Effect.PHASE))
    here.act()
    assert here.kube.evicted == []
    assert here.runner.begun == {}
    assert here.tickets.find(here.case.id) == ()
    assert here.kube.held[NODE].labels["quarantine.gpu/phase"] == "draining"
    here.decide(Action.RESUME, unword=word.key)
    here.act()
    assert here.kube.evicted == ["a"]


@pytest.mark.parametrize("scope", ["pool/other", "policy/other"])
def test_a_pause_of_something_else_stops_nothing(here: Lab, scope: str) -> None:
    word = Word(f"pause/{scope}", WordKind.PAUSE, scope, "an engineer", "their reason", here.clock.at)
    here.decide(Action.PAUSE, word=word)
    leave(here, "a")
    here.act()
    assert here.kube.evicted == ["a"]


def test_a_ledger_that_is_too_old_does_nothing_new(here: Lab) -> None:
    leave(here, "a")
    here.act(observe_only=True)
    assert here.kube.evicted == []


def test_a_procedure_is_begun_with_what_its_placeholders_stand_for(here: Lab) -> None:
    run = order(here)
    here.act()
    begun = here.runner.begun[run.name]
    assert (begun.node, begun.case, begun.taint) == (NODE, here.case.id, "quarantine.gpu/suspect")
    assert (begun.provider_id, begun.system_uuid) == (f"acme://{NODE}", f"sys-{NODE}")
    assert here.case.effects[Effect.RUN].ref == run.name


def test_a_procedure_whose_time_is_up_is_not_begun(here: Lab) -> None:
    order(here)
    here.runner.trouble = ClusterUnavailable("the API server is away")
    assert here.act().postponed != ()
    here.runner.trouble = None
    here.later(hours=1)
    assert any("before its time was up" in said for said in here.act().done)
    assert here.runner.begun == {}


def test_a_reset_that_had_to_wait_has_all_of_its_time_once_it_begins(here: Lab) -> None:
    run = order(here, Purpose.RESET, "reset")
    here.runner.trouble = ClusterUnavailable("the API server is away")
    here.act()
    here.runner.trouble = None
    here.later(hours=3)
    here.act()
    begun = here.clock.at
    assert here.runner.begun[run.name].run.until == begun + timedelta(hours=1)
    assert here.case.run is not None
    assert (here.case.run.started_at, here.case.run.until) == (begun, begun + timedelta(hours=1))


def test_a_reset_does_not_begin_while_anything_runs(here: Lab) -> None:
    order(here, Purpose.RESET, "reset")
    here.kube.pods[NODE] = (pod("web"),)
    assert any("would harm what runs" in said and "jobs/web" in said for said in here.act().postponed)
    here.kube.unseen.add(NODE)
    here.later(minutes=1)
    assert any("cannot be seen" in said for said in here.act().postponed), "what is not seen is not gone"
    here.kube.unseen.clear()
    here.kube.pods.clear()
    here.later(minutes=1)
    here.act()
    assert len(here.runner.begun) == 1


def test_a_burn_in_leaves_alone_what_runs_and_evidence_is_taken_beside_it(here: Lab) -> None:
    here.kube.pods[NODE] = (pod("web"), pod("worker", Class.TRAINING))
    order(here, Purpose.BURN_IN)
    assert any("jobs/worker" in said and "jobs/web" in said for said in here.act().postponed)
    here.kube.pods[NODE] = ()
    here.later(minutes=1)
    here.act()
    assert len(here.runner.begun) == 1
    here.kube.pods[NODE] = (pod("worker", Class.TRAINING),)
    here.decide(Action.PROVE, phase=Phase.QUARANTINED)
    order(here)
    here.act()
    assert len(here.runner.begun) == 2


def test_a_command_that_may_have_been_begun_is_not_begun_again(here: Lab) -> None:
    order(here, Purpose.RESET, "reset")
    (row,) = here.ledger.load().pending
    here.ledger.attempt(here.term, row.key, here.clock.at)  # and the process was killed
    here.restart()
    here.later(minutes=1)
    assert any("is not known" in said for said in here.act().done)
    assert here.runner.begun == {}
    assert here.status(Effect.RUN) == "done", "its runner does not know it: it is lost, and not a failure to go on from"


def test_a_command_that_was_refused_in_this_process_was_not_begun(here: Lab) -> None:
    order(here, Purpose.RESET, "reset")
    here.runner.trouble = ClusterRefused("commands may not run here")
    here.act()
    here.runner.trouble = None
    here.later(minutes=1)
    here.act()
    assert len(here.runner.begun) == 1


def test_a_job_that_may_have_been_begun_is_found_by_its_name(here: Lab) -> None:
    run = order(here)
    (row,) = here.ledger.load().pending
    here.ledger.attempt(here.term, row.key, here.clock.at)
    here.runner.start(here.runner.begun.get(run.name) or _order_of(here, run))
    here.restart()
    here.later(minutes=1)
    here.act()
    assert list(here.runner.begun) == [run.name]
    assert here.status(Effect.RUN) == "done"


def _order_of(here: Lab, run: Run):  # type: ignore[no-untyped-def]
    from quarantine.ports import Order

    return Order(run, here.rules.procedures["bug-report"], here.case.id, NODE, "", "", "")


def test_a_release_ends_what_still_runs_after_the_mark_is_gone(here: Lab) -> None:
    run = order(here)
    here.act()
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK,))
    here.runner.trouble = ClusterUnavailable("the API server is away")
    assert here.act().postponed != ()
    assert here.kube.held[NODE].taints == (), "what does not end keeps nobody's machine out"
    here.runner.trouble = None
    here.later(minutes=1)
    assert f"{run.name} on {NODE} is ended" in here.act().done
    assert here.runner.stopped == [run.name]


def test_a_run_that_cannot_be_ended_is_said_and_ends_the_matter(here: Lab) -> None:
    order(here)
    here.act()
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK,))
    here.runner.trouble = ClusterRefused("it may not delete jobs")
    assert any("could not be ended: it may not delete jobs" in said for said in here.act().done)
    assert (here.status(Effect.UNMARK), here.status(Effect.STOP)) == ("done", "abandoned")


def test_no_other_machine_is_asked_for_while_training_runs(here: Lab) -> None:
    here.decide(Action.STEP, phase=Phase.SWAP_REQUESTED, effects=(Effect.REPLACE,))
    here.kube.pods[NODE] = (pod("worker", Class.TRAINING),)
    assert any("while training runs on it: jobs/worker" in said for said in here.act().postponed)
    here.kube.unseen.add(NODE)
    here.later(minutes=1)
    here.act()
    assert here.tickets.find(f"{here.case.id}-replace") == ()
    here.kube.unseen.clear()
    here.kube.pods[NODE] = (pod("web"),)
    here.later(minutes=1)
    here.act()
    assert here.tickets.find(f"{here.case.id}-replace") != ()


def test_a_machine_that_has_left_already_is_asked_for_all_the_same(here: Lab) -> None:
    here.decide(Action.STEP, phase=Phase.SWAP_REQUESTED, effects=(Effect.REPLACE,))
    del here.kube.held[NODE]
    here.act()
    assert here.tickets.find(f"{here.case.id}-replace") != ()


def test_no_other_machine_is_asked_for_once_one_has_come(here: Lab) -> None:
    here.decide(Action.STEP, phase=Phase.SWAP_REQUESTED, effects=(Effect.REPLACE,))
    here.kube.change(machine=replace(here.kube.held[NODE].machine, node_uid="another"))
    here.act()
    assert here.tickets.find(f"{here.case.id}-replace") == ()
    assert here.status(Effect.REPLACE) == "abandoned"


def test_what_was_left_behind_is_not_carried_out_by_an_older_record(here: Lab) -> None:
    leave(here, "a")
    case = here.case
    (row,) = here.ledger.load().pending
    on_probation = replace(case, phase=Phase.PROBATION)
    now, node = here.clock.at, here.kube.held[NODE]
    assert due.fits(row, case, node, here.state, here.rules, now)
    assert not due.fits(row, on_probation, node, here.state, here.rules, now)


def test_nothing_is_done_to_a_machine_on_which_somebody_works(here: Lab) -> None:
    leave(here, "a")
    until = here.clock.at + timedelta(hours=4)
    word = Word(f"maintenance/{NODE}", WordKind.MAINTENANCE, NODE, "an engineer", "a new rail", here.clock.at, until)
    here.decide(Action.MAINTAIN, word=word)
    here.act()
    assert here.kube.evicted == []
    here.decide(Action.RESUME, unword=word.key)
    here.act()
    assert here.kube.evicted == ["a"]


def test_a_batch_that_was_refused_and_then_held_up_for_long_is_not_asked_any_more(here: Lab) -> None:
    leave(here, "a")
    here.kube.answers["a"] = EvictionBlocked("its disruption budget allows none")
    here.act()
    here.kube.answers.clear()
    here.later(hours=3)
    here.act()
    assert here.kube.evicted == []


def test_an_exchange_ends_what_ran_on_the_machine_that_left_before_anything_runs_on_the_new_one(here: Lab) -> None:
    old = order(here)
    here.act()
    came = replace(here.case.machine, system_uuid="sys-x", provider_id="acme://x", boot_id="b-x")
    here.kube.change(machine=came)
    lost = replace(old, outcome=RunOutcome.LOST, ended_at=here.clock.at)
    here.decide(Action.SWAP, phase=Phase.SWAPPED, machine=came, run=lost, effects=(Effect.MARK,))
    here.runner.trouble = ClusterUnavailable("the API server is away")
    assert here.act().postponed != ()
    here.decide(Action.PROVE, phase=Phase.PROBATION)
    here.runner.trouble = None
    new = order(here, Purpose.BURN_IN)
    here.act()
    assert (here.runner.stopped, list(here.runner.begun)) == ([], [old.name]), "the old one may still run"
    here.later(minutes=1)
    here.act()
    here.act()
    assert (here.runner.stopped, list(here.runner.begun)) == ([old.name], [old.name, new.name])


def test_a_machine_that_left_ends_what_ran_on_it(here: Lab) -> None:
    run = order(here)
    here.act()
    del here.kube.held[NODE]
    here.decide(Action.RETIRE, phase=Phase.RETIRED)
    here.act()
    assert here.runner.stopped == [run.name]
