"""`quarantine trust`: what it says of policies that live through real plans, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import datetime
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
from quarantine.cli.trust.reading import Installation
from quarantine.cli.trust.show import show
from quarantine.core.decision import RequestKind, State
from quarantine.core.model import Mode
from quarantine.core.record.milestones import Fate
from quarantine.core.record.trust import Edition, Found, Told, Trail, Wanted, standings
from quarantine.core.record.trust.material import Sweep
from quarantine.ledger.migrate import upgrade
from tests.core.world import rules
from tests.trusting import CLUSTER, DAY, END, HOUR, MINUTE, START, STRICTER, Lived, PathOfTrust, life, written

NOW = END


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    return life(tmp_path_factory.mktemp("trust"))


@pytest.fixture(autouse=True)
def at_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(render, "console", lambda: Console(width=110))
    stop_at(monkeypatch, NOW)


def stop_at(patched: pytest.MonkeyPatch, now: datetime) -> None:
    class Still:
        def now(self) -> datetime:
            return now

    patched.setattr(root, "CLOCK", Still())


def run(*words: str, url: str) -> Result:
    given = ["trust", *words, "--cluster", CLUSTER, "--database-url", url]
    return CliRunner().invoke(app, given, catch_exceptions=False)


def told(lived: Lived, *words: str) -> dict[str, dict[str, Any]]:
    done = run(*words, "-o", "json", url=lived.url)
    return {one["policy"]: one for one in json.loads(done.stdout)["policies"]}


def block(text: str, name: str) -> str:
    """What is said of one policy."""
    found = re.search(rf"^{name}: .*?(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None, text
    return found[0]


def test_each_policy_stands_where_its_life_has_brought_it(lived: Lived) -> None:
    assert {name: (one["step"], one["turn"]) for name, one in told(lived).items()} == {
        "wrong": ("read", "back"),
        "changed": ("observe", "back"),
        "acts": ("one-pool", "people"),
        "quiet": ("backtest", "people"),
        "passed": ("backtest", "people"),
        "unread": ("read", "people"),
    }


def test_a_no_on_a_suspicion_sends_the_policy_back_with_the_sentence_which(lived: Lived) -> None:
    done = run(url=lived.url)
    assert done.exit_code == 0
    said = block(done.stdout, "wrong")
    assert "one of its findings was judged false, of node-5 on 2026-11-06, and 2 more wait" in said
    assert "it stands here until 2026-11-20 01:00 UTC" in said
    assert re.search(r"^    quarantine explain node-5 --case q-\w+$", said, re.MULTILINE)
    assert "it found 3 machines of pool h100 in one cycle, and the pool's budget lets out 1 within an hour" in said


def test_what_nobody_judged_is_named_with_the_command_that_shows_it(lived: Lived) -> None:
    said = block(run("unread", url=lived.url).stdout, "unread")
    assert "1 finding of it waits for people's word" in said
    case = told(lived)["unread"]["found"]["waiting_cases"][0]["case"]
    assert f"    quarantine explain node-20 --case {case}\n" in said
    explained = CliRunner().invoke(
        app, ["explain", "node-20", "--case", case, "--database-url", lived.url], env={"QUARANTINE_CLUSTER": CLUSTER}
    )
    assert case in explained.stdout, "the command is one that works"


def test_what_is_ready_is_told_how_to_go_on(lived: Lived) -> None:
    said = block(run(url=lived.url).stdout, "quiet")
    assert "--policy quiet --start -30d" in said
    assert "write mode: enforce and nodeSelector: {pool: a100}" in said, "the smallest pool first"
    assert "for 1d more it had no answer" in said
    assert "it has observed for 16 days, and no case was opened for it in the last 14 days" in said
    assert "quarantine doctor tells what its signal covers now" in said


def test_who_acts_in_one_pool_is_told_where_else_it_observed(lived: Lived) -> None:
    said = block(run("acts", url=lived.url).stdout, "acts")
    assert "it enforces in a100" in said
    assert "widen its nodeSelector to another pool in which it observed: h100" in said
    assert "mode observe, so the installation acts on nothing" in said
    assert "1 of 1 (3–100 %)" in run("acts", url=lived.url).stdout, "a person asked for node-3, which it had found"


def test_a_pause_is_told(lived: Lived, tmp_path: Path) -> None:
    shutil.copytree(lived.files, tmp_path / "policies")
    path = PathOfTrust(fresh(lived, tmp_path), tmp_path / "policies", mode=Mode.ENFORCE)
    path.at = NOW
    path.cycle({}, replace(path.ask(RequestKind.PAUSE, ""), scope="policy/acts"))
    path.ledger.close()
    said = block(run("acts", url=f"sqlite:///{tmp_path / 'ledger.db'}").stdout, "acts")
    assert "policy acts is paused by ada (cli): looked at it" in said


def fresh(lived: Lived, tmp_path: Path) -> str:
    shutil.copy(lived.url.removeprefix("sqlite:///"), tmp_path / "ledger.db")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def test_the_days_and_the_table_fit_a_terminal(lived: Lived) -> None:
    lines = run(url=lived.url).stdout.splitlines()
    head = next(n for n, line in enumerate(lines) if line.startswith("POLICY"))
    rows = lines[head + 1 : head + 7]
    assert [row.split()[0] for row in rows] == ["wrong", "changed", "acts", "passed", "quiet", "unread"]
    assert all(len(row) <= 110 for row in rows)
    assert [re.findall(r"[·░▁█✗]{14}", row) for row in rows][:2] == [["▁✗▁▁▁▁▁▁▁▁▁▁▁▁"], ["············▁▁"]]


def test_a_long_window_is_told_in_thirty_signs_at_most(lived: Lived) -> None:
    made = run("--since", "200d", "wrong", url=lived.url).stdout
    (bar,) = re.findall(r"[·░▁█✗]{10,}", made.splitlines()[3])
    assert len(bar) == 29
    assert bar.endswith("·✗▁▁")
    assert told(lived, "--since", "200d")["quiet"]["step"] == "observe"


def test_a_window_of_hours_is_told_in_hours(lived: Lived) -> None:
    done = run("--since", "3h", "changed", "quiet", url=lived.url).stdout
    assert re.search(r"^quiet +backtest .* 3h/3h ", done, re.MULTILINE)
    done = run("--since", "30h", "changed", url=lived.url).stdout
    assert "it has observed for 1 of 1 day, as it is since 2026-11-17 00:00 UTC, and it enforces already" in done
    first = START + 16 * DAY + HOUR  # an hour after it was changed
    assert told(lived, "--since", f"{first:%Y-%m-%dT%H:%M:%SZ}", "changed")["changed"]["step"] == "full"


@pytest.mark.parametrize(
    ("name", "step", "code"), [("quiet", "backtest", 0), ("unread", "backtest", 1), ("wrong", "read", 0)]
)
def test_require_answers_by_the_exit_code(lived: Lived, name: str, step: str, code: int) -> None:
    done = run(name, "--require", step, url=lived.url)
    assert done.exit_code == code
    assert (f"{name} stands at" in done.stderr) is bool(code)


# --- The check of a pull request --------------------------------------------------------------------------------------


def checked(lived: Lived, tmp_path: Path, name: str, document: str, *more: str) -> Result:
    """With one policy's file changed."""
    shutil.copytree(lived.files, tmp_path / "head")
    (tmp_path / "head" / f"{name}.yaml").write_text(document, encoding="utf-8")
    return run("--check", str(tmp_path / "head"), *more, url=lived.url)


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("quiet", {}, "it has observed for 16 days, and no case was opened for it in the last 14 days"),
        ("quiet", {"nodeSelector": {"pool": "a100"}}, "it has observed for 1[67] days, and"),
        ("quiet", {"response": {"drain": "now"}}, "it has observed for 1[67] days, and"),
        ("acts", {"nodeSelector": {"pool": "a100"}}, "it enforces there already"),
        ("acts", {}, "it has observed for 1[67] days, and"),
    ],
)
def test_what_was_observed_may_act(
    lived: Lived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, changes: Any, why: str
) -> None:
    monkeypatch.setattr(render, "console", lambda: Console(width=250))
    done = checked(lived, tmp_path, name, written(name, mode="enforce", **changes))
    assert done.exit_code == 0, done.output
    assert re.search(rf"^{name} .* yes .*{why}", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("new", {}, "has no policy of this name in force, so it has never observed"),
        ("quiet", STRICTER, "it finds something else than the version in force"),
        ("unread", {}, "1 finding of it waits for people's word"),
        ("wrong", {}, "judged false, of node-5"),
    ],
)
def test_what_was_not_observed_may_not_act_but_by_its_name(
    lived: Lived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, changes: Any, why: str
) -> None:
    monkeypatch.setattr(render, "console", lambda: Console(width=250))
    document = written(name, mode="enforce", **changes)
    done = checked(lived, tmp_path, name, document)
    assert done.exit_code == 1
    assert re.search(rf"^{name} .* no .*{why}", done.stdout, re.MULTILINE)
    assert "1 policy is not to enforce yet: let it observe in that form" in done.stdout
    assert f"--allow {name}" in done.stdout
    done = run("--check", str(tmp_path / "head"), "--allow", name, url=lived.url)
    assert done.exit_code == 0
    assert re.search(rf"^{name} .* allowed .*{why}", done.stdout, re.MULTILINE)


