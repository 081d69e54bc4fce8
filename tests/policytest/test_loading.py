"""Test files: where they are looked for, with which policies, and each mistake told at its place in one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles.faults import Fault, PolicyFaults
from quarantine.core.errors import UsageError
from quarantine.core.model import Mode
from quarantine.policytest.loading import load
from tests.policytest.conftest import Write


def faults(*paths: Path) -> tuple[Fault, ...]:
    with pytest.raises(PolicyFaults) as caught:
        load(paths)
    return caught.value.faults


def the_fault(path: Path) -> Fault:
    found = faults(path)
    assert len(found) == 1, found
    return found[0]


def test_a_directory_is_all_of_its_tests(sample: Path) -> None:
    files = load([sample])
    assert [file.policy for file in files] == ["flapping", "hot"]
    first = files[1].tests[0]
    assert first.case.name == "bad"
    assert first.file == str(sample / "hot_test.yaml")
    assert (sample / "hot_test.yaml").read_text(encoding="utf-8").splitlines()[first.line - 1].strip() == "- name: bad"


def test_the_policy_runs_alone_and_as_if_it_enforced(sample: Path) -> None:
    test = load([sample / "hot_test.yaml"])[0].tests[0]
    assert [policy.name for policy in test.rules.policies] == ["hot"]
    assert test.policy.spec.mode is Mode.ENFORCE
    assert test.rules.fleet.matchers == {"cluster": "here"}


def test_a_file_that_is_given_twice_runs_once(sample: Path) -> None:
    assert len(load([sample, sample / "hot_test.yaml", sample])) == 2


def test_a_test_in_a_directory_below_finds_the_fleet_above(sample: Path) -> None:
    below = sample / "gpu" / "core"
    below.mkdir(parents=True)
    shutil.move(sample / "hot_test.yaml", below)
    assert load([below / "hot_test.yaml"])[0].policy == "hot"
    assert load([below])[0].policy == "hot"
    assert [file.policy for file in load([sample])] == ["flapping", "hot"]


def test_a_hidden_directory_is_passed_over(sample: Path) -> None:
    hidden = sample / "..data"
    hidden.mkdir()
    shutil.copy(sample / "hot_test.yaml", hidden / "again_test.yaml")
    assert len(load([sample])) == 2


def test_without_a_fleet_anywhere(tmp_path: Path, sample: Path) -> None:
    (tmp_path / "alone").mkdir()
    shutil.move(sample / "hot_test.yaml", tmp_path / "alone")
    fault = the_fault(tmp_path / "alone" / "hot_test.yaml")
    assert fault.message == "there is no document of kind Fleet beside it or above it"


@pytest.mark.parametrize(
    ("name", "problem"),
    [("missing_test.yaml", "there is no file"), ("fleet.yaml", "is no test"), ("empty", "there is no test in")],
)
def test_paths_that_mean_no_test(sample: Path, name: str, problem: str) -> None:
    (sample / "empty").mkdir()
    with pytest.raises(UsageError, match=problem):
        load([sample / name])


def test_a_policy_that_is_broken_is_told_as_the_check_tells_it(sample: Path) -> None:
    path = sample / "policies.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("above: 78", "abvoe: 78"), encoding="utf-8")
    found = faults(sample)
    assert found[0].file == str(path)
    assert "abvoe" in found[0].message


def test_every_broken_file_is_told(sample: Path) -> None:
    for name in ("hot_test.yaml", "flapping_test.yaml"):
        (sample / name).write_text("kind: [", encoding="utf-8")
    assert [Path(fault.file).name for fault in faults(sample)] == ["flapping_test.yaml", "hot_test.yaml"]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "1:1", "the file is empty"),
        ("kind: &a PolicyTest", "1:7", "anchors and aliases"),
        ("kind: Policy\napiVersion: quarantine.gpu/v1alpha1", "1:7", "kind is text 'Policy'"),
        ("kind: PolicyTest", "1:1", "apiVersion is missing"),
        ("a: 1\n---\nb: 2", "3:1", "a second document begins here"),
    ],
)
def test_files_that_are_no_tests(sample: Path, text: str, place: str, message: str) -> None:
    path = sample / "hot_test.yaml"
    path.write_text(text, encoding="utf-8")
    fault = the_fault(path)
    assert fault.place == f"{path}:{place}"
    assert message in fault.message


BAD = "    - name: bad\n      verdicts: {9m: bad}\n"
MISTAKES = [  # what stands under `tests:`, the line below that, and a part of the sentence
    ("    - name: x\n", 1, "the test 'x' expects nothing: give verdicts, phases, decisions or never"),
    ("    - name: x\n      decisions: []\n", 1, "names no time: say how long it lasts"),
    ("    - name: x\n      verdicts: {9m: bad}\n      lasts: 5m\n", 1, "lasts 5m and expects something at 9m"),
    ("    - name: x\n      verdicts: {9d: bad}\n", 1, "is longer than 2d"),
    ("    - name: x\n      verdicts: {9 min: bad}\n", 2, "'9 min' is no duration"),
    ("    - name: x\n      verdicts: {9m: hot}\n", 2, "must be bad or good or unknown"),
    ("    - name: x\n      verdict: {9m: bad}\n", 2, "unknown field `verdict`"),
    (BAD + "      node: n1\n", 3, "'n1' is no machine of a test: they are node-1, node-2, …"),
    (BAD + "      node: node-5\n", 3, "there is no node-5: the test has 4 machines"),
    (BAD + "      nodes: {node-9: {ready: false}}\n", 3, "there is no node-9"),
    (BAD + "      others: [{node: node-7, verdicts: {9m: bad}}]\n", 3, "there is no node-7"),
    (BAD + "      decisions: [{by: 9m}]\n", 3, "give an action, or what it is held by, or both"),
    (BAD + "      decisions: [{action: quarantine, after: 9m, by: 9m}]\n", 3, "after 9m is not before by 9m"),
    (BAD + "      decisions: [{action: explode}]\n", 3, "spec.tests[0].decisions[0].action must be"),
    (BAD + "      decisions: [{held: by-me}]\n", 3, "spec.tests[0].decisions[0].held must be"),
    (BAD + "      phases: {9m: gone}\n", 3, "must be suspected or"),
    (BAD + "      silent: [{series: '{Hostname=\"node-1\"}', since: 5m, until: 5m}]\n", 3, "is not before until 5m"),
    (BAD + "      silent: [{series: up}]\n", 3, "up matches no series of this test"),
    (BAD + "      series:\n        DCGM_FI_DEV_GPU_TEMP: 60\n", 4, "must be text, and is the number 60"),
    (BAD + "      series:\n        DCGM_FI_DEV_GPU_TEMP: 60x\n", 4, "'60x' is no series value"),
    (BAD + "      series:\n        DCGM_FI_DEV_GPU_TMP: 60...\n", 4, "DCGM_FI_DEV_GPU_TMP matches no series"),
    (BAD + '      more:\n        m{a="$host"}: 60...\n', 4, "has the placeholder $host"),
    (BAD + BAD, 3, "a second test has the name 'bad'"),
]


@pytest.mark.parametrize(("tests", "line", "message"), MISTAKES)
def test_mistakes_are_told_where_they_are(written: Write, tests: str, line: int, message: str) -> None:
    path = written(tests)
    begins = path.read_text(encoding="utf-8").splitlines().index("  tests:") + 1
    fault = the_fault(path)
    assert message in fault.message
    assert fault.line - begins == line


def test_a_policy_that_does_not_exist_and_what_may_be_meant(written: Write) -> None:
    path = written(BAD)
    path.write_text(path.read_text(encoding="utf-8").replace("policy: hot", "policy: hott"), encoding="utf-8")
    fault = the_fault(path)
    assert "there is no policy called hott" in fault.message
    assert fault.hint == "did you mean hot?"


def test_an_interval_is_whole_seconds(written: Write) -> None:
    path = written(BAD)
    path.write_text(path.read_text(encoding="utf-8").replace("policy: hot", "policy: hot\n  interval: 1500ms"), "utf-8")
    assert the_fault(path).message == "spec.interval: 1s500ms is no whole number of seconds"


def test_a_mistake_in_the_background_is_told_once(written: Write) -> None:
    path = written(BAD + BAD.replace("bad\n", "other\n", 1))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("0+1000...", "0+1000..", 1), encoding="utf-8")
    assert "'0+1000..' is no series value" in the_fault(path).message
