"""Whoever owns the database can switch its triggers off. The chain then names the first row that is not as written."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from sqlalchemy import Connection, Engine, delete, insert, select, text, update

from quarantine.core.errors import LedgerUnavailable
from quarantine.ledger import verify as verifying
from quarantine.ledger import walk
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.schema import TRIGGERS, clusters, decisions
from quarantine.ledger.store import SqlLedger
from quarantine.ledger.trail import Head, chained
from quarantine.ledger.verify import Broken, Sound, verify
from tests.ledger.samples import CLUSTER, NOW, held, now, quarantined

SIZE = 12


@pytest.fixture(params=[7, 3])
def owner(
    ledger: SqlLedger, url: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """Twelve rows, in pages of five and stretches of some length, and somebody who has switched the triggers off."""
    monkeypatch.setattr(walk, "PAGE", 5)
    monkeypatch.setattr(verifying, "STRETCH", request.param)
    ledger.record(ledger.take_term("pod-1"), [quarantined(n, effects=()) for n in range(SIZE)])
    engine = make_engine(url)
    with writing(engine) as connection:
        if connection.dialect.name == "sqlite":
            for name in TRIGGERS["sqlite"]:
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            connection.execute(text("ALTER TABLE decisions DISABLE TRIGGER USER"))
    yield engine
    engine.dispose()


Tamper = Callable[[Connection], object]


def _alter(column: str, value: object, seq: int = 7) -> Tamper:
    return lambda c: c.execute(update(decisions).where(decisions.c.seq == seq).values({column: value}))


def _set_time(at: str) -> Tamper:
    return lambda c: c.execute(text("UPDATE decisions SET at = :at WHERE seq = 7"), {"at": at})


def _delete(*seqs: int) -> Tamper:
    return lambda c: c.execute(delete(decisions).where(decisions.c.seq.in_(seqs)))


def _head(**values: object) -> Tamper:
    return lambda c: c.execute(update(clusters).values(**values))


def _swap(connection: Connection) -> None:
    for before, after in ((7, 99), (8, 7), (99, 8)):
        connection.execute(update(decisions).where(decisions.c.seq == before).values(seq=after))


def _close_the_gap(connection: Connection) -> None:
    """Delete a row and renumber those behind it, each with a fresh hash of its own, but not the predecessor's."""
    _delete(7)(connection)
    for seq in range(8, SIZE + 1):
        connection.execute(update(decisions).where(decisions.c.seq == seq).values(seq=seq - 1))
    connection.execute(update(clusters).values(seq=SIZE - 1))


def _forged(seq: int, prev: str) -> dict[str, object]:
    rows, _ = chained(CLUSTER, Head(seq - 1, prev), [held("forged")])
    return rows[0]


def _append(connection: Connection) -> None:
    prev = connection.execute(select(decisions.c.hash).where(decisions.c.seq == SIZE)).scalar_one()
    connection.execute(insert(decisions), [_forged(SIZE + 1, prev)])


def _rewrite_one(connection: Connection) -> None:
    """A row replaced by a consistent one: its own hash is right, its successor's predecessor is not."""
    prev = connection.execute(select(decisions.c.hash).where(decisions.c.seq == 6)).scalar_one()
    _delete(7)(connection)
    connection.execute(insert(decisions), [_forged(7, prev)])


def _rewrite_last(connection: Connection) -> None:
    prev = connection.execute(select(decisions.c.hash).where(decisions.c.seq == SIZE - 1)).scalar_one()
    _delete(SIZE)(connection)
    connection.execute(insert(decisions), [_forged(SIZE, prev)])


def _before_the_first(connection: Connection) -> None:
    connection.execute(insert(decisions), [_forged(0, "0" * 64)])


