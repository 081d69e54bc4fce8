"""docs/sql.md describes the views that there are, column by column, and each of its queries runs on both dialects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from quarantine.ledger.engine import make_engine
from quarantine.ledger.views import VIEWS
from tests.ledger.test_views import live

PAGE = (Path(__file__).parents[2] / "docs/sql.md").read_text(encoding="utf-8")
QUERIES: list[str] = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = make_engine(url)
    live(made)
    yield made
    made.dispose()


def described() -> dict[str, tuple[str, ...]]:
    """By view, the columns that its table names, in order."""
    places = [(found.start(), found[1]) for found in re.finditer(r"^### (\w+)$", PAGE, re.MULTILINE)]
    ends = [start for start, _ in places[1:]] + [len(PAGE)]
    sections = {name: PAGE[start:end] for (start, name), end in zip(places, ends, strict=True)}
    return {
        name: tuple(
            column
            for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
            for column in cell[1:-1].split("`, `")
        )
        for name, section in sections.items()
    }


def test_every_view_is_described_with_all_of_its_columns() -> None:
    assert described() == dict(VIEWS)


def test_there_is_a_query_for_every_view() -> None:
    asked = {name for query in QUERIES for name in re.findall(r"quarantine_\w+", query)}
    assert asked == set(VIEWS)


def test_each_query_runs_and_finds_something(engine: Engine) -> None:
    """Where nothing can be found, it is by the history that the tests have: no machine was exchanged in it."""
    empty = []
    for query in QUERIES:
        with engine.connect() as connection:
            rows = connection.execute(text(query)).all()
        if not rows:
            empty.append(query)
        names = list(rows[0]._mapping) if rows else []
        assert len(set(names)) == len(names), query
    assert [query for query in empty if "asked_to_swapped_seconds" not in query] == []


def test_hours_are_hours(engine: Engine) -> None:
    (query,) = [query for query in QUERIES if "machine_hours" in query]
    with engine.connect() as connection:
        both = connection.execute(text(query)).one()
        (one,) = connection.execute(text("SELECT seconds FROM quarantine_outages WHERE case_id = 'c-1'")).scalars()
    assert both.pool == "gpu"
    assert both.outages == 2
    assert both.machine_hours > one / 3600


def test_sections_stand_in_the_order_of_the_questions() -> None:
    """Each view is under a heading of its own, once."""
    found = list(described())
    assert len(found) == len(set(found)) == len(VIEWS)
    assert all(PAGE.index(f"### {one}\n") < PAGE.index(f"### {other}\n") for one, other in pairwise(found))
