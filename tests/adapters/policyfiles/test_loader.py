"""From files to rules: everything that can be wrong with them, each with its line and one sentence."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles.faults import Fault, PolicyFaults
from quarantine.adapters.policyfiles.loader import check_paths, load_rules
from tests.adapters.policyfiles.conftest import Edit
from tests.adapters.policyfiles.mistakes import MISTAKES


def only_fault(policies: Path) -> Fault:
    faults = check_paths([policies]).faults
    assert len(faults) == 1, "\n".join(map(str, faults))
    assert "\n" not in str(faults[0])
    return faults[0]


def sound_policies(policies: Path) -> list[str]:
    rules = check_paths([policies]).rules
    assert rules is not None
    return [p.name for p in rules.policies]


@pytest.mark.parametrize(
    ("file", "old", "new", "below", "message", "hint"),
    [(file, *mistake) for file, mistakes in MISTAKES.items() for mistake in mistakes],
)
def test_each_kind_of_mistake_has_its_line_and_sentence(
    policies: Path, edit: Edit, file: str, old: str, new: str, below: int, message: str, hint: str
) -> None:
    line = edit(file, old, new)
    found = check_paths([policies]).faults
    faults = [fault for fault in found if message in fault.message]
    assert len(faults) == 1, "\n".join(map(str, found))
    assert (faults[0].file, faults[0].line) == (str(policies / file), line + below)
    assert hint in faults[0].hint


def test_faults_of_all_files_are_reported_and_the_sound_documents_still_make_rules(policies: Path, edit: Edit) -> None:
    hot = edit("gpu-hot.yaml", "above: 78", 'above: "78"')
    link = edit("nvlink-errors.yaml", "  owner:", "\towner:")
    result = check_paths([policies])
    assert [(Path(f.file).name, f.line) for f in result.faults] == [("gpu-hot.yaml", hot), ("nvlink-errors.yaml", link)]
    assert result.rules is not None
    assert [p.name for p in result.rules.policies] == ["infiniband-link-flapping"]
    assert result.counts == {"files": 5, "policies": 1, "signals": 5, "procedures": 0, "fleets": 1}
    with pytest.raises(PolicyFaults, match=r"gpu-hot\.yaml:\d+:\d+: .* \(and 1 more fault\)$") as caught:
        load_rules([policies])
    assert caught.value.faults == result.faults


def test_a_broken_signal_is_one_fault_and_not_also_one_for_each_policy_that_uses_it(policies: Path, edit: Edit) -> None:
    edit("signals.yaml", "    max: 1\n", '    max: "1"\n')
    assert "spec.plausible.max must be a number" in only_fault(policies).message
    rules = check_paths([policies]).rules
    assert rules is not None
    assert [p.name for p in rules.policies] == ["infiniband-link-flapping"], "the other two need gpu.tensor-active"


def test_neither_is_a_file_that_is_no_yaml(policies: Path, edit: Edit) -> None:
    edit("signals.yaml", "    max: 1\n", "    max: 1\n\tx")
    assert "a tab" in only_fault(policies).message
    rules = check_paths([policies]).rules
    assert rules is not None
    assert not rules.policies
    edit("signals.yaml", "\tx", "")
    edit("fleet.yaml", "  pools:", "\tpools:")
    assert "a tab" in only_fault(policies).message
    assert check_paths([policies]).rules is None


def test_a_missing_fleet_is_a_fault(policies: Path) -> None:
    (policies / "fleet.yaml").unlink()
    found = only_fault(policies)
    assert (found.file, found.line, found.message) == (str(policies), 1, "there is no document of kind Fleet")
    assert "policies/fleet.yaml" in found.hint


def test_two_of_a_kind_name_both_places(policies: Path) -> None:
    (policies / "z.yaml").write_text((policies / "fleet.yaml").read_text().replace("name: fleet", "name: other"))
    found = only_fault(policies)
    assert (Path(found.file).name, found.line) == ("z.yaml", 6)
    assert found.message == f"a second Fleet; the first is at {policies / 'fleet.yaml'}:6"
    (policies / "z.yaml").write_text((policies / "gpu-hot.yaml").read_text())
    found = only_fault(policies)
    assert (Path(found.file).name, found.line) == ("z.yaml", 6)
    assert found.message == f"a second Policy called gpu-hot; the first is at {policies / 'gpu-hot.yaml'}:6"
    assert len(sound_policies(policies)) == 3


def test_readings_that_could_not_be_told_apart_are_refused(policies: Path, edit: Edit) -> None:
    line = edit("signals.yaml", "        - DCGM_FI_DEV_GPU_TEMP\n", "        - DCGM_FI_DEV_GPU_TEMP\n" * 2)
    found = only_fault(policies)
    assert found.line == line - 2
    assert "dcgm-exporter/DCGM_FI_DEV_GPU_TEMP is there twice" in found.message


def test_every_selector_of_an_expression_carries_the_fleets_matchers(policies: Path, edit: Edit) -> None:
    edit("fleet.yaml", "  pools:\n", "  matchers: {cluster: training-1}\n  pools:\n")
    faults = check_paths([policies]).faults
    assert [f.hint for f in faults] == ['write cluster="training-1" into it'] * 3
    assert {f.message.split()[0] for f in faults} == {"gate", "expr"}
    file = policies / "signals.yaml"
    text = file.read_text().replace('{collector="infiniband"}', '{collector="infiniband", cluster="training-1"}')
    file.write_text(text.replace("bytes_total[2m]", 'bytes_total{cluster="training-1"}[2m]'))
    assert load_rules([policies]).fleet.matchers == {"cluster": "training-1"}


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", 1, "the file is empty"),
        (b"# nothing\n", 1, "the file is empty"),
        (b"kind: Policy\n---\n", 3, "this document is empty"),
        (b"apiVersion: quarantine.gpu/v1alpha1\nkind: Policy\nmetadata: \0\n", 3, "NUL"),
        (b"# ok\nkind: Polic\xff\n", 2, "is not UTF-8"),
        (b"\xff\xfek\x00i\x00", 1, "is not UTF-8"),
        (b"kind:\n" + b"- " * 5000, 2, "deeper than 50"),
        (b"kind: " + b"[" * 5000, 1, "deeper than 50"),
        (b"a: &a [x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", 1, "anchors"),
        (b"kind: !!python/object/apply:os.system [id]\n", 1, "tags"),
        (b"x: " + b"y" * 1024 * 1024, 1, "larger than 1 MiB"),
        (b"a: 1\n", 1, "kind is missing"),
        (b"kind: Policy\n", 1, "apiVersion is missing"),
    ],
)
def test_a_file_that_is_garbage_is_one_fault_and_stops_no_other(
    policies: Path, content: bytes, line: int, message: str
) -> None:
    (policies / "garbage.yaml").write_bytes(content)
    found = only_fault(policies)
    assert (Path(found.file).name, found.line) == ("garbage.yaml", line)
    assert message in found.message
    assert len(sound_policies(policies)) == 3


def test_a_loop_of_links_is_one_fault(policies: Path) -> None:
    (policies / "loop.yaml").symlink_to("loop.yaml")
    found = only_fault(policies)
    assert (Path(found.file).name, found.line) == ("loop.yaml", 1)
    assert "too many levels of symbolic links" in found.message


def test_what_is_found_in_a_megabyte_is_not_repeated(policies: Path, edit: Edit) -> None:
    edit("gpu-hot.yaml", "for: 5m", f"for: {'x' * 900_000}")
    assert len(str(only_fault(policies))) < 1000


def test_a_policy_carries_what_the_trail_must_know_of_it(policies: Path) -> None:
    (policies / "REVISION").write_text("3f2c1ab\n")
    policy = load_rules([policies]).policy("gpu-hot")
    assert policy is not None
    text = (policies / "gpu-hot.yaml").read_text()
    own = text[text.index("apiVersion") :]
    assert policy.text == own
    assert policy.hash == hashlib.sha256(own.encode()).hexdigest()
    assert policy.revision == "3f2c1ab"
    assert policy.place == f"{policies / 'gpu-hot.yaml'}:3"


def test_the_hash_is_of_the_document_and_not_of_what_stands_around_it(policies: Path, edit: Edit) -> None:
    def hashes() -> dict[str, str]:
        return {p.name: p.hash for p in load_rules([policies]).policies}

    before = hashes()
    hot, link = policies / "gpu-hot.yaml", policies / "nvlink-errors.yaml"
    together = f"# both\n{link.read_text()}\n# the next\n---\n# more\n{hot.read_text()}".replace("\n", "\r\n")
    hot.write_bytes(together.encode())
    link.unlink()
    assert hashes() == before
    hot.write_text(hot.read_text().replace("above: 78", "above: 79"))
    changed = {name for name, value in hashes().items() if value != before[name]}
    assert changed == {"gpu-hot"}


def test_relative_paths_are_shown_as_they_were_given(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(policies.parent)
    (policies / "bad.yaml").write_text("kind: 1\n")
    assert [f.file for f in check_paths([Path("policies")]).faults] == ["policies/bad.yaml"]


def test_the_prefix_is_handed_on(policies: Path) -> None:
    assert load_rules([policies], prefix="health.example").prefix == "health.example"
