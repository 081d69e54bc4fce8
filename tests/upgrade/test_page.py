"""docs/upgrade.md: its commands are there, its sentence is the program's, and its way back is one."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from sqlalchemy.engine import make_url

from quarantine.cli.main import app
from quarantine.ledger.migrate import check, upgrade
from quarantine.sandbox.postgres import find_binaries
from tests.upgrade.left import Left, left_by, rows_of
from tests.upgrade.nextversion import upgrade_to_next
from tests.upgrade.town import CLUSTER
from tests.upgrade.versions import BEFORE

PAGE = (Path(__file__).parents[2] / "docs" / "upgrade.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.split())

pytestmark = pytest.mark.timeout(240)


def commands(program: str) -> list[list[str]]:
    """The command lines of a program on the page, without its name."""
    found = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]
    return [shlex.split(line)[1:] for line in found if line.split()[0] == program]


@pytest.mark.parametrize("words", commands("quarantine"), ids=" ".join)
def test_each_command_and_option_exists(words: list[str]) -> None:
    here: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(here, "commands"):
        here = here.commands[rest.pop(0)]
    here.make_context(here.name, rest)  # raises for an unknown option


def test_the_commands_are_found() -> None:
    assert {" ".join(words[:2]) for words in commands("quarantine")} >= {"audit verify", "db rebuild", "status"}
    programs = ("psql", "pg_dump", "dropdb", "createdb", "pg_restore", "kubectl")
    assert [len(commands(one)) for one in programs] == [1, 1, 1, 1, 1, 3]


def test_the_sentence_is_the_one_that_is_said() -> None:
    source = (Path(check.__code__.co_filename).parent / "revision.py").read_text(encoding="utf-8")
    (said,) = re.findall(r"is at schema \d+, (newer than this code's) \d+; (upgrade the program, .*)", PAGE)
    assert all(part in source for part in said)


def test_who_writes_is_seen_before(empty: str, shown: str, tmp_path: Path) -> None:
    """On the schema before, by the page's own command."""
    with left_by(BEFORE, "postgres", empty, tmp_path, shown) as found:
        seen = _run(found, "psql")
        assert found.writer()["holder"] in seen
        assert CLUSTER in seen


@pytest.fixture
def left(empty: str, shown: str, tmp_path: Path) -> Iterator[Left]:
    """What the version before left in the middle of its work, at this schema."""
    with left_by(BEFORE, "postgres", empty, tmp_path, shown) as found:
        upgrade(found.url)
        yield found


def test_the_way_back_by_a_backup(left: Left) -> None:
    """The page's own commands, on this test's database: what was there before the next version is there again."""
    there = rows_of(left.url)
    _run(left, "pg_dump")
    upgrade_to_next(left.url)
    assert rows_of(left.url).keys() > there.keys()
    _run(left, "dropdb")
    _run(left, "createdb")
    _run(left, "pg_restore")
    assert rows_of(left.url) == there
    check(left.url)
    left.sound()
    with left.controller() as one:
        left.cycles(one, 19)
    assert left.town.out().keys() == {"node-1", "node-2", "node-4", "node-8"}


def _run(left: Left, program: str) -> str:
    """A command line of the page, with this server and database in the place of the page's own; what it said."""
    (words,) = commands(program)
    place = make_url(left.url)
    named = {
        "postgresql://quarantine_owner@db/quarantine": left.url,
        "--dbname=quarantine": f"--dbname={left.url}",
        "--owner=quarantine_owner": f"--owner={place.username}",
        "--role=quarantine_owner": f"--role={place.username}",
        "quarantine": str(place.database),
    }
    given = [named.get(word, word) for word in words]
    server = [f"--host={place.host}", f"--port={place.port}", f"--username={place.username}"]
    spoken = given if left.url in " ".join(given) else [*server, *given]
    done = subprocess.run(
        [str(find_binaries() / program), *spoken],
        cwd=left.town.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
