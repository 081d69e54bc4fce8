"""What must hold of every plan, whatever was seen: the invariants of the design, each stated beside the code.

They are told from the snapshot and from what is true of the world, not by asking the planner's own rules, wherever
that can be said shortly.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from quarantine.core.decision import WordKind
from tests.core.completeness import missing
from tests.core.invariants import limits, order, proof, provider
from tests.core.invariants.cycle import SHOWS, Cycle

if TYPE_CHECKING:
    from tests.core.invariants.world import World


def check(cycle: Cycle) -> None:
    """All of them."""
    for invariant in (
        proof.nothing_is_decided_on_unknown,
        proof.released_on_proof_or_by_a_person,
        proof.a_person_who_takes_the_taint_away_is_not_fought,
        proof.nothing_goes_on_once_our_cordon_is_gone,
        limits.budgets_hold,
        limits.releases_are_never_blocked,
        limits.a_policy_that_finds_too_much_takes_nobody_out,
        limits.what_is_new_settles,
        limits.machines_that_fail_together_are_not_taken_out,
        limits.people_outrank_us,
        order.only_what_is_seen_leaves,
        order.a_gang_leaves_all_its_machines_at_once,
        order.every_case_goes_on_or_is_told,
        limits.observing_does_nothing,
        order.a_case_that_ended_never_changes,
        order.a_case_has_one_machine_and_one_procedure,
        order.every_word_ends,
        provider.no_word_of_a_ticket_moves_a_machine,
        provider.a_swap_is_asked_for_with_leave,
        provider.a_yes_is_of_this_case_and_of_who_may_give_it,
        provider.what_is_told_stands_with_its_cause,
        provider.each_remark_is_one,
        every_decision_has_a_whole_record,
    ):
        invariant(cycle)


def every_decision_has_a_whole_record(cycle: Cycle) -> None:
    """Who, what, where, why, by which version and on what evidence (invariant 13)."""
    lacking = {decision.reason: missing(decision) for decision in cycle.made.decisions}
    assert not any(lacking.values()), {reason: what for reason, what in lacking.items() if what}


def nothing_waits_for_ever(world: World) -> None:
    """Two hours after all trouble is over, every effect that was asked for since long before has its outcome."""
    if "restored" in world.state.holds:
        return  # until a person says that the marks are to be taken over
    paused = [word for word in world.state.words.values() if word.kind is WordKind.PAUSE]
    for tried in world.book.load().pending:
        case = world.state.cases[tried.case]
        if tried.decided_at > world.now - timedelta(hours=1) or (paused and tried.effect not in SHOWS):
            continue
        raise AssertionError(f"{tried.effect} of {case.node} ({case.phase}) waits since {tried.decided_at}: {tried}")
