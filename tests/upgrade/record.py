"""Record what a version leaves behind: `python -m tests.upgrade.record COMMIT`, in a checkout with its history.

The code of that commit is run for real, as processes of its own, against the emulator, a real Prometheus and a real
database of either kind, through one story (`story`). What it cannot do yet is left out. Recordings are kept for ever:
of each schema revision, by the newest commit that has it and runs. Of the last one before this the code is kept too.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from quarantine.sandbox.kubeapi import Fault
from quarantine.sandbox.postgres import PostgresServer
from quarantine.sandbox.prometheus import PrometheusServer
from tests.scenarios.play import HEAD_ONLY
from tests.upgrade import recording
from tests.upgrade.town import GUARDED, PAUSED, Town, show, town, write_policies
from tests.upgrade.versions import BEFORE, PACKED, Obeying, Version, pack, unpacked

KNOWS_WHOSE = "0007"  # the first version that keeps whose cluster a trail is
SPEAKS = "0004"  # the first version that empties machines, and to which people may say more than open and release
PUT_OFF = 3  # how a cycle ends in which something is left for the next one, such as a guarded pod
DEATH = 16.5  # minutes after the beginning


def unpack(commit: str, target: Path) -> Path:
    """The tree of a commit, without touching the checkout."""
    archived = subprocess.run(["git", "archive", commit], capture_output=True, check=True, timeout=60).stdout
    with tarfile.open(fileobj=io.BytesIO(archived)) as archive:
        unpacked(archive, target)
    return target


def revision_of(tree: Path) -> str:
    """The schema that a tree's code works with."""
    found = re.search(r'^REVISION = "(\d+)"', (tree / "quarantine/ledger/schema.py").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def story(old: Version, place: Town, database: str, revision: str, log: Path) -> float:
    """From a healthy cluster to the middle of everything; the time of the last thing that happened.

    node-3 was hot and is back in service by a person's word. node-1 is out and reported. node-2 is being emptied: one
    of its pods has left, the other one is guarded. In the last cycle node-4 and node-5 are found: there is room for one
    of them, and the process is killed right after it wrote to it. Then a person asks for node-8. Where people have more
    words, node-7 has a waiver, and the policy that finds node-9 is paused.
    """
    speaks = revision >= SPEAKS
    with old.obeying(place, database, log) as first:

        def cycles(*minutes: float) -> None:
            for minute in minutes:
                place.at(minute)
                done = first.call("run", "--once")
                assert done.code in (0, PUT_OFF), done.text

        def ask(minute: float, *words: str) -> None:
            place.at(minute)
            first.do(*words, "--reason", "because of this story")

        place.at(0)
        first.do("db", "upgrade")
        cycles(0, 1, 2, 3, 8, 8.5, 9)
        ask(9.2, "release", "node-3")
        cycles(9.5)
        if speaks:
            ask(10, "waive", "node-7", "--for", "30d")
            ask(10, "pause", PAUSED)
            cycles(10.5)
        cycles(13)
        place.at(DEATH)
        _die(first, place)
    place.at(DEATH + 1)
    with old.obeying(place, database, log) as second:
        second.do("open", "node-8", "--reason", "because of this story")
    return DEATH + 1


def _die(old: Obeying, place: Town) -> None:
    """A cycle that is killed in its first write to a Node, which was carried out."""
    reached = threading.Event()

    def hook(method: str, path: str) -> Fault | None:
        if method != "PATCH" or "/nodes/" not in path:
            return None
        reached.set()
        return Fault(hang=1, after=True)

    place.api.fault = hook
    old.begin("run", "--once")
    assert reached.wait(60), old.log.read_text()
    old.process.kill()
    old.process.wait()
    place.api.fault = None


def record(commit: str, folder: Path) -> None:
    """Both recordings of a commit's revision."""
    (folder / "tree").mkdir()
    tree = unpack(commit, folder / "tree")
    revision = revision_of(tree)
    with ExitStack() as stack:
        prometheus = stack.enter_context(PrometheusServer(flags=HEAD_ONLY))
        postgres = stack.enter_context(PostgresServer())
        show(prometheus.url)
        for dialect in recording.DIALECTS:
            own = folder / dialect
            own.mkdir()
            url = postgres.database("recorded") if dialect == "postgres" else f"sqlite:///{own / 'ledger.db'}"
            with town(own, prometheus.url) as place:
                place.at(-60)
                place.populate()
                write_policies(tree, own / "policies", speaks=revision >= SPEAKS)
                place.write_settings()
                log = own / "log"
                minutes = story(Version(tree), place, url, revision, log)
                print(revision, dialect, sorted(place.out()), sorted(place.pods()), len(place.tickets()), place.told())
                assert set(place.out()) == {"node-1", "node-2", "node-4"}, log.read_text()
                assert place.pods() == ({GUARDED, "bystander"} | (set() if revision >= SPEAKS else {"free"}))
                kept = {"commit": commit, "minutes": minutes, "database": recording.dumped(url), **place.kept()}
            recording.keep(revision, dialect, kept)
    if revision == BEFORE:
        for older in recording.RECORDED.glob(f"*{PACKED}"):
            older.unlink()
        pack(tree, recording.RECORDED / f"{revision}{PACKED}")


def main() -> None:
    """One commit after the other."""
    for commit in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="quarantine-record-") as folder:
            record(commit, Path(folder))


if __name__ == "__main__":
    main()
