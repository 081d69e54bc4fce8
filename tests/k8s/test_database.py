"""The init containers, in their order and as the role that they have, on the Postgres of the overlay `dev`."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from typer.testing import CliRunner, Result

from quarantine.cli.main import app
from quarantine.core.errors import QuarantineError
from quarantine.ledger import migrate
from quarantine.ledger.store import open_ledger
from quarantine.sandbox.postgres import PostgresServer
from tests.k8s.conftest import K8S, overlay, pod_of, the


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """With the roles and the database that the image makes at its first start."""
    with PostgresServer() as running:
        script = the(overlay("dev"), "ConfigMap", "postgres-roles")["data"]["roles.sql"]
        assert script == (K8S / "overlays/dev/roles.sql").read_text()
        with psycopg.connect(running.url, autocommit=True) as connection:
            for statement in script.split(";\n"):
                if statement.strip():
                    connection.execute(statement.encode())
        yield running


def url(server: PostgresServer, key: str) -> str:
    """The Secret's, at the host and port of this test's server."""
    secret = the(overlay("dev"), "Secret", "quarantine-database")["data"][key]
    given = conninfo_to_dict(base64.b64decode(secret).decode())
    there = conninfo_to_dict(server.url)
    return "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(
        user=given["user"],
        password=given["password"],
        host=there["host"],
        port=there["port"],
        dbname=given["dbname"],
    )


def run(server: PostgresServer, folder: Path, number: int) -> Result:
    """The n-th init container, with the Secret's file where its variable says."""
    container = pod_of(overlay("dev"))["spec"]["initContainers"][number]
    [variable] = container["env"]
    [volume] = [v for v in pod_of(overlay("dev"))["spec"]["volumes"] if v["name"] == "owner"]
    [item] = volume["secret"]["items"]
    (folder / item["path"]).write_text(url(server, item["key"]))
    return CliRunner().invoke(app, container["args"], env={variable["name"]: str(folder / item["path"])})


def test_they_migrate_and_grant_and_the_controller_can_write(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    writer = url(server, "writer")
    for _ in range(2):  # as each restart of the pod does it
        for number in (0, 1):
            done = run(server, tmp_path, number)
            assert done.exit_code == 0, done.output
    assert "quarantine_writer (writer)" in done.output
    migrate.check(writer)
    with open_ledger(writer, "dev", now=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as ledger:
        term = ledger.take_term("a test")
        ledger.record(term, ())
    with psycopg.connect(make_conninfo(writer)) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("DELETE FROM decisions")
    with pytest.raises(QuarantineError):
        migrate.upgrade(writer.replace("quarantine_writer", "nobody"))


def test_only_the_owner_can_grant(server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(server, tmp_path, 0).exit_code == 0
    environment = {"QUARANTINE_DATABASE_URL": url(server, "writer")}
    done = CliRunner().invoke(app, ["db", "grants", "--reader", "postgres", "--apply"], env=environment)
    assert done.exit_code == 2, done.output
    assert "are those of the role quarantine_owner, and quarantine_writer cannot" in done.output
    embedded = {"QUARANTINE_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"}
    refused = CliRunner().invoke(app, ["db", "grants", "--writer", "w", "--apply"], env=embedded)
    assert refused.exit_code == 2
    assert "SQLite has no roles" in refused.output
