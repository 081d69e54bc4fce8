"""The policy files as they change: one broken file stops no other, and what was sound stays in force."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from quarantine import rulechoice
from quarantine.adapters.policyfiles.faults import PolicyFaults
from quarantine.adapters.policyfiles.loader import CheckResult, check_paths
from quarantine.core.rulefiles import BrokenFile, InForce, RuleFile
from quarantine.rulebook import PolicyFiles

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
FLEET = """\
apiVersion: quarantine.gpu/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  matchers: {}
  pools:
    - name: gpu
      nodeSelector: {pool: gpu}
      budget: {quarantined: 1, unavailable: 2, perHour: 1}
"""


def signal(name: str) -> str:
    return f"""\
apiVersion: quarantine.gpu/v1alpha1
kind: Signal
metadata: {{name: {name}}}
spec:
  description: How hot.
  unit: °C
  device: gpu
  type: gauge
  plausible: {{min: 1, max: 150}}
  interval: 15s
  sources:
    - exporter: dcgm-exporter
      metrics: [DCGM_FI_DEV_GPU_TEMP]
      node: {{first: [Hostname]}}
      device: {{first: [UUID], index: gpu}}
      heartbeat: DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION
"""


def policy(name: str, asked: str = "gpu.temperature", above: int = 78) -> str:
    return f"""\
apiVersion: quarantine.gpu/v1alpha1
kind: Policy
metadata: {{name: {name}}}
spec:
  description: Hot.
  owner: gpu-ops
  severity: critical
  signal: {asked}
  trigger: {{above: {above}, for: 5m}}
