"""Both databases, for real: a Postgres server per session and a database per test; a SQLite file per test."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from quarantine.ledger.engine import make_engine
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.sandbox.postgres import PostgresServer
from tests.ledger.samples import CLUSTER, now

_TEMPLATE = "migrated"
_number = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """One server; its database `migrated` is what others are copied from."""
    with PostgresServer() as running:
        upgrade(running.database(_TEMPLATE))
        yield running


@pytest.fixture
def empty_postgres(server: PostgresServer) -> Iterator[str]:
    """A database of this test's own, without tables."""
    name = f"test_{next(_number)}"
    yield server.database(name)
    server.drop(name)


@pytest.fixture
def postgres(server: PostgresServer) -> Iterator[str]:
    """A migrated database of this test's own."""
    name = f"test_{next(_number)}"
    yield server.database(name, template=_TEMPLATE)
    server.drop(name)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "migrated.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite(migrated_file: Path, tmp_path: Path) -> str:
    """A migrated file of this test's own."""
    path = tmp_path / "ledger.db"
    shutil.copy(migrated_file, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A migrated database of each dialect."""
    chosen: str = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each dialect without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    chosen: str = request.getfixturevalue("empty_postgres")
    return chosen


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    """The ledger of `CLUSTER`; its clock stands at `NOW`."""
    with open_ledger(url, CLUSTER, now=now) as opened:
        yield opened


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """The same database as `ledger`'s; one for all examples of a property."""
    made = make_engine(url)
    yield made
    made.dispose()
