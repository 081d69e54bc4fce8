"""`quarantine report`: what it prints, for people, programs and tickets, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from typer.testing import CliRunner, Result

from quarantine import app as root
from quarantine.cli import render
from quarantine.cli.main import app
from quarantine.cli.options import Output
from quarantine.cli.report import words
from quarantine.cli.report.show import show
from quarantine.core.case import HeldBy, Phase
from quarantine.core.record.milestones import Fate
from quarantine.core.record.report import Report, Wanted
from quarantine.ledger.engine import make_engine
from quarantine.ledger.migrate import upgrade
from tests.core.record.reports import DAY, HOUR, SINCE, UNTIL, case, hold, made, out, size
from tests.ledger.reported import write

HOSTILE = "a|b`c</td>\x1b[31m[x](http://evil) @team\n# head"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with cases in two clusters."""
    path = tmp_path_factory.mktemp("report") / "ledger.db"
    upgrade(f"sqlite:///{path}")
    engine = make_engine(f"sqlite:///{path}")
    write(engine, *history(), cluster="training-a")
    write(engine, [out(1)], cluster="training-b")
    engine.dispose()
    return path


@pytest.fixture
def url(filled: Path, tmp_path: Path) -> str:
    path = tmp_path / "ledger.db"
    shutil.copy(filled, path)
    return f"sqlite:///{path}"


def history() -> tuple[list[Any], list[Any], list[Any]]:
    """Some of everything that a report tells."""
    asked = SINCE + 2 * DAY
    swap: dict[str, Any] = {"ticket_at": asked, "asked_at": asked, "fate": Fate.CONFIRMED}
    cases = [
        out(1, **swap, acknowledged_at=asked + HOUR, swapped_at=asked + DAY, back_at=asked + 2 * DAY),
        out(2, ticket_at=asked, fate=Fate.REFUTED, phase=Phase.DISMISSED, back_at=asked, ended_at=asked),
        out(3, by_person=True, policy="", signal="", severity=None, pool="a100", asked_at=asked),
        case(4),
    ]
    holds = [hold(1, SINCE + DAY - HOUR, SINCE + DAY), hold(4, SINCE + DAY, None, held_by=HeldBy.CORRELATED)]
    return cases, holds, [size(64), size(16, pool="a100", gpus=0)]


def run(*words_: str, url: str = "") -> Result:
    where = ["--database-url", url] if url else []
    return CliRunner().invoke(app, ["report", *words_, *where], catch_exceptions=False)


