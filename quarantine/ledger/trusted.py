"""What the path of trust is read from, out of the ledger: no body but those of what concerns no machine is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Integer, and_, cast, func, or_, select, union

from quarantine.core.case import HeldBy, Phase
from quarantine.core.census import UNCHANGED
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import JUDGE
from quarantine.core.record.milestones import Fate
from quarantine.core.record.trust import Found, Told
from quarantine.core.record.trust.material import Stretch, Sweep
from quarantine.ledger.schema import decisions, finds, hold_spans, milestones, policy_versions
from quarantine.ledger.text import fit, unescape
from quarantine.ledger.trail import decoded

MOST_TOLD = 20  # cases of a policy that are named
SIGN_WITHIN = UNCHANGED + timedelta(hours=1)  # a pool that stays as it is, is counted as often, and cycles take time
_BLIND = (HeldBy.NO_ANSWER, HeldBy.NO_COVERAGE, HeldBy.CROWDED)
_DAY_S = timedelta(days=1) // timedelta(seconds=1)
_JULIAN_EPOCH = 2440587.5  # 1970-01-01, in the days that SQLite counts
_M = milestones.c
Value = ColumnElement[Any]


@dataclass(frozen=True, slots=True)
class Came:
    """A text came into force under a policy's name; `hash` None: the policy was no more."""

    at: datetime
    hash: str | None


def versions(connection: Connection, cluster: str) -> dict[str, list[Came]]:
    """By policy, oldest first: what the trail says of its versions. Raises SchemaMismatch for a row of another program.

    Decisions that name no node are few, and an index leads to them.
    """
    d = decisions.c
    chosen = (
        select(d.seq, d.body)
        .where(d.cluster == cluster, d.node.is_(None), d.action == Action.POLICY.value, d.kind == Kind.DECIDED.value)
        .order_by(d.seq)
    )
    found: dict[str, list[Came]] = {}
    for row in connection.execute(chosen):
        decision = decoded(cluster, row.seq, row.body)
        if decision.policy is not None and "/" not in decision.policy:  # the fleet and the defaults are no policies
            found.setdefault(decision.policy, []).append(Came(decision.at, decision.policy_hash))
    return found


def texts(connection: Connection, cluster: str, names: Sequence[str]) -> dict[str, str]:
    """By hash: every text that these policies ever had, letter for letter."""
    v = policy_versions.c
    chosen = select(v.hash, v.text).where(v.cluster == cluster, v.name.in_([fit(name) for name in names]))
    return {row.hash: row.text for row in connection.execute(chosen)}


@dataclass(slots=True)
class Held:
    """When a policy could not be judged, and when it found so much that it was the suspect itself."""

    blind: list[Stretch] = field(default_factory=list)
    tripped: list[Stretch] = field(default_factory=list)


def held(connection: Connection, cluster: str) -> dict[str, Held]:
    """By policy."""
    h = hold_spans.c
    kinds = [kind.value for kind in (*_BLIND, HeldBy.BREAKER)]
    chosen = select(h.policy, h.held_by, h.since, h.until).where(
        h.cluster == cluster, h.key.startswith(JUDGE, autoescape=True), h.held_by.in_(kinds)
    )
    found: dict[str, Held] = {}
    for row in connection.execute(chosen.order_by(h.seq)):
        of = found.setdefault(unescape(row.policy), Held())
        (of.tripped if row.held_by == HeldBy.BREAKER.value else of.blind).append(Stretch(row.since, row.until))
    return found


def unproven(connection: Connection, cluster: str, since: datetime, until: datetime) -> tuple[Stretch, ...]:
    """When nothing shows that a controller was at work: from one sign of life to the next, where that is long.

    A sign is a decision, of which a pool's count is one each day; and `until`, the pulse. Each step is a look into the
    index, so a year is as quick with many decisions as with few.
    """
    d = decisions.c
    found: list[Stretch] = []
    at = since
    while until - at > SIGN_WITHIN:
        near = select(func.max(d.at)).where(d.cluster == cluster, d.at > at, d.at <= at + SIGN_WITHIN)
        reached: datetime | None = connection.execute(near).scalar_one()
        if reached is None:
            later = select(func.min(d.at)).where(d.cluster == cluster, d.at > at, d.at <= until)
            reached = connection.execute(later).scalar_one() or until
            found.append(Stretch(at, reached))
        at = reached
    return tuple(found)


# --- What was found ---------------------------------------------------------------------------------------------------


def found(connection: Connection, cluster: str, begun: Mapping[str, datetime], since: datetime) -> dict[str, Found]:
    """Of each policy in `begun`, what it found from then on. Days are counted from `since`, which is no later.

    What waits is not read from here: the state has it.
    """
    if not begun:
        return {}
    of = _of(cluster, begun, since)
    by_day = _by_day(connection, of, since)
    machines = _machines(connection, of)
    refuted = _refuted(connection, cluster, begun, since)
    sweeps = _sweeps(connection, of)
    made = {}
    for name in begun:
        key = fit(name)
        days, false = by_day.get(key, {}), refuted.get(key, [])
        if not days and not false:
            continue
        sums = sum(days.values(), Counter())
        fates = {fate: sums[fate.value] for fate in Fate} | {Fate.REFUTED: len(false)}
        made[name] = Found(
            cases=sums["cases"],
            machines=machines.get(key, 0),
            out=sums["out"],
            fates={fate: count for fate, count in fates.items() if count},
            passed=sums["passed"],
            days={number: day["cases"] for number, day in days.items()},
            refuted_days=frozenset(_day(one, since) for one in false),
            refuted=tuple(false[:MOST_TOLD]),
            sweeps=tuple(sweeps.get(key, ())),
        )
    return made


