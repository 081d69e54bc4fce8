"""What the path of trust is read from is what the ledger has of it, on both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from sqlalchemy import Connection, Engine, event, insert

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.document import Written
from quarantine.core.draft import JUDGE, NODE
from quarantine.core.policy import LoadedPolicy
from quarantine.core.record.milestones import Fate, Milestones
from quarantine.core.record.trust import Found, Told
from quarantine.core.record.trust.material import Stretch
from quarantine.ledger import trusted
from quarantine.ledger.engine import reading, writing
from quarantine.ledger.schema import decisions, policy_versions
from quarantine.ledger.store import SqlLedger
from quarantine.ledger.text import fit
from quarantine.ledger.trusted import MOST_TOLD, SIGN_WITHIN, Came, found, held, texts, unproven, versions
from tests.core.record.reports import DAY, HOUR, SINCE, case, hold, out
from tests.core.world import policy
from tests.ledger.reported import write
from tests.ledger.samples import CLUSTER, NOW, quarantined

WEIRD = "hot\\\x00%_'"  # a policy of an earlier version of the program may have been called anything


def asked(engine: Engine, ask: Callable[[Connection], object]) -> object:
    with reading(engine) as connection:
        return ask(connection)


def some_cases(random: Random, number: int = 150) -> list[Milestones]:
    """Any cases, whether they could happen or not; several in one moment."""
    return [
        case(
            n,
            SINCE + random.randrange(-5, 20) * DAY + random.randrange(3) * HOUR,
            node=f"node-{n % 17}",
            machine=f"system-uuid:{n % 11}",
            pool=random.choice(["h100", "a100"]),
            policy=random.choice(["gpu-hot", "nvlink", "other", ""]),
            phase=random.choice(list(Phase)),
            fate=random.choice(list(Fate)),
            out_at=SINCE if random.random() < 0.5 else None,
            ended_at=SINCE + random.randrange(-3, 25) * DAY if random.random() < 0.8 else None,
        )
        for n in range(number)
    ]


def counted(cases: Sequence[Milestones], name: str, begun: datetime, since: datetime) -> Found | None:
    """The same, in words of the core."""
    mine = [one for one in cases if one.policy == name and one.opened_at >= begun]
    if not mine:
        return None
    false = [o for o in cases if (o.policy, o.fate) == (name, Fate.REFUTED)]
    refuted = [o for o in false if o.ended_at is None or o.ended_at >= begun]
    fates = Counter(o.fate for o in mine)
    fates[Fate.REFUTED] = len(refuted)
    return Found(
        cases=len(mine),
        machines=len({o.machine for o in mine}),
        out=sum(o.out_at is not None for o in mine),
        fates=fates,
        passed=sum((o.fate, o.phase) == (Fate.OPEN, Phase.DISMISSED) for o in mine),
        days=Counter((o.opened_at - since) // DAY for o in mine),
        refuted_days=frozenset(shown(o, since) for o in refuted),
        refuted=tuple(Told(o.case, o.node, o.opened_at, o.ended_at) for o in sorted(refuted, key=last)[:MOST_TOLD]),
    )


def shown(false: Milestones, since: datetime) -> int:
    """On which day: when it was opened, or when it was judged if that was before the window."""
    at = false.opened_at if false.opened_at >= since else false.ended_at or since
    return (at - since) // DAY


def last(false: Milestones) -> tuple[bool, float, str]:
    """Those first of which only the provider has said it, then those that were judged last."""
    return false.ended_at is not None, -(false.ended_at or false.opened_at).timestamp(), false.case


def largest(cases: Sequence[Milestones], name: str, begun: datetime, pool: str) -> tuple[int, datetime]:
    mine = [o for o in cases if (o.policy, o.pool) == (name, pool) and o.opened_at >= begun]
    at_once = {at: sum(o.opened_at == at for o in mine) for at in {o.opened_at for o in mine}}
    return max((machines, at) for at, machines in at_once.items())


@pytest.mark.parametrize("seed", range(3))
def test_what_was_found_is_what_the_rows_add_up_to(engine: Engine, seed: int) -> None:
    cases = some_cases(Random(seed))  # noqa: S311  (no secret)
    write(engine, cases)
    write(engine, [replace(one, policy="gpu-hot") for one in cases[:30]], cluster="another")
    begun = {"gpu-hot": SINCE, "nvlink": SINCE + 3 * DAY, "never": SINCE}
    with reading(engine) as connection:
        told = found(connection, CLUSTER, begun, SINCE)
    assert told.keys() == {"gpu-hot", "nvlink"}
    for name, of in told.items():
        assert replace(of, sweeps=()) == counted(cases, name, begun[name], SINCE)
        assert {sweep.pool: (sweep.machines, sweep.at) for sweep in of.sweeps} == {
            pool: largest(cases, name, begun[name], pool) for pool in ("h100", "a100")
        }


def test_nothing_is_asked_where_no_policy_has_begun(engine: Engine) -> None:
    assert asked(engine, lambda connection: found(connection, CLUSTER, {}, SINCE)) == {}


def decided(engine: Engine, *made: tuple[datetime, str, str], action: Action = Action.JOIN) -> None:
    """Rows of the trail: when, of which case, and for which policy."""
    same = {"cluster": CLUSTER, "hash": "0" * 64, "prev_hash": "0" * 64, "body": "{}", "kind": Kind.DECIDED.value}
    same |= {"action": action.value, "actor": "c", "reason": "it is so"}
    rows = [
        {**same, "seq": n, "at": at, "case_id": case, "policy": fit(name)} for n, (at, case, name) in enumerate(made, 1)
    ]
    with writing(engine) as connection:
        connection.execute(insert(decisions), rows)


def test_what_was_judged_false_is_held_against_all_who_found_it(engine: Engine) -> None:
    write(engine, [out(1, fate=Fate.REFUTED, ended_at=SINCE + 2 * DAY), out(2, policy="nvlink", ended_at=SINCE)])
    decided(engine, (SINCE, "q-1", "gpu-hot"), (SINCE, "q-1", WEIRD), (SINCE, "q-1", WEIRD), (SINCE, "q-2", "idle"))
    begun = dict.fromkeys(["gpu-hot", WEIRD, "idle"], SINCE)
    later = dict.fromkeys(begun, SINCE + 3 * DAY)
    with reading(engine) as connection:
        told = found(connection, CLUSTER, begun, SINCE)
        assert found(connection, CLUSTER, later, SINCE) == {}, "what they find has been another since"
    assert {name: (one.cases, one.of(Fate.REFUTED)) for name, one in told.items()} == {"gpu-hot": (1, 1), WEIRD: (0, 1)}
    assert told[WEIRD].refuted == (Told("q-1", "node-1", SINCE + DAY, SINCE + 2 * DAY),)
    assert told[WEIRD].refuted_days == {1}


def test_what_others_than_findings_name_a_policy_for_is_not_held_against_it(engine: Engine) -> None:
    write(engine, [out(1, fate=Fate.REFUTED, ended_at=SINCE + 2 * DAY)])
    decided(engine, (SINCE, "q-1", "gpu-hot"), (SINCE, "q-1", "idle"), action=Action.PROVE)
    with reading(engine) as connection:
        assert found(connection, CLUSTER, dict.fromkeys(["gpu-hot", "idle"], SINCE), SINCE).keys() == {"gpu-hot"}


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_an_index_leads_to_what_policies_found(engine: Engine) -> None:
    """A year has a million decisions, and few of them are findings."""
    write(engine, [out(1, fate=Fate.REFUTED)])
    asked: list[tuple[str, object]] = []
    event.listen(engine, "before_cursor_execute", lambda *told: asked.append((told[2], told[3])))
    with reading(engine) as connection:
        found(connection, CLUSTER, {"gpu-hot": SINCE}, SINCE)
        ((statement, given),) = [(one, with_) for one, with_ in asked if " UNION " in one]
        embedded = engine.dialect.name == "sqlite"
        if not embedded:  # a table of a few rows is read as a whole otherwise
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        plan = connection.exec_driver_sql(f"EXPLAIN {'QUERY PLAN ' * embedded}{statement}", given)  # type: ignore[arg-type]
        assert "decisions_cluster_case_id_policy_idx" in str(plan.all())


def test_a_verdict_counts_by_when_it_was_given(engine: Engine) -> None:
    old = SINCE - 9 * DAY
    write(
        engine,
        [
            out(1, old, fate=Fate.REFUTED, ended_at=SINCE + 4 * DAY),
            out(2, old, fate=Fate.REFUTED, ended_at=SINCE - DAY),
            out(3, old, fate=Fate.REFUTED),  # the provider found no fault, and the machine is not back yet
        ],
    )
    with reading(engine) as connection:
        (told,) = found(connection, CLUSTER, {"gpu-hot": SINCE}, SINCE).values()
    assert (told.cases, [one.case for one in told.refuted], told.refuted_days) == (0, ["q-3", "q-1"], frozenset({0, 4}))


def test_what_no_sign_of_life_surrounds_is_not_proven(engine: Engine) -> None:
    moments = [SINCE, SINCE + HOUR, SINCE + SIGN_WITHIN + HOUR, SINCE + 5 * DAY, SINCE + 6 * DAY]
    decided(engine, *((at, "q-1", "gpu-hot") for at in moments))
    with reading(engine) as connection:
        assert unproven(connection, CLUSTER, SINCE, SINCE + 9 * DAY) == (
            Stretch(SINCE + SIGN_WITHIN + HOUR, SINCE + 5 * DAY),
            Stretch(SINCE + 6 * DAY, SINCE + 9 * DAY),
        )
        assert unproven(connection, CLUSTER, SINCE, SINCE + SIGN_WITHIN) == ()
        assert unproven(connection, "another", SINCE, SINCE + 2 * DAY) == (Stretch(SINCE, SINCE + 2 * DAY),)


def test_only_the_newest_are_named(engine: Engine) -> None:
    write(engine, [out(n, SINCE + n * HOUR, fate=Fate.REFUTED) for n in range(MOST_TOLD + 5)])
    with reading(engine) as connection:
        (told,) = found(connection, CLUSTER, {"gpu-hot": SINCE}, SINCE).values()
    assert told.of(Fate.REFUTED) == MOST_TOLD + 5
    assert [one.case for one in told.refuted] == [f"q-{n}" for n in range(MOST_TOLD + 4, 4, -1)]


def test_a_policy_is_blind_or_finds_too_much_and_its_cases_are_neither(engine: Engine) -> None:
    later = SINCE + HOUR

    def judge(seq: int, by: HeldBy, until: datetime | None, name: str = "gpu-hot") -> object:
        return hold(seq, SINCE, until, key=f"{JUDGE}{name}", held_by=by, policy=name, node="")

    spans = [
        judge(1, HeldBy.NO_ANSWER, later),
        judge(2, HeldBy.NO_COVERAGE, None),
        judge(3, HeldBy.CROWDED, later, "nvlink"),
        judge(4, HeldBy.BREAKER, later),
        hold(5, SINCE, later, held_by=HeldBy.NO_ANSWER),
        hold(6, SINCE, later, key=f"{NODE}x", held_by=HeldBy.BREAKER),
    ]
    write(engine, holds=spans)  # type: ignore[arg-type]
    with reading(engine) as connection:
        told = held(connection, CLUSTER)
    assert told == {
        "gpu-hot": trusted.Held([Stretch(SINCE, later), Stretch(SINCE, None)], [Stretch(SINCE, later)]),
        "nvlink": trusted.Held([Stretch(SINCE, later)], []),
    }


def came(one: LoadedPolicy | None, at: datetime, name: str = "") -> Decision:
    digest = None if one is None else one.hash
    return Decision(at, Kind.DECIDED, Action.POLICY, "it is so", "c", policy=name or "gpu-hot", policy_hash=digest)


def test_versions_are_those_that_the_trail_tells_of(ledger: SqlLedger, engine: Engine) -> None:
    first, second = policy(), policy(owner="others")
    term = ledger.take_term("x")
    fleet = came(first, NOW, "fleet/prod")
    written: list[Written] = [first, second]
    ledger.record(term, [came(first, NOW), fleet, quarantined()], written)
    ledger.record(term, [came(second, NOW + HOUR), came(None, NOW + 2 * HOUR), came(first, NOW + 3 * HOUR)])
    with reading(engine) as connection:
        told = versions(connection, CLUSTER)
        assert told == {
            "gpu-hot": [
                Came(NOW, first.hash),
                Came(NOW + HOUR, second.hash),
                Came(NOW + 2 * HOUR, None),
                Came(NOW + 3 * HOUR, first.hash),
            ]
        }
        assert texts(connection, CLUSTER, ["gpu-hot"]) == {first.hash: first.text, second.hash: second.text}
        assert texts(connection, CLUSTER, []) == {}
        assert versions(connection, "another") == {}


def test_a_name_of_any_letters_is_found(engine: Engine) -> None:
    stored = fit(WEIRD)
    write(engine, [case(1, SINCE + DAY, policy=stored)])
    row = {"cluster": CLUSTER, "hash": "a" * 64, "name": stored, "text": "x", "revision": None, "first_seen": NOW}
    with writing(engine) as connection:
        connection.execute(insert(policy_versions), [row])
    with reading(engine) as connection:
        assert found(connection, CLUSTER, {WEIRD: SINCE}, SINCE)[WEIRD].cases == 1
        assert texts(connection, CLUSTER, [WEIRD]) == {"a" * 64: "x"}


def test_a_day_begins_where_the_window_does(engine: Engine) -> None:
    begun = SINCE + timedelta(hours=13, minutes=7)
    second = timedelta(seconds=1)
    write(engine, [case(1, begun), case(2, begun + DAY - second), case(3, begun + DAY), case(4, begun - second)])
    with reading(engine) as connection:
        (told,) = found(connection, CLUSTER, {"gpu-hot": begun}, begun).values()
    assert told.days == {0: 2, 1: 1}