@pytest.fixture(autouse=True)
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's clock stands at the end of the reports' month."""

    class Still:
        def now(self) -> object:
            return UNTIL

    monkeypatch.setattr(root, "CLOCK", Still())


def test_the_table_tells_every_section(url: str) -> None:
    done = run("--since", "30d", "--cluster", "training-a", url=url)
    assert done.exit_code == 0
    titles = [line for line in done.stdout.splitlines() if line and line[0].isupper() and "  " not in line]
    for title in (
        "Taken out, by cause",
        "How long it took",
        "Out of service, by pool",
        "Out of service, by provider",
        "Providers: how they answered",
        "Providers: what they found, and owe",
        "Failures",
        "What that means for a job",
        "Worst machines",
        "Policies",
        "What was held back",
    ):
        assert title in titles
    assert "a100: its nodes do not say how many GPUs they have." in done.stdout
    assert "2026-11-01 00:00 to 2026-12-01 00:00 UTC, training-a: 4 cases on 4 machines." in done.stdout


def test_json_is_one_document_with_the_documented_keys(url: str) -> None:
    done = run("--cluster", "training-a", "--gpus", "256", "--gpus", "8", "--checkpoint", "1m", "-o", "json", url=url)
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    page = (Path(__file__).parents[2] / "docs/report.md").read_text(encoding="utf-8")
    for key in keys_of(told):
        assert f"`{key}`" in page, f"docs/report.md does not tell of {key}"
    assert told["clusters"] == ["training-a"]
    assert [job["gpus"] for job in told["jobs"]] == [256, 8]
    assert told["checkpoint_seconds"] == 60
    assert told["pools"][1]["share"] == pytest.approx(told["pools"][1]["machine_hours"] / (64 * 720))
    assert told["providers"][0]["machine_hours_owed"] == 24 + 28 * 24


def keys_of(told: Any) -> set[str]:
    if isinstance(told, dict):
        return set(told) | {key for value in told.values() for key in keys_of(value)}
    return {key for value in told for key in keys_of(value)} if isinstance(told, list) else set()


def test_markdown_renders_as_tables(url: str) -> None:
    done = run("--cluster", "training-a", "-o", "markdown", url=url)
    assert done.exit_code == 0
    html = MarkdownIt("commonmark").enable("table").render(done.stdout)
    assert html.count("<table>") == 11
    assert "<td>gpu-hot</td>" in html


def test_all_clusters_have_a_column(url: str) -> None:
    done = run("--all", url=url)
    assert done.exit_code == 0
    assert "training-a, training-b: 5 cases" in done.stdout
    assert "CLUSTER" in done.stdout
    assert json.loads(run("--all", "-o", "json", url=url).stdout)["clusters"] == ["training-a", "training-b"]


def test_a_time_without_anything_says_so_and_is_no_failure(url: str) -> None:
    done = run("--since", "2026-01-01", "--until", "2026-02-01", "--cluster", "training-b", url=url)
    assert done.exit_code == 0
    assert "nothing happened; no case was open, no machine was out of service, nothing was held." in done.stdout


def test_an_empty_ledger_is_a_report_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    upgrade(url)
    done = run(url=url)
    assert done.exit_code == 0
    assert "nothing happened" in done.stdout
    assert "The ledger has no trail of cluster" in done.stdout


def test_no_ledger_is_told_and_not_made(tmp_path: Path) -> None:
    done = run(url=f"sqlite:///{tmp_path / 'none.db'}")
    assert done.exit_code == 1
    assert "there is no ledger at" in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_a_cluster_that_is_not_there_is_named_with_those_that_are(url: str) -> None:
    done = run("--cluster", "trainnig-a", url=url)
    assert done.exit_code == 1
    assert "no trail of cluster trainnig-a: it has those of training-a, training-b" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--since", "tomorrow"], "is no time"),
        (["--since", "2y"], "write it in days, such as 365d"),
        (["--since", "2026-11-20", "--until", "2026-11-10"], "there is no time between them"),
        (["--until", "2027-01-01"], "in the future"),
        (["--all", "--cluster", "a"], "not both"),
        (["--checkpoint", "5"], "--checkpoint '5' is no duration"),
        (["--gpus", "0"], "--gpus"),
    ],
)
def test_mistakes_are_told_in_a_sentence(url: str, given: list[str], said: str) -> None:
    done = run(*given, url=url)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def hostile() -> Report:
    one = {
        "policy": HOSTILE,
        "signal": HOSTILE,
        "pool": HOSTILE,
        "provider": HOSTILE,
        "node": HOSTILE,
        "machine": HOSTILE,
    }
    cases = [replace(one_, **one) for one_ in history()[0]]
    return made(cases, [replace(hold(1, SINCE, None), policy=HOSTILE, node=HOSTILE)], [size(10, pool=HOSTILE)])


def test_text_from_outside_becomes_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    show(hostile(), "", Output.TABLE)
    assert "\x1b" not in capsys.readouterr().out
    show(hostile(), "", Output.MARKDOWN)
    text = capsys.readouterr().out
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert html.count("<h") == 12 + html.count("<hr")
    assert "<a " not in html
    assert "@team" not in re.sub("<code>.*?</code>", "", html), "in code, nobody is summoned"
    assert "\u2060" not in html, "what is copied is what was told"
    assert html.count("<table>") == 11
    show(hostile(), "", Output.JSON)
    assert json.loads(capsys.readouterr().out)["worst"][0]["machine"] == HOSTILE


def test_in_markdown_numbers_end_at_one_line_and_a_machine_s_key_is_copied(capsys: pytest.CaptureFixture[str]) -> None:
    cases, holds, sizes = history()
    show(made([replace(one, machine="aws:///zone-a/i-0a_b") for one in cases], holds, sizes), "", Output.MARKDOWN)
    lines = capsys.readouterr().out.splitlines()
    worst = lines.index("#### Worst machines") + 2
    assert lines[worst].startswith("| node | machine | pool | score |")
    assert lines[worst + 1].startswith("| --- | --- | --- | ---: |")
    assert "| `aws:///zone-a/i-0a_b` |" in lines[worst + 2]


@pytest.mark.parametrize("width", [80, 100])
def test_a_machine_s_key_is_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setattr(render, "console", lambda: Console(width=width))
    cases, holds, sizes = history()
    key = "system-uuid:4c4c4544-0051-4e10-8054-b9c04f4c5a33"
    show(made([replace(one, machine=key, node="node-3") for one in cases], holds, sizes), "", Output.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  node-3") and line.endswith(f": {key}") for line in lines)
    assert max(map(len, lines)) <= width


def test_it_fits_a_terminal_of_a_hundred_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(render, "console", lambda: Console(width=100))
    cases, holds, sizes = history()
    long = {"policy": "infiniband-link-flapping", "signal": "infiniband.link_downed", "provider": "a-large-provider"}
    show(made([replace(one, **long) for one in cases], holds, sizes), "", Output.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any("infiniband-link-flapping" in line for line in lines), "names are not cut"


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(seconds=59.6), "1m"),
        (timedelta(minutes=12, seconds=40), "12m40s"),
        (timedelta(hours=7, minutes=54, seconds=29), "7h54m"),
        (timedelta(days=2, hours=3, minutes=31), "2d4h"),
        (timedelta(0), "0s"),
        (timedelta(milliseconds=200), "200ms"),
    ],
)
def test_lengths_are_as_exact_as_people_need_them(length: timedelta, text: str) -> None:
    assert words.lasted(length) == text


def rows(report: Report, title: str) -> Sequence[words.Row]:
    return next((section.rows for section in words.sections(report) if section.title == title), ())


def test_what_is_not_known_is_said_and_not_invented() -> None:
    found = made([out(1)])
    assert rows(found, "Failures") == []
    (section,) = (one for one in words.sections(found) if one.title == "Failures")
    assert section.notes == ["h100: 1 failure while the size of the pool was not known, in no rate."]
    assert rows(found, "What that means for a job") == ()
    assert rows(found, "Out of service, by pool")[0][-2:] == ("–", "–")


def test_none_failed_has_a_bound_alone() -> None:
    (row,) = rows(made(sizes=[size(100)], wanted=Wanted(gpus=(1024,))), "What that means for a job")
    assert row[3] == "none failed"
    assert row[4].endswith("or more")
    assert row[5:] == ("–", "–")


def test_precision_is_two_numbers() -> None:
    found = made([out(1, fate=Fate.CONFIRMED), out(2, fate=Fate.REFUTED), out(3, fate=Fate.CONFIRMED), out(4)])
    (row,) = rows(found, "Policies")
    assert row[-1] == "2 of 3"
