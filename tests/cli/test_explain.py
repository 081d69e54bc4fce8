"""`quarantine explain` against a real ledger, with neither Prometheus nor Kubernetes to be reached."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt
from typer.testing import CliRunner, Result

from quarantine.cli.main import app
from quarantine.core.decision import Action, Decision, Kind, Word, WordKind
from quarantine.core.model import Device, DeviceKind
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import open_ledger
from tests.core.record.lives import HOUR, warming, whole
from tests.core.world import MINUTE, NOW

HOSTILE = "<img src=x>[x](http://example.invalid) | `a` @team\x1b[2J\u202e"


@dataclass
class Installation:
    folder: Path

    def quarantine(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, [*arguments, "--config", str(self.folder / "quarantine.yaml")])

    def explain(self, *arguments: str, node: str = "node-3") -> Result:
        return self.quarantine("explain", node, *arguments)

    def data(self, *arguments: str) -> dict[str, Any]:
        result = self.explain("--output", "json", *arguments)
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    @property
    def case(self) -> str:
        return str(self.data()["cases"][0]["id"])


def paused() -> list[Decision]:
    """A pause that begins before the case, and has ended since."""
    word = Word("pause/all", WordKind.PAUSE, "all", "an engineer (cli)", "a roll-out", NOW - MINUTE)
    begun = Decision(word.since, Kind.DECIDED, Action.PAUSE, "everything is paused", word.by, word=word)
    return [begun, replace(begun, at=NOW + 2 * MINUTE, action=Action.RESUME, word=None, unword=word.key)]


@pytest.fixture(scope="module")
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, closed_port: int) -> Installation:
    """The whole case of node-3 in a ledger of its own: taken out, swapped, released; and one odd thing about node-4."""
    folder = tmp_path_factory.mktemp("explain")
    url = f"sqlite:///{folder / 'ledger.db'}"
    upgrade(url)
    begun, ended = paused()
    rows = [decision for _, decision in whole(warming())]
    strange = replace(rows[0], case="q-strange", node="node-4", reason=HOSTILE, at=NOW + 8 * HOUR, effects=())
    strange = replace(strange, device=Device(DeviceKind.GPU, HOSTILE, "1"))
    soon = [d for d in rows if d.at <= NOW + 2 * MINUTE]
    with open_ledger(url, "test", now=lambda: NOW + 9 * HOUR) as ledger:
        term = ledger.take_term("test")
        ledger.record(term, [begun, *soon, ended, *rows[len(soon) :], strange])
    settings = {
        "cluster": "test",
        "database_url": url,
        "prometheus": {"url": f"http://127.0.0.1:{closed_port}", "timeout": "1s"},
        "kubernetes": {"kubeconfig": str(folder / "none"), "timeout": "1s"},
    }
    (folder / "quarantine.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return Installation(folder)


# --- The story --------------------------------------------------------------------------------------------------------


def test_a_case_is_told_without_prometheus_and_without_the_cluster(installed: Installation) -> None:
    told = installed.explain()
    assert told.exit_code == 0
    assert told.stdout.startswith("node-3 is in service; its last case")
    assert "node-3 was taken out at 2026-11-29 12:00 UTC, because" in told.stdout
    assert "released, and back in service at 2026-11-29 19:00 UTC." in told.stdout
    assert "machine: provider id acme://node-3, system UUID sys-node-3" in told.stdout
    assert "series kept: 60 points" in told.stdout
    assert "that cannot be asked: " in told.stdout


def test_json_has_every_field_of_the_evidence(installed: Installation) -> None:
    told = installed.data()
    (case,) = told["cases"]
    assert case["headline"].startswith("node-3 was taken out")
    assert case["times"]["ticket_at"] == "2026-11-29T12:00:00Z"
    assert case["times"]["fate"] == "confirmed"
    taken = next(row for row in told["trail"] if row["action"] == "quarantine" and row["kind"] == "decided")
    assert (taken["seq"], len(taken["hash"])) == (2, 64)
    assert taken["policy_revision"] == "abc123"
    assert taken["machine"]["system_uuid"] == "sys-node-3"
    assert taken["budget"]["pool"] == "gpu"
    assert len(taken["evidence"]["series"]["points"]) == 60
    assert taken["evidence"]["series"]["bound"] == 78.0
    assert (told["as_of"], told["odd"]) == (None, [])


def test_markdown_is_a_list_of_rows_under_a_headline(installed: Installation) -> None:
    told = installed.explain("--output", "markdown")
    assert told.exit_code == 0
    assert told.stdout.startswith("### node-3\n")
    assert "\n**node-3 was taken out at" in told.stdout
    assert "**#2** quarantine: GPU 3" in told.stdout
    assert "\n  - query `bad(temperature)`" in told.stdout


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_text_from_outside_is_only_text(installed: Installation, form: str) -> None:
    told = installed.explain("--output", form, node="node-4")
    assert told.exit_code == 0
    assert "\x1b" not in told.stdout
    assert "\u202e" not in told.stdout
    if form == "markdown":
        found = MarkdownIt("gfm-like", {"linkify": False}).parse(told.stdout)
        kinds = {child.type for token in found for child in token.children or []}
        assert not kinds & {"link_open", "image", "html_inline"}
        assert not any(token.type == "html_block" for token in found)
        text = [child.content for token in found for child in token.children or [] if child.type == "text"]
        assert "@team" not in "".join(text), "in code, nobody is summoned"


# --- Then -------------------------------------------------------------------------------------------------------------


def at(span: timedelta) -> str:
    return f"{NOW + span:%Y-%m-%dT%H:%M:%SZ}"


def test_as_it_was_then_and_not_as_it_is_now(installed: Installation) -> None:
    told = installed.explain("--at", at(MINUTE + timedelta(seconds=30)))
    assert told.exit_code == 0
    first, *rest = told.stdout.splitlines()
    assert first.startswith("At 2026-11-29 12:01:30 UTC, by its decisions up to #")
    assert "and nothing later: node-3 is drained since 2026-11-29 12:01:00 UTC in case" in first
    assert "the case is open" in told.stdout
    assert "everything is paused" in told.stdout, "what people had said then stands in it, though it has ended since"
    assert "a roll-out" in told.stdout
    assert not any("swapped" in line or "19:00" in line for line in rest)
    assert "What the policies see now" not in told.stdout


def test_a_word_that_had_ended_by_then_is_not_told(installed: Installation) -> None:
    assert "a roll-out" not in installed.explain("--at", at(3 * MINUTE)).stdout
    assert "a roll-out" not in installed.explain().stdout


def test_at_in_json(installed: Installation) -> None:
    told = installed.data("--at", at(timedelta(minutes=11, seconds=30)))
    assert told["as_of"] == "2026-11-29T12:11:30Z"
    assert told["cases"][0]["phase"] == "swap_requested"
    assert told["cases"][0]["times"]["swapped_at"] is None
    assert max(row["at"] for row in told["trail"]) <= "2026-11-29T12:11:30Z"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["--at", "2020-01-01"],
            1,
            "nothing was known of node-3 at 2020-01-01 00:00:00 UTC; the first decision about it",
        ),
        (["--at", "2200-01-01"], 2, "that has not come yet"),
        (["--at", "yesterday"], 2, "is no time"),
        (["--case", "q-none"], 1, "node-3 has no case q-none (its cases: q-"),
        (["--case", "q-strange", "--at", "2026-11-29T12:01:00Z"], 1, "(its cases by then: q-"),
        (["--chart", "picture.jpg"], 2, "must end in .png or .svg"),
        (["--chart", "no/such/folder/x.png"], 2, "cannot be written"),
        (["--output", "xml"], 2, "xml"),
    ],
)
def test_what_cannot_be_told(installed: Installation, arguments: list[str], code: int, said: str) -> None:
    told = installed.explain(*arguments)
    assert told.exit_code == code, told.output
    assert said in " ".join(told.stderr.split())


def test_a_node_that_nobody_knows(installed: Installation) -> None:
    """The cluster cannot be asked, so nothing is known either way: that is no answer."""
    told = installed.explain(node="node-99")
    assert told.exit_code == 3


# --- One case, and its picture ----------------------------------------------------------------------------------------


def test_one_case(installed: Installation) -> None:
    told = installed.explain("--case", installed.case)
    assert told.exit_code == 0
    assert told.stdout.count("\nCase ") == 1
    assert "What the policies see now" not in told.stdout, "that is no part of a case that has ended"


@pytest.mark.parametrize("suffix", ["png", "svg", "PNG"])
def test_the_picture_of_a_case(installed: Installation, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"case.{suffix}"
    file.write_text("what was there before")
    told = installed.explain("--output", "json", "--chart", str(file))
    assert told.exit_code == 0
    json.loads(told.stdout)  # nothing else is there
    assert f"{file} shows case {installed.case}" in told.stderr
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix.lower() == "png" else b"<?xml")
    assert [path.name for path in tmp_path.iterdir()] == [file.name], "nothing half-written is left"
    assert file.stat().st_mode & 0o044, "it is as readable as any new file"


def test_the_picture_as_of_then_is_another_one(installed: Installation, tmp_path: Path) -> None:
    now, then = tmp_path / "now.png", tmp_path / "then.png"
    assert installed.explain("--chart", str(now)).exit_code == 0
    assert installed.explain("--chart", str(then), "--at", at(MINUTE)).exit_code == 0
    assert now.read_bytes() != then.read_bytes()


def test_without_the_library_nothing_is_told_but_what_to_install(
    installed: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    told = installed.explain("--chart", str(tmp_path / "case.png"))
    assert told.exit_code == 2
    assert told.stdout == ""
    assert "pip install 'quarantine[charts]'" in told.stderr


# --- Other commands ---------------------------------------------------------------------------------------------------


def test_a_command_that_says_little_has_no_markdown(installed: Installation) -> None:
    told = installed.quarantine("pause", "--reason", "x", "--output", "markdown")
    assert told.exit_code == 2
    assert "this has no Markdown" in told.stderr
