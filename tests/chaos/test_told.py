"""What is told to people by a process that may lead no more, or that leads again after another one did."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, time, timedelta

from quarantine.board import Board
from quarantine.core.alarms import Alarm, Urgency
from quarantine.core.case import HeldBy
from quarantine.core.decision import Hold
from quarantine.core.model import Mode
from quarantine.core.snapshot import Snapshot
from quarantine.digest import Digest
from quarantine.notices import Teller
from quarantine.paging import Paging
from tests.boards import Clock
from tests.chaos.sim_world import Channel, Phone, Slack, WholeBook
from tests.core.invariants.kube import Trouble
from tests.core.world import NOW, quarantined, rules

HOURS = timedelta(hours=1)


@dataclass
class Reign:
    """Whether the process leads, and which time it is that it does."""

    leads: bool = True
    tenure: int = 0

    def may(self) -> bool:
        return self.leads

    def which(self) -> int:
        return self.tenure


@dataclass
class Ends(Channel):
    """The process leads no more once somebody has looked, or has been told."""

    reign: Reign = field(default_factory=Reign)

    def find(self, key: str) -> str | None:
        self.reign.leads = False
        return super().find(key)


def hold(key: str, since: datetime) -> Hold:
    return Hold(key, HeldBy.OVERDUE, f"{key} waits", since)


def test_a_notice_is_not_told_once_the_look_for_it_took_too_long() -> None:
    channel = Ends()
    teller = Teller(channel, Clock(), "test", channel.reign.may)
    teller.held([], NOW)
    teller.held([hold("case/q-1", NOW - HOURS)], NOW)
    assert "another process may lead" in teller.tell(())[0]
    assert channel.said == {}


def test_who_leads_again_looks_up_what_another_one_may_have_told() -> None:
    channel, reign = Channel(), Reign()
    first, second = (Teller(channel, Clock(), "test", r.may, r.which) for r in (reign, Reign()))
    first.held([], NOW - 3 * HOURS)
    stands = [hold("case/q-1", NOW - HOURS)]
    second.held([], NOW - 2 * HOURS)
    second.held(stands, NOW)
    second.tell(())
    reign.tenure += 1
    first.held(stands, NOW)
    first.tell(())
    assert list(channel.said.values()) == [1]


def test_a_digest_is_not_posted_once_the_look_for_it_took_too_long() -> None:
    channel, (state, nodes) = Ends(), quarantined()
    look = Snapshot(NOW, "test", Mode.ENFORCE, "controller", nodes, {}, state)
    Digest(channel, Clock(), "test", time(11), channel.reign.may).tell(look, state, rules())
    assert channel.said == {}
    channel.reign.leads = True
    Digest(channel, Clock(), "test", time(11)).tell(look, state, rules())
    assert len(channel.said) == 1


def test_an_alarm_waits_for_who_leads_next() -> None:
    reign = Reign()

    class Once(Phone):
        def fire(self, alarm: Alarm) -> None:
            super().fire(alarm)
            reign.leads = False

    phone = Once()
    standing = [Alarm(f"a{n}", Urgency.ERROR, "it stands", NOW, "test") for n in range(3)]
    paging = Paging([phone], Clock(), lambda _: (), reign.may)
    paging.reconcile(standing)
    assert len(phone.standing) == 1
    reign.leads = True
    paging.reconcile(standing)
    assert len(phone.standing) == 2


def test_who_leads_again_says_anew_what_another_one_has_changed_on_a_message() -> None:
    slack, reign, (state, nodes) = Slack(Trouble()), Reign(), quarantined()
    slack.posted["r"] = ""  # as the builders have it carried out
    clock = Clock()
    look = Snapshot(NOW, "test", Mode.ENFORCE, "controller", nodes, {}, state)

    board = Board(slack, WholeBook(clock, Trouble()), clock, "test", may=reign.may, tenure=reign.which)
    law = rules()
    board.tell(look, state, law)
    said = dict(slack.shown)
    assert said
    slack.shown.clear()
    board.tell(look, state, law)
    assert slack.shown == {}
    reign.tenure += 1
    board.tell(look, state, law)
    assert slack.shown == said
