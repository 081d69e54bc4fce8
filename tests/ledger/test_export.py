"""What is exported can be verified by anybody, computed by no spreadsheet, and takes no memory to speak of."""

from __future__ import annotations

import csv
import io
import itertools
import json
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text, update

from quarantine.core.case import Evidence
from quarantine.core.decision import Decision
from quarantine.core.errors import SchemaMismatch
from quarantine.ledger import trail, walk
from quarantine.ledger.chain import GENESIS, link
from quarantine.ledger.codec import decode
from quarantine.ledger.engine import writing
from quarantine.ledger.export import CSV_COLUMNS, Chosen, comma_separated, csv_heading, json_lines
from quarantine.ledger.schema import clusters, decisions
from quarantine.ledger.store import SqlLedger
from quarantine.ledger.trail import Head, chained
from quarantine.ledger.verify import Sound, verify
from tests.ledger.samples import CLUSTER, NOW, SECOND, held, now, outcome, quarantined
from tests.ledger.test_codec import TEXT, flat

EVERYTHING = Chosen()
DAY = timedelta(days=1)
_number = itertools.count()


def record(engine: Engine, *taken: Decision, cluster: str = CLUSTER) -> None:
    ledger = SqlLedger(engine, cluster, now=now)
    ledger.record(ledger.take_term("pod-1"), taken)


def seqs(engine: Engine, chosen: Chosen) -> list[int]:
    return [json.loads(line)["seq"] for line in json_lines(engine, CLUSTER, chosen)]


def table(engine: Engine, chosen: Chosen = EVERYTHING) -> list[dict[str, str]]:
    text = csv_heading() + "".join(comma_separated(engine, CLUSTER, chosen))
    return list(csv.DictReader(io.StringIO(text, newline="")))


# --- jsonl ------------------------------------------------------------------------------------------------------------


def test_each_line_has_the_row_and_the_stored_text(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "PAGE", 2)
    taken = [quarantined(n, effects=()) for n in range(5)]
    record(engine, *taken)
    prev = GENESIS
    for number, line in enumerate(json_lines(engine, CLUSTER, EVERYTHING), start=1):
        assert line.endswith("}\n")
        row = json.loads(line)
        assert list(row) == ["cluster", "seq", "prev_hash", "hash", "body"]
        body = line[line.index('"body":') + 7 : line.rindex("}")]
        assert (row["cluster"], row["seq"], row["prev_hash"]) == (CLUSTER, number, prev)
        assert row["hash"] == link(prev, CLUSTER, number, body)
        assert decode(body) == taken[number - 1]
        prev = row["hash"]
    assert number == 5


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reason=TEXT, node=TEXT, name=st.text(st.characters(categories=("L", "S", "P")), min_size=1, max_size=20))
def test_no_text_breaks_a_line(engine: Engine, reason: str, node: str, name: str) -> None:
    cluster = f"{name.replace(chr(92), '')}-{next(_number)}"
    decision = replace(quarantined(1, effects=()), reason=reason, node=node)
    record(engine, decision, cluster=cluster)
    (line,) = json_lines(engine, cluster, EVERYTHING)
    assert line.isascii()
    assert line.count("\n") == 1
    body = line[line.index('"body":') + 7 : line.rindex("}")]
    assert flat(decode(body)) == flat(decision)
    row = json.loads(line)
    assert row["hash"] == link(row["prev_hash"], row["cluster"], row["seq"], body)


@pytest.mark.parametrize("body", ["", "{", "[1]", '{"a":NaN}', '{"a":1}\n', "{}\x1b[2J", '"text"', "\u2028{}"])
def test_a_text_that_was_made_something_else_is_a_string_and_does_not_verify(engine: Engine, body: str) -> None:
    record(engine, held("x"))
    unguarded(engine, body)
    (line,) = json_lines(engine, CLUSTER, EVERYTHING)
    row = json.loads(line)
    assert row["body"] == body
    assert line.count("\n") == 1
    assert row["hash"] != link(GENESIS, CLUSTER, 1, line[line.index('"body":') + 7 : line.rindex("}")])
    with pytest.raises(SchemaMismatch, match="decision 1 of cluster 'training-a' is no JSON object"):
        list(comma_separated(engine, CLUSTER, EVERYTHING))


def unguarded(engine: Engine, body: str) -> None:
    """Change row 1, as the owner of the tables can."""
    with writing(engine) as connection:
        if connection.dialect.name == "sqlite":
            connection.execute(text("DROP TRIGGER decisions_no_update"))
        else:
            connection.execute(text("ALTER TABLE decisions DISABLE TRIGGER USER"))
        connection.execute(update(decisions).where(decisions.c.seq == 1).values(body=body))


# --- which ------------------------------------------------------------------------------------------------------------


def test_since_is_included_and_until_is_not(engine: Engine) -> None:
    record(engine, *(replace(held(f"k{n}"), at=NOW + n * DAY) for n in range(5)))
    assert seqs(engine, EVERYTHING) == [1, 2, 3, 4, 5]
    assert seqs(engine, Chosen(since=NOW + DAY)) == [2, 3, 4, 5]
    assert seqs(engine, Chosen(until=NOW + 3 * DAY)) == [1, 2, 3]
    assert seqs(engine, Chosen(NOW + DAY, NOW + 3 * DAY)) == [2, 3]
    assert seqs(engine, Chosen(NOW + DAY + SECOND, NOW + 2 * DAY)) == []


