"""Whose a trail is: the first cluster that is told of keeps it, no other one writes, and only a rebind ends that."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from quarantine.core.decision import Action
from quarantine.core.errors import OtherCluster, Superseded
from quarantine.ledger import migrate
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.rebind import Rebound, rebind
from quarantine.ledger.rebuild import rebuild
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.verify import Sound
from tests.ledger.samples import CLUSTER, NOW, held, now, quarantined
from tests.ledger.test_fencing import contents

A, B = "7ad1e3c2-0000-4000-8000-00000000000a", "7ad1e3c2-0000-4000-8000-00000000000b"
WHY = {"reason": "the cluster was made anew", "actor": "ada (cli)", "now": NOW}
_numbers = itertools.count()


def test_the_first_writer_says_whose_it_is(ledger: SqlLedger) -> None:
    assert ledger.identity() is None
    assert ledger.take_term("pod-1", A) == 1
    assert ledger.identity() == A
    assert ledger.take_term("pod-2", A) == 2
    ledger.require_same(A)


@pytest.mark.parametrize(
    ("seen", "said"), [(B, f"{A}, and in this one it has {B}; correct the kubeconfig"), (None, "grant")]
)
def test_of_a_trail_that_is_another_clusters_nothing_is_written(
    ledger: SqlLedger, url: str, seen: str | None, said: str
) -> None:
    """And whoever has the term is not disturbed."""
    term = ledger.take_term("pod-1", A)
    ledger.record(term, [quarantined(1)])
    before = contents(url)
    with open_ledger(url, CLUSTER, now=now) as other:
        with pytest.raises(OtherCluster, match=said):
            other.take_term("a copy", seen)
        with pytest.raises(OtherCluster, match=said):
            other.require_same(seen)
        with pytest.raises(Superseded, match="held by pod-1"):
            other.record(term, [held("x")])
    assert contents(url) == before
    ledger.record(term, [held("x")])


def test_the_sentence_has_no_password(postgres: str) -> None:
    with open_ledger(postgres.replace("quarantine@", "quarantine:s3cret@"), CLUSTER, now=now) as ledger:
        ledger.take_term("pod-1", A)
        with pytest.raises(OtherCluster) as caught:
            ledger.take_term("pod-2", B)
    assert "s3cret" not in str(caught.value)
    assert "postgresql" in str(caught.value)


def test_who_cannot_tell_writes_what_nobody_has_told_of(ledger: SqlLedger) -> None:
    """An account without the right goes on as before, until one that has it comes."""
    assert ledger.take_term("pod-1") == 1
    assert ledger.take_term("pod-1") == 2
    assert ledger.identity() is None
    ledger.require_same(None)
    ledger.require_same(A)
    assert ledger.take_term("pod-2", A) == 3
    assert ledger.identity() == A


def test_another_name_in_the_same_ledger_is_another_trail(ledger: SqlLedger, url: str) -> None:
    ledger.take_term("pod-1", A)
    with open_ledger(url, "training-b", now=now) as other:
        other.take_term("pod-1", B)
        assert (ledger.identity(), other.identity()) == (A, B)


def test_of_two_that_are_first_at_once_one_wins(url: str) -> None:
    together = threading.Barrier(2)

    def take(round_: int, uid: str) -> str:
        with open_ledger(url, f"new-{round_}", now=now) as mine:
            together.wait(timeout=60)
            try:
                mine.take_term(f"pod of {uid}", uid)
            except OtherCluster:
                return ""
            return uid

    with ThreadPoolExecutor(2) as pool:
        for round_ in range(8):
            won = "".join(pool.map(take, [round_, round_], [A, B]))
            with open_ledger(url, f"new-{round_}", now=now) as reader:
                assert won in (A, B)
                assert reader.identity() == won


# --- What keeps it ----------------------------------------------------------------------------------------------------


def test_a_rebuild_keeps_it(ledger: SqlLedger, engine: Engine) -> None:
    term = ledger.take_term("pod-1", A)
    ledger.record(term, [quarantined(1)])
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE cases SET phase = 'drained'")
    assert rebuild(engine, CLUSTER, now=NOW, write=True).written
    with pytest.raises(Superseded, match="quarantine db rebuild"):
        ledger.record(term, [])
    assert ledger.identity() == A
    assert isinstance(ledger.verify(), Sound)


def test_a_migration_keeps_it(ledger: SqlLedger, url: str) -> None:
    ledger.take_term("pod-1", A)
    engine = make_engine(url)
    with writing(engine) as connection:
        migrate._succeed(connection)
    engine.dispose()
    assert ledger.identity() == A


# --- The way out ------------------------------------------------------------------------------------------------------


def test_a_rebind_forgets_it_on_record(ledger: SqlLedger, engine: Engine, url: str) -> None:
    term = ledger.take_term("pod-1", A)
    ledger.record(term, [quarantined(1), quarantined(2)])
    assert rebind(engine, CLUSTER, **WHY) == Rebound(CLUSTER, A, open_cases=2, seq=3)  # type: ignore[arg-type]
    assert ledger.identity() is None
    with pytest.raises(Superseded, match="quarantine db rebind"):
        ledger.record(term, [held("x")])
    *_, last = ledger.decisions()
    assert (last.decision.action, last.decision.actor) == (Action.REBIND, "ada (cli)")
    was = f"the cluster whose namespace kube-system has the uid {A}"
    assert last.decision.reason == f"the trail is no more that of {was}: the cluster was made anew"
    assert isinstance(ledger.verify(), Sound)
    assert rebuild(engine, CLUSTER, now=NOW).sound
    assert ledger.load().state.recorded_until == NOW
    with open_ledger(url, CLUSTER, now=now) as anew:
        assert set(anew.load().state.cases) == {"c-1", "c-2"}, "what stood goes on"
        anew.record(anew.take_term("pod-2", B), [held("x")])
        assert anew.identity() == B


def test_where_it_is_not_known_there_is_nothing_to_forget(ledger: SqlLedger, engine: Engine, url: str) -> None:
    assert rebind(engine, CLUSTER, **WHY) is None  # type: ignore[arg-type]
    term = ledger.take_term("pod-1")
    before = contents(url)
    assert rebind(engine, CLUSTER, **WHY) is None  # type: ignore[arg-type]
    assert contents(url) == before
    ledger.record(term, [])


def test_a_rebind_leaves_other_trails_alone(ledger: SqlLedger, engine: Engine, url: str) -> None:
    ledger.take_term("pod-1", A)
    with open_ledger(url, "training-b", now=now) as other:
        term = other.take_term("pod-1", A)
        rebind(engine, CLUSTER, **WHY)  # type: ignore[arg-type]
        other.record(term, [held("x")])
        assert other.identity() == A


STEPS = ("take A", "take B", "take none", "record", "rebuild", "migrate", "rebind")


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(STEPS), max_size=12))
def test_nothing_but_a_rebind_changes_whose_it_is(engine: Engine, steps: Sequence[str]) -> None:
    cluster = f"c-{next(_numbers)}"
    ledger, term = SqlLedger(engine, cluster, now=now), 0
    known: str | None = None
    for number, step in enumerate(steps):
        match step.split():
            case ["take", name]:
                seen = {"A": A, "B": B, "none": None}[name]
                if known in (None, seen):
                    term, known = ledger.take_term(f"pod-{number}", seen), known or seen
                else:
                    with pytest.raises(OtherCluster):
                        ledger.take_term(f"pod-{number}", seen)
            case ["record"]:
                with suppress(Superseded):
                    ledger.record(term, [quarantined(number)])
            case ["rebuild"]:
                with writing(engine) as connection:
                    connection.exec_driver_sql(f"DELETE FROM cases WHERE cluster = '{cluster}'")  # noqa: S608
                rebuild(engine, cluster, now=NOW, write=True)
            case ["migrate"]:
                with writing(engine) as connection:
                    migrate._succeed(connection)
            case ["rebind"]:
                made = rebind(engine, cluster, **WHY)  # type: ignore[arg-type]
                assert (made.identity if made else None) == known
                known = None
        assert ledger.identity() == known
    assert isinstance(ledger.verify(), Sound)