def test_two_weeks_less_a_day_are_not_enough(lived: Lived, tmp_path: Path) -> None:
    shutil.copytree(lived.files, tmp_path / "head")
    (tmp_path / "head" / "quiet.yaml").write_text(written("quiet", mode="enforce"), encoding="utf-8")
    assert run("--check", str(tmp_path / "head"), "--since", "16d", url=lived.url).exit_code == 0
    done = run("--check", str(tmp_path / "head"), "--since", "17d", "-o", "json", url=lived.url)
    assert done.exit_code == 1
    (one,) = (one for one in json.loads(done.stdout)["policies"] if one["policy"] == "quiet")
    assert one["reason"] == "where it would act, it has observed for 16 of 17 days with answers"


def test_another_way_of_measuring_was_not_observed(lived: Lived, tmp_path: Path) -> None:
    text = (lived.files / "signals.yaml").read_text(encoding="utf-8")
    shutil.copytree(lived.files, tmp_path / "head")
    (tmp_path / "head" / "signals.yaml").write_text(text.replace('"max": 129', '"max": 128'), encoding="utf-8")
    (tmp_path / "head" / "quiet.yaml").write_text(written("quiet", mode="enforce"), encoding="utf-8")
    done = run("--check", str(tmp_path / "head"), "-o", "json", url=lived.url)
    reasons = {one["policy"]: one["reason"] for one in json.loads(done.stdout)["policies"]}
    assert done.exit_code == 1
    assert reasons["quiet"] == "signal gpu.temperature is measured in another way than in the version in force"


