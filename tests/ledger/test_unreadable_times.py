"""A time that no calendar of Python has, put into a table by somebody else, ends in a sentence and not in a defect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text

from quarantine.core.errors import LedgerUnavailable
from quarantine.ledger.archive import SqlArchive
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.schema import TRIGGERS
from quarantine.ledger.store import SqlLedger
from tests.ledger.samples import CLUSTER, NOW, held, quarantined


@pytest.fixture
def owner(ledger: SqlLedger, url: str) -> Iterator[Engine]:
    """Of a ledger with two cases, and without triggers."""
    term = ledger.take_term("pod")
    ledger.record(term, [quarantined(1), held("judge/x")])
    ledger.record(term, [quarantined(2)])
    ledger.close()
    engine = make_engine(url)
    with writing(engine) as connection:
        if connection.dialect.name == "sqlite":
            for name in TRIGGERS["sqlite"]:
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            connection.execute(text("ALTER TABLE decisions DISABLE TRIGGER USER"))
    yield engine
    engine.dispose()


READS: dict[str, Callable[[SqlLedger, SqlArchive], object]] = {
    "load": lambda ledger, _: ledger.load(),
    "record": lambda ledger, _: ledger.record(1, [held("judge/y")]),
    "pulse": lambda ledger, _: ledger.pulse(),
    "sightings": lambda _, archive: archive.sightings("node-1"),
}


@pytest.mark.parametrize("value", ["infinity", "-infinity", "20000-01-01 00:00:00"])
@pytest.mark.parametrize(
    ("read", "column"),
    [
        ("load", "decisions.at"),
        ("record", "decisions.at"),
        ("pulse", "clusters.updated_at"),
        ("sightings", "sightings.first_at"),
    ],
)
def test_it_is_one_sentence(url: str, owner: Engine, read: str, column: str, value: str) -> None:
    table, _, name = column.partition(".")
    with writing(owner) as connection:
        connection.execute(text(f"UPDATE {table} SET {name} = '{value}'"))  # noqa: S608  (ours)
    with (
        SqlLedger(make_engine(url), CLUSTER, now=lambda: NOW + timedelta(minutes=1)) as ledger,
        SqlArchive(make_engine(url)) as archive,
        pytest.raises(LedgerUnavailable, match=r"holds a value that cannot be read \(.*\); run `quarantine audit"),
    ):
        READS[read](ledger, archive)
