"""Many decisions recorded together leave what they leave one by one: every table, byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError, fields
from dataclasses import replace as standard
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case
from quarantine.core.copying import replace
from quarantine.core.decision import Decision, Kind, State
from quarantine.core.state import evolve
from quarantine.ledger.outbox import key_of
from quarantine.ledger.store import open_ledger
from quarantine.ledger.writer import FEW
from quarantine.sandbox.bench.lives import life
from quarantine.sandbox.postgres import PostgresServer
from tests.ledger.conftest import _TEMPLATE
from tests.ledger.samples import CLUSTER, NOW, dismissed, ended, held, now, quarantined
from tests.ledger.test_fencing import contents

ODD = '\\ "quoted", {braces}\\" \t NULL é 💥'


def interleaved(order: Sequence[int]) -> list[Decision]:
    """The lives of three machines, each in its order, and what else changes rows: holds, dismissals, odd texts."""
    given = [iter(life("c", number)) for number in range(3)]
    found: list[Decision] = []
    for place, machine in enumerate(order):
        found += islice(given[machine], 1)
        if place % 7 == 3:
            found.append(replace(held(f"hold {place % 2}"), reason=ODD))
        if place % 11 == 5:
            found += [quarantined(place), dismissed(place)] if place % 2 else [quarantined(place), ended(place)]
    return found


def recorded(url: str, given: Sequence[Decision], sizes: Iterator[int]) -> dict[str, list[tuple[object, ...]]]:
    """What is in every table once the decisions were recorded so many at a time."""
    left = iter(given)
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("t")
        ledger.load()
        while taken := list(islice(left, next(sizes))):
            one = taken[0]
            if len(taken) == 1 and one.kind is Kind.DONE and one.case is not None and one.effect is not None:
                ledger.settle(term, key_of(one.case, one.effect), one)
            else:
                ledger.record(term, taken)
    return contents(url)


def forever(sizes: Sequence[int]) -> Iterator[int]:
    while True:
        yield from sizes


@settings(deadline=None, max_examples=5)
@given(order=st.lists(st.integers(0, 2), max_size=30), sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_batches_are_the_same_as_one_by_one(
    order: list[int], sizes: list[int], migrated_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("batches")
    found = []
    for name, many in (("one", [1]), ("many", sizes)):
        path = shutil.copy(migrated_file, folder / f"{name}.db")
        found.append(recorded(f"sqlite:///{path}", interleaved(order), forever(many)))
    assert found[0] == found[1]


@pytest.mark.parametrize("sizes", [[1], [2, FEW, FEW + 1, 3]])
def test_on_postgres_too_whether_in_one_statement_or_in_several(
    server: PostgresServer, sqlite: str, sizes: list[int]
) -> None:
    given = interleaved([place % 3 for place in range(24)])
    url = server.database(f"batches_{len(sizes)}", template=_TEMPLATE)
    try:
        assert recorded(url, given, forever(sizes)) == recorded(sqlite, given, forever([1]))
    finally:
        server.drop(f"batches_{len(sizes)}")


@settings(deadline=None, max_examples=20)
@given(order=st.lists(st.integers(0, 2), max_size=40))
def test_a_fold_changes_nothing_of_the_states_before(order: list[int]) -> None:
    """What is copied quickly is copied: no state shares with the next one what the next one changes."""
    states, texts = [State()], [repr(State())]
    for decision in interleaved(order):
        states.append(evolve(states[-1], decision))
        texts.append(repr(states[-1]))
    assert [repr(state) for state in states] == texts


def test_a_copy_is_that_of_the_standard_library() -> None:
    state = State()
    for decision in life("c", 0):
        state = evolve(state, decision)
    case = next(iter(state.cases.values()))
    records: list[tuple[Any, dict[str, Any]]] = [
        (case, {"reason": ODD, "held_by": None}),
        (case.findings[0], {"ended": (NOW,)}),
        (state, {"answered": frozenset({"r-1"})}),
        (life("c", 0)[0], {}),
    ]
    for record, changes in records:
        copied = replace(record, **changes)
        assert copied == standard(record, **changes)
        assert copied is not record
        assert all(getattr(copied, f.name) is getattr(record, f.name) for f in fields(record) if f.name not in changes)
        with pytest.raises(FrozenInstanceError):
            setattr(copied, fields(record)[0].name, "")
    with pytest.raises(TypeError, match="Case has no field 'colour'"):
        replace(case, colour="red")


def test_a_copy_of_what_is_checked_when_it_is_made_is_refused() -> None:
    class Checked(Case):
        def __post_init__(self) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match="checked when it is made"):
        replace(Checked.__new__(Checked))
