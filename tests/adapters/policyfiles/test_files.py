"""Which files are read, and which revision they are of (by a real git)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles import files
from quarantine.adapters.policyfiles.files import policy_files, revision_of


def write(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"# {name}\n")


def names(directory: Path, *paths: Path) -> list[str]:
    found, faults = policy_files(paths or (directory,))
    assert not faults
    return [str(file.relative_to(directory)) for file, _ in found]


def test_a_directory_is_read_in_order_without_tests_and_hidden_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        "b.yaml",
        "a.yml",
        "b_test.yaml",
        "c_test.yml",
        ".hidden.yaml",
        ".git/x.yaml",
        "notes.md",
        "sub/d.yaml",
    )
    assert names(tmp_path) == ["a.yml", "b.yaml", "sub/d.yaml"]


def test_a_file_that_is_named_is_read_whatever_its_name_but_a_test(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "a_test.yaml", "policy.txt")
    paths = [tmp_path / name for name in ("policy.txt", "a.yaml", "a_test.yaml")]
    assert names(tmp_path, *paths) == ["policy.txt", "a.yaml"]


def test_what_is_named_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "b.yaml")
    (tmp_path / "c.yaml").symlink_to("a.yaml")
    assert names(tmp_path, tmp_path / "b.yaml", tmp_path, tmp_path / "a.yaml") == ["b.yaml", "a.yaml"]


def test_a_mounted_configmap_is_read_once_through_its_links(tmp_path: Path) -> None:
    """The kubelet's layout: ..data leads to a dated directory, and each file leads through ..data."""
    write(tmp_path, "..2026_11_29_02_00_00.1234/a.yaml", "..2026_11_29_02_00_00.1234/b.yaml")
    (tmp_path / "..data").symlink_to("..2026_11_29_02_00_00.1234")
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).symlink_to(Path("..data", name))
    assert names(tmp_path) == ["a.yaml", "b.yaml"]


def test_a_directory_that_leads_to_itself_is_one_fault(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "sub/b.yaml")
    (tmp_path / "sub" / "up").symlink_to("..")
    found, faults = policy_files([tmp_path])
    assert [file.name for file, _ in found] == ["a.yaml", "b.yaml"]
    assert [(f.file, f.line) for f in faults] == [(str(tmp_path / "sub" / "up"), 1)]
    assert "leads to a directory that it is in" in faults[0].message


def test_directories_that_lead_to_each_other_are_walked_once(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path, f"d{number}/x.yaml")
        for other in range(12):
            if other != number:
                (tmp_path / f"d{number}" / f"to{other}").symlink_to(Path("..", f"d{other}"))
    found, _ = policy_files([tmp_path])
    assert len(found) == 12


def test_an_empty_directory_is_a_fault(tmp_path: Path) -> None:
    found, faults = policy_files([tmp_path])
    assert not found
    assert str(faults[0]) == f"{tmp_path}:1:1: there is no policy file (*.yaml) in this directory"


def test_more_files_than_anybody_has_policies_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 3)
    write(tmp_path, "a.yaml", "b.yaml", "c.yaml")
    assert len(names(tmp_path)) == 3
    write(tmp_path, "d.yaml")
    assert "more than 3 policy files" in policy_files([tmp_path])[1][0].message


# --- Revision ---------------------------------------------------------------------------------------------------------


def git(directory: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", "-C", directory, *who, *arguments], env=clean, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a committed directory `policies` and an ignored one, `venv`."""
    write(tmp_path, "policies/a.yaml", "other.txt", "venv/policies/a.yaml")
    (tmp_path / ".gitignore").write_text("venv/\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def revision(directory: Path) -> str | None:
    return revision_of(directory, directory)


def test_the_revision_is_gits(repository: Path) -> None:
    assert revision(repository / "policies") == git(repository, "rev-parse", "HEAD")


def test_changes_in_the_directory_make_it_dirty_and_changes_elsewhere_do_not(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    (repository / "other.txt").write_text("changed\n")
    assert revision(repository / "policies") == head
    write(repository, "policies/new.yaml")
    assert revision(repository / "policies") == f"{head}-dirty"
    (repository / "policies" / "new.yaml").unlink()
    (repository / "policies" / "a.yaml").write_text("changed\n")
    assert revision(repository / "policies") == f"{head}-dirty"


def test_a_directory_that_the_repository_does_not_hold_has_no_revision(repository: Path) -> None:
    assert revision(repository / "venv" / "policies") is None


def test_no_repository_no_revision(tmp_path: Path) -> None:
    assert revision(tmp_path) is None


def test_a_git_that_hangs_is_given_up_and_its_files_are_read(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    bin_ = tmp_path_factory.mktemp("bin")
    (bin_ / "git").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (bin_ / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_))
    monkeypatch.setattr(files, "GIT_TIMEOUT", 0.2)
    assert revision(repository / "policies") == head


def test_within_a_hook_the_directorys_own_repository_is_asked(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    assert revision(repository / "policies") == git(repository, "rev-parse", "HEAD")


def test_no_program_of_the_repository_is_run(repository: Path) -> None:
    trap, sprung = repository / ".git" / "trap", repository / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    (repository / ".git" / "hooks" / "post-index-change").write_text(trap.read_text())
    (repository / ".git" / "hooks" / "post-index-change").chmod(0o755)
    (repository / "policies" / "a.yaml").touch()
    assert revision(repository / "policies") == git(repository, "rev-parse", "HEAD")
    assert not sprung.exists()
    git(repository, "status")
    assert sprung.exists(), "the trap works, where it is not avoided"


def test_a_file_with_the_revision_is_believed_first(repository: Path) -> None:
    policies = repository / "policies"
    (policies / "REVISION").write_text("v1.2.3-4-gdeadbee\n")
    assert revision(policies) == "v1.2.3-4-gdeadbee"
    write(policies, "sub/b.yaml")
    assert revision_of(policies / "sub", policies) == "v1.2.3-4-gdeadbee"
    for garbage in ("", "two words\n", "\x1b[31m\n", "x" * 101):
        (policies / "REVISION").write_text(garbage)
        assert revision(policies) == git(repository, "rev-parse", "HEAD") + "-dirty"