def fresh_path(tmp_path: Path, *names: str) -> tuple[PathOfTrust, str]:
    """Policies that have observed for a day."""
    files, url = tmp_path / "policies", f"sqlite:///{tmp_path / 'fresh.db'}"
    files.mkdir()
    upgrade(url)
    path = PathOfTrust(url, files)
    for name in names:
        path.policy(name)
    path.cycle()
    path.passes(DAY)
    return path, url


def asked_to_act(path: PathOfTrust, url: str, monkeypatch: pytest.MonkeyPatch, name: str) -> dict[str, Any]:
    """What the check says of a policy that is set to enforce now."""
    path.ledger.close()
    path.policy(name, mode="enforce")
    stop_at(monkeypatch, path.at + MINUTE)
    done = run("--check", str(path.directory), "-o", "json", url=url)
    (one,) = json.loads(done.stdout)["policies"]
    assert done.exit_code == int(one["refused"])
    return dict(one)


def test_a_suspicion_that_is_older_than_the_window_still_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, url = fresh_path(tmp_path, "hot")
    for _ in range(17):
        path.at += DAY
        path.cycle({"hot": ["node-5", "node-6"]})
    one = asked_to_act(path, url, monkeypatch, "hot")
    assert (one["refused"], one["reason"]) == (True, "2 findings of it wait for people's word")
    assert {case["node"] for case in one["found"]["waiting_cases"]} == {"node-5", "node-6"}
    assert "where no case was opened" not in str(one["notes"])


