"""The Defaults document: what it gives to policies, and whose fault is whose."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles.loader import check_paths, load_rules
from tests.adapters.policyfiles.conftest import Edit

HEAD = "apiVersion: quarantine.gpu/v1alpha1\nkind: Defaults\nmetadata:\n  name: defaults\nspec:\n"
OWNER = "  owner: infrastructure on call\n"


@pytest.fixture
def defaults(policies: Path) -> Path:
    """A Defaults document beside the sample, with the owner and a threshold."""
    file = policies / "defaults.yaml"
    file.write_text(
        f"{HEAD}  policy:\n    owner: the night shift\n    breaker: {{maxShare: 3%}}\n  thresholds: {{hot: 77}}\n"
    )
    return file


def said(policies: Path) -> list[tuple[str, int, str]]:
    return [(Path(f.file).name, f.line, f.message) for f in check_paths([policies]).faults]


def test_a_policy_gets_what_it_does_not_say(policies: Path, edit: Edit, defaults: Path) -> None:
    edit("gpu-hot.yaml", OWNER, "")
    edit("gpu-hot.yaml", "above: 78", "above: hot")
    hot = load_rules([policies]).policy("gpu-hot")
    assert hot is not None
    assert (hot.spec.owner, hot.spec.trigger.above) == ("the night shift", 77)
    assert hot.spec.breaker.max_share == 0.1, "its own word stands"


def test_the_text_and_hash_cover_the_defaults(policies: Path, defaults: Path) -> None:
    before = {p.name: (p.hash, p.text) for p in load_rules([policies]).policies}
    hash_, text = before["gpu-hot"]
    assert text.endswith(f"---\n{defaults.read_text()}")
    assert hash_ == hashlib.sha256(text.encode()).hexdigest()
    defaults.write_text(defaults.read_text().replace("hot: 77", "hot: 76"))
    after = {p.name: p.hash for p in load_rules([policies]).policies}
    assert all(after[name] != before[name][0] for name in before)


def test_a_threshold_that_nobody_named_is_the_policys_fault(policies: Path, edit: Edit, defaults: Path) -> None:
    line = edit("gpu-hot.yaml", "above: 78", "above: hotter")
    assert said(policies) == [
        ("gpu-hot.yaml", line, "spec.trigger.above: no threshold is called 'hotter' (known: hot)")
    ]


def test_a_contradiction_with_a_threshold_is_at_the_policy(policies: Path, edit: Edit, defaults: Path) -> None:
    line = edit("gpu-hot.yaml", "above: 78", "above: hot")
    edit("gpu-hot.yaml", "below: 72", "below: 77.5")
    found = said(policies)
    assert len(found) == 1
    assert found[0][0] == "gpu-hot.yaml"
    assert found[0][1] > line
    assert "recovery below 77.5 contradicts the trigger at 77" in found[0][2]


def test_a_value_that_cannot_be_is_one_fault_and_stands_in_the_defaults(
    policies: Path, edit: Edit, defaults: Path
) -> None:
    edit("gpu-hot.yaml", OWNER, "")
    defaults.write_text(defaults.read_text().replace("maxShare: 3%", "maxShare: 3").replace("the night shift", "[x]"))
    assert said(policies) == [
        ("defaults.yaml", 7, "spec.policy.owner must be text, and is a list"),
        (
            "defaults.yaml",
            8,
            "spec.policy.breaker.maxShare: 3 is no share: write a percentage from 0% to 100%, such as 10%",
        ),
    ]
    rules = check_paths([policies]).rules
    assert rules is not None
    assert "gpu-hot" not in {p.name for p in rules.policies}, "none is read without what it is said to have"


def test_policies_that_need_nothing_of_broken_defaults_are_sound(policies: Path, edit: Edit, defaults: Path) -> None:
    edit("gpu-hot.yaml", "above: 78", "above: hot")
    defaults.write_text(f"{HEAD}  thresholds: {{hot: warm}}\n")
    assert [f[:2] for f in said(policies)] == [("defaults.yaml", 6)]
    rules = check_paths([policies]).rules
    assert rules is not None
    assert sorted(p.name for p in rules.policies) == ["infiniband-link-flapping", "nvlink-errors"]


def test_defaults_that_are_no_yaml_are_one_fault(policies: Path, edit: Edit, defaults: Path) -> None:
    edit("gpu-hot.yaml", OWNER, "")
    edit("gpu-hot.yaml", "above: 78", "above: hot")
    defaults.write_text(defaults.read_text() + "\tx: 1\n")
    assert [f[0] for f in said(policies)] == ["defaults.yaml"]


def test_a_second_one_is_a_fault(policies: Path, defaults: Path) -> None:
    (policies / "z.yaml").write_text(defaults.read_text())
    assert said(policies) == [("z.yaml", 4, f"a second Defaults; the first is at {defaults}:4")]


def test_what_only_the_policy_lacks_is_its_own_fault(policies: Path, edit: Edit, defaults: Path) -> None:
    edit("gpu-hot.yaml", "  severity: critical\n", "")
    found = said(policies)
    assert [f[0] for f in found] == ["gpu-hot.yaml"]
    assert "spec.severity is missing" in found[0][2]


def test_a_value_of_the_defaults_that_no_policy_can_have_is_told_where_it_is(policies: Path, defaults: Path) -> None:
    text = f"{HEAD}  policy:\n    correlation: {{by: [rack], within: 5m}}\n"
    defaults.write_text(text)
    found = said(policies)
    assert found == [("defaults.yaml", 7, "the fleet's topology has no 'rack' (known: none)")]


# --- A text in place of a file ----------------------------------------------------------------------------------------


def test_a_given_text_stands_in_for_a_file(policies: Path, edit: Edit) -> None:
    file = policies / "gpu-hot.yaml"
    good = file.read_text()
    edit("gpu-hot.yaml", "above: 78", "above: [78]")
    broken = check_paths([policies])
    assert [f.file for f in broken.faults] == [str(file)]
    assert broken.texts[file] != good
    mended = check_paths([policies], instead_of={file: good})
    assert mended.faults == ()
    assert mended.texts[file] == good
    assert mended.rules is not None
    assert mended.rules.policy("gpu-hot") is not None
    file.write_bytes(b"\xff")
    assert check_paths([policies], instead_of={file: good}).faults == ()


def test_the_texts_are_those_of_every_file_that_could_be_read(policies: Path) -> None:
    (policies / "gpu-hot.yaml").write_bytes(b"\xff")
    texts = check_paths([policies]).texts
    assert {file.name for file in texts} == {f.name for f in policies.iterdir()} - {"gpu-hot.yaml"}


# --- Notes ------------------------------------------------------------------------------------------------------------


def test_a_shadowed_policy_is_a_note_and_no_fault(policies: Path) -> None:
    hotter = (policies / "gpu-hot.yaml").read_text().replace("name: gpu-hot", "name: gpu-hotter")
    (policies / "gpu-hotter.yaml").write_text(hotter.replace("above: 78", "above: 85"))
    result = check_paths([policies])
    assert result.faults == ()
    assert [(Path(n.file).name, n.severity) for n in result.notes] == [("gpu-hotter.yaml", "note")]
    assert "policy gpu-hotter never decides anything: policy gpu-hot finds the same" in result.notes[0].message


# --- By severity ------------------------------------------------------------------------------------------------------

LAYERS = f"""{HEAD}  policy:
    owner: the night shift
    breaker: {{maxShare: 3%}}
    response: {{ticket: report, drain: when-idle, cordon: false}}
  severities:
    critical:
      owner: the day shift
      response:
        drain: {{when: when-idle, deadline: 4h, then: now}}
        ladder: [{{do: report, after: 1h}}, {{do: replace}}]
