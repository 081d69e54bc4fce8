"""Procedures in policy files: what names them, what is wrong with them, and whose change a change of theirs is."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles.loader import check_paths, load_rules
from quarantine.core.rulefiles import version_of
from tests.adapters.policyfiles.conftest import SHIPPED, Edit

BURN_IN = """\
apiVersion: quarantine.gpu/v1alpha1
kind: Procedure
metadata:
  name: burn-in
spec:
  description: Proves that the GPUs bear full load.
  job:
    pod:
      containers:
        - name: burn
          image: example.com/burn:1
          args: ["--node", "{node}"]
"""
RESET = BURN_IN.replace("name: burn-in", "name: gpu-reset")


@pytest.fixture
def procedures(policies: Path) -> Path:
    """A file with two procedures beside the sample."""
    file = policies / "procedures.yaml"
    file.write_text(f"{BURN_IN}---\n{RESET}")
    return file


def said(policies: Path) -> list[tuple[str, int, str, str]]:
    return [(Path(f.file).name, f.line, f.message, f.hint) for f in check_paths([policies]).faults]


def answer(edit: Edit, response: str) -> int:
    """Give gpu-hot this response in place of its ticket; the line where it begins."""
    return edit("gpu-hot.yaml", "    ticket: report\n", response)


LADDER = "    ladder: [{do: reset, by: gpu-reset}, {do: report}]\n    release: {when: on-proof, burnIn: burn-in}\n"


def test_they_are_in_the_rules_and_a_policy_may_name_them(policies: Path, edit: Edit, procedures: Path) -> None:
    answer(edit, LADDER)
    rules = load_rules([policies])
    assert set(rules.procedures) == {"burn-in", "gpu-reset"}
    hot = rules.policy("gpu-hot")
    assert hot is not None
    assert hot.spec.response.procedures == ("burn-in", "gpu-reset")


@pytest.mark.parametrize(
    ("response", "below", "message", "hint"),
    [
        ("    evidence: burnin\n", 0, "no procedure is called 'burnin' (known: burn-in, gpu-reset)", "mean burn-in?"),
        ("    release: {burnIn: soak}\n", 0, "no procedure is called 'soak'", "policies/procedures.yaml has examples"),
        ("    ladder:\n      - do: reset\n        by: reset\n", 2, "no procedure is called 'reset'", "mean gpu-reset?"),
        ("    ladder:\n      - do: replace\n      - do: report\n", 2, "report stands after replace", "replace last"),
        ("    ladder:\n      - do: report\n      - do: report\n", 2, "reported twice, first in step 1", "remove one"),
        ("    drain: after-checkpoint\n", 0, "a drain after the checkpoint never comes", "`workloads.checkpoint`"),
        ("    ladder: [{do: reset}]\n", 0, "do: reset needs by, the name of a Procedure", ""),
        ("    ladder: [{do: report}]\n    ticket: report\n", -2, "give either ticket or ladder", ""),
        ("    drain: later\n", 0, "spec.response.drain must be never or when-idle", ""),
    ],
)
def test_what_a_response_cannot_ask_for(
    policies: Path, edit: Edit, procedures: Path, response: str, below: int, message: str, hint: str
) -> None:
    line = answer(edit, response)
    found = said(policies)
    assert len(found) == 1, found
    assert found[0][:2] == ("gpu-hot.yaml", line + below)
    assert message in found[0][2]
    assert hint in found[0][3]


@pytest.mark.parametrize(
    "response",
    [
        "    release: {burnIn: burn-in}\n",  # a person is asked once it has succeeded
        "    drain: {when: on-restart, deadline: 1h, then: now}\n    ticket: replace\n",
        "    evidence: burn-in\n    ladder: [{do: report}, {do: reset, by: gpu-reset}, {do: replace, after: 1d}]\n",
    ],
)
def test_what_it_can_ask_for(policies: Path, edit: Edit, procedures: Path, response: str) -> None:
    answer(edit, response)
    assert said(policies) == []


def test_a_checkpoint_can_be_told_by_an_annotation_or_a_query(policies: Path, edit: Edit) -> None:
    answer(edit, "    drain: after-checkpoint\n")
    edit("fleet.yaml", "  pools:\n", "  workloads: {checkpoint: {annotation: example.com/saved}}\n  pools:\n")
    assert said(policies) == []
    edit("fleet.yaml", "annotation: example.com/saved", "query: 'max_over_time(job_saved_seconds[5m])'")
    assert said(policies) == []


def test_jobs_and_exporters_are_shared_without_a_label(policies: Path, edit: Edit) -> None:
    correlation = "  correlation: {by: [job, exporter], within: 5m}\n"
    edit("gpu-hot.yaml", "  breaker:\n", f"{correlation}  breaker:\n")
    assert said(policies) == []
    line = edit("gpu-hot.yaml", "by: [job, exporter]", "by: [job, rack]")
    assert [f[:2] for f in said(policies)] == [("gpu-hot.yaml", line)]
    assert "job and exporter need none" in said(policies)[0][3]


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ("{gate: {burnIn: soak}}", "no procedure is called 'soak'"),
        ("{domain: {by: nvlink, machines: 16}}", "the fleet's topology has no 'nvlink' (known: none)"),
    ],
)
def test_what_a_pool_cannot_ask_for(policies: Path, edit: Edit, procedures: Path, pool: str, message: str) -> None:
    line = edit("fleet.yaml", "    - name: gpu\n", f"    - name: gpu\n      {pool[1:-1]}\n")
    assert [f[:2] for f in said(policies)] == [("fleet.yaml", line + 1)]
    assert message in said(policies)[0][2]


def test_the_inventory_is_of_gpus(policies: Path, edit: Edit) -> None:
    edit("fleet.yaml", "  pools:\n", "  inventory: {signal: gpu.temperature}\n  pools:\n")
    assert said(policies) == []
    edit("fleet.yaml", "signal: gpu.temperature", "signal: ib.port.link-downed")
    assert "the inventory is of GPUs, and ib.port.link-downed is about ib_port" in said(policies)[0][2]


@pytest.mark.parametrize(
    ("old", "new", "below", "message", "hint"),
    [
        ("          image: example.com/burn:1\n", "", -1, "a container needs its image", ""),
        ('"{node}"', '"{nodes}"', 0, "{nodes} stands for nothing here", "did you mean {node}?"),
        ('"{node}"', '"{system_uuid}"', 0, "{system_uuid} stands for nothing here", "only commands have it"),
        ("    pod:\n", "    pod:\n      nodeName: x\n", -1, "pod must not say nodeName", ""),
        ("  job:\n", "  command: [x]\n  job:\n", -2, "give either job or command", ""),
        ("      containers:\n", "      container:\n", -2, "pod must be a PodSpec with containers", ""),
    ],
)
def test_what_is_wrong_with_a_procedure_has_its_line(
    policies: Path, edit: Edit, old: str, new: str, below: int, message: str, hint: str
) -> None:
    (policies / "burn-in.yaml").write_text(BURN_IN)
    line = edit("burn-in.yaml", old, new)
    found = said(policies)
    assert len(found) == 1, found
    assert (found[0][0], found[0][1]) == ("burn-in.yaml", line + below)
    assert message in found[0][2]
    assert hint in found[0][3]


def test_braces_have_other_uses(policies: Path) -> None:
    (policies / "burn-in.yaml").write_text(BURN_IN.replace('"{node}"', "'${NODE} {{node_}} {\"a\": 1} {x}'"))
    assert said(policies) == []


def test_a_broken_procedure_is_one_fault_and_not_also_one_for_each_policy_that_uses_it(
    policies: Path, edit: Edit, procedures: Path
) -> None:
    answer(edit, LADDER)
    procedures.write_text(procedures.read_text().replace("image: example.com/burn:1", "image: 1", 1))
    found = said(policies)
    assert [f[0] for f in found] == ["procedures.yaml"]
    rules = check_paths([policies]).rules
    assert rules is not None
    assert "gpu-hot" not in {policy.name for policy in rules.policies}, "it needs what is broken"
    assert len(rules.policies) == 2


def test_a_change_of_a_procedure_is_a_change_of_the_policies_that_use_it(
    policies: Path, edit: Edit, procedures: Path
) -> None:
    answer(edit, LADDER)

    def known() -> dict[str, tuple[str, str]]:
        rules = load_rules([policies])
        return {policy.name: (policy.hash, version_of(policy, rules)) for policy in rules.policies}

    before = known()
    hot = load_rules([policies]).policy("gpu-hot")
    assert hot is not None
    assert hot.text.endswith(f"---\n{BURN_IN}---\n{RESET}")
    assert hot.hash == hashlib.sha256(hot.text.encode()).hexdigest()
    procedures.write_text(procedures.read_text().replace("burn:1", "burn:2"))
    after = known()
    assert {name for name in before if after[name][0] != before[name][0]} == {"gpu-hot"}
    assert {name for name in before if after[name][1] != before[name][1]} == {"gpu-hot"}, "it observes first"


def test_prose_about_a_procedure_makes_nobody_observe(policies: Path, edit: Edit, procedures: Path) -> None:
    answer(edit, LADDER)
    rules = load_rules([policies])
    before = {policy.name: version_of(policy, rules) for policy in rules.policies}
    procedures.write_text(procedures.read_text().replace("Proves that", "It shows whether"))
    rules = load_rules([policies])
    assert {policy.name: version_of(policy, rules) for policy in rules.policies} == before


def test_nothing_shipped_refers_to_the_shipped_procedures() -> None:
    rules = load_rules([SHIPPED])
    assert set(rules.procedures) == {"burn-in", "gpu-reset", "nvidia-bug-report", "reboot"}
    assert not [policy.name for policy in rules.policies if policy.spec.response.procedures]
    assert not [pool.name for pool in rules.fleet.pools if pool.gate is not None]


def test_the_shipped_procedures_fit_a_policy(tmp_path: Path) -> None:
    for file in SHIPPED.glob("*.yaml"):
        if not file.name.endswith("_test.yaml"):
            (tmp_path / file.name).write_text(file.read_text())
    hot = tmp_path / "gpu-hot.yaml"
    response = (
        "    evidence: nvidia-bug-report\n    drain: when-idle\n    ladder: [{do: reset, by: gpu-reset}, "
        "{do: reboot, by: reboot}, {do: replace}]\n    release: {when: on-proof, burnIn: burn-in}\n"
    )
    text = hot.read_text()
    assert text.count("    ticket: report\n") == 1
    hot.write_text(text.replace("    ticket: report\n", response))
    assert [str(fault) for fault in check_paths([tmp_path]).faults] == []