TAMPERING: dict[str, tuple[Tamper, int, str]] = {
    "the text": (_alter("body", "{}"), 7, "altered"),
    "its own hash": (_alter("hash", "0" * 64), 7, "altered"),
    "its predecessor": (_alter("prev_hash", "0" * 64), 7, "does not follow"),
    "a column": (_alter("node", "node-99"), 7, "column node"),
    "a reason": (_alter("reason", "it was not us"), 7, "column reason"),
    "a time": (_alter("at", quarantined(1).at.replace(year=2025)), 7, "column at"),
    "a time that no calendar of ours has": (_set_time("20000-01-01 00:00:00"), 7, "column at"),
    "an endless time": (_set_time("infinity"), 7, "column at"),
    "the first row": (_alter("body", "{}", 1), 1, "altered"),
    "the last row": (_alter("body", "{}", SIZE), SIZE, "altered"),
    "two rows": (lambda c: (_alter("body", "{}", 9)(c), _alter("body", "{}", 4)(c)), 4, "altered"),
    "one deleted": (_delete(7), 7, "missing: row 8 comes next"),
    "the first of a stretch deleted": (_delete(8), 8, "missing: row 9 comes next"),
    "the last of a stretch altered": (_alter("hash", "0" * 64, 6), 6, "altered"),
    "a stretch deleted": (_delete(7, 8, 9), 7, "missing: row 10 comes next"),
    "a page deleted": (_delete(4, 5, 6, 7, 8, 9, 10), 4, "missing: row 11 comes next"),
    "the first deleted": (_delete(1), 1, "missing"),
    "the end deleted": (_delete(11, 12), 11, "missing: the head of the chain is row 12"),
    "all deleted": (_delete(*range(1, SIZE + 1)), 1, "missing"),
    "a gap closed": (_close_the_gap, 7, "does not follow"),
    "two swapped": (_swap, 7, "does not follow"),
    "one rewritten": (_rewrite_one, 8, "does not follow"),
    "the last rewritten": (_rewrite_last, SIZE, "head of the chain"),
    "one appended": (_append, SIZE + 1, "behind the head"),
    "one before the first": (_before_the_first, 0, "before the first"),
    "the head's hash": (_head(hash="f" * 64), SIZE, "head"),
    "the head's number": (_head(seq=SIZE + 1), SIZE + 1, "missing"),
    "the head deleted": (lambda c: c.execute(delete(clusters)), 1, "behind the head"),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_the_first_bad_row_is_named(ledger: SqlLedger, owner: Engine, what: str) -> None:
    tamper, seq, said = TAMPERING[what]
    assert isinstance(ledger.verify(), Sound)
    with writing(owner) as connection:
        tamper(connection)
    found = ledger.verify()
    assert isinstance(found, Broken)
    assert found.seq == seq
    assert said in found.what


def test_a_trail_under_another_name_is_broken_from_its_first_row(ledger: SqlLedger, owner: Engine) -> None:
    with writing(owner) as connection:
        connection.execute(update(decisions).values(cluster="other"))
        connection.execute(update(clusters).values(cluster="other"))
    found = verify(owner, "other")
    assert isinstance(found, Broken)
    assert (found.seq, "altered" in found.what) == (1, True)


def test_what_is_appended_while_verifying_does_not_matter(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1, effects=())])
    honest = verifying._ends

    def late(engine: Engine, cluster: str) -> object:
        ends = honest(engine, cluster)
        ledger.record(term, [quarantined(2, effects=())])
        return ends

    monkeypatch.setattr(verifying, "_ends", late)
    assert isinstance(ledger.verify(), Sound)
    assert len(list(ledger.decisions())) == 2


def test_an_empty_trail_is_sound(ledger: SqlLedger) -> None:
    assert ledger.verify() == Sound(0, "0" * 64)
    ledger.take_term("pod-1")
    assert ledger.verify() == Sound(0, "0" * 64)


# --- by several processes ---------------------------------------------------------------------------------------------


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "WORTH_IT", 1)
    monkeypatch.setattr(verifying, "STRETCH", 3)


# In a process of its own, which has one thread: one that has several walks by itself.
SEVERAL = """
import json, os, sys
from quarantine.ledger import verify
from quarantine.ledger.engine import make_engine

def noted(engine, cluster, stretch, walk=verify.walk):
    with open(sys.argv[3], "a") as file:
        file.write(f"{os.getpid()}\\n")
    return walk(engine, cluster, stretch)

verify.WORTH_IT, verify.STRETCH, verify.walk = 1, 3, noted
engine, told = make_engine(sys.argv[1]), []
found = verify.verify(engine, sys.argv[2], workers=2, progress=lambda *done: told.append(done))
again = verify.verify(engine, sys.argv[2])
print(json.dumps([repr(found), repr(again), told, os.getpid()]))
engine.dispose()
"""


