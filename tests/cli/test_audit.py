"""`quarantine audit …` and `quarantine db grants`: what they say, where, and how they end."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quarantine.cli import trails
from quarantine.cli.main import app
from quarantine.core.decision import Decision, State
from quarantine.core.policy import LoadedPolicy
from quarantine.core.versions import version_decisions
from quarantine.ledger.engine import make_engine
from quarantine.ledger.schema import decisions
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.trail import Head, chained
from tests.core.world import rules
from tests.ledger.samples import NOW, held, policy, quarantined

DAY = timedelta(days=1)
Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    """Three decisions of the cluster `default`, a day apart; the second is of a node."""
    with open_ledger(url, "default", now=lambda: NOW) as made:
        taken = [replace(held("a"), at=NOW - 2 * DAY), quarantined(1, at=NOW - DAY), replace(held("b"), at=NOW)]
        made.record(made.take_term("pod"), taken)
        yield made


@pytest.fixture
def other(url: str) -> Iterator[SqlLedger]:
    with open_ledger(url, "other", now=lambda: NOW) as made:
        made.record(made.take_term("pod"), [held("c")])
        yield made


@pytest.fixture
def run(url: str) -> Run:
    return lambda *arguments: CliRunner().invoke(app, [*arguments, "--database-url", url])


def head(ledger: SqlLedger) -> str:
    return list(ledger.decisions())[-1].hash


def tamper(url: str, statement: str) -> None:
    """As whoever has the file can, with the triggers back in place."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)
        for _, sql in triggers:
            connection.execute(sql)


# --- verify -----------------------------------------------------------------------------------------------------------


def test_a_sound_trail(run: Run, ledger: SqlLedger) -> None:
    result = run("audit", "verify")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"default: the trail is sound, 3 rows; the head's hash is {head(ledger)}\n"
    assert result.stderr == ""


def test_a_broken_one_names_the_row_and_ends_with_1(run: Run, ledger: SqlLedger, url: str) -> None:
    tamper(url, "UPDATE decisions SET reason = 'x' WHERE seq = 2")
    result = run("audit", "verify")
    assert result.exit_code == 1
    assert result.stdout == "default: row 2 was altered: its column reason does not say what its text says\n"
    told = json.loads(run("audit", "verify", "--output", "json").stdout)
    assert told == {
        "sound": False,
        "trails": [
            {
                "cluster": "default",
                "sound": False,
                "rows": None,
                "hash": None,
                "first_bad_row": {
                    "seq": 2,
                    "what": "was altered: its column reason does not say what its text says",
                },
                "checkpoints": [],
            }
        ],
        "faults": [],
    }


def test_all_clusters(run: Run, ledger: SqlLedger, other: SqlLedger, url: str) -> None:
    told = json.loads(run("audit", "verify", "--all", "--output", "json").stdout)
    assert told["sound"]
    assert [(t["cluster"], t["rows"], t["hash"]) for t in told["trails"]] == [
        ("default", 3, head(ledger)),
        ("other", 1, head(other)),
    ]
    tamper(url, "DELETE FROM decisions WHERE cluster = 'other'")
    result = run("audit", "verify", "--all")
    assert result.exit_code == 1
    assert [line.partition(";")[0] for line in result.stdout.splitlines()] == [
        "default: the trail is sound, 3 rows",
        "other: row 1 is missing: the head of the chain is row 1",
    ]
    assert run("audit", "verify", "--cluster", "default").exit_code == 0
    assert run("audit", "verify", "--cluster", "other").exit_code == 1


def test_markdown_is_escaped(run: Run, url: str) -> None:
    evil = "<b>|`x`](http://y)\x1b[2J"
    with open_ledger(url, "plain", now=lambda: NOW) as made:
        made.record(made.take_term("pod"), [held("c")])
    tamper(url, "UPDATE clusters SET cluster = '<b>|`x`](http://y)' || char(27) || '[2J'")
    result = run("audit", "verify", "--all", "--output", "markdown")
    assert result.exit_code == 1
    assert evil not in result.stdout
    assert "\x1b" not in result.stdout
    assert "<b>" not in result.stdout
    assert "\x1b" not in run("audit", "verify", "--all").stdout