def test_of_a_node_or_a_case_by_their_whole_names(engine: Engine) -> None:
    long = "n" * 450
    odd = replace(quarantined(2, effects=()), node=long, case="c\\2")
    record(engine, quarantined(1, effects=()), odd, held("x"), quarantined(11, effects=()))
    assert seqs(engine, Chosen(node="node-1")) == [1]
    assert seqs(engine, Chosen(node=long)) == [2]
    assert seqs(engine, Chosen(node=long[:-1])) == []
    assert seqs(engine, Chosen(case="c\\2")) == [2]
    assert seqs(engine, Chosen(node="node-11", case="c-11")) == [4]
    assert seqs(engine, Chosen(node="node-1", case="c-11")) == []


def test_another_cluster_is_another_trail(engine: Engine) -> None:
    record(engine, held("x"))
    record(engine, held("y"), held("z"), cluster="other")
    assert len(list(json_lines(engine, "other", EVERYTHING))) == 2
    assert list(json_lines(engine, "none", EVERYTHING)) == []


# --- csv --------------------------------------------------------------------------------------------------------------


def test_a_row_of_the_csv_tells_the_decision(engine: Engine) -> None:
    record(engine, quarantined(1))
    (row,) = table(engine)
    assert list(row) == list(CSV_COLUMNS)
    (line,) = json_lines(engine, CLUSTER, EVERYTHING)
    assert row == {
        "cluster": CLUSTER,
        "seq": "1",
        "at": "2026-11-29T12:00:00.000000Z",
        "kind": "decided",
        "action": "quarantine",
        "case": "c-1",
        "phase": "quarantined",
        "node": "node-1",
        "node_uid": "uid-1",
        "provider_id": "provider://1",
        "system_uuid": "system-1",
        "device": "gpu:GPU-00000001",
        "pool": "gpu",
        "policy": "gpu-hot",
        "policy_hash": "ab" * 32,
        "policy_revision": "1234567",
        "severity": "critical",
        "verdict": "bad",
        "value": "91.5",
        "unit": "°C",
        "threshold": "above 78 °C for 5m, 10% tolerated",
        "held_by": "",
        "effect": "",
        "ref": "",
        "request": "",
        "until": "",
        "actor": "controller 0.1.0",
        "reason": "node-1: GPU 1 is at 91.5 °C, above 78 °C for 5m",
        "hash": json.loads(line)["hash"],
    }


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "\r=", " =", "\n@", "＝", "\x00="])
def test_no_cell_is_a_formula(engine: Engine, begin: str) -> None:
    evil = f'{begin}HYPERLINK("http://x";"y")\n;=1+1,"'
    record(engine, replace(quarantined(1, effects=()), reason=evil, node=evil, pool=evil, actor=evil))
    (row,) = table(engine)
    for name in ("reason", "node", "pool", "actor"):
        cell = row[name].lstrip()
        assert cell[0] in "'\\", cell
        assert "HYPERLINK" in cell
    lines = "".join(comma_separated(engine, CLUSTER, EVERYTHING))
    assert all(field.startswith('"') or field[0].isdigit() for field in lines.split(',"')[0].split(","))


def test_a_negative_number_stays_one_and_text_moves_no_cursor(engine: Engine) -> None:
    cold = Evidence("x", -5.5, "°C", "below 0", NOW)
    record(engine, replace(quarantined(1, effects=()), evidence=cold, reason="a\x1b[2J\x00\ud800\u202eb"))
    (row,) = table(engine)
    assert row["value"] == "-5.5"
    assert row["reason"] == "a\\u001b[2J\\u0000\\ud800\\u202eb"


def test_an_outcome_and_a_hold_have_what_they_have(engine: Engine) -> None:
    record(engine, quarantined(1))
    ledger = SqlLedger(engine, CLUSTER, now=now)
    effect = next(e for e in ledger.load().pending if e.key.endswith("ticket"))
    ledger.settle(ledger.take_term("pod-1"), effect.key, outcome(effect.effect, ref="T-17"))
    record(engine, held("judge/x"))
    _, done, hold = table(engine)
    assert (done["kind"], done["effect"], done["ref"]) == ("done", "ticket", "T-17")
    assert (hold["kind"], hold["held_by"], hold["node"]) == ("held", "budget", "")


# --- memory -----------------------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_trail(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (trail, walk):
        monkeypatch.setattr(module, "PAGE", 100)
    put(engine, "short", 300)
    put(engine, "long", 3000)
    for cluster in ("short", "short", "long"):  # the first fills the caches of SQLAlchemy
        used = {of: peak(engine, cluster, of) for of in (json_lines, comma_separated, verified)}
        if cluster == "short":
            before = used
    for of, bytes_ in used.items():
        assert bytes_ < before[of] * 1.3, of


def verified(engine: Engine, cluster: str, _: Chosen) -> list[object]:
    """Verifying reads as much, and keeps as little."""
    found = verify(engine, cluster)
    assert isinstance(found, Sound)
    return [found]


def put(engine: Engine, cluster: str, count: int) -> None:
    rows, _ = chained(cluster, Head(0, GENESIS), [quarantined(n, at=NOW + n * SECOND) for n in range(count)])
    newest = {"seq": count, "hash": rows[-1]["hash"], "term": 1, "holder": "pod", "updated_at": NOW}
    with writing(engine) as connection:
        connection.execute(decisions.insert(), rows)
        connection.execute(clusters.insert().values(cluster=cluster, **newest))


def peak(engine: Engine, cluster: str, of: Callable[[Engine, str, Chosen], Iterable[object]]) -> int:
    tracemalloc.start()
    try:
        for _ in of(engine, cluster, EVERYTHING):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