"""


BROKEN = "kind: Policy\nkind: Policy\n"


@dataclass
class Folder:
    """A directory of policies, the rulebook that reads it, and a ledger that outlives the rulebook."""

    path: Path
    now: datetime = START
    ledger: tuple[RuleFile, ...] = ()
    book: PolicyFiles = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.path / f"{name}.yaml").write_text(text, encoding="utf-8")

    def restart(self) -> None:
        def kept() -> Iterable[RuleFile]:
            return self.ledger

        self.book = PolicyFiles([self.path], prefix="quarantine.gpu", now=lambda: self.now, accepted=kept)

    def read(self) -> InForce:
        """After a change has been seen twice."""
        self.now += timedelta(minutes=1)
        self.book.read()
        found = self.book.read()
        self.ledger = found.files
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "policies")
    made.path.mkdir()
    made.write(fleet=FLEET, signals=signal("gpu.temperature"), hot=policy("hot"), warm=policy("warm", above=70))
    return made


def policies(found: InForce) -> dict[str, float]:
    """The threshold of each."""
    return {p.name: float(p.spec.trigger.above or 0) for p in found.rules.policies}


def broken(found: InForce) -> dict[str, BrokenFile]:
    return {Path(one.file).name: one for one in found.broken}


def test_sound_files_are_in_force_with_their_versions(folder: Folder) -> None:
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert found.broken == ()
    assert [Path(one.file).name for one in found.files] == ["fleet.yaml", "hot.yaml", "signals.yaml", "warm.yaml"]
    assert folder.read() is found, "nothing changed"


def test_fleet_and_defaults_are_in_force_in_versions_of_their_own(folder: Folder) -> None:
    (folder.path / "REVISION").write_text("v1\n")
    folder.write(defaults=defaults())
    shared, fleet = folder.read().rules.documents
    assert (shared.name, shared.text, shared.revision) == ("defaults/defaults", defaults(), "v1")
    assert shared.hash == hashlib.sha256(defaults().encode()).hexdigest()
    assert fleet.name.startswith("fleet/")
    assert Path(fleet.place.rpartition(":")[0]).name == "fleet.yaml"
    # One that is broken stays, of the revision that it was accepted in.
    (folder.path / "REVISION").write_text("v2\n")
    folder.write(fleet=f"{FLEET}\tx\n", defaults=defaults(share="6%"))
    after = {one.name: one for one in folder.read().rules.documents}
    assert after[fleet.name] == fleet
    assert (after[shared.name].text, after[shared.name].revision) == (defaults(share="6%"), "v2")


def test_an_edit_is_taken_up_once_it_is_seen_twice(folder: Folder) -> None:
    first = folder.read()
    folder.write(hot=policy("hot", above=80))
    assert folder.book.read() is first, "it may still be being written"
    folder.write(hot=policy("hot", above=81))
    assert folder.book.read() is first, "and indeed it was"
    assert policies(folder.book.read()) == {"hot": 81, "warm": 70}


@pytest.mark.parametrize("text", [BROKEN, "", "\0", policy("hot").replace("78", "'78'"), policy("hot", above=200)])
def test_a_broken_file_stays_as_it_was_and_the_others_change(folder: Folder, text: str) -> None:
    before = folder.read()
    accepted = next(one for one in before.files if one.file.endswith("hot.yaml"))
    folder.write(hot=text, warm=policy("warm", above=71), new=policy("new", above=90))
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 71, "new": 90}
    assert broken(found).keys() == {"hot.yaml"}
    one = broken(found)["hot.yaml"]
    assert one.accepted_at == accepted.accepted_at
    assert f"{folder.path}/hot.yaml:" in one.fault
    assert "stays in force as it was accepted on 2026-11-29 12:01 UTC" in one.reason
    assert accepted in found.files


def test_a_repaired_file_is_in_force_again(folder: Folder) -> None:
    folder.read()
    folder.write(hot=BROKEN)
    folder.read()
    folder.write(hot=policy("hot", above=85))
    found = folder.read()
    assert found.broken == ()
    assert policies(found)["hot"] == 85


def test_an_unreadable_file_is_a_broken_file(folder: Folder) -> None:
    folder.read()
    path = folder.path / "hot.yaml"
    path.unlink()
    path.symlink_to(path)  # a loop
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert broken(found).keys() == {"hot.yaml"}


def test_a_deleted_file_takes_its_documents_along(folder: Folder) -> None:
    folder.read()
    (folder.path / "hot.yaml").unlink()
    found = folder.read()
    assert policies(found) == {"warm": 70}
    assert found.broken == ()
    assert len(found.files) == 3


def test_after_a_restart_the_ledger_has_the_version_in_force(folder: Folder) -> None:
    folder.read()
    folder.write(hot=BROKEN)
    folder.restart()
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert broken(found)["hot.yaml"].accepted_at == START + timedelta(minutes=1)
    folder.restart()
    assert folder.read() == found, "and after the next one too"


def test_a_new_file_that_is_broken_is_not_in_force(folder: Folder) -> None:
    folder.write(hot=BROKEN)
    found = folder.read()
    assert policies(found) == {"warm": 70}
    assert broken(found)["hot.yaml"].accepted_at is None
    assert broken(found)["hot.yaml"].reason.startswith(f"nothing of {folder.path}/hot.yaml is in force: ")
    assert "hot.yaml" not in {Path(one.file).name for one in found.files}


def test_a_new_file_with_a_name_that_is_taken_changes_nothing(folder: Folder) -> None:
    folder.read()
    folder.write(another=policy("hot", above=99))
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert broken(found)


def test_without_any_fleet_nothing_can_start(folder: Folder) -> None:
    folder.write(fleet=BROKEN)
    with pytest.raises(PolicyFaults, match=r"fleet\.yaml:"):
        folder.read()


def test_without_any_fleet_document_it_says_so(folder: Folder) -> None:
    (folder.path / "fleet.yaml").unlink()
    with pytest.raises(PolicyFaults, match="no document of kind Fleet"):
        folder.read()


@pytest.mark.parametrize("change", ["broken", "deleted"])
def test_a_fleet_that_was_sound_once_stays(folder: Folder, change: str) -> None:
    first = folder.read()
    if change == "broken":
        folder.write(fleet=BROKEN, hot=policy("hot", above=80))
    else:
        (folder.path / "fleet.yaml").unlink()
        folder.write(hot=policy("hot", above=80))
    found = folder.read()
    assert found.rules.fleet == first.rules.fleet
    assert policies(found) == {"hot": 80, "warm": 70}, "the other edit is taken up"
    assert broken(found).keys() == {"fleet.yaml"}


# --- Contradictions between sound files -------------------------------------------------------------------------------


def test_a_signal_that_others_need_stays(folder: Folder) -> None:
    folder.read()
    folder.write(signals=signal("gpu.temp"), warm=policy("warm", above=72))
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 72}
    assert broken(found).keys() == {"signals.yaml"}
    assert "it does not fit the other files" in broken(found)["signals.yaml"].fault


def test_a_deleted_file_of_signals_that_others_need_stays(folder: Folder) -> None:
    folder.read()
    (folder.path / "signals.yaml").unlink()
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert broken(found).keys() == {"signals.yaml"}
    folder.restart()
    assert policies(folder.read()) == {"hot": 78, "warm": 70}


def test_a_signal_renamed_together_with_its_policies_is_one_edit(folder: Folder) -> None:
    folder.read()
    folder.write(signals=signal("gpu.temp"), hot=policy("hot", "gpu.temp"), warm=policy("warm", "gpu.temp"))
    folder.write(another=BROKEN)
    found = folder.read()
    assert found.rules.signals.keys() == {"gpu.temp"}
    assert broken(found).keys() == {"another.yaml"}


def test_too_many_contradictions_are_not_tried_one_by_one(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulechoice, "MOST_TRIED", 1)
    folder.read()
    folder.write(signals=signal("gpu.temp"), warm=policy("warm", above=72))
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert broken(found).keys() == {"signals.yaml", "warm.yaml"}


# --- Defaults ---------------------------------------------------------------------------------------------------------


def defaults(mode: str = "observe", share: str = "5%", hot: int = 78) -> str:
    return f"""\