def test_a_trigger_that_is_gone_and_a_policy_text_that_is_another_are_faults(
    run: Run, ledger: SqlLedger, url: str
) -> None:
    text = "kind: Policy\n"
    kept = replace(policy(text=text), hash="5cbb0ba23f0fc7f4f3c3ef8f3c9b0a6b3d1a7e9fdfd0b6a5dba2a1a1f4c8a2b1")
    ledger.record(ledger.take_term("pod"), [], [kept])
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("DROP TRIGGER decisions_no_update")
    result = run("audit", "verify")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:] == [
        "default: the text of gpu-hot that is kept under 5cbb0ba23f0f… does not have that hash",
        "missing: trigger decisions_no_update",
    ]
    told = json.loads(run("audit", "verify", "--output", "json").stdout)
    assert (told["sound"], told["trails"][0]["sound"], len(told["faults"])) == (False, True, 2)


def in_force(name: str, text: str) -> tuple[Decision, LoadedPolicy]:
    """The decision by which a version comes into force, and the version."""
    kept = replace(policy(name, text), hash=hashlib.sha256(text.encode()).hexdigest())
    (said,) = version_decisions(State(), rules(kept), NOW, "controller")
    return said, kept


def test_a_policy_text_that_is_gone_is_a_fault_until_it_is_kept_again(run: Run, ledger: SqlLedger, url: str) -> None:
    term = ledger.take_term("pod")
    (hot, kept), (cold, other) = in_force("gpu-hot", "kind: Policy\n"), in_force("gpu-cold", "kind: Policy # 2\n")
    ledger.record(term, [hot, cold], [kept, other])
    assert run("audit", "verify").exit_code == 0
    tamper(url, "DELETE FROM policy_versions WHERE name = 'gpu-hot'")
    result = run("audit", "verify")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:] == [
        f"default: the text of gpu-hot that came into force by row 4 ({kept.hash[:12]}…) is missing"
    ]
    tamper(url, "UPDATE policy_versions SET hash = upper(hash)")
    assert run("audit", "verify").stdout.splitlines()[1:] == [
        f"default: the text of gpu-cold that is kept under {other.hash.upper()[:12]}… does not have that hash",
        f"default: the text of gpu-hot that came into force by row 4 ({kept.hash[:12]}…) is missing",
        f"default: the text of gpu-cold that came into force by row 5 ({other.hash[:12]}…) is missing",
    ]
    tamper(url, "DELETE FROM policy_versions")
    with open_ledger(url, "default", now=lambda: NOW) as again:  # a controller that starts keeps what is in force
        again.record(again.take_term("pod-2"), [], [kept, other])
    assert run("audit", "verify").exit_code == 0


def test_a_policy_text_that_is_no_text_is_a_fault(run: Run, ledger: SqlLedger, url: str) -> None:
    said, kept = in_force("gpu-hot", "kind: Policy\n")
    ledger.record(ledger.take_term("pod"), [said], [kept])
    tamper(url, "UPDATE policy_versions SET text = x'00ff'")
    result = run("audit", "verify")
    assert result.exit_code == 1
    assert "the text of gpu-hot that is kept under" in result.stdout


def test_a_document_that_is_no_more_has_no_text_to_be_missed(run: Run, ledger: SqlLedger) -> None:
    """And a hash that a row names alone is not missed: older trails do not tell what came into force."""
    gone = replace(in_force("gpu-hot", "x\n")[0], policy_hash=None)
    ledger.record(ledger.take_term("pod"), [gone, quarantined(2)])
    assert run("audit", "verify").exit_code == 0


