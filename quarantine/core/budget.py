"""How much may be taken out: pools' budgets and policies' breakers, computed from cluster and ledger at each cycle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from quarantine.core.decision import BudgetState, State
from quarantine.core.fleet import Pool
from quarantine.core.judge import Judgement, selects
from quarantine.core.marks import case_on
from quarantine.core.model import Node, Severity
from quarantine.core.policy import Rules

HOUR = timedelta(hours=1)


def pool_of(node: Node, rules: Rules) -> Pool | None:
    """The first pool whose selector a node matches."""
    return next((pool for pool in rules.fleet.pools if selects(pool.node_selector, node)), None)


def limit(wanted: float | int, size: int) -> int:
    """Machines that a budget allows. A share is rounded down, but strands no small pool: at least one; 0% is none."""
    if isinstance(wanted, int) or wanted == 0:
        return int(wanted)
    return max(1, math.floor(wanted * size + 1e-9))


def states(nodes: Mapping[str, Node], state: State, rules: Rules, now: datetime) -> dict[str, BudgetState]:
    """Every pool's budget as it stands. Marks on the cluster count as ours even where the ledger does not know them."""
    members: dict[str, list[Node]] = {pool.name: [] for pool in rules.fleet.pools}
    for node in nodes.values():
        pool = pool_of(node, rules)
        if pool is not None:
            members[pool.name].append(node)
    # By the pool that the case was opened in: a machine that lost its pool's label is out of service all the same.
    marked = {case.node: case.pool for case in state.cases.values() if case.marked}
    return {pool.name: _state(pool, members[pool.name], marked, state, rules, now) for pool in rules.fleet.pools}


def _state(
    pool: Pool, members: list[Node], marked: Mapping[str, str], state: State, rules: Rules, now: datetime
) -> BudgetState:
    ours = {node.name for node in members if node.name in marked or case_on(node, rules.prefix) is not None}
    ours |= {name for name, of in marked.items() if of == pool.name}
    out = ours | {node.name for node in members if node.unschedulable or not node.ready}
    size = pool.size or len(members)
    missing = max(0, size - len({node.name for node in members} | ours))  # declared, and not there
    dead = {node.name for node in members if node.ready is False}  # it cost nothing to mark them
    return BudgetState(
        pool=pool.name,
        size=size,
        ours=len(ours - dead),
        out=len(out) + missing,
        recent=sum(1 for at, name in state.quarantined_at if name == pool.name and at > now - HOUR),
        limit_ours=limit(pool.budget.quarantined, size),
        limit_out=limit(pool.budget.unavailable, size),
        limit_recent=limit(pool.budget.per_hour, size),
        spares=pool.spares,
    )


def spent(budget: BudgetState, node: Node) -> BudgetState:
    """The budget once this node is taken out as well."""
    already_out = node.unschedulable or not node.ready
    alive = 0 if node.ready is False else 1
    return replace(
        budget, ours=budget.ours + alive, out=budget.out + (0 if already_out else 1), recent=budget.recent + 1
    )


def exceeded(budget: BudgetState, node: Node, severity: Severity) -> str | None:
    """Why this node may not be taken out now, or None. `severity`: of the finding that would take it out.

    A node that is dead already costs nothing that stands; the pace holds for it too, since many that die at once (a
    broken network plugin) are no machines' faults.
    """
    if budget.recent >= budget.limit_recent:
        return (
            f"pool {budget.pool} had {budget.recent} taken out within the hour, and {budget.limit_recent} is the most"
        )
    if node.ready is False:
        return None
    if budget.ours >= budget.limit_ours:
        return f"pool {budget.pool} has {budget.ours} of {budget.limit_ours} machines in quarantine already"
    if not node.unschedulable and budget.out >= budget.limit_out:
        return f"pool {budget.pool} has {budget.out} machines out of service, and {budget.limit_out} is the most"
    already_out = node.unschedulable or not node.ready
    if budget.spares is None or already_out or severity is Severity.FATAL or budget.out < budget.spares:
        return None
    return (
        f"pool {budget.pool} has {budget.out} machines out of service and {budget.spares} in reserve, so none is left "
        "to take its place, and only a fatal finding takes out more"
    )


def tripped(judgement: Judgement) -> str | None:
    """Why the policy is to be held, or None. One bad machine never trips it, however small the fleet."""
    nodes = {offence.node.name for offence in judgement.bad}
    if len(nodes) <= 1:
        return None
    covered = max(judgement.covered or 0, 1)
    share, allowed = len(judgement.bad) / covered, judgement.policy.spec.breaker.max_share
    if share <= allowed:
        return None
    return (
        f"it finds {len(judgement.bad)} of {covered} devices bad, on {len(nodes)} nodes ({share:.0%}, and "
        f"{allowed:.0%} is the most), so the policy or its metric is the suspect"
    )
