"""Budgets cannot be evaded, and strand nobody."""

from __future__ import annotations

from dataclasses import replace

from quarantine.core.budget import accounts, limit
from quarantine.core.decision import State
from quarantine.core.planner import plan
from tests.core.world import (
    FAILED,
    NOW,
    after,
    answers,
    fleet,
    hot,
    node,
    policy,
    quarantined,
    rules,
    snapshot,
    suspected,
    told,
)


def pools(**budget: object) -> list[dict[str, object]]:
    size = {"size": budget.pop("size")} if "size" in budget else {}
    return [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget, **size}]


def test_limits() -> None:
    assert [limit(0.05, n) for n in (1, 10, 100, 1000)] == [1, 1, 5, 50]
    assert limit(0.0, 100) == 0
    assert limit(7, 2) == 7


def test_zero_means_none() -> None:
    law = rules(pools=pools(quarantined="0%", unavailable=9, perHour=9))
    assert told(plan(snapshot(None, hot("node-3")), law)) == [("quarantine", "node-3", "budget")]


def test_a_machine_that_lost_its_pools_label_is_out_all_the_same() -> None:
    law = rules(pools=pools(quarantined=1, unavailable=9, perHour=9))
    state, nodes = quarantined()
    nodes["node-3"] = replace(nodes["node-3"], labels={})
    made = plan(snapshot(nodes, hot("node-5"), state=state), law)
    assert ("quarantine", "node-5", "budget") in told(made)


def test_what_was_declared_and_is_not_there_is_out() -> None:
    law = rules(pools=pools(size=30, quarantined=9, unavailable=10, perHour=9))
    assert told(plan(snapshot(fleet(20), hot("node-3")), law)) == [("quarantine", "node-3", "budget")]
    assert accounts(fleet(20), State(), law, NOW)["gpu"].budget.out == 10


def test_many_that_die_at_once_are_bounded_by_the_pace() -> None:
    nodes = {name: replace(n, ready=False) for name, n in fleet(10).items()}
    bad = [hot(name) for name in nodes]
    law = rules(policy(breaker={"maxShare": "100%"}), pools=pools(quarantined=5, unavailable=5, perHour=2))
    made = plan(snapshot(nodes, *bad), law)
    assert sum(1 for t in told(made) if t[0] == "quarantine" and t[2] is None) == 2


def test_dead_machines_do_not_eat_the_standing_budget_of_live_ones() -> None:
    law = rules(pools=pools(quarantined=1, unavailable=9, perHour=9))
    nodes = fleet()
    nodes["node-1"] = node("node-1", ready=False)
    state = after(State(), plan(snapshot(nodes, hot("node-1")), law))
    made = plan(snapshot(nodes, hot("node-1"), hot("node-3"), state=state), law)
    assert ("quarantine", "node-3", None) in told(made)


def test_strays_are_cut_alike_whatever_order_prometheus_answers_in() -> None:
    nodes = fleet()
    ghosts = [hot(f"ghost-{n:02}") for n in range(50)]
    state = after(State(), plan(snapshot(nodes, *ghosts), rules()))
    turned = snapshot(nodes, state=state, given={"gpu-hot": answers(nodes, *reversed(ghosts))})
    assert plan(turned, rules()).decisions == ()


def test_no_recovery_where_the_trigger_was_not_answered() -> None:
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, trigger=FAILED, good=[hot("node-3", value=60)])}
    made = plan(snapshot(nodes, state=suspected(), given=given), rules())
    assert [t[0] for t in told(made)] == ["judge"]


def spared(spares: int) -> list[dict[str, object]]:
    return [{**pools(quarantined=9, unavailable=9, perHour=9)[0], "spares": spares}]


def test_no_spare_left_degradations_wait_and_dead_hardware_does_not() -> None:
    nodes = fleet()
    nodes["node-9"] = node("node-9", unschedulable=True)
    look = snapshot(nodes, hot("node-3"))
    made = plan(look, rules(pools=spared(1)))
    assert told(made) == [("quarantine", "node-3", "budget")]
    assert made.decisions[0].reason.endswith(
        "held because pool gpu has 1 machines out of service and 1 in reserve, so none is left to take its place, and "
        "only a fatal finding takes out more"
    )
    assert made.decisions[0].budget is not None
    assert made.decisions[0].budget.spares == 1
    assert plan(replace(look, state=after(State(), made)), rules(pools=spared(1))).decisions == ()
    fatal = plan(look, rules(policy(severity="fatal"), pools=spared(1)))
    assert told(fatal)[0] == ("quarantine", "node-3", None)
    dead = {**nodes, "node-3": node("node-3", ready=False)}
    assert told(plan(snapshot(dead, hot("node-3")), rules(pools=spared(1))))[0] == ("quarantine", "node-3", None)
    cordoned = {**fleet(), "node-3": node("node-3", unschedulable=True)}
    made = plan(snapshot(cordoned, hot("node-3")), rules(pools=spared(1)))
    assert told(made)[0] == ("quarantine", "node-3", None), "it needs no spare that it has not got"


def test_the_last_spare_is_used_by_the_first() -> None:
    made = plan(snapshot(None, hot("node-3"), hot("node-5")), rules(pools=spared(1)))
    assert ("quarantine", "node-3", None) in told(made)
    assert ("quarantine", "node-5", "budget") in told(made)
    none = plan(snapshot(None, hot("node-3")), rules(pools=spared(0)))
    assert told(none) == [("quarantine", "node-3", "budget")]


def test_a_machine_held_for_another_reason_takes_no_place_before_one_that_may_go() -> None:
    """node-1 is worse, and waits for more findings: the one that the budget allows is node-5."""
    nodes = fleet()
    heat = policy("gpu-hot")
    worse = policy("gpu-hotter", severity="fatal", escalation={"findings": 2, "within": "1h"})
    given = {"gpu-hot": answers(nodes, hot("node-5")), "gpu-hotter": answers(nodes, hot("node-1"))}
    made = plan(snapshot(nodes, given=given), rules(heat, worse, pools=pools(quarantined=1, unavailable=9, perHour=9)))
    assert told(made)[:2] == [("quarantine", "node-5", None), ("quarantine", "node-1", "escalation")]
