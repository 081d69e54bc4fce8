"""An NVLink domain with too few trays is out of use as a whole, and the budget knows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.budget import accounts
from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.domains import Domains
from quarantine.core.fleet import FleetSpec, Pool
from quarantine.core.model import Node
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.state import fold
from tests.core.world import NOW, hot, node, policy, quarantined, rules, snapshot, told

LABEL = "nvidia.com/gpu.clique"


def racks(count: int, trays: int) -> dict[str, Node]:
    names = {f"node-{rack * trays + tray}": str(rack) for rack in range(count) for tray in range(trays)}
    return {name: replace(node(name), labels={"gpu": "yes", LABEL: rack}) for name, rack in names.items()}


def law(machines: int, *, size: int | None = None, **budget: object) -> Rules:
    limits = {"quarantined": 9, "unavailable": 9, "perHour": 9, **budget}
    domain = {"by": "nvlink-domain", "machines": machines}
    pool = {"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": limits, "domain": domain, "size": size}
    return rules(policy(breaker={"maxShare": "100%"}), pools=[pool], topology={"nvlink-domain": LABEL})


def test_a_tray_that_a_domain_can_do_without_costs_one() -> None:
    made = plan(snapshot(racks(4, 4), hot("node-1")), law(3, unavailable=1))
    assert ("quarantine", "node-1", None) in told(made)


def test_a_tray_that_breaks_its_domain_costs_all_of_it() -> None:
    nodes = racks(4, 4)
    nodes["node-0"] = replace(nodes["node-0"], unschedulable=True)
    tight, enough = law(3, unavailable=3), law(3, unavailable=4)
    held = plan(snapshot(nodes, hot("node-1")), tight)
    assert ("quarantine", "node-1", "budget") in told(held)
    assert "3 with the rest of its domain" in held.decisions[0].reason
    assert ("quarantine", "node-1", None) in told(plan(snapshot(nodes, hot("node-1")), enough))


def test_once_it_is_broken_its_other_trays_cost_nothing_more() -> None:
    nodes = racks(4, 4)
    for name in ("node-0", "node-1"):
        nodes[name] = replace(nodes[name], unschedulable=True)
    account = accounts(nodes, State(), law(3, unavailable=4), NOW)["gpu"]
    assert account.budget.out == 4
    assert account.cost(nodes["node-2"]) == 0
    assert ("quarantine", "node-2", None) in told(plan(snapshot(nodes, hot("node-2")), law(3, unavailable=4)))


def test_two_trays_of_one_domain_in_one_plan_are_counted_together() -> None:
    made = plan(snapshot(racks(4, 4), hot("node-1"), hot("node-2")), law(3, unavailable=3))
    quarantines = sorted(what for what in told(made) if what[0] == "quarantine")
    assert quarantines == [("quarantine", "node-1", None), ("quarantine", "node-2", "budget")]


@pytest.mark.parametrize(("declared", "out", "size"), [(None, 0, 2), (3, 1, 3)])
def test_a_machine_at_the_gate_was_never_taken_out(declared: int | None, out: int, size: int) -> None:
    """It is none of the pool's yet, or one of those that are declared and lacking."""
    nodes = {name: node(name) for name in ("node-0", "node-1", "node-2")}
    opened = Decision(
        NOW,
        Kind.DECIDED,
        Action.PROVE,
        "is new here",
        "controller",
        node="node-0",
        machine=nodes["node-0"].machine,
        case="q-new",
        phase=Phase.PROBATION,
        effects=(Effect.MARK,),
        pool="gpu",
        gate=True,
    )
    state = fold(State(), [opened])
    budget = accounts(nodes, state, law(1, quarantined=1, size=declared), NOW)["gpu"].budget
    assert (budget.ours, budget.out, budget.recent, budget.size) == (0, out, 0, size)
    taken, cluster = quarantined()
    assert accounts(cluster, taken, law(1), NOW)["gpu"].budget.ours == 1


def test_a_domain_that_is_being_built_keeps_nothing_faulty_in_service() -> None:
    """Its trays come one by one: those that are proven wait for those at the gate, and were never in service."""
    nodes = racks(2, 4)
    state = State()
    for name in ("node-4", "node-5"):
        machine, case = nodes[name].machine, f"q-{name}"
        come = Decision(NOW, Kind.DECIDED, Action.PROVE, "is new", "controller", node=name, machine=machine, case=case)
        state = fold(state, [replace(come, phase=Phase.PROBATION, pool="gpu", gate=True)])
    account = accounts(nodes, state, law(4), NOW)["gpu"]
    assert (account.budget.out, account.budget.size) == (0, 6)
    assert account.cost(nodes["node-6"]) == 0, "it is of no use yet"
    assert account.cost(nodes["node-1"]) == 4


@given(
    labels=st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=12),
    out=st.sets(st.integers(0, 11)),
    machines=st.integers(1, 5),
)
def test_what_a_machine_costs_is_what_is_out_of_use_more_afterwards(
    labels: list[str], out: set[int], machines: int
) -> None:
    nodes = [replace(node(f"node-{n}"), labels={LABEL: label} if label else {}) for n, label in enumerate(labels)]
    pool = Pool.model_validate(
        {"name": "gpu", "nodeSelector": {"a": "b"}, "domain": {"by": "clique", "machines": machines}}
    )
    fleet = FleetSpec.model_validate({"pools": [pool], "topology": {"clique": LABEL}})
    domains = Domains.among(pool, nodes, fleet)
    assert domains is not None
    gone = {f"node-{n}" for n in out if n < len(labels)}

    def unusable(names: set[str]) -> int:
        return len(names | domains.stranded(names))

    for one in nodes:
        assert domains.cost(one.name, gone) == unusable(gone | {one.name}) - unusable(gone)
