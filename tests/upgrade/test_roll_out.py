"""A roll-out, with what Kubernetes would run, on one Lease and one ledger; the old version is really the earlier one.

All begin in the middle of a drain: a disruption budget keeps one pod. The controllers write by the role that they have
in a cluster, whose rights the init containers give. New pods find the clock some minutes on: by then whoever goes on
with a drain asks a pod again that was refused before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest

from quarantine.core.case import Phase
from quarantine.ledger.schema import REVISION
from tests.changes import CHANGES, who_acted
from tests.upgrade.conftest import WRITER
from tests.upgrade.left import Left, left_by, rows_of
from tests.upgrade.pods import Pod, held_up, pod, said, told, until
from tests.upgrade.town import GUARDED, Town
from tests.upgrade.versions import BEFORE, Obeying, Version, this_version

pytestmark = pytest.mark.timeout(500)

OLD, NEW = 18.0, 25.0  # minutes after the beginning
LEASE = "/leases"
ELECTED = {"elect": True, "lasts": "6s", "renew_within": "5s", "every": "300ms"}
LONG = 7  # seconds: longer than a migration takes on a busy machine, and shorter than whoever asks is patient
OUT = {"node-1", "node-2", "node-4", "node-8"}  # once somebody has gone on from the recording
ASKED = "node-10"  # for which a person asks in the middle of it all
GRANTS = ("db", "grants", "--writer", WRITER, "--apply")
OTHERS = f"is at schema {REVISION}, newer than this code's {BEFORE}; upgrade the program, it writes nothing here"


@dataclass
class RollOut:
    """What is rolled out, and over what."""

    left: Left
    before: Version
    people: Obeying  # with the version before, and its init containers
    stack: ExitStack
    pods: list[Pod] = field(default_factory=list)
    _begun: float = field(default_factory=time.monotonic)

    @property
    def town(self) -> Town:
        return self.left.town

    def old(self, name: str) -> Pod:
        """The controller of a pod of the version before."""
        return self._begin(name, self.before, OLD)

    def new(self, name: str) -> Pod:
        """The controller of a pod of this version."""
        return self._begin(name, this_version(), NEW)

    def _begin(self, name: str, version: Version, minutes: float) -> Pod:
        self._now(minutes)
        url = self.left.url.replace("//quarantine@", f"//{WRITER}@")
        made = self.stack.enter_context(pod(self.town, url, name, version, leader=ELECTED))
        self.pods.append(made)
        return made

    def _now(self, minutes: float) -> None:
        """Processes go on by themselves from their beginning."""
        self.town.at(minutes + (time.monotonic() - self._begun) / 60)

    def ask(self) -> None:
        """A person asks for a machine."""
        self._now(OLD)
        self.people.do("open", ASKED, "--reason", "because of this roll-out")

    def migrate(self) -> None:
        """What the init containers of a new pod do, in their order; in this process."""
        assert REVISION in self.left.call("db", "upgrade")
        self.left.call(*GRANTS)

    def until(self, condition: Callable[[], bool]) -> None:
        """As `pods.until`."""
        until(condition, *(one.log for one in self.pods))

    def elected(self, *pods: Pod) -> list[Pod]:
        """These, once one of them leads and the others wait; it comes first."""
        self.until(lambda: sorted((one.leads, one.waits) for one in pods) == [(False, True), (True, False)])
        return sorted(pods, key=lambda one: one.waits)

    def acted(self) -> list[str]:
        """Who changed something in the cluster, one after the other."""
        return [user for user, _ in groupby(who_acted(self.town.api.requests))]

    def took(self) -> list[str]:
        """Who wrote to the Lease, each as often as it did."""
        asked = [one for one in self.town.api.requests if one.method in CHANGES and LEASE in one.path]
        return [one.user for one in asked if one.status == 200]

    def stands_aside(self, one: Pod) -> None:
        """It says so once, looks on, takes the Lease no more, and is not ready."""
        self.until(lambda: one.stands_aside and said(one.log, "stands aside"))
        self._looks_on(one)  # it lets the Lease go once it has said so
        took = self.took().count(one.name)
        self._looks_on(one)
        assert self.took().count(one.name) == took
        assert one.stands_aside
        assert len([line for line in told(one.log) if "stands aside" in line]) == 1

    def _looks_on(self, one: Pod) -> None:
        """It looks at the Lease some more times."""
        before = self._looked(one)
        self.until(lambda: self._looked(one) > before + 2)

    def _looked(self, one: Pod) -> int:
        return len([r for r in self.town.api.requests if (r.method, r.user) == ("GET", one.name) and LEASE in r.path])

    def told_of(self, node: str) -> None:
        """Its ticket is filed, and people were asked for the swap."""
        self.until(lambda: any(one["node"] == node and one["key"] in self.town.told() for one in self.town.tickets()))

    def drained(self) -> None:
        """The guarded pod has left, as the last one."""
        self.until(lambda: self.left.cases()["node-2"].phase is Phase.DRAINED)
        assert self.town.pods() == {"bystander"}

    def sound(self, *out: str) -> None:
        """Exactly these machines are out, each effect happened once, and nobody met a defect."""
        assert set(self.town.out()) == {*OUT, *out}
        assert self.left.cases()["node-5"].phase is Phase.SUSPECTED, "there is no room for it"
        self.left.once()
        words = [(message.thread_ts, message.text) for message in self.town.slack.messages]
        assert len(words) == len(set(words)), words
        self.left.sound()
        for one in self.pods:
            assert not said(one.log, "Traceback"), one.log.read_text()


@pytest.fixture
def roll_out(empty: str, shown: str, before: Version, tmp_path: Path) -> Iterator[RollOut]:
    with left_by(BEFORE, "postgres", empty, tmp_path, shown) as left, ExitStack() as stack:
        place = left.town
        let_go(place)
        place.at(OLD)
        people = stack.enter_context(before.obeying(place, left.url, tmp_path / "people.log"))
        people.do(*GRANTS)
        yield RollOut(left, before, people, stack)


def let_go(place: Town) -> None:
    """The Lease as it is left by who ended in order, so that nobody has to wait for it."""
    then = f"{place.time.at:%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": then, "renewTime": then}
    meta = {"name": "quarantine-controller", "namespace": "default"}
    place.api.create({"kind": "Lease", "metadata": meta, "spec": {**spec, "leaseTransitions": 1}})


def test_from_two_old_pods_to_two_new_ones(roll_out: RollOut) -> None:
    """The schema changes while the old leader marks a machine: that is the last that the old version does."""
    place, left = roll_out.town, roll_out.left
    first, second = roll_out.elected(roll_out.old("old-1"), roll_out.old("old-2"))
    roll_out.until(lambda: place.out().keys() == OUT)
    term = left.writer()["term"]
    reached = held_up(place, part=f"/nodes/{ASKED}", seconds=LONG)
    roll_out.ask()
    roll_out.until(reached.is_set)
    roll_out.migrate()
    assert not told(first.log), "it is in the middle of it"
    place.guard(0)
    new = [roll_out.new("new-1"), roll_out.new("new-2")]
    roll_out.stands_aside(first)
    roll_out.stands_aside(second)
    leader, _ = roll_out.elected(*new)
    roll_out.drained()
    roll_out.told_of(ASKED)
    row = left.writer()
    assert (row["term"], row["identity"]) == (term + 2, place.identity), "the migration took a term too"
    assert f"/{leader.process.pid}/" in row["holder"]
    assert said(leader.log, f"{ASKED} carries the taint"), "it looked what became of the mark"
    for one in (first, second):
        assert one.stands_aside
        one.ends()
    roll_out.sound(ASKED)
    assert roll_out.acted() == [first.name, leader.name]


def test_one_dies_at_every_turn(roll_out: RollOut) -> None:
    """The old leader is asked to end while it marks a machine, and the schema changes; a new pod dies before it leads,
    and a new leader in the middle of an eviction.
    """
    place = roll_out.town
    first, second = roll_out.elected(roll_out.old("old-1"), roll_out.old("old-2"))
    roll_out.until(lambda: place.out().keys() == OUT)
    reached = held_up(place, part=f"/nodes/{ASKED}", seconds=LONG)
    roll_out.ask()
    roll_out.until(reached.is_set)
    first.asked_to_end()
    roll_out.migrate()
    assert first.process.poll() is None, "it is in the middle of it"
    place.guard(0)
    early = roll_out.new("new-1")
    roll_out.until(lambda: said(early.log, "serving metrics"))
    early.dies()
    first.ended()
    roll_out.stands_aside(second)
    reached = held_up(place, "POST", f"/{GUARDED}/eviction")
    new = [roll_out.new("new-2"), roll_out.new("new-3")]
    roll_out.until(reached.is_set)
    leader, heir = sorted(new, key=lambda one: not said(one.log, "this process leads"))
    leader.dies()
    roll_out.until(lambda: heir.leads)
    roll_out.drained()
    roll_out.told_of(ASKED)
    assert said(leader.log, f"{ASKED} carries the taint"), "it looked what became of the mark"
    assert second.stands_aside
    second.ends()
    roll_out.sound(ASKED)
    assert roll_out.acted() == [first.name, leader.name, heir.name]
    assert roll_out.left.writer()["identity"] == place.identity


def test_undone_half_way_and_done_again(roll_out: RollOut) -> None:
    """On the new schema no pod of the old version does anything, whether it was there before or comes back."""
    place, left = roll_out.town, roll_out.left
    first = roll_out.old("old-1")
    roll_out.until(lambda: first.leads and place.out().keys() == OUT)
    roll_out.migrate()
    roll_out.stands_aside(first)
    place.guard(0)
    there = rows_of(left.url)
    for words in (["db", "upgrade"], ["run"]):  # its first init container, and what would come after it
        done = roll_out.people.call(*words)
        assert done.code == 3, words
        assert OTHERS in done.text
        assert len(done.text.strip().splitlines()) == 1, done.text
    roll_out.stands_aside(first)
    assert rows_of(left.url) == there
    assert place.pods() == {"bystander", GUARDED}

    roll_out.migrate()
    new = roll_out.new("new-1")
    roll_out.until(lambda: new.leads)
    roll_out.drained()
    roll_out.stands_aside(first)
    first.ends()
    new.ends()
    roll_out.sound()
    assert roll_out.acted() == [first.name, new.name]
    assert left.writer()["identity"] == place.identity
