"""The join gate: a machine that is new in its pool is marked until a burn-in has succeeded.

New is a Node object that nobody has looked at yet, of whatever machine: one that comes back from repair proves itself
as well as one that was never seen. Where most of a pool is new at once, it is the cluster that was made again, and its
machines work: then nothing is marked, and people are told.
"""

from __future__ import annotations

from datetime import timedelta

from quarantine.core.budget import pool_of
from quarantine.core.case import Case, HeldBy, Phase
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft
from quarantine.core.fleet import Pool
from quarantine.core.marks import case_on, same_hardware
from quarantine.core.model import Mode, Node
from quarantine.core.obstacles import barred
from quarantine.core.triage import MARKING
from quarantine.core.waivers import waiver_of

GATE = "gate/"  # of hold keys: a pool whose gate stands open
MANY = 3  # so many at once, if they are most of the pool


def newcomers(draft: Draft) -> None:
    """Open a case in probation for every node that is new in a pool with a gate."""
    _forget(draft)
    if draft.mode is Mode.OBSERVE or draft.disbelieved or not any(pool.gate for pool in draft.rules.fleet.pools):
        return
    known = {uid for case in draft.state.cases.values() for uid in _uids(case)}
    sizes: dict[str, int] = {}
    new: dict[str, tuple[Pool, list[Node]]] = {}
    for node in draft.nodes.values():
        pool = pool_of(node, draft.rules)
        if pool is None or pool.gate is None:
            continue
        sizes[pool.name] = sizes.get(pool.name, 0) + 1
        found = new.setdefault(pool.name, (pool, []))[1]
        if _is_new(draft, node, pool.gate.younger, known):
            found.append(node)
    for name, (pool, found) in new.items():
        if _let_in(draft, pool, len(found), sizes[name]):
            for node in found:
                _admit(draft, node, pool)


def _forget(draft: Draft) -> None:
    """What was told of a pool that has no gate any more, or is none, is over."""
    gated = {f"{GATE}{pool.name}" for pool in draft.rules.fleet.pools if pool.gate is not None}
    for key in [key for key in draft.state.holds if key.startswith(GATE) and key not in gated]:
        draft.lift(key, f"pool {key.removeprefix(GATE)} has no gate any more")


def _let_in(draft: Draft, pool: Pool, new: int, size: int) -> bool:
    """Whether so many may be marked: those that came to the gate a moment ago count with them.

    One that has failed there waits for days, and is no sign that the cluster was made again.
    """
    assert pool.gate is not None  # noqa: S101
    key, younger = f"{GATE}{pool.name}", pool.gate.younger
    gated = (case for case in draft.state.cases.values() if case.gate and case.pool == pool.name)
    waiting = (case for case in gated if case.open or case.phase_since >= draft.now)  # ended in this plan: was there
    many = new + sum(1 for case in waiting if draft.now < case.opened_at + younger)
    if new == 0 or many < MANY or 2 * many <= max(size, pool.size or 0):
        draft.lift(key, f"most of pool {pool.name} is not new any more")
        return True
    reason = (
        f"{many} of {size} machines of pool {pool.name} are new at once, so none of them is kept at the gate: was the "
        "cluster made again? have them proven by hand if they are new indeed"
    )
    draft.hold(draft.decision(Kind.HELD, Action.PROVE, reason, held_by=HeldBy.GATE, hold_key=key, pool=pool.name))
    return False


def _is_new(draft: Draft, node: Node, younger: timedelta, known: set[str]) -> bool:
    if node.created_at is None or node.machine.node_uid in known:
        return False
    if not timedelta(0) <= draft.now - node.created_at < younger:
        return False  # it was here before the gate, or is of a later time than the one that is judged: a backtest's
    if draft.open_case(node.name) is not None or case_on(node, draft.rules.prefix) is not None:
        return False
    if draft.pause(pool=draft.pool_name(node)) is not None or node.name in draft.maintained:
        return False
    return barred(draft, node) is None and waiver_of(draft, node) is None and not _proven(draft, node, younger)


def _proven(draft: Draft, node: Node, younger: timedelta) -> bool:
    """Whether this very machine was released just before its Node object was made again."""
    assert node.created_at is not None  # noqa: S101
    return any(
        case.phase is Phase.RELEASED
        and case.phase_since > node.created_at - younger
        and same_hardware(node, case.machine)
        for case in draft.state.cases.values()
    )


def _admit(draft: Draft, node: Node, pool: Pool) -> None:
    assert pool.gate is not None  # noqa: S101
    reason = f"{node.name} is new in pool {pool.name}, and proves itself by {pool.gate.burn_in} first"
    draft.emit(
        draft.decision(
            Kind.DECIDED,
            Action.PROVE,
            reason,
            node=node.name,
            machine=node.machine,
            case=draft.new_case_id(node),
            phase=Phase.PROBATION,
            gate=True,
            pool=pool.name,
            effects=MARKING,
        )
    )


def _uids(case: Case) -> tuple[str, ...]:
    return (case.machine.node_uid, *((case.sent_away.node_uid,) if case.sent_away is not None else ()))