@pytest.mark.parametrize("owner", [3], indirect=True)
@pytest.mark.parametrize("what", ["nothing", "the text", "a page deleted"])
def test_several_processes_find_what_one_finds(
    ledger: SqlLedger, url: str, owner: Engine, tmp_path: Path, what: str
) -> None:
    if what != "nothing":
        with writing(owner) as connection:
            TAMPERING[what][0](connection)
    alone = ledger.verify()
    assert isinstance(alone, Sound if what == "nothing" else Broken)
    pids = tmp_path / "pids"
    command = [sys.executable, "-W", "error", "-c", SEVERAL, url, CLUSTER, str(pids)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    found, again, told, parent = json.loads(done.stdout)
    assert found == again == repr(alone)
    assert told == [[n, SIZE] for n in ((3, 6, 9, 12) if what == "nothing" else (3, 6) if what == "the text" else (3,))]
    walked = pids.read_text().split()
    assert str(parent) not in walked[: len(told)], "another process walked"
    assert walked[-1] == str(parent), "the second time, this one did"


class Dying:
    """A pool that is killed after so many answers; -1: that cannot even be made."""

    answers = 0

    def __init__(self, *_: object, initargs: tuple[Any, ...], **__: object) -> None:
        if self.answers < 0:
            raise OSError("no semaphores here")
        (self.engine,) = initargs

    def map(self, _: object, names: Iterable[str], todo: Iterable[walk.Stretch]) -> Iterator[walk.Walked]:
        for number, (name, stretch) in enumerate(zip(names, todo, strict=True)):
            if number == self.answers:
                raise BrokenProcessPool
            yield walk.walk(self.engine, name, stretch)

    def shutdown(self, *, cancel_futures: bool) -> Self:
        assert cancel_futures
        return self


@pytest.mark.parametrize("answers", [-1, 0, 2])
def test_what_other_processes_leave_undone_is_done_by_this_one(
    ledger: SqlLedger, shared: None, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.record(ledger.take_term("pod-1"), [quarantined(n, effects=()) for n in range(SIZE)])
    monkeypatch.setattr(verifying, "ProcessPoolExecutor", Dying)
    monkeypatch.setattr(Dying, "answers", answers)
    told: list[int] = []
    found = verify(ledger._engine, CLUSTER, workers=2, progress=lambda done, _: told.append(done))
    assert found == ledger.verify()
    assert isinstance(found, Sound)
    assert told == [3, 6, 9, 12]


# --- columns, the quick way and the exact one -------------------------------------------------------------------------


TIMES = [timedelta(0), timedelta(microseconds=1), timedelta(microseconds=500_000), timedelta(days=-5000, seconds=10)]


def test_ordinary_rows_are_verified_the_quick_way(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_fault", None)
    ordinary = [quarantined(n, at=NOW + later, effects=()) for n, later in enumerate(TIMES)]
    ledger.record(ledger.take_term("pod-1"), [*ordinary, held("x")])
    assert isinstance(ledger.verify(), Sound)


def test_uncommon_text_is_verified_the_exact_way(ledger: SqlLedger) -> None:
    odd = ["a\x00b", "\ud800", "back\\slash", "x" * 500, "é" * 401, "💥", "\\u0000", ""]
    taken = [
        replace(quarantined(n, effects=()), node=text, case=f"c-{n}-{text}", pool=text, reason=text * 10, actor=text)
        for n, text in enumerate(odd)
    ]
    ledger.record(ledger.take_term("pod-1"), taken)
    assert isinstance(ledger.verify(), Sound)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize("option", ["-c timezone=Asia/Kolkata", "-c timezone=America/St_Johns"])
def test_a_server_that_writes_times_its_own_way_is_no_fault(ledger: SqlLedger, url: str, option: str) -> None:
    ledger.record(ledger.take_term("pod-1"), [quarantined(n, at=NOW + at, effects=()) for n, at in enumerate(TIMES)])
    with SqlLedger(make_engine(f"{url}?options={option.replace(' ', '%20')}"), CLUSTER, now=now) as elsewhere:
        assert elsewhere.verify() == ledger.verify()
    assert isinstance(ledger.verify(), Sound)


# --- a database that cannot be read -----------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_damaged_file_is_no_broken_trail(ledger: SqlLedger, url: str) -> None:
    """What cannot be read says nothing of what was written."""
    ledger.record(ledger.take_term("pod-1"), [quarantined(n, effects=()) for n in range(200)])
    path = Path(str(ledger._engine.url.database))
    hash_ = list(ledger.decisions())[150].hash
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'decisions'").fetchone()
    ledger.close()
    pages = path.read_bytes()
    assert isinstance(ledger.verify(), Sound)
    ledger.close()
    leaf = pages.index(hash_.encode()) // page
    assert leaf not in (0, root - 1)
    path.write_bytes(pages[: leaf * page] + b"\xff" * page + pages[(leaf + 1) * page :])
    with pytest.raises(LedgerUnavailable, match="is damaged"):
        ledger.verify()
