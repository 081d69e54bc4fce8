"""The quick check of the columns accepts nothing that the exact one would not, and the exact one is right."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from quarantine.core.decision import Decision
from quarantine.ledger.codec import dump, plain
from quarantine.ledger.columns import NAMES, plainly_say, wrong_column
from quarantine.ledger.trail import projected
from tests.ledger.samples import NOW, quarantined
from tests.ledger.test_codec import DECISION, TEXT

Columns = tuple[str | None, ...]


def row(decision: Decision) -> tuple[str, Columns]:
    data = plain(decision)
    of = projected(data)
    return dump(data), tuple(of[name] for name in NAMES)


def written(at: datetime, *, postgres: bool) -> str:
    """As the database has it."""
    text = at.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    return f"{text.rstrip('0').rstrip('.')}+00" if postgres else text


def test_all_columns_that_follow_from_a_body_are_looked_at() -> None:
    assert set(NAMES) == set(projected(plain(quarantined(1))))


@settings(deadline=None)
@given(decision=DECISION, postgres=st.booleans())
def test_what_the_writer_writes_is_right(decision: Decision, postgres: bool) -> None:
    body, columns = row(decision)
    at = decision.at.astimezone(NOW.tzinfo)
    assert wrong_column(body, at, columns) is None
    surrogates = any(f"\\ud{nibble}" in body for nibble in "89abcdef")
    common = all(text is None or (len(text) < 300 and "\\" not in text) for text in columns) and not surrogates
    assert plainly_say(body, written(at, postgres=postgres), columns) or not common


@settings(deadline=None)
@given(decision=DECISION, column=st.integers(0, len(NAMES) - 1), value=st.none() | TEXT)
def test_any_other_column_is_wrong(decision: Decision, column: int, value: str | None) -> None:
    body, columns = row(decision)
    assume(columns[column] != value)
    changed = (*columns[:column], value, *columns[column + 1 :])
    at = decision.at.astimezone(NOW.tzinfo)
    assert wrong_column(body, at, changed) == NAMES[column]
    assert not plainly_say(body, written(at, postgres=False), changed)


@settings(deadline=None)
@given(decision=DECISION, other=st.datetimes(datetime(1970, 1, 2), datetime(2999, 1, 1)))  # noqa: DTZ001  (naive bounds)
def test_any_other_time_is_wrong(decision: Decision, other: datetime) -> None:
    body, columns = row(decision)
    moved = other.replace(tzinfo=NOW.tzinfo)
    assume(moved != decision.at)
    assert wrong_column(body, moved, columns) == "at"
    assert not any(plainly_say(body, written(moved, postgres=postgres), columns) for postgres in (True, False))


@pytest.mark.parametrize(
    ("raw", "stored"),
    [("a\\b", "a\\\\b"), ("a\x00b", "a\\u0000b"), ("x" * 401, None), ("x" * 400, "x" * 400)],
)
def test_text_that_is_stored_another_way_is_not_accepted_as_it_is(raw: str, stored: str | None) -> None:
    """A column that was changed to the very text of the body is not what was written."""
    data = {**plain(quarantined(1)), "node": raw}
    place = NAMES.index("node")
    columns = [projected(data)[name] for name in NAMES]
    assert stored is None or columns[place] == stored
    columns[place] = raw
    assert plainly_say(dump(data), written(NOW, postgres=False), tuple(columns)) == (raw == stored)
    assert wrong_column(dump(data), NOW, tuple(columns)) == (None if raw == stored else "node")


@pytest.mark.parametrize("body", ["", "{}", "null", "[]", "{", "\x00", '{"at":1}', "[" * 200_000, "\ud800"])
def test_what_is_no_decision_at_all_is_not_accepted(body: str) -> None:
    columns = row(quarantined(1))[1]
    assert not plainly_say(body, written(NOW, postgres=True), columns)
    assert wrong_column(body, NOW, columns) == "body"


@pytest.mark.parametrize("escape", ["\\\\", "\\u005c", "\\u005C", "\\u0000"])
def test_however_a_character_is_written_that_is_stored_another_way(escape: str) -> None:
    """JSON has several ways; the writer's own is not the only one that somebody could put there."""
    body = dump({**plain(quarantined(1)), "node": "NODE"}).replace("NODE", f"a{escape}b")
    read = json.loads(body)
    columns = [projected(read)[name] for name in NAMES]
    assert wrong_column(body, NOW, tuple(columns)) is None
    columns[NAMES.index("node")] = read["node"]
    assert not plainly_say(body, written(NOW, postgres=False), tuple(columns))
