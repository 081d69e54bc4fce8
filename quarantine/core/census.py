"""How large the pools are, said in the trail when that changes: what rates of failure are measured by.

A node that comes and goes must not fill the trail. So a change is recorded when it has weight (1 % of the machines),
and then no sooner than ten minutes after the last count; a small one waits until the last count is an hour old. The
number of GPUs follows at the same pace and never makes haste: a device plugin that restarts takes them all away for
a moment.

What stays as it is, is said once a day all the same: a day without it is one in which nobody looked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from quarantine.core.budget import HOUR, members_of
from quarantine.core.decision import Action, Census, Decision, Kind, State
from quarantine.core.draft import QUIET, SIGHT, provided
from quarantine.core.model import Node
from quarantine.core.policy import Rules

MOST = 10**9  # whatever a Node object or a fleet file says: what no column holds would block every other decision
UNCHANGED = timedelta(days=1)  # how often a pool is counted that stays as it is
WEIGHT = 0.01  # the share of what was counted last that makes haste


def census_decisions(
    nodes: Mapping[str, Node], state: State, rules: Rules, now: datetime, actor: str
) -> Iterator[Decision]:
    """A decision for each pool that is of another size than `state`, which is that after the cycle's plan, has it.

    Nothing where no node is seen, or what is seen of the cluster is not believed: that is no knowledge of its size.
    """
    if not nodes or SIGHT in state.holds:
        return
    counted = count(nodes, state, rules, now)
    for name, census in counted.items():
        known = state.pools.get(name)
        if _is_news(known, census):
            yield provided(_decision(name, census, known, actor), rules)
    for name, known in state.pools.items():
        if name not in counted and (known.nodes or known.gpus):
            yield _decision(name, Census(0, 0, now), known, actor)  # the fleet file has no such pool any more


def count(nodes: Mapping[str, Node], state: State, rules: Rules, now: datetime) -> dict[str, Census]:
    """Each pool as its budget counts it: the declared size, else the nodes that have been let in. `gpus`: of those
    that are there.
    """
    at_the_gate = {case.node for case in state.cases.values() if case.gate and case.marked}
    found = {}
    members = members_of(nodes, rules)
    for pool in rules.fleet.pools:
        let_in = [node for node in members[pool.name] if node.name not in at_the_gate]
        size, gpus = pool.size or len(let_in), sum(node.gpus or 0 for node in let_in)
        found[pool.name] = Census(min(size, MOST), min(gpus, MOST), now)
    return found


def _is_news(known: Census | None, now: Census) -> bool:
    """Whether a count is to be recorded. An empty pool that was never counted has nothing to be measured by."""
    if known is None:
        return now.nodes > 0
    age, differs = now.at - known.at, now.nodes != known.nodes
    if age < timedelta(0):  # by a clock that was ahead: it would not be counted again until that time has come
        age = HOUR
    if _has_weight(known.nodes, now.nodes):
        return age >= QUIET
    if known.nodes and age >= UNCHANGED:
        return True
    return age >= HOUR and (differs or _has_weight(known.gpus, now.gpus))


def _has_weight(before: int, now: int) -> bool:
    return before != now and abs(now - before) >= WEIGHT * before


def _decision(pool: str, census: Census, known: Census | None, actor: str) -> Decision:
    same = known is not None and _told(known) == _told(census)
    had = "" if known is None or same else f"; it had {_told(known)}"
    has = "still has" if same else "has"
    return Decision(
        at=census.at,
        kind=Kind.DECIDED,
        action=Action.COUNT,
        reason=f"pool {pool} {f'{has} {_told(census)}' if census.nodes else 'has no machine any more'}{had}",
        actor=actor,
        pool=pool,
        census=census,
    )


def _told(census: Census) -> str:
    machines = f"{census.nodes} machine{'' if census.nodes == 1 else 's'}"
    return f"{machines} with {census.gpus} GPUs" if census.gpus else machines
