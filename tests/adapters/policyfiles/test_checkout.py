"""The revision of checkouts as they are mounted: the same from git and, where there is none, from its files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.adapters.policyfiles import checkout
from quarantine.adapters.policyfiles.files import revision_of


def git(directory: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run(["git", "-C", directory, *who, *arguments], env=clean, check=True, capture_output=True)
    return done.stdout.decode().strip()


def write(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"# {name}\n")


@pytest.fixture(params=["sha1", "sha256"])
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A repository with a committed directory `policies`, and an ignored one, `venv`."""
    made = tmp_path / "repository"
    write(made, "policies/a.yaml", "policies/deep/b.yml", "policies/notes.md", "other.txt", "venv/policies/a.yaml")
    (made / ".gitignore").write_text("venv/\n")
    git(made, "init", "--quiet", "--initial-branch=main", f"--object-format={request.param}")
    git(made, "add", ".")
    git(made, "commit", "--quiet", "--message", "one")
    return made


def both(directory: Path) -> str | None:
    """What git says, which is what its files say."""
    found = checkout.revision(directory)
    assert revision_of(directory, directory) == found
    return found


def detached(repository: Path) -> Path:
    git(repository, "checkout", "--quiet", "--detach")
    return repository


def packed(repository: Path) -> Path:
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git" / "refs" / "heads" / "main").exists()
    return repository


def collected(repository: Path) -> Path:
    git(repository, "gc", "--quiet")
    return repository


def indexed_anew(version: int) -> Callable[[Path], Path]:
    def made(repository: Path) -> Path:
        write(repository, *(f"policies/much/the-same-{number}.yaml" for number in range(40)))
        git(repository, "add", ".")
        git(repository, "commit", "--quiet", "--message", "more")
        git(repository, "update-index", f"--index-version={version}")
        return repository

    return made


def intended(repository: Path) -> Path:
    """An index of version 3: an entry has further flags."""
    write(repository, "new.yaml")
    git(repository, "add", "--intent-to-add", "new.yaml")
    return repository


def worktree(repository: Path) -> Path:
    git(repository, "worktree", "add", "--quiet", "--detach", str(repository.parent / "tree"))
    return repository.parent / "tree"


def shallow(repository: Path) -> Path:
    git(repository.parent, "clone", "--quiet", "--depth=1", f"file://{repository}", "clone")
    return repository.parent / "clone"


def submodule(repository: Path) -> Path:
    outer = repository.parent / "outer"
    outer.mkdir()
    kind = "sha256" if len(git(repository, "rev-parse", "HEAD")) == 64 else "sha1"
    git(outer, "init", "--quiet", f"--object-format={kind}")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "rules")
    return outer / "rules"


def git_sync(repository: Path) -> Path:
    """As git-sync lays it out: a link to a worktree, which names its repository by a relative path."""
    head = git(repository, "rev-parse", "HEAD")
    tree = repository / ".worktrees" / head
    git(repository, "worktree", "add", "--quiet", "--detach", str(tree))
    (tree / ".git").write_text(f"gitdir: ../../.git/worktrees/{head}\n")
    link = repository.parent / "current"
    link.symlink_to(Path("repository", ".worktrees", head))
    return link


LAYOUTS = [
    detached,
    packed,
    collected,
    indexed_anew(2),
    indexed_anew(4),
    intended,
    worktree,
    shallow,
    submodule,
    git_sync,
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_has_its_revision(repository: Path, layout: Callable[[Path], Path]) -> None:
    top = layout(repository)
    head = git(repository, "rev-parse", "HEAD")
    for directory in (top / "policies", top / "policies" / "deep"):
        assert both(directory) == head
    (top / "policies" / "deep" / "b.yml").write_text("changed\n")
    assert both(top / "policies") == f"{head}-dirty"


def test_the_top_of_a_checkout_may_be_the_directory(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert checkout.revision(repository) == f"{head}-dirty", "what git ignores would be read all the same"
    (repository / "venv" / "policies" / "a.yaml").unlink()
    assert both(repository) == head


def test_what_is_new_or_gone_makes_it_dirty_and_other_directories_do_not(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    write(repository, "elsewhere/x.yaml")
    assert both(repository / "policies") == head
    write(repository, "policies/new.yaml")
    assert both(repository / "policies") == f"{head}-dirty"
    (repository / "policies" / "new.yaml").unlink()
    (repository / "policies" / "a.yaml").unlink()
    assert both(repository / "policies") == f"{head}-dirty"


def test_a_directory_that_the_checkout_does_not_hold_has_no_revision(repository: Path) -> None:
    assert both(repository / "venv" / "policies") is None


def test_a_repository_without_a_commit_has_no_revision(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write(tmp_path, "a.yaml")
    git(tmp_path, "add", ".")
    assert both(tmp_path) is None


@pytest.mark.parametrize("layout", [packed, worktree, git_sync])
def test_without_git_and_where_it_refuses_its_files_are_read(
    repository: Path,
    layout: Callable[[Path], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    top, head = layout(repository), git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    assert revision_of(top / "policies", top / "policies") == head
    bin_ = tmp_path_factory.mktemp("bin")
    (bin_ / "git").write_text("#!/bin/sh\necho 'fatal: detected dubious ownership in repository' >&2\nexit 128\n")
    (bin_ / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_))
    assert revision_of(top / "policies", top / "policies") == head


def test_a_mounted_configmap_has_the_revision_that_it_brings(tmp_path: Path) -> None:
    """The kubelet's layout: ..data leads to a dated directory, and each key's link through ..data."""
    write(tmp_path, "..2026_11_29_02_00_00.1234/a.yaml")
    (tmp_path / "..2026_11_29_02_00_00.1234" / "REVISION").write_text("0123abc\n")
    (tmp_path / "..data").symlink_to("..2026_11_29_02_00_00.1234")
    for name in ("a.yaml", "REVISION"):
        (tmp_path / name).symlink_to(Path("..data", name))
    assert revision_of(tmp_path, tmp_path) == "0123abc"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("HEAD", "ref: ../../../etc/passwd\n"),
        ("HEAD", "ref: refs/heads/../../HEAD\n"),
        ("HEAD", "ref: refs/heads/none\n"),
        ("HEAD", "no commit\n"),
        ("index", "no index\n"),
        ("index", ""),
    ],
)
def test_what_cannot_be_understood_has_no_revision(repository: Path, file: str, text: str) -> None:
    (repository / ".git" / file).write_text(text)
    assert checkout.revision(repository / "policies") is None


def test_an_index_of_a_kind_that_is_not_known_has_no_revision(repository: Path) -> None:
    git(repository, "update-index", "--split-index")
    assert checkout.revision(repository / "policies") is None


@given(cut=st.integers(0, 400), garbage=st.binary(max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_index_whatever_is_in_it_ends_in_an_error(
    tmp_path_factory: pytest.TempPathFactory, cut: int, garbage: bytes
) -> None:
    top = tmp_path_factory.getbasetemp() / "broken"
    if not top.exists():
        write(top, "a.yaml", "b/c.yaml")
        git(top, "init", "--quiet")
        git(top, "add", ".")
        git(top, "commit", "--quiet", "--message", "one")
        (top / "sound").write_bytes((top / ".git" / "index").read_bytes())
    sound = (top / "sound").read_bytes()
    (top / ".git" / "index").write_bytes(sound[:cut] + garbage + sound[cut + len(garbage) :])
    head = (top / ".git" / "HEAD").read_text().removeprefix("ref: ").strip()
    commit = (top / ".git" / head).read_text().strip()
    assert checkout.revision(top) in {None, commit, f"{commit}-dirty"}
