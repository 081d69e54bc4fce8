"""docs/when-the-database-fails.md says what the code says."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import typer.main

from quarantine.cli.main import app
from quarantine.core.case import HeldBy
from quarantine.ledger import bounded, engine, faults
from quarantine.ledger.pulse import LATE, LATE_CYCLES
from quarantine.metrics import OwnMetrics
from quarantine.settings import Settings
from quarantine.trouble import RARELY
from tests.test_metrics import law

TEXT = (Path(__file__).parents[2] / "docs/when-the-database-fails.md").read_text(encoding="utf-8")
FLAT = " ".join(TEXT.split())


def test_every_sentence_of_the_table_is_one_of_the_ledger() -> None:
    meanings = [*faults._POSTGRES.values(), *faults._SQLITE.values(), *vars(faults).values()]
    known = {meaning.what for meaning in meanings if isinstance(meaning, faults._Meaning)}
    said = set(re.findall(r"`… ((?:cannot|does|took|is|has|ended)[a-z -]+)`", TEXT))
    assert len(said) >= 8
    assert said <= known


def test_commands_holds_and_metrics_exist() -> None:
    there = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"`quarantine ([a-z]+)", TEXT)) <= there
    assert f"hold `{HeldBy.RESTORED}`" in FLAT
    metrics = OwnMetrics(law())
    metrics.without_ledger()
    names = {family.name for family in metrics.collect()} | {"quarantine_cycle_last_completed_timestamp_seconds"}
    assert set(re.findall(r"`(quarantine_[a-z_]+)`", TEXT)) <= names


def test_the_numbers_are_those_of_the_code() -> None:
    assert (10, timedelta(seconds=30), timedelta(seconds=10)) == (bounded.GRACE_S, engine.STATEMENT, engine.LOCK)
    assert (timedelta(minutes=5), 4, 64) == (LATE, LATE_CYCLES, RARELY)
    assert "log" in Settings.model_fields
    made = engine.make_engine("postgresql://h/d")
    assert made.pool.size() + made.pool._max_overflow == 5  # type: ignore[attr-defined]
    made.dispose()


def test_every_test_that_it_names_is_there() -> None:
    root = Path(__file__).parents[2]
    patterns = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert patterns
    assert all(list(root.glob(pattern)) for pattern in patterns)
