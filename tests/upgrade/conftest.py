"""One Prometheus and one Postgres for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from quarantine.ledger.migrate import upgrade
from quarantine.sandbox.postgres import PostgresServer
from quarantine.sandbox.prometheus import PrometheusServer
from tests.scenarios.play import HEAD_ONLY
from tests.upgrade.town import show
from tests.upgrade.versions import Version, version_before

_numbers = count()
TEMPLATE = "migrated"
WRITER = "quarantine_writer"  # the role of controllers, where the owner of the tables is another


@pytest.fixture(scope="session")
def shown() -> Iterator[str]:
    """The URL of a Prometheus that shows what every town shows."""
    with PrometheusServer(flags=HEAD_ONLY) as server:
        show(server.url)
        yield server.url


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {WRITER} LOGIN")
        upgrade(server.database(TEMPLATE))
        yield server


@pytest.fixture
def empty(postgres: PostgresServer) -> Iterator[str]:
    """A database of this test's own, without tables."""
    name = f"upgrade_{next(_numbers)}"
    yield postgres.database(name)
    postgres.drop(name)


@pytest.fixture
def migrated(postgres: PostgresServer) -> Iterator[str]:
    """A database of this test's own, at this code's schema."""
    name = f"upgrade_{next(_numbers)}"
    yield postgres.database(name, template=TEMPLATE)
    postgres.drop(name)


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The version before this one."""
    return version_before(tmp_path_factory.mktemp("before"))