apiVersion: quarantine.gpu/v1alpha1
kind: Defaults
metadata: {{name: defaults}}
spec:
  policy: {{mode: {mode}, breaker: {{maxShare: {share}}}}}
  thresholds: {{hot: {hot}}}
"""


SLIP = policy("hot").replace("  owner: gpu-ops\n", "  owner: gpu-ops\n  mode: observ\n")


def given(found: InForce, name: str = "hot") -> tuple[str, float]:
    """What the Defaults give to a policy."""
    one = found.rules.policy(name)
    assert one is not None
    return one.spec.mode.value, one.spec.breaker.max_share


@pytest.mark.parametrize("restarted", [False, True])
def test_a_broken_file_keeps_the_defaults_that_it_was_accepted_with(folder: Folder, restarted: bool) -> None:
    """Else a slip in `mode: observe` turns a policy to enforce in the commit that turns all others."""
    folder.write(defaults=defaults())
    before = folder.read()
    hot = before.rules.policy("hot")
    folder.write(defaults=defaults("enforce", "100%"), hot=SLIP)
    for _ in range(2):
        found = folder.read()
        assert given(found) == ("observe", 0.05)
        assert given(found, "warm") == ("enforce", 1)
        assert broken(found).keys() == {"hot.yaml"}
        assert found.rules.policy("hot") == hot, "its text in the trail is the whole of what it means"
        folder.write(new=policy("new"))
        if restarted:
            folder.restart()
    folder.write(defaults=defaults("enforce", "50%"))
    assert given(folder.read()) == ("observe", 0.05), "however often they change"
    folder.write(hot=policy("hot"))
    found = folder.read()
    assert found.broken == ()
    assert given(found) == ("enforce", 0.5), "a person repaired it, and the present ones are what it means"
    assert {one.defaults for one in found.files} == {None}


def test_a_broken_file_goes_no_further_than_the_present_defaults(folder: Folder) -> None:
    folder.write(defaults=defaults("enforce"))
    folder.read()
    folder.write(hot=SLIP)
    assert given(folder.read()) == ("enforce", 0.05), "it stays as it was"
    folder.write(defaults=defaults("observe", "1%"))
    assert given(folder.read()) == ("observe", 0.05), "whoever calls all policies back calls this one too"
    (folder.path / "defaults.yaml").unlink()
    assert given(folder.read()) == ("observe", 0.05)


def test_a_broken_file_keeps_its_defaults_where_others_contradict_one_another(folder: Folder) -> None:
    folder.write(defaults=defaults())
    folder.read()
    folder.write(defaults=defaults("enforce", "100%"), hot=SLIP, signals=signal("gpu.temp"))
    found = folder.read()
    assert broken(found).keys() == {"hot.yaml", "signals.yaml"}
    assert given(found) == ("observe", 0.05)
    assert given(found, "warm") == ("enforce", 1)


def test_what_a_policy_itself_says_is_not_lowered_by_defaults(folder: Folder) -> None:
    own = policy("hot").replace("  owner: gpu-ops\n", "  owner: gpu-ops\n  mode: enforce\n")
    folder.write(defaults=defaults("enforce"), hot=own)
    folder.read()
    folder.write(defaults=defaults("observe"), hot=SLIP)
    assert given(folder.read()) == ("enforce", 0.05)


def test_a_broken_file_keeps_the_thresholds_that_it_names(folder: Folder) -> None:
    named = policy("hot").replace("above: 78", "above: hot")
    folder.write(defaults=defaults(), hot=named)
    folder.read()
    folder.write(defaults=defaults(hot=79).replace("hot: 79", "hotter: 79"), hot=BROKEN, warm=policy("warm", above=71))
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 71}
    assert broken(found).keys() == {"hot.yaml"}
    folder.write(hot=named)
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 71}, "its text came back, and the threshold is gone"
    assert "no threshold is called 'hot'" in broken(found)["hot.yaml"].fault


def test_without_defaults_a_broken_file_gets_none(folder: Folder) -> None:
    folder.read()
    folder.write(defaults=defaults("enforce"), hot=SLIP)
    assert given(folder.read()) == ("observe", 0.1)
    folder.restart()
    assert given(folder.read()) == ("observe", 0.1)


def test_former_defaults_that_this_program_does_not_take_any_more(folder: Folder) -> None:
    folder.write(defaults=defaults())
    folder.read()
    folder.write(defaults=defaults(share="7%"), hot=SLIP)
    kept = folder.read().files
    folder.ledger = tuple(replace(one, defaults="kind: [\n") if one.defaults else one for one in kept)
    folder.restart()
    found = folder.read()
    assert policies(found) == {"warm": 70}
    assert broken(found)["hot.yaml"].accepted_at is None


@pytest.mark.parametrize("restarted", [False, True])
def test_no_policy_begins_to_act_by_defaults_that_are_kept(folder: Folder, restarted: bool) -> None:
    """All of them are to observe from now on, and the slip is in the Defaults."""
    own = policy("hot").replace("  owner: gpu-ops\n", "  owner: gpu-ops\n  mode: observe\n")
    folder.write(defaults=defaults("enforce"), hot=own)
    folder.read()
    folder.write(defaults=defaults("observ"), hot=policy("hot", above=79), warm=policy("warm", above=71))
    for _ in range(2):
        found = folder.read()
        assert given(found) == ("observe", 0.05)
        assert given(found, "warm") == ("enforce", 0.05), "it did so before"
        assert (policies(found)["hot"], policies(found)["warm"]) == (78, 71)
        assert broken(found).keys() == {"defaults.yaml", "hot.yaml"}
        assert "would be told to enforce by Defaults" in broken(found)["hot.yaml"].fault
        folder.write(other=policy("other", above=90) + "  mode: observe\n")
        if restarted:
            folder.restart()
    folder.write(defaults=defaults("observe"))
    found = folder.read()
    assert found.broken == ()
    assert {given(found), given(found, "warm")} == {("observe", 0.05)}
    assert policies(found) == {"hot": 79, "other": 90, "warm": 71}


# --- What moves between files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("slip", ["above: '78'", "above: [", "above: 78\n\tx"])
def test_a_policy_that_is_moved_with_a_slip_stays_in_force(folder: Folder, slip: str) -> None:
    before = folder.read()
    (folder.path / "hot.yaml").unlink()
    folder.write(hottest=policy("hot").replace("above: 78", slip), warm=policy("warm", above=71))
    for _ in range(2):
        found = folder.read()
        assert policies(found) == {"hot": 78, "warm": 71}
        assert broken(found).keys() == {"hot.yaml", "hottest.yaml"}
        assert "it had policy hot, which only" in broken(found)["hot.yaml"].fault
        assert broken(found)["hot.yaml"].accepted_at == next(f for f in before.files if "hot" in f.file).accepted_at
        folder.restart()
    folder.write(hottest=policy("hot", above=79))
    found = folder.read()
    assert policies(found) == {"hot": 79, "warm": 71}
    assert found.broken == ()


def test_a_policy_that_is_deleted_beside_a_broken_file_is_gone(folder: Folder) -> None:
    folder.read()
    (folder.path / "hot.yaml").unlink()
    folder.write(warm=BROKEN, hotter=policy("hot-2", above=90).replace("90", "'90'"))
    found = folder.read()
    assert policies(found) == {"warm": 70}
    assert broken(found).keys() == {"warm.yaml", "hotter.yaml"}


# --- Directories ------------------------------------------------------------------------------------------------------


def emptied(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()


def dangling(path: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to("nowhere")


def replaced(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("")


@pytest.mark.parametrize("harm", [emptied, shutil.rmtree, dangling, replaced])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_directory_that_is_not_there_takes_nothing_away(
    folder: Folder, harm: Callable[[Path], None], restarted: bool
) -> None:
    before = folder.read()
    harm(folder.path)
    if restarted:
        folder.restart()
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert found.files == before.files
    (one,) = found.broken
    assert one.file == str(folder.path)
    assert one.accepted_at == START + timedelta(minutes=1)


def test_a_directory_that_comes_back_is_read_again(folder: Folder) -> None:
    folder.read()
    kept = folder.path.rename(folder.path.with_name("kept"))
    assert len(folder.read().broken) == 1
    kept.rename(folder.path)
    folder.write(hot=policy("hot", above=90))
    found = folder.read()
    assert found.broken == ()
    assert policies(found) == {"hot": 90, "warm": 70}


def test_a_configmap_is_swapped_in_one_step(folder: Folder) -> None:
    """As the kubelet does it: `..data` is a link to a directory of this version, and is replaced by a rename."""

    def version(name: str, above: int, revision: str) -> None:
        data = folder.path / name
        data.mkdir()
        (data / "hot.yaml").write_text(policy("hot", above=above))
        (data / "REVISION").write_text(revision)
        (folder.path / "..tmp").symlink_to(name)
        os.replace(folder.path / "..tmp", folder.path / "..data")  # noqa: PTH105

    (folder.path / "hot.yaml").unlink()
    version("..1", 78, "abc1")
    for name in ("hot.yaml", "REVISION"):
        (folder.path / name).symlink_to(f"..data/{name}")
    first = folder.read()
    assert {p.revision for p in first.rules.policies} == {"abc1"}
    version("..2", 83, "abc2")
    shutil.rmtree(folder.path / "..1")
    found = folder.read()
    assert policies(found) == {"hot": 83, "warm": 70}
    assert {p.revision for p in found.rules.policies} == {"abc2"}
    version("..3", 83, "abc3")
    again = folder.read()
    assert {p.revision for p in again.rules.policies} == {"abc3"}, "the same text under another revision"
    assert [one.accepted_at for one in again.files] == [one.accepted_at for one in found.files]


def test_what_other_settings_led_to_is_not_taken_from_the_ledger(folder: Folder, tmp_path: Path) -> None:
    folder.ledger = (RuleFile(str(tmp_path / "elsewhere" / "x.yaml"), policy("x"), "0" * 64, None, START),)
    assert policies(folder.read()) == {"hot": 78, "warm": 70}


def test_a_version_in_the_ledger_that_this_program_does_not_take_any_more(folder: Folder) -> None:
    text = policy("old").replace("severity: critical", "severity: dreadful")
    kept = RuleFile(str(folder.path / "old.yaml"), text, "0" * 64, None, START)
    folder.read()
    folder.ledger = (*folder.ledger, kept)
    folder.write(old=text)
    folder.restart()
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert broken(found)["old.yaml"].accepted_at is None


def test_a_defect_that_an_edit_brings_out_stops_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.read()
    check = check_paths

    def fragile(paths: Sequence[Path], *, instead_of: Mapping[Path, str], **more: Any) -> CheckResult:
        if any("above: 55" in text for text in instead_of.values()):
            raise AssertionError("nobody thought of 55")
        return check(paths, instead_of=instead_of, **more)

    monkeypatch.setattr(rulechoice, "check_paths", fragile)
    folder.write(hot=policy("hot", above=55))
    with capture_logs() as logs:
        found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 70}
    assert broken(found).keys() == {"hot.yaml"}
    assert "AssertionError" in broken(found)["hot.yaml"].fault
    assert [line["log_level"] for line in logs] == ["error"]
    folder.write(hot=policy("hot", above=56))
    assert policies(folder.read()) == {"hot": 56, "warm": 70}
