"""`quarantine history`: what it says of a machine under several names and clusters, in each form and each corner."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from typer.testing import CliRunner, Result

from quarantine.cli import render
from quarantine.cli.main import app
from quarantine.core.decision import Action, Decision
from quarantine.core.model import Device, DeviceKind
from quarantine.ledger.store import open_ledger
from tests.ledger.samples import NOW
from tests.ledger.test_archive import GPU, MINUTE, done, machine, moved, over, taken_out, waived

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
def run(url: str) -> Run:
    return lambda *arguments: CliRunner().invoke(app, ["history", *arguments, "--database-url", url])


def record(url: str, cluster: str, *taken: Decision) -> None:
    with open_ledger(url, cluster, now=lambda: NOW) as ledger:
        ledger.record(ledger.take_term("pod"), taken)


THEN = NOW - timedelta(days=40)


@pytest.fixture
def lived(url: str) -> None:
    """A machine that was exchanged in one cluster, and is in another one now."""
    a, b = machine("a", "uid-1", (GPU,)), machine("b", "uid-1")
    record(
        url,
        "east",
        taken_out("node-1", a, THEN, "q-1", Device(DeviceKind.GPU, GPU, "3")),
        done("node-1", THEN + MINUTE, "q-1", a),
        moved(Action.SWAP, "node-1", b, THEN + 2 * MINUTE, "q-1"),
        over("node-1", THEN + 3 * MINUTE, "q-1"),
    )
    record(url, "west", waived("node-9", machine("a", "uid-9"), NOW - MINUTE))


@pytest.mark.usefixtures("lived")
def test_a_machine_is_told_across_names_and_clusters(run: Run) -> None:
    result = run("system-a")
    assert result.exit_code == 0, result.output
    told = [line.split() for line in result.stdout.splitlines()]
    assert result.stdout.startswith("system-a: 4 decisions and 1 case.\n")
    assert ["node-uid", "uid-9", "node-9", "west", "2026-11-29", "11:59:00", "2026-11-29", "11:59:00"] in told
    both = ["system-uuid", "system-a", "node-1,", "node-9", "east,", "west"]
    assert [*both, "2026-10-20", "12:00:00", "2026-11-29", "11:59:00"] in told
    (case,) = [line for line in result.stdout.splitlines() if line.startswith("  q-1 (east): ")]
    assert "node-1 was taken out at 2026-10-20 12:00 UTC, because node-1: GPU 1 is at 91.5 °C" in case
    assert case.endswith("; what came is system-uuid:system-b, and the case goes on with that")
    trail = [line.split()[2:4] for line in result.stdout.splitlines() if "#" in line]
    assert trail == [["east", "#1"], ["east", "#2"], ["east", "#3"], ["west", "#1"]]
    assert "query max_over_time(x[5m]) > 78" in result.stdout, "with its evidence"


@pytest.mark.usefixtures("lived")
def test_what_came_in_its_place_has_a_history_of_its_own(run: Run) -> None:
    told = run("system-b").stdout
    begun = "node-1 had this case already when this hardware came in exchange, at 2026-10-20 12:02 UTC"
    assert f"{begun}; released at 2026-10-20 12:03 UTC" in told
    assert [line.split()[3] for line in told.splitlines() if "#" in line] == ["#3", "#4"]


@pytest.mark.usefixtures("lived")
def test_a_node_is_told_with_the_end_of_its_cases(run: Run) -> None:
    told = run("node-1").stdout
    assert told.startswith("node-1: 4 decisions and 1 case.\n")
    assert "released at 2026-10-20 12:03 UTC" in told or "back in service at 2026-10-20 12:03 UTC" in told


@pytest.mark.usefixtures("lived")
@pytest.mark.parametrize("printed", [f"gpu:{GPU}", f"GPU 3 ({GPU})"])
def test_a_gpu_is_found_as_it_is_printed(run: Run, printed: str) -> None:
    found = run(printed)
    assert (found.exit_code, found.stdout) == (0, run(GPU).stdout), found.output


@pytest.mark.usefixtures("lived")
@pytest.mark.parametrize("width", [80, 100])
def test_in_a_narrow_terminal_no_name_is_broken(run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(render, "console", lambda: Console(width=width))
    result = run("system-a", "--until", "now")
    assert result.exit_code == 0, result.output
    for name in ("system-a", GPU, "2026-11-29 11:59:00"):
        assert name in result.stdout


def test_one_cluster_is_not_named_in_every_row(url: str, run: Run) -> None:
    record(url, "east", waived("node-1", machine("a", "uid-1"), NOW))
    told = run("node-1").stdout
    assert "east" not in told
    assert "CLUSTER" not in told
    assert "2026-11-29 12:00:00  #1  waive: keep it" in told
    assert "Cases:" not in told


@pytest.mark.usefixtures("lived")
def test_json_is_one_document_alone_on_stdout(run: Run) -> None:
    result = run("system-a", "--output", "json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert list(told) == ["name", "since", "until", "known_by", "cases", "decisions"]
    assert [(row["cluster"], row["seq"], row["action"]) for row in told["decisions"]] == [
        ("east", 1, "quarantine"),
        ("east", 2, "quarantine"),
        ("east", 3, "swap"),
        ("west", 1, "waive"),
    ]
    assert told["decisions"][0]["evidence"]["query"] == "max_over_time(x[5m]) > 78"
    assert len(told["decisions"][0]["hash"]) == 64
    (case,) = told["cases"]
    assert (case["id"], case["cluster"], case["node"]) == ("q-1", "east", "node-1")
    assert case["times"]["out_at"] == "2026-10-20T12:00:00Z"
    names = {(one["kind"], one["name"], one["node"], one["cluster"]) for one in told["known_by"]}
    assert ("gpu", GPU, "node-1", "east") in names
    assert ("system-uuid", "system-a", "node-9", "west") in names


@pytest.mark.usefixtures("lived")
def test_a_stretch_of_time(run: Run) -> None:
    lately = json.loads(run("system-a", "--since=-7d", "-o", "json").stdout)
    assert [(row["cluster"], row["seq"]) for row in lately["decisions"]] == [("west", 1)]
    assert lately["cases"] == []
    assert {one["cluster"] for one in lately["known_by"]} == {"west"}
    early = json.loads(run("node-1", "--until", "2026-10-20T12:01:00Z", "-o", "json").stdout)
    assert [row["seq"] for row in early["decisions"]] == [1, 2]
    assert early["cases"][0]["phase"] == "quarantined", "as it was known then"
    nothing = run("system-a", "--since", "2026-11-01", "--until", "2026-11-02")
    assert nothing.exit_code == 0
    since_until = "since 2026-11-01 00:00:00 UTC until 2026-11-02 00:00:00 UTC"
    assert nothing.stdout == f"system-a: 0 decisions and no case {since_until}.\n"
    empty = json.loads(run("system-a", "--since", "2026-11-01", "--until", "2026-11-02", "-o", "json").stdout)
    assert (empty["known_by"], empty["cases"], empty["decisions"]) == ([], [], [])


def test_text_from_outside_moves_no_cursor_and_becomes_no_markup(url: str, run: Run) -> None:
    hostile = "node\x1b[2J|<b>[x](http://evil)`\n# h"
    record(url, "e|ast", waived(hostile, machine("a", "uid-1"), NOW))
    record(url, "west", waived("node-2", machine("b", "uid-2"), NOW))
    for name in (hostile, "system-a"):
        text = run(name)
        assert text.exit_code == 0, text.output
        assert "\x1b" not in text.stdout
        assert "\n# h" not in text.stdout
        page = MarkdownIt("commonmark").enable("table").render(run(name, "-o", "markdown").stdout)
        assert "<b>" not in page
        assert "href" not in page
        assert page.count("<h") == 1
        assert page.count("<td>") == 6 * 4, "six columns, four names"


@pytest.mark.usefixtures("lived")
def test_markdown_reads_as_a_page(run: Run) -> None:
    page = MarkdownIt("commonmark").enable("table").render(run("system-a", "--output", "markdown").stdout)
    assert page.startswith("<h3>system-a</h3>\n<p>4 decisions and 1 case.</p>")
    assert "<li><strong>q-1 (east)</strong>: node-1 was taken out" in page
    assert "<li>query <code>max_over_time(x[5m]) &gt; 78</code></li>" in page
    assert page.count("<strong>#") == 4


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere"], 1, "nothing was ever decided about nowhere"),
        ([""], 2, "give its name"),
        (["node-1", "--since", "yesterday"], 2, "--since 'yesterday' is no time"),
        (["node-1", "--since", "2026-11-02", "--until", "2026-11-01"], 2, "is later than"),
        (["node-1", "--output", "yaml"], 2, "yaml"),
    ],
)
@pytest.mark.usefixtures("lived")
def test_what_cannot_be_told_ends_in_a_sentence(run: Run, arguments: list[str], code: int, says: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr


def test_without_a_ledger(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["history", "node-1", "--database-url", f"sqlite:///{tmp_path / 'none.db'}"])
    assert result.exit_code == 1
    assert "there is no ledger at" in result.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    result = CliRunner().invoke(app, ["history", "node-1", "--database-url", url])
    assert result.exit_code == 3
    assert "cannot be reached" in result.stderr
