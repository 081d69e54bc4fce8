"""The ledger gives a report what the core would be given of the same rows, on both databases."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from sqlalchemy import Engine, QueuePool, event

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Action, Census, Decision, Kind
from quarantine.core.draft import NODE
from quarantine.core.errors import SchemaMismatch
from quarantine.core.model import Severity
from quarantine.core.record.milestones import Fate, Milestones
from quarantine.core.record.report import Counted, Material, Report, report
from quarantine.core.record.spans import HoldSpan
from quarantine.ledger.archive import open_archive
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.material import material
from quarantine.ledger.store import open_ledger
from tests.core.record.reports import DAY, HOUR, SINCE, UNTIL, WANTED, at, case, hold, lasts, part, size
from tests.ledger.reported import write
from tests.ledger.samples import CLUSTER, NOW, now, quarantined

SPANS = ((SINCE, UNTIL), (SINCE + 10 * DAY, SINCE + 11 * DAY), (SINCE - 400 * DAY, SINCE), (UNTIL, UNTIL + DAY))


def some_cases(random: Random, number: int = 120) -> list[Milestones]:
    """Any cases, whether they could happen or not: the query must not care."""

    def moment(chance: float) -> datetime | None:
        return at(random.uniform(-20, 50)) if random.random() < chance else None

    return [
        case(
            n,
            at(random.uniform(-20, 40)),
            node=f"node-{n % 17}",
            machine=random.choice([f"system-uuid:{n % 15}", ""]),
            pool=random.choice(["h100", "a100", ""]),
            provider=random.choice(["acme", "globex", ""]),
            policy=random.choice(["gpu-hot", "nvlink-errors", ""]),
            severity=random.choice([None, *Severity]),
            by_person=random.random() < 0.2,
            gate=random.random() < 0.1,
            phase=random.choice(list(Phase)),
            fate=random.choice(list(Fate)),
            same_returned=random.random() < 0.2,
            out_at=moment(0.8),
            marked_at=moment(0.7),
            ticket_at=moment(0.5),
            asked_at=moment(0.5),
            acknowledged_at=moment(0.3),
            swapped_at=moment(0.4),
            back_at=moment(0.5),
            ended_at=moment(0.6),
        )
        for n in range(number)
    ]


def some_holds(random: Random, cases: Sequence[Milestones]) -> list[HoldSpan]:
    """Of cases, of nodes without one, of policies; some end just when their machine is taken out."""
    found = []
    for seq, one in enumerate(cases, 1):
        since = at(random.uniform(-20, 40))
        until = random.choice(
            [None, since, since + random.randint(0, 20_000_000) * timedelta(milliseconds=1), one.out_at]
        )
        key = random.choice([f"case/{one.case}", f"case/{one.case}", f"{NODE}{one.node}", "judge/gpu-hot", "case/gone"])
        held_by, policy = random.choice(list(HeldBy)[:5]), random.choice(["gpu-hot", ""])
        node = "" if key.startswith("judge/") else one.node
        found.append(hold(seq, since, until, key=key, held_by=held_by, policy=policy, node=node))
    return found


def some_sizes(random: Random) -> list[Counted]:
    moments = sorted(at(random.uniform(-50, 40)) for _ in range(8))
    return [size(random.randint(0, 50), moment, pool=random.choice(["h100", "a100"])) for moment in moments]


def told(engine: Engine, since: datetime = SINCE, until: datetime = UNTIL, cluster: str | None = CLUSTER) -> Report:
    return report(material(engine, since, until, cluster), WANTED)


@pytest.mark.parametrize("seed", range(4))
def test_a_report_from_the_tables_is_the_one_from_the_rows(engine: Engine, seed: int) -> None:
    random = Random(seed)  # noqa: S311  (a test's)
    cases, sizes = some_cases(random), some_sizes(random)
    holds = some_holds(random, cases)
    write(engine, cases, holds, sizes)
    for since, until in SPANS:
        known = [one for one in cases if lasts(one, since, until)]
        counts = [one for one in sizes if one.census.at < until]
        expected = part(known, sizes=counts, cluster=CLUSTER, since=since, until=until)
        # A hold may be about a case that is over by then.
        held = part(cases, holds).holds
        whole = Material(since, until, (replace(expected, holds=held),))
        assert told(engine, since, until) == report(whole, WANTED)


def test_an_empty_ledger_has_an_empty_report(engine: Engine) -> None:
    assert told(engine).empty
    assert told(engine, cluster=None).clusters == ()


def test_clusters_are_kept_apart_or_told_together(engine: Engine) -> None:
    both = [case(1, out_at=SINCE + DAY, marked_at=SINCE + DAY)]
    write(engine, both, sizes=[size(10)], cluster="a")
    write(engine, both, sizes=[size(20)], cluster="b")
    assert told(engine, cluster="a").cases == 1
    together = told(engine, cluster=None)
    assert (together.clusters, together.cases, together.machines) == (("a", "b"), 2, 1)
    assert [(rate.cluster, rate.node_days) for rate in together.failures] == [("a", 300), ("b", 600)]


def test_of_sizes_before_only_the_last_one_counts(engine: Engine) -> None:
    write(engine, sizes=[size(10, SINCE - 9 * DAY), size(20, SINCE - DAY), size(40, SINCE + 15 * DAY), size(80, UNTIL)])
    (made,) = material(engine, SINCE, UNTIL, CLUSTER).parts
    assert [one.census.nodes for one in made.sizes] == [20, 40]
    assert told(engine).failures[0].node_days == 15 * 20 + 15 * 40


def test_names_of_any_kind_come_back_as_they_are(engine: Engine) -> None:
    odd = 'a|b`"\\x, [c] é 🙂'
    write(engine, [case(1, pool=odd, policy=odd, node=odd, machine=odd, provider=odd, out_at=SINCE + DAY)])
    found = told(engine)
    assert found.causes[0].policy == odd
    assert (found.worst[0].machine, found.worst[0].nodes, found.worst[0].pool) == (odd, (odd,), odd)


def test_a_report_that_is_given_up_holds_no_connection(engine: Engine) -> None:
    write(engine, [case(1), case(2, policy="other")], [hold(1, SINCE, None)], cluster="a")
    write(engine, [case(3)], cluster="b")
    parts = iter(material(engine, SINCE, UNTIL).parts)
    cases = iter(next(parts).cases)
    assert next(cases).pool == "h100"
    del cases, parts
    gc.collect()
    assert isinstance(engine.pool, QueuePool)
    assert engine.pool.checkedout() == 0


def test_a_database_that_is_gone_is_told_from_the_other_thread_too(engine: Engine) -> None:
    write(engine, [case(1)], [hold(1, SINCE, None)])
    (made,) = material(engine, SINCE, UNTIL, CLUSTER).parts
    assert len(list(made.holds)) == 1
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE hold_spans RENAME TO elsewhere")
    (made,) = material(engine, SINCE, UNTIL, CLUSTER).parts
    assert len(list(made.cases)) == 1
    with pytest.raises(SchemaMismatch, match="hold_spans"):
        list(made.holds)


def test_no_body_is_read(engine: Engine) -> None:
    write(engine, [case(1)], [hold(1, SINCE, None)], [size(10)])
    said: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda _c, _k, statement, *_: said.append(statement))
    told(engine)
    assert said
    assert not any("body" in statement or "FROM decisions" in statement for statement in said)


def test_settings_of_the_server_are_as_before(postgres: str) -> None:
    """The planner's settings are of one transaction: the connection goes back to the pool."""
    engine = make_engine(postgres)
    write(engine, [case(1)])
    told(engine)
    with writing(engine) as connection:
        assert connection.exec_driver_sql("SHOW enable_sort").scalar() == "on"
        assert connection.exec_driver_sql("SHOW work_mem").scalar() != "64MB"
    engine.dispose()


def test_what_the_writer_recorded_is_reported(url: str) -> None:
    """From decisions, through the writer's own tables."""
    census = Decision(
        NOW - 10 * DAY,
        Kind.DECIDED,
        Action.COUNT,
        "the pool has 100 nodes",
        "controller",
        pool="gpu",
        census=Census(100, 800, NOW - 10 * DAY),
    )
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("test")
        ledger.record(term, [census, quarantined(1)])
    with open_archive(url) as archive:
        found = report(archive.material(NOW - 10 * DAY, NOW + HOUR), WANTED)
    (cause,) = found.causes
    assert (cause.policy, cause.opened, cause.out) == ("gpu-hot", 1, 1)
    (rate,) = found.failures
    assert (rate.pool, rate.failures) == ("gpu", 1)
    assert rate.node_days == pytest.approx(1000, rel=0.01)