def test_a_no_counts_by_when_it_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, url = fresh_path(tmp_path, "hot")
    for _ in range(15):
        path.cycle({"hot": ["node-5"]})
        path.at += DAY
    path.cycle({}, path.ask(RequestKind.RELEASE, "node-5"))
    one = asked_to_act(path, url, monkeypatch, "hot")
    assert (one["refused"], one["reason"]) == (True, "one of its findings was judged false, of node-5 on 2026-11-17")
    assert (one["step"], one["days"][-1]) == ("read", "refuted")


@pytest.mark.parametrize("judged", [False, True])
def test_what_two_found_stands_in_the_way_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: bool
) -> None:
    path, url = fresh_path(tmp_path, "aaa", "bbb")
    path.passes(13 * DAY)
    path.cycle({"aaa": ["node-5"], "bbb": ["node-5"]})
    path.at += HOUR
    path.cycle({}, *([path.ask(RequestKind.RELEASE, "node-5")] if judged else []))
    path.ledger.close()
    stop_at(monkeypatch, path.at)
    said = json.loads(run("-o", "json", url=url).stdout)["policies"]
    assert {one["policy"]: one["step"] for one in said} == {"aaa": "read", "bbb": "read"}
    assert [one["why"] for one in said] == [said[0]["why"]] * 2
    assert ("judged false, of node-5" if judged else "1 finding of it waits") in said[0]["why"]


def test_time_in_which_nothing_ran_is_not_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, url = fresh_path(tmp_path, "hot")
    path.at += 20 * DAY
    path.cycle()
    one = asked_to_act(path, url, monkeypatch, "hot")
    assert (one["refused"], one["observed_seconds"], one["unproven_seconds"]) == (True, 86400, 20 * 86400)
    assert one["reason"] == (
        "where it would act, it has observed for 1 of 14 days with answers, and for the rest nothing shows that a "
        "controller was at work"
    )
    assert set(one["days"]) == {"none"}
    assert "for 20d more nothing shows that a controller was at work, so that is not counted" in one["notes"]


def test_a_quiet_cluster_is_observed_day_by_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, url = fresh_path(tmp_path, "hot")
    path.passes(13 * DAY)
    one = asked_to_act(path, url, monkeypatch, "hot")
    assert (one["refused"], one["unproven_seconds"], set(one["days"])) == (False, 0, {"quiet"})


def test_files_in_which_nothing_enforces_pass(lived: Lived, tmp_path: Path) -> None:
    shutil.copytree(lived.files, tmp_path / "head")
    for name in ("acts", "changed"):
        (tmp_path / "head" / f"{name}.yaml").write_text(written(name), encoding="utf-8")
    done = run("--check", str(tmp_path / "head"), url=lived.url)
    assert (done.exit_code, done.stdout) == (0, "No policy of these files says enforce.\n")


def test_files_with_a_fault_are_told_as_by_policy_check(lived: Lived, tmp_path: Path) -> None:
    done = checked(lived, tmp_path, "quiet", written("quiet", mode="enforced"))
    assert done.exit_code == 1
    assert re.search(r"quiet\.yaml:\d+:\d+: ", done.stderr)


# --- Forms and mistakes -----------------------------------------------------------------------------------------------


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys_of(inner)}
    return {key for inner in value for key in keys_of(inner)} if isinstance(value, list) else set()


def test_json_has_the_documented_keys(lived: Lived) -> None:
    page = (Path(__file__).parents[2] / "docs/trust.md").read_text(encoding="utf-8")
    for words in ((), ("--check", str(lived.files))):
        for key in keys_of(json.loads(run(*words, "-o", "json", url=lived.url).stdout)):
            assert f"`{key}`" in page, f"docs/trust.md does not tell of {key}"


