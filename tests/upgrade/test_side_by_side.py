"""Two versions at once, as in a roll-out: the earlier one is really the earlier one, in a process of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import REVISION
from tests.upgrade.left import Left, left_by, rows_of
from tests.upgrade.nextversion import NEXT, let_this_code_be_the_next, upgrade_to_next
from tests.upgrade.pods import acting_as, held_up, pod, said, told, until, writes
from tests.upgrade.town import GUARDED
from tests.upgrade.versions import BEFORE, Version, this_version

pytestmark = pytest.mark.timeout(500)

OLD = "old"  # a user of the API server


@pytest.fixture
def left(empty: str, shown: str, tmp_path: Path) -> Iterator[Left]:
    with left_by(BEFORE, "postgres", empty, tmp_path, shown) as found:
        yield found


def test_the_version_before_is_stopped_in_the_middle_of_what_it_does(left: Left, before: Version) -> None:
    """The schema changes while it marks a machine: it writes no more, and this version finds that it was done."""
    place = left.town
    out = place.out()
    reached = held_up(place)
    place.at(18)
    acting_as(place, OLD)
    with before.obeying(place, left.url, place.folder / "old.log") as old:
        old.begin("run", "--once")
        until(reached.is_set, old.log)
        assert upgrade(left.url) == (BEFORE, REVISION)
        ended = old.ended()
        assert ended.code == 3
        assert ended.text.strip().endswith(
            f"newer than this code's {BEFORE}; upgrade the program, it writes nothing here"
        )
        assert "Traceback" not in ended.text
        done = writes(place, OLD)
        assert done > 0, "it was in the middle of something"
        place.write_settings()
        with left.controller() as one:
            left.cycles(one, 20)
            acting_as(place, OLD)
            assert f"newer than this code's {BEFORE}" in old.call("run", "--once").text
            place.write_settings()
            left.cycles(one, 21)
        assert writes(place, OLD) == done
    assert {node: place.out()[node] for node in out} == out
    assert place.out().keys() == {*out, "node-8"}
    assert sorted(ticket["key"] for ticket in place.tickets()) == place.told()
    assert place.pods() == {"bystander", GUARDED}
    left.sound()


def test_there_is_no_way_back_but_a_backup(left: Left, before: Version) -> None:
    """The version before, started again on this schema: it says one sentence, and changes nothing."""
    upgrade(left.url)
    there, out = rows_of(left.url), left.town.out()
    with before.obeying(left.town, left.url, left.town.folder / "old.log") as old:
        for words in (["run", "--once"], ["run"], ["db", "upgrade"], ["status"], ["open", "node-10", "--reason", "x"]):
            done = old.call(*words)
            assert done.code != 0, words
            assert f"is at schema {REVISION}, newer than this code's {BEFORE}" in done.text
            assert len(done.text.strip().splitlines()) == 1, done.text
    assert rows_of(left.url) == there
    assert left.town.out() == out
    assert not writes(left.town, "admin")


@pytest.mark.parametrize(
    "words",
    [
        *(["run", "--once"], ["run"], ["plan"], ["status"], ["explain", "node-1"], ["history", "node-1"]),
        *(["db", "upgrade"], ["db", "rebuild"], ["audit", "verify"], ["report"]),
        *(["open", "node-10", "--reason", "x"], ["pause", "--reason", "x"], ["resume", "--reason", "x"]),
    ],
    ids=" ".join,
)
def test_this_version_says_one_sentence_of_a_newer_schema(on_the_next: Left, words: list[str]) -> None:
    there = rows_of(on_the_next.url)
    done = on_the_next.try_to(*words)
    assert done.exit_code not in (0, 1, 2), done.output
    assert f"is at schema {NEXT}, newer than this code's {REVISION}" in done.output
    assert len(done.output.strip().splitlines()) == 1, done.output
    assert rows_of(on_the_next.url) == there
    assert not writes(on_the_next.town, "admin")


@pytest.fixture(scope="module")
def on_the_next(tmp_path_factory: pytest.TempPathFactory, shown: str) -> Iterator[Left]:
    """What the version before left, migrated to the schema of the next one."""
    folder = tmp_path_factory.mktemp("next")
    with left_by(BEFORE, "sqlite", f"sqlite:///{folder / 'ledger.db'}", folder, shown) as found:
        upgrade(found.url)
        upgrade_to_next(found.url)
        yield found


def test_two_new_pods_migrate_while_the_old_leader_is_in_a_transaction(left: Left) -> None:
    """Both wait for it to end; one of them migrates, and what the old leader wrote last is there."""
    with psycopg.connect(left.url) as old, ThreadPoolExecutor(2) as pool:
        old.execute("UPDATE clusters SET updated_at = '2024-01-01T00:18:00Z'")
        both = [pool.submit(upgrade, left.url) for _ in range(2)]
        until_two_wait(left.url)
        assert not any(one.done() for one in both)
        old.commit()
        results = sorted(one.result(150) for one in both)
    assert results == [(BEFORE, REVISION), (REVISION, REVISION)]
    (row,) = rows_of(left.url)["clusters"]
    assert f"{row['updated_at']:%H:%M}" == "00:18"
    assert row["term"] == left.before["clusters"][0]["term"] + 1
    left.sound()


def test_a_process_waits_to_be_replaced_and_the_next_version_goes_on(left: Left) -> None:
    """This version is the old one, in the middle of a drain: its probe and its log say so, and it does nothing more."""
    place = left.town
    upgrade(left.url)
    place.at(18)
    with pod(place, left.url, OLD, this_version()) as old:
        until(lambda: old.leads and "node-8" in place.out(), old.log)
        upgrade_to_next(left.url)
        until(lambda: f"newer than this code's {REVISION}" in old.word, old.log)
        failed, done = old.failed(), writes(place, OLD)
        place.guard(0)
        until(lambda: old.failed() >= failed + 2, old.log)
        assert writes(place, OLD) == done
        assert place.pods() == {"bystander", GUARDED}
        assert not old.leads
        assert 1 <= len(told(old.log)) <= 4, "said at once, and ever more rarely"
        assert not said(old.log, "Traceback")
        old.ends()
    let_this_code_be_the_next(left.url)
    place.write_settings()
    place.at(25)
    with left.controller() as one:
        left.cycles(one, 25, 26)
    assert place.pods() == {"bystander"}
    assert sorted(ticket["key"] for ticket in place.tickets()) == place.told()
    left.sound()


def until_two_wait(url: str) -> None:
    """Until two sessions of this database wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    end, pause = time.monotonic() + 150, threading.Event()
    with psycopg.connect(url, autocommit=True) as connection:
        while (found := connection.execute(waiting).fetchone()) is None or found[0] < 2:
            assert time.monotonic() < end, "nobody waits"
            pause.wait(0.05)
