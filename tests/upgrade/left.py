"""What an earlier version left, in the hands of this one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine, MetaData, inspect, select
from typer.testing import CliRunner, Result

from quarantine import app
from quarantine.cli.main import app as commands
from quarantine.controller import Controller
from quarantine.core.case import Case
from quarantine.ledger.engine import make_engine, reading
from quarantine.ledger.store import open_ledger
from quarantine.ledger.verify import Sound
from quarantine.ports import LedgerView
from quarantine.settings import load as load_settings
from tests.upgrade import recording
from tests.upgrade.town import CLUSTER, SIMULATED, TOKEN, Town, town


@dataclass
class Left:
    """What an earlier version left, brought to this one's schema."""

    revision: str
    url: str
    town: Town
    before: Mapping[str, list[dict[str, Any]]]  # rows of its tables

    def view(self) -> LedgerView:
        """What the ledger says now."""
        with closing(open_ledger(self.url, CLUSTER, now=self.town.time.now)) as ledger:
            return ledger.load()

    def cases(self) -> dict[str, Case]:
        """Those that are open, by node."""
        return {case.node: case for case in self.view().state.cases.values() if case.open}

    def try_to(self, *words: str) -> Result:
        """A command of this version."""
        environment = {**SIMULATED, "QUARANTINE_SLACK__TOKEN": TOKEN, "QUARANTINE_DATABASE_URL": self.url}
        return CliRunner().invoke(commands, [*words, "--config", str(self.town.config)], env=environment)

    def call(self, *words: str) -> str:
        """A command that must go well; what it said."""
        done = self.try_to(*words)
        assert done.exit_code == 0, done.output
        return done.output

    @contextmanager
    def controller(self) -> Iterator[Controller]:
        """This version's, as `quarantine run` builds it."""
        environment = {**SIMULATED, "QUARANTINE_SLACK__TOKEN": TOKEN, "QUARANTINE_DATABASE_URL": self.url}
        given = load_settings(self.town.config, {}, environment)
        with app.parts(given, watch=False, acts=True) as parts:
            yield app.controller(parts)

    def sound(self) -> None:
        """The chain of the trail, from its first row to its last."""
        with closing(open_ledger(self.url, CLUSTER, now=self.town.time.now)) as ledger:
            found = ledger.verify()
        assert isinstance(found, Sound), found
        assert found.count >= len(self.before["decisions"])

    def writer(self) -> dict[str, Any]:
        """The row that says who writes, and for which cluster."""
        (row,) = rows_of(self.url)["clusters"]
        return row

    def once(self) -> None:
        """A ticket and a message for each case that ever took a machine out, and no pod asked twice that did leave."""
        cases = [case for case in self.view().state.cases.values() if case.id in self.town.told()]
        assert sorted(case.id for case in cases) == self.town.told()
        assert sorted(ticket["key"] for ticket in self.town.tickets()) == self.town.told()
        evicted = [one.path for one in self.town.api.requests if one.path.endswith("/eviction") and one.status == 201]
        assert len(evicted) == len(set(evicted))
        assert not [path for path in evicted if re.search(r"/(free|bystander)/", path)]

    def cycles(self, controller: Controller, *minutes: float) -> None:
        """At these times after the beginning."""
        for minute in minutes:
            self.town.at(minute)
            report = controller.cycle()
            assert report.error is None, report.sentence
            assert not report.blind, report.blind


@contextmanager
def left_by(revision: str, dialect: str, url: str, folder: Path, prometheus: str) -> Iterator[Left]:
    """A recording, in a database and a town of its own. `url`: of the database, which is empty."""
    kept = recording.read(revision, dialect)
    recording.load(kept["database"], url)
    with (
        town(folder, prometheus) as place,
        patch.object(app, "CLOCK", place.time),
        patch.object(app, "drawing", lambda: None),  # charts take longer than all the rest, and have tests of their own
    ):
        place.restore(kept)
        place.at(kept["minutes"])
        place.write_settings()
        yield Left(revision, url, place, rows_of(url))


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    made = make_engine(url)
    yield made
    made.dispose()


def rows_of(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, by the tables that are there."""
    with engine_of(url) as engine, reading(engine) as connection:
        there = [name for name in inspect(connection).get_table_names() if name != "alembic_version"]
        found = MetaData()
        found.reflect(connection, only=there)
        return {
            table.name: [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
            for table in found.sorted_tables
        }