def _day(false: Told, since: datetime) -> int:
    """On which day of the window it is shown."""
    shown = false.at if false.at >= since or false.judged is None else false.judged
    return max(0, (shown - since) // timedelta(days=1))


def _of(cluster: str, begun: Mapping[str, datetime], since: datetime) -> Value:
    each = (and_(_M.policy == fit(name), _M.opened_at >= moment) for name, moment in begun.items())
    return and_(_M.cluster == cluster, _M.opened_at >= since, or_(*each))


def _is(fate: Fate) -> Value:
    return _M.fate == fate.value


def _by_day(connection: Connection, of: Value, since: datetime) -> dict[str, dict[int, Counter[str]]]:
    """By policy and day: its cases, how many of them were taken out or have passed, and each fate's."""
    day = ((_seconds(connection, _M.opened_at) - cast(since.timestamp(), BigInteger)) // _DAY_S).label("day")
    passed = and_(_is(Fate.OPEN), _M.phase == Phase.DISMISSED.value)
    counted = {
        "cases": func.count(),
        "out": func.count(_M.out_at),
        "passed": func.count().filter(passed),
        **{fate.value: func.count().filter(_is(fate)) for fate in Fate},
    }
    made: dict[str, dict[int, Counter[str]]] = {}
    chosen = select(_M.policy, day, *counted.values()).where(of).group_by(_M.policy, "day")
    for policy, number, *counts in connection.execute(chosen):
        made.setdefault(policy, {})[int(number)] = Counter(dict(zip(counted, counts, strict=True)))
    return made


def _machines(connection: Connection, of: Value) -> dict[str, int]:
    """How many they were about. Not by a count of what is distinct, for which Postgres would sort all rows."""
    each = select(_M.policy, _M.machine).where(of).distinct().subquery()
    rows = connection.execute(select(each.c.policy, func.count().label("machines")).group_by(each.c.policy))
    return {row.policy: row.machines for row in rows}


def _refuted(
    connection: Connection, cluster: str, begun: Mapping[str, datetime], since: datetime
) -> dict[str, list[Told]]:
    """By policy, the last ones first: the cases that were judged false since then, of each in which it has a finding.

    A case ends when people say that it is false; that of which the provider said so may still be open.
    """
    d = decisions.c
    late = or_(_M.ended_at >= since, _M.ended_at.is_(None))
    false = select(_M.case_id, _M.node, _M.opened_at, _M.ended_at).where(_M.cluster == cluster, _is(Fate.REFUTED), late)
    one = false.cte("one").c
    # A case is in `milestones` with one policy alone; who else found something, the trail tells, and an index of it.
    shared = (
        select(d.policy, one.case_id, one.node, one.opened_at, one.ended_at)
        .where(d.cluster == cluster, d.case_id == one.case_id, finds, d.policy.in_([fit(name) for name in begun]))
        .distinct()
    )
    opened = select(_M.policy, _M.case_id, _M.node, _M.opened_at, _M.ended_at).where(
        _M.cluster == cluster, _is(Fate.REFUTED), late
    )
    moments = {fit(name): moment for name, moment in begun.items()}
    made: dict[str, list[Told]] = {}
    for policy, case, node, opened_at, ended_at in connection.execute(union(opened, shared)):
        if policy in moments and (ended_at is None or ended_at >= moments[policy]):
            made.setdefault(policy, []).append(Told(unescape(case), unescape(node), opened_at, ended_at))
    return {policy: sorted(told, key=_last) for policy, told in made.items()}


def _last(false: Told) -> tuple[bool, float, str]:
    judged = false.judged
    return judged is not None, -(judged or false.at).timestamp(), false.case


def _seconds(connection: Connection, column: Value) -> Value:
    """A time as whole seconds since the epoch."""
    if connection.dialect.name == "sqlite":
        return cast(func.round((func.julianday(column) - _JULIAN_EPOCH) * _DAY_S), Integer)
    return cast(func.floor(func.date_part("epoch", column)), BigInteger)


def _sweeps(connection: Connection, of: Value) -> dict[str, list[Sweep]]:
    """By policy: of each pool the most machines whose cases were opened in one cycle, all at its one moment.

    A machine has no two cases at once.
    """
    machines = func.count().label("machines")
    together = select(_M.policy, _M.pool, _M.opened_at, machines).where(of).group_by(_M.policy, _M.pool, _M.opened_at)
    one = together.cte("one").c
    # Not by a window's row_number, for which Postgres would sort all of them.
    most = (
        select(one.policy, one.pool, func.max(one.machines).label("most")).group_by(one.policy, one.pool).cte("most").c
    )
    largest = (
        select(one.policy, one.pool, one.machines, func.max(one.opened_at).label("opened_at"))
        .where(one.policy == most.policy, one.pool == most.pool, one.machines == most.most)
        .group_by(one.policy, one.pool, one.machines)
        .order_by(one.policy, one.pool)
    )
    made: dict[str, list[Sweep]] = {}
    for row in connection.execute(largest):
        made.setdefault(row.policy, []).append(Sweep(unescape(row.pool), row.machines, row.opened_at))
    return made