def test_markdown_renders_and_commands_are_copied_as_they_are(lived: Lived) -> None:
    html = MarkdownIt("commonmark").enable("table").render(run("-o", "markdown", url=lived.url).stdout)
    assert html.count("<table>") == 1
    assert html.count("<h4>") == 6
    assert "<code>quarantine explain node-5 --case q-" in html
    html = (
        MarkdownIt("commonmark")
        .enable("table")
        .render(run("--check", str(lived.files), "-o", "markdown", url=lived.url).stdout)
    )
    assert "<td>acts</td>" in html


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--require", "read"], 2, "name them"),
        (["quiet", "--check", "."], 2, "give no names beside it"),
        (["--allow", "quiet"], 2, "--allow goes with --check"),
        (["--since", "tomorrow"], 2, "is no time"),
        (["--since", "now"], 2, "there is no time to look at"),
        (["nobody"], 1, "in force is no such policy; there is acts, changed, passed, quiet"),
    ],
)
def test_mistakes_are_told_in_a_sentence(lived: Lived, words: list[str], code: int, said: str) -> None:
    done = run(*words, url=lived.url)
    assert done.exit_code == code
    assert said in " ".join(done.stderr.split())


def test_allowing_what_is_not_there_is_a_mistake(lived: Lived) -> None:
    done = run("--check", str(lived.files), "--allow", "gpu-hto", url=lived.url)
    assert done.exit_code == 1
    assert "--allow gpu-hto: these files have no such policy" in done.stderr


def test_no_ledger_and_none_that_a_controller_has_written_to(tmp_path: Path) -> None:
    done = run(url=f"sqlite:///{tmp_path / 'none.db'}")
    assert done.exit_code == 1
    assert "there is no ledger at" in done.stderr
    upgrade(f"sqlite:///{tmp_path / 'new.db'}")
    done = run(url=f"sqlite:///{tmp_path / 'new.db'}")
    assert done.exit_code == 1
    assert "has taken up no policies yet" in done.stderr


def test_time_without_a_controller_is_not_observed(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    before = told(lived)["quiet"]["observed_seconds"]
    stop_at(monkeypatch, NOW + 3 * DAY)
    done = run("quiet", "-o", "json", url=lived.url)
    assert json.loads(done.stdout)["policies"][0]["observed_seconds"] == before
    assert "no controller has written to the ledger since" in done.stderr


def test_a_signal_s_file_that_changed_since_is_told(lived: Lived, tmp_path: Path) -> None:
    shutil.copytree(lived.files, tmp_path / "policies")
    path = PathOfTrust(fresh(lived, tmp_path), lived.files)
    path.directory = tmp_path / "policies"
    path.at = NOW
    path.signals("the same in other words")
    path.cycle()
    path.ledger.close()
    said = block(run("quiet", url=f"sqlite:///{tmp_path / 'ledger.db'}").stdout, "quiet")
    assert "the file of signal gpu.temperature was changed at 2026-11-18 01:00 UTC" in said


def test_text_from_outside_becomes_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a|b`c</td>\x1b[31m[x](http://evil) @team\n# head"
    case = Told(hostile, hostile, NOW)
    found = Found(cases=1, fates={Fate.REFUTED: 1}, refuted=(case,), sweeps=(Sweep(hostile, 9, NOW),))
    law, wanted = rules(), Wanted(NOW - 14 * DAY, NOW, NOW)
    trails = {"gpu-hot": Trail((Edition(NOW - 20 * DAY, law.policies[0].spec),))}
    made = standings(law, trails, {"gpu-hot": found}, {}, wanted)
    at = Installation(CLUSTER, Mode.ENFORCE, law, State(), None, {})
    show(made, at, wanted, [Path("policies")], Output.TABLE, full=True)
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert not any(line.startswith("#") for line in said.splitlines())
    show(made, at, wanted, [Path("policies")], Output.MARKDOWN, full=True)
    html = MarkdownIt("commonmark").enable("table").render(capsys.readouterr().out)
    assert "<a " not in html
    assert html.count("<h") == 2 + html.count("<hr")
    assert "@team" not in re.sub("<code>.*?</code>", "", html, flags=re.DOTALL), "in code, nobody is summoned"
