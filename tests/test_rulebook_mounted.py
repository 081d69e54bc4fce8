"""Policies in a mounted ConfigMap: whenever it is swapped, what is in force is the old version or the new, whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles.strictyaml import read_text
from tests.mounts import Mount
from tests.test_rulebook import FLEET, Folder, broken, policies, policy, signal

OLD = {
    "fleet.yaml": FLEET,
    "hot.yaml": policy("hot"),
    "signals.yaml": signal("gpu.temperature"),
    "warm.yaml": policy("warm", above=70),
}
# A signal is renamed with its policies, one policy is new and one gone: no file of the two versions goes with another.
NEW = {
    "fleet.yaml": FLEET,
    "cold.yaml": policy("cold", "gpu.heat", 40),
    "hot.yaml": policy("hot", "gpu.heat", 83),
    "signals.yaml": signal("gpu.heat"),
}
BEFORE, AFTER = {"hot": 78.0, "warm": 70.0}, {"cold": 40.0, "hot": 83.0}
FILES = 5  # more than either version has, and so many reads lie between two looks at the most


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path / "policies", OLD)


def looks(folder: Folder, times: int) -> Iterator[dict[str, float]]:
    """What is in force after each of so many looks; no file is ever said to be broken."""
    for _ in range(times):
        found = folder.book.read()
        assert broken(found) == {}
        yield policies(found)


def while_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """`act` before each file that is read, with how many were."""
    done = [0]

    def reading(file: Path) -> str:
        act(done[0])
        done[0] += 1
        return read_text(file)

    monkeypatch.setattr("quarantine.rulebook.read_text", reading)


@pytest.mark.parametrize("at", range(2 * FILES))
def test_swapped_in_the_middle_of_a_look(mount: Mount, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    folder = Folder(mount.path)
    folder.read()
    while_reading(monkeypatch, lambda reads: mount.swap(NEW) if reads == at else None)
    seen = list(looks(folder, 6))
    assert all(one in (BEFORE, AFTER) for one in seen), seen
    assert seen[-1] == AFTER
    assert seen.index(AFTER) <= at // len(OLD) + 2, "in force with the second look that sees the new version"


@pytest.mark.parametrize("at", range(2 * FILES))
def test_the_kubelet_is_slow_and_each_of_its_operations_falls_between_two_reads(
    mount: Mount, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    folder = Folder(mount.path)
    folder.read()
    operations = mount.operations(NEW)

    def go_on(reads: int) -> None:
        if reads >= at:
            next(operations, "")

    while_reading(monkeypatch, go_on)
    seen = list(looks(folder, 9))
    assert all(one in (BEFORE, AFTER) for one in seen), seen
    assert seen[-1] == AFTER


@pytest.mark.parametrize("done", range(1, 7))
def test_the_kubelet_stops_after_one_of_its_operations_and_goes_on_later(mount: Mount, done: int) -> None:
    """Nothing that is missing for the moment is taken for deleted, and what needs one another comes together."""
    folder = Folder(mount.path)
    folder.read()
    operations = mount.operations(NEW)
    for _ in range(done):
        next(operations)
    for _ in range(3):
        found = folder.book.read()
        # The policy of the new version asks for a signal that the old one does not have.
        assert ("gpu.heat" in found.rules.signals) == (policies(found)["hot"] == 83.0)
    for _ in operations:
        pass
    assert policies(folder.read()) == AFTER


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("what", ["the version", "the link", "every name"])
def test_a_mount_that_is_half_there_takes_nothing_out_of_force(mount: Mount, what: str, restarted: bool) -> None:
    folder = Folder(mount.path)
    folder.read()
    if what == "the version":
        shutil.rmtree(mount.path / (mount.path / "..data").readlink())
    elif what == "the link":
        (mount.path / "..data").unlink()
    else:
        for entry in mount.path.glob("*.yaml"):
            entry.unlink()
    if restarted:
        folder.restart()
    found = folder.read()
    assert policies(found) == BEFORE
    assert found.broken, "and it is told"


def test_a_broken_version_leaves_the_last_one_that_was_sound(mount: Mount) -> None:
    folder = Folder(mount.path)
    folder.read()
    mount.swap({**OLD, "hot.yaml": "spec:\n\tx: 1\n", "warm.yaml": policy("warm", above=71)})
    found = folder.read()
    assert policies(found) == {"hot": 78, "warm": 71}
    assert broken(found).keys() == {"hot.yaml"}
    mount.swap(NEW)
    assert policies(folder.read()) == AFTER