"""


def test_a_policys_word_goes_before_its_severitys_and_that_before_that_for_all(policies: Path, edit: Edit) -> None:
    (policies / "defaults.yaml").write_text(LAYERS)
    edit("gpu-hot.yaml", OWNER, "")
    edit("gpu-hot.yaml", "    ticket: report\n", "")
    edit("infiniband-link-flapping.yaml", "severity: critical", "severity: warning")
    rules = load_rules([policies])
    hot, flapping = rules.policy("gpu-hot"), rules.policy("infiniband-link-flapping")
    assert hot is not None
    assert flapping is not None
    assert hot.spec.owner == "the day shift"
    assert hot.spec.response.drain.then == "now"
    assert [step.do for step in hot.spec.response.ladder] == ["report", "replace"], "and no ticket for all beside it"
    assert hot.spec.response.cordon, "its own word stands"
    assert hot.spec.breaker.max_share == 0.1
    assert flapping.spec.response.drain.deadline is None, "what is given to critical policies is not its own"


def test_a_policy_with_a_ticket_or_without_a_taint_gets_nothing_that_contradicts_it(policies: Path, edit: Edit) -> None:
    (policies / "defaults.yaml").write_text(LAYERS)
    edit("nvlink-errors.yaml", "  response:\n", "  response:\n    taint: false\n")
    file = policies / "nvlink-errors.yaml"
    file.write_text(file.read_text().replace("    cordon: true\n", "").replace("    ticket: report\n", ""))
    rules = load_rules([policies])
    hot, told = rules.policy("gpu-hot"), rules.policy("nvlink-errors")
    assert hot is not None
    assert told is not None
    assert (hot.spec.response.ticket, hot.spec.response.ladder) == ("report", ())
    assert told.spec.response.steps == ()
    assert told.spec.response.drain.when == "never"


def test_a_fault_of_a_layer_is_told_where_it_stands(policies: Path, edit: Edit) -> None:
    (policies / "defaults.yaml").write_text(LAYERS.replace("when: when-idle", "when: after-checkpoint"))
    edit("gpu-hot.yaml", "    ticket: report\n", "")
    found = said(policies)
    assert [f[:2] for f in found] == [("defaults.yaml", 14)]
    assert "a drain after the checkpoint never comes" in found[0][2]


def test_the_severity_that_a_layer_is_chosen_by_cannot_be_given_by_it(policies: Path) -> None:
    (policies / "defaults.yaml").write_text(f"{HEAD}  severities: {{fatal: {{severity: warning}}}}\n")
    assert said(policies)[0][2].endswith("what is given to fatal policies cannot say their severity")


def test_a_policys_own_query_is_checked_as_a_signal_is(policies: Path, edit: Edit) -> None:
    query = (
        "  query:\n    expr: {expr}\n    unit: °C\n    device: gpu\n    plausible: {{min: 0, max: 130}}\n"
        "    interval: 30s\n    node: {{first: [Hostname]}}\n    labels: {{first: [UUID]}}\n"
    )
    line = edit("gpu-hot.yaml", "  signal: gpu.temperature\n", query.format(expr="sum by (UUID) (x)"))
    found = said(policies)
    assert [f[:2] for f in found[:2]] == [("gpu-hot.yaml", line + 1)] * 2
    assert "expr has the bare selector x" in found[1][2]
    assert "aggregates away Hostname" in found[0][2]
    assert len(found) == 3
    assert "gpu.tensor-active has no source for query" in found[2][2], "its load must be said to be of another"
