"""An owner can write a whole chain anew, and then `verify` alone is content. A checkpoint kept elsewhere is not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete, insert, text, update

from quarantine.core.decision import Decision
from quarantine.core.errors import UsageError
from quarantine.ledger.chain import GENESIS
from quarantine.ledger.checkpoint import Checkpoint, read, take, text_of, write
from quarantine.ledger.engine import make_engine, reading, writing
from quarantine.ledger.schema import TRIGGERS, actions, clusters, decisions
from quarantine.ledger.store import SqlLedger
from quarantine.ledger.trail import Head, chained, head_of
from quarantine.ledger.verify import Broken, Sound, verify
from tests.ledger.samples import CLUSTER, NOW, quarantined

SIZE = 12


@pytest.fixture
def owner(ledger: SqlLedger, url: str) -> Iterator[Engine]:
    """A trail, and whoever owns its database."""
    ledger.record(ledger.take_term("pod-1"), [quarantined(n, effects=()) for n in range(SIZE)])
    engine = make_engine(url)
    yield engine
    engine.dispose()


def rewrite(engine: Engine, history: Sequence[Decision], keep: int = 0) -> None:
    """Put another history behind row `keep`, with hashes, columns and head that fit, and the triggers as they were."""
    with writing(engine) as connection:
        sqlite = connection.dialect.name == "sqlite"
        if sqlite:
            named = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            triggers = [row.sql for row in connection.execute(text(named))]
            for name in TRIGGERS["sqlite"]:
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            connection.execute(text("ALTER TABLE decisions DISABLE TRIGGER USER"))
        connection.execute(delete(actions))
        connection.execute(delete(decisions).where(decisions.c.seq > keep))
        known = decisions.select().where(decisions.c.seq == keep)
        last = connection.execute(known).one_or_none()
        rows, head = chained(CLUSTER, Head(0, GENESIS) if last is None else Head(keep, last.hash), history)
        if rows:
            connection.execute(insert(decisions), rows)
        connection.execute(update(clusters).values(seq=head.seq, hash=head.hash))
        if sqlite:
            for sql in triggers:
                connection.exec_driver_sql(sql)
        else:
            for name in TRIGGERS["postgresql"]:
                connection.execute(
                    text(
                        f"ALTER TABLE {name.partition('_append' if 'append' in name else '_no')[0]} "
                        f"ENABLE ALWAYS TRIGGER {name}"
                    )
                )


def seen(engine: Engine, cluster: str = CLUSTER, *, later: timedelta = timedelta(0)) -> Checkpoint:
    taken = take(engine, cluster, NOW + later)
    assert isinstance(taken, Checkpoint)
    return taken


def check(engine: Engine, *checkpoints: Checkpoint) -> Sound | Broken:
    return verify(engine, CLUSTER, checkpoints=checkpoints)


def test_a_checkpoint_is_what_the_trail_was(owner: Engine) -> None:
    sound = check(owner)
    assert isinstance(sound, Sound)
    assert seen(owner) == Checkpoint(CLUSTER, SIZE, sound.hash, NOW)


def test_a_trail_that_went_on_agrees_with_all_its_checkpoints(ledger: SqlLedger, owner: Engine) -> None:
    first = seen(owner)
    ledger.record(ledger.take_term("pod-1"), [quarantined(20, effects=())])
    second = seen(owner)
    assert (first.count, second.count) == (SIZE, SIZE + 1)
    assert isinstance(check(owner, second, first), Sound)


def test_a_trail_written_anew_is_found_by_its_checkpoint_alone(owner: Engine) -> None:
    """Every reason is another, every hash is right: nothing in the database tells."""
    before = seen(owner)
    rewrite(owner, [replace(quarantined(n, effects=()), reason="it was the network") for n in range(SIZE)])
    assert isinstance(check(owner), Sound)
    found = check(owner, before)
    assert isinstance(found, Broken)
    assert found.seq == SIZE
    assert found.what.startswith("has another hash than in the checkpoint of 2026-11-29 12:00 UTC: not after row 12")


def test_a_longer_trail_in_its_place_is_found_as_well(owner: Engine) -> None:
    """As after a failover that lost the last commits: the controller went on, and put other rows there."""
    before = seen(owner)
    rewrite(owner, [quarantined(n, effects=()) for n in range(50, 60)], keep=SIZE - 2)
    found = check(owner, before)
    assert isinstance(found, Broken)
    assert "or rows that a backup or a failover had lost were replaced by others" in found.what


def test_two_checkpoints_say_between_which_rows(ledger: SqlLedger, owner: Engine) -> None:
    first = seen(owner)
    ledger.record(ledger.take_term("pod-1"), [quarantined(n, effects=()) for n in range(20, 25)])
    second = seen(owner, later=timedelta(hours=1))
    rewrite(owner, [quarantined(n, effects=()) for n in range(40, 50)], keep=SIZE + 2)
    found = check(owner, second, first)
    assert isinstance(found, Broken)
    assert found.seq == SIZE + 5
    assert "in the checkpoint of 2026-11-29 13:00 UTC: after row 12, at which it still agrees" in found.what
    assert "and not after row 17" in found.what


@pytest.mark.parametrize("left", [0, 5])
def test_a_shorter_trail_has_lost_rows(owner: Engine, left: int) -> None:
    before = seen(owner)
    rewrite(owner, [], keep=left)
    assert isinstance(check(owner), Sound)
    found = check(owner, before)
    assert isinstance(found, Broken)
    assert found.seq == left + 1
    assert found.what.startswith("is missing: the checkpoint of 2026-11-29 12:00 UTC counts 12 rows. The database was")


def test_an_empty_trail_has_a_checkpoint_that_all_agree_with(ledger: SqlLedger, url: str) -> None:
    engine = make_engine(url)
    nothing = seen(engine)
    assert (nothing.count, nothing.hash) == (0, GENESIS)
    ledger.record(ledger.take_term("pod-1"), [quarantined(1)])
    assert isinstance(check(engine, nothing), Sound)
    engine.dispose()


def test_none_is_taken_of_a_head_that_is_no_row(owner: Engine) -> None:
    with writing(owner) as connection:
        connection.execute(update(clusters).values(hash="f" * 64))
        assert head_of(connection, CLUSTER).seq == SIZE
    assert take(owner, CLUSTER, NOW) == Broken(SIZE, "is not the row that the head of the chain names")


def test_it_is_taken_of_one_moment_and_changes_nothing(owner: Engine) -> None:
    one, two = seen(owner), seen(owner)
    assert one == two
    with reading(owner) as connection:
        assert head_of(connection, CLUSTER) == Head(one.count, one.hash)


# --- the file ---------------------------------------------------------------------------------------------------------

ONE = Checkpoint(CLUSTER, 7, "ab" * 32, NOW, "0.1.0")


def test_the_file_comes_back_and_is_for_people_too(tmp_path: Path) -> None:
    path = tmp_path / "trail.json"
    write(path, ONE)
    assert read(path) == ONE
    assert json.loads(path.read_text()) == {
        "format": 1,
        "cluster": CLUSTER,
        "count": 7,
        "hash": "ab" * 32,
        "at": "2026-11-29T12:00:00Z",
        "version": "0.1.0",
    }
    write(path, replace(ONE, count=8))
    assert read(path).count == 8
    assert list(tmp_path.iterdir()) == [path]


def test_a_member_of_a_later_version_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "trail.json"
    path.write_text(json.dumps({**json.loads(text_of(ONE)), "signature": "x"}))
    assert read(path) == ONE


def edited(**members: object) -> str:
    return json.dumps({**json.loads(text_of(ONE)), **members})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no checkpoint; `quarantine audit checkpoint FILE` writes one"),
        ("[]", "is no checkpoint"),
        ("\xff", "is no checkpoint"),
        ("[" * 9000, "is no checkpoint"),
        (" " * 20_000 + text_of(ONE), "is no checkpoint"),
        (edited(format=2), "is a checkpoint of format 2, newer than this version's 1; upgrade the program"),
        (edited(format=True), "is no checkpoint"),
        (edited(format=None), "is no checkpoint"),
        (edited(count=-1), "is no checkpoint"),
        (edited(count=True), "is no checkpoint"),
        (edited(count="7"), "is no checkpoint"),
        (edited(count=0), "is no checkpoint"),
        (edited(hash=GENESIS), "is no checkpoint"),
        (edited(hash="AB" * 32), "is no checkpoint"),
        (edited(hash=7), "is no checkpoint"),
        (edited(cluster=None), "is no checkpoint"),
        (edited(at="yesterday"), "is no checkpoint"),
        (edited(at="2026-11-29T12:00:00"), "is no checkpoint"),
        (edited(at=7), "is no checkpoint"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "trail.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UsageError, match=said.replace("(", r"\(")) as raised:
        read(path)
    assert str(path) in str(raised.value)


def test_where_it_cannot_be_read_or_written_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        write(tmp_path / "none" / "trail.json", ONE)
    with pytest.raises(UsageError, match="is no file to write to"):
        write(tmp_path, ONE)


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trail.json"
    write(path, ONE)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("quarantine.ledger.wholefile.os.fsync", full)
    with pytest.raises(UsageError, match="cannot be written: No space left"):
        write(path, replace(ONE, count=8))
    assert read(path) == ONE
    assert list(tmp_path.iterdir()) == [path]
