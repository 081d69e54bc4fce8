"""How much may be taken out: pools' budgets and policies' breakers, computed from cluster and ledger at each cycle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quarantine.core.case import Case
from quarantine.core.decision import BudgetState, State
from quarantine.core.domains import Domains
from quarantine.core.fleet import Pool
from quarantine.core.judge import Judgement, selects
from quarantine.core.marks import case_on
from quarantine.core.model import Node, Severity
from quarantine.core.policy import Rules

HOUR = timedelta(hours=1)


def pool_of(node: Node, rules: Rules) -> Pool | None:
    """The first pool whose selector a node matches."""
    return next((pool for pool in rules.fleet.pools if selects(pool.node_selector, node)), None)


def members_of(nodes: Mapping[str, Node], rules: Rules) -> dict[str, list[Node]]:
    """The nodes of each pool, by its name; of a pool without any, an empty list."""
    members: dict[str, list[Node]] = {pool.name: [] for pool in rules.fleet.pools}
    for node in nodes.values():
        pool = pool_of(node, rules)
        if pool is not None:
            members[pool.name].append(node)
    return members


def limit(wanted: float | int, size: int) -> int:
    """Machines that a budget allows. A share is rounded down, but strands no small pool: at least one; 0% is none."""
    if isinstance(wanted, int) or wanted == 0:
        return int(wanted)
    return max(1, math.floor(wanted * size + 1e-9))


@dataclass(slots=True)
class Account:
    """What a pool has spent of its budget, and what one machine more would cost it."""

    budget: BudgetState
    ours: set[str]  # machines that are marked, or will be
    out: set[str]  # machines out of service for any reason
    domains: Domains | None

    def cost(self, node: Node) -> int:
        """How many machines more are out of use once this one is out: with its domain, perhaps many."""
        if self.domains is not None:
            return self.domains.cost(node.name, self.out)
        return 0 if node.name in self.out else 1

    def spend(self, node: Node) -> None:
        """This node is taken out as well."""
        # One whose mark of an earlier case is still to be taken away is counted.
        alive = 0 if node.ready is False or node.name in self.ours else 1
        cost, known = self.cost(node), self.budget
        self.budget = replace(known, ours=known.ours + alive, out=known.out + cost, recent=known.recent + 1)
        self.out.add(node.name)
        self.ours.add(node.name)

    def exceeded(self, node: Node, severity: Severity) -> str | None:
        """Why this node may not be taken out now, or None."""
        return exceeded(self.budget, node, severity, self.cost(node))


def accounts(nodes: Mapping[str, Node], state: State, rules: Rules, now: datetime) -> dict[str, Account]:
    """Every pool's budget as it stands. Marks on the cluster count as ours even where the ledger does not know them."""
    members = members_of(nodes, rules)
    # By the pool that the case was opened in: a machine that lost its pool's label is out of service all the same.
    marked = {case.node: case for case in state.cases.values() if case.marked}
    return {pool.name: _account(pool, members[pool.name], marked, state, rules, now) for pool in rules.fleet.pools}


def _account(
    pool: Pool, members: list[Node], marked: Mapping[str, Case], state: State, rules: Rules, now: datetime
) -> Account:
    ours = {node.name for node in members if node.name in marked or case_on(node, rules.prefix) is not None}
    ours |= {name for name, case in marked.items() if case.pool == pool.name}
    out = ours | {node.name for node in members if node.unschedulable or not node.ready}
    here = {node.name for node in members} | ours
    # A machine that has not been let in yet was never taken out. Of a pool whose size is declared, it is one of those
    # that it lacks; of another, it is none yet: that a pool grows keeps nothing faulty in service.
    at_the_gate = {name for name in ours if (case := marked.get(name)) is not None and case.gate}
    coming = frozenset() if pool.size else frozenset(at_the_gate)
    size = pool.size or len({node.name for node in members} - coming)
    missing = max(0, size - len(here - coming))  # declared, and not there
    dead = {node.name for node in members if node.ready is False}  # it cost nothing to mark them
    domains = Domains.among(pool, members, rules.fleet)
    stranded = domains.stranded(out - coming) - coming if domains is not None else frozenset()
    budget = BudgetState(
        pool=pool.name,
        size=size,
        ours=len(ours - dead - at_the_gate),
        out=len(out - coming) + len(stranded) + missing,
        recent=sum(1 for at, name in state.quarantined_at if name == pool.name and at > now - HOUR),
        limit_ours=limit(pool.budget.quarantined, size),
        limit_out=limit(pool.budget.unavailable, size),
        limit_recent=limit(pool.budget.per_hour, size),
        spares=pool.spares,
    )
    return Account(budget, ours, out, domains)


def exceeded(budget: BudgetState, node: Node, severity: Severity, cost: int) -> str | None:
    """Why this node may not be taken out now, or None. `severity`: of the finding that would take it out; `cost`: how
    many machines more are out of use then.

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
    if cost and budget.out + cost > budget.limit_out:
        with_it = f", {cost} with the rest of its domain" if cost > 1 else ""
        return (
            f"pool {budget.pool} has {budget.out} machines out of service{with_it}, and {budget.limit_out} is the most"
        )
    if budget.spares is None or not cost or severity is Severity.FATAL or budget.out + cost <= budget.spares:
        return None
    return (
        f"pool {budget.pool} has {budget.out} machines out of service and {budget.spares} in reserve, so none is left "
        "to take its place, and only a fatal finding takes out more"
    )


def tripped_pools(judgement: Judgement, nodes: Mapping[str, Node], rules: Rules) -> dict[str, str]:
    """The pools in which this policy finds too much, each with why: what holds in the fleet may not hold there.

    Where a policy looks after one pool alone, `tripped` says all that there is to say.
    """
    bad: dict[str, list[str]] = {}
    for offence in judgement.bad:
        pool = pool_of(offence.node, rules)
        if pool is not None:
            bad.setdefault(pool.name, []).append(offence.node.name)
    suspect = {pool: names for pool, names in bad.items() if len(set(names)) > 1}
    if not suspect:
        return {}
    covered: dict[str, int] = {}
    for name, count in judgement.covered_by.items():
        if (pool := pool_of(nodes[name], rules)) is not None:
            covered[pool.name] = covered.get(pool.name, 0) + count
    allowed, found = judgement.policy.spec.breaker.max_share, {}
    for name, names in suspect.items():
        share = len(names) / max(covered.get(name, 0), 1)
        if share > allowed and covered.get(name):
            found[name] = (
                f"policy {judgement.policy.name} finds {len(names)} of {covered[name]} devices of pool {name} bad "
                f"({share:.0%}, and {allowed:.0%} is the most), so the policy or what the pool shares is the suspect"
            )
    return found


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