def test_how_far_it_is_goes_to_stderr(run: Run, ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarantine.ledger.verify.STRETCH", 2)
    monkeypatch.setattr(trails, "PROGRESS", 0.0)
    result = run("audit", "verify", "--output", "json")
    assert json.loads(result.stdout)["sound"]
    assert result.stderr == "quarantine: default: 2 of 3 rows are sound\n"


@pytest.mark.parametrize("command", [["verify"], ["verify", "--all"], ["checkpoint"], ["export"]])
def test_where_there_is_nothing_it_says_so(tmp_path: Path, url: str, command: list[str]) -> None:
    missing = tmp_path / "none.db"
    result = CliRunner().invoke(app, ["audit", *command, "--database-url", f"sqlite:///{missing}"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no ledger at" in result.stderr
    assert not missing.exists()
    empty = CliRunner().invoke(app, ["audit", *command, "--database-url", url])
    assert (empty.exit_code, empty.stdout) == (1, "")
    assert "has no trail" in empty.stderr


def test_a_cluster_that_is_not_there_is_told_with_those_that_are(run: Run, ledger: SqlLedger) -> None:
    for command in ("verify", "checkpoint", "export"):
        result = run("audit", command, "--cluster", "defualt")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "no trail of cluster 'defualt'; it has those of 'default': name one by --cluster" in result.stderr


def test_one_cluster_or_all(run: Run, ledger: SqlLedger) -> None:
    for command in ("verify", "export"):
        result = run("audit", command, "--all", "--cluster", "default")
        assert result.exit_code == 2
        assert "give --cluster or --all, not both" in result.stderr


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_goes_to_stdout_or_into_a_file(run: Run, ledger: SqlLedger, tmp_path: Path) -> None:
    printed = run("audit", "checkpoint")
    assert json.loads(printed.stdout) | {"version": ""} == {
        "format": 1,
        "cluster": "default",
        "count": 3,
        "hash": head(ledger),
        "at": "2026-11-29T12:00:00Z",
        "version": "",
    }
    file = tmp_path / "trail.json"
    result = run("audit", "checkpoint", str(file))
    assert result.exit_code == 0, result.output
    assert "the trail of default has 3 rows" in result.stdout
    assert file.read_text() == printed.stdout
    agreed = run("audit", "verify", "--checkpoint", str(file))
    assert agreed.exit_code == 0
    assert "3 rows, and it agrees with 1 checkpoint;" in agreed.stdout
    ledger.record(ledger.take_term("pod"), [held("d")])
    told = json.loads(run("audit", "verify", "--checkpoint", str(file), "-o", "json").stdout)
    assert (told["sound"], told["trails"][0]["rows"]) == (True, 4)
    assert told["trails"][0]["checkpoints"] == [{"count": 3, "hash": head_of(file), "at": "2026-11-29T12:00:00Z"}]


def head_of(file: Path) -> str:
    found: str = json.loads(file.read_text())["hash"]
    return found


def rewrite(url: str, count: int) -> None:
    """An owner writes another history, consistent throughout."""
    rows, new = chained("default", Head(0, "0" * 64), [held(f"other-{n}") for n in range(count)])
    tamper(url, "DELETE FROM actions")
    tamper(url, "DELETE FROM decisions")
    engine = make_engine(url)
    with engine.begin() as connection:
        connection.execute(decisions.insert(), rows)
    engine.dispose()
    tamper(url, f"UPDATE clusters SET seq = {new.seq}, hash = '{new.hash}'")  # noqa: S608  (ours)


def test_what_an_owner_wrote_anew_is_found_and_the_checkpoint_is_not_replaced(
    run: Run, ledger: SqlLedger, url: str, tmp_path: Path
) -> None:
    file = tmp_path / "trail.json"
    run("audit", "checkpoint", str(file))
    before = file.read_text()
    for count, said in (
        (5, "row 3 has another hash than in the checkpoint"),
        (2, "row 3 is missing: the checkpoint of"),
    ):
        rewrite(url, count)
        assert run("audit", "verify").exit_code == 0
        result = run("audit", "verify", "--checkpoint", str(file))
        assert result.exit_code == 1
        assert said in result.stdout
        again = run("audit", "checkpoint", str(file))
        assert (again.exit_code, again.stdout) == (1, "")
        assert f"{file} is left as it is, since {said}" in again.stderr
        assert file.read_text() == before


def test_a_checkpoint_of_another_cluster(
    run: Run, ledger: SqlLedger, other: SqlLedger, url: str, tmp_path: Path
) -> None:
    file = tmp_path / "trail.json"
    run("audit", "checkpoint", str(file), "--cluster", "other")
    result = run("audit", "verify", "--checkpoint", str(file))
    assert result.exit_code == 2
    assert "the checkpoint is of cluster 'other', not of 'default': give --cluster other, or --all" in result.stderr
    assert run("audit", "verify", "--checkpoint", str(file), "--cluster", "other").exit_code == 0
    assert run("audit", "verify", "--checkpoint", str(file), "--all").exit_code == 0
    taken = run("audit", "checkpoint", str(file))
    assert taken.exit_code == 2
    assert "is a checkpoint of cluster 'other', not of 'default': name another file" in taken.stderr
    tamper(url, "DELETE FROM decisions WHERE cluster = 'other'")
    tamper(url, "DELETE FROM clusters WHERE cluster = 'other'")
    for options in (["--all"], ["--cluster", "other"]):
        gone = run("audit", "verify", "--checkpoint", str(file), *options)
        assert gone.exit_code == 1
        assert "other: row 1 is missing: the checkpoint of 2026-11-29 12:00 UTC counts 1 rows" in gone.stdout


def test_a_file_that_is_no_checkpoint_is_neither_believed_nor_overwritten(
    run: Run, ledger: SqlLedger, tmp_path: Path
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not to be lost")
    for command in (["audit", "verify", "--checkpoint", str(file)], ["audit", "checkpoint", str(file)]):
        result = run(*command)
        assert result.exit_code == 2
        assert f"{file} is no checkpoint" in result.stderr
    assert file.read_text() == "not to be lost"


# --- export -----------------------------------------------------------------------------------------------------------


def test_an_export_of_a_time(run: Run, ledger: SqlLedger, other: SqlLedger) -> None:
    def numbers(*options: str) -> list[tuple[str, int]]:
        result = run("audit", "export", *options)
        assert result.exit_code == 0, result.output
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        assert result.stderr == f"quarantine: {len(rows)} decisions are written\n"
        return [(row["cluster"], row["seq"]) for row in rows]

    assert numbers() == [("default", 1), ("default", 2), ("default", 3)]
    assert numbers("--since", "-1d") == [("default", 2), ("default", 3)]
    assert numbers("--since", "2026-11-28T12:00:00Z", "--until", "now") == [("default", 2)]
    assert numbers("--until", "2026-11-28") == [("default", 1)]
    assert numbers("--node", "node-1") == numbers("--case", "c-1") == [("default", 2)]
    assert numbers("--all", "--since", "now") == [("default", 3), ("other", 1)]
    assert numbers("--cluster", "other") == [("other", 1)]
    assert numbers("--node", "node-99") == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--since", "yesterday"], "--since 'yesterday' is no time"),
        (["--until", "-5"], "--until -5: '5' is no duration"),
        (["--since", "2026-11-02", "--until", "2026-11-01"], "--since 2026-11-02 is not before --until 2026-11-01"),
        (["--since", "now", "--until", "now"], "--since now is not before --until now"),
    ],
)
def test_a_time_that_cannot_be_meant(run: Run, ledger: SqlLedger, options: list[str], said: str) -> None:
    result = run("audit", "export", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_csv_into_a_file(run: Run, ledger: SqlLedger, tmp_path: Path) -> None:
    file = tmp_path / "trail.csv"
    result = run("audit", "export", "--format", "csv", "--out", str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "quarantine: 3 decisions are written\n")
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"cluster","seq","at"')
    assert len(lines) == 4
    assert "91.5 °C" in lines[2]


def test_an_export_that_fails_leaves_no_file(run: Run, ledger: SqlLedger, url: str, tmp_path: Path) -> None:
    file = tmp_path / "trail.csv"
    file.write_text("of yesterday")
    tamper(url, "UPDATE decisions SET body = 'x' WHERE seq = 3")
    result = run("audit", "export", "--format", "csv", "--out", str(file))
    assert result.exit_code == 3
    assert "decision 3 of cluster 'default' is no JSON object; run `quarantine audit verify`" in result.stderr
    assert file.read_text() == "of yesterday"
    assert {path.name for path in tmp_path.iterdir() if "trail" in path.name} == {"trail.csv"}


def test_a_reader_that_goes_away_ends_it_quietly(ledger: SqlLedger, url: str) -> None:
    ledger.record(ledger.take_term("pod"), [held(f"k{n}") for n in range(3000)])
    command = [sys.executable, "-c", "from quarantine.cli.start import main; main()", "audit", "export"]
    with subprocess.Popen(
        [*command, "--database-url", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["seq"] == 1
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


# --- grants -----------------------------------------------------------------------------------------------------------


def test_grants_are_printed_and_nothing_is_connected_to() -> None:
    result = CliRunner().invoke(app, ["db", "grants", "--writer", "w", "--requester", 'q"', "--reader", "r"])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[2] == "BEGIN;"
    assert 'GRANT INSERT ON decisions, policy_versions TO "w";' in result.stdout
    assert 'ON requests TO "q""";' in result.stdout
    assert result.stdout.endswith("COMMIT;\n")
    nobody = CliRunner().invoke(app, ["db", "grants"])
    assert (nobody.exit_code, nobody.stdout) == (2, "")
    assert "name at least one role" in nobody.stderr
