"""What may go wrong: which dependency, in which way, from when on; and accidents that are nobody's answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from tests.core.invariants.kube import Crash


class Killed(Crash):
    """The process is ended by force at this very point."""


class Dependency(StrEnum):
    """Whom the controller asks and tells."""

    PROMETHEUS = "Prometheus"
    KUBERNETES = "Kubernetes API"
    LEDGER = "ledger"
    SLACK = "Slack"
    TICKETS = "tickets"
    PAGER = "pager"
    LEASE = "lease API"


class Failure(StrEnum):
    """How it fails those who call."""

    DOWN = "down"
    SLOW = "slow"
    FLAPPING = "flapping"
    WRONG = "wrong answers"
    RATE_LIMITED = "rate-limited"
    HALF_OPEN = "half-open"  # nothing is heard until the time-out: it was carried out, or it was not


class Accident(StrEnum):
    """What happens to the controller, its machine or the fleet."""

    KILL = "kill -9"
    STOP = "SIGSTOP for longer than the lease"
    CLOCK_FORWARD = "clock jumps forward"
    CLOCK_BACK = "clock jumps back"
    DISK_FULL = "full disk"
    FAILOVER = "failover loses the last commits"
    CUT = "both replicas cut from the API"
    CHURN = "nodes come and go"
    BROKEN_POLICY = "broken policy file"
    EXPORTERS_HEALTHY = "exporters gone, machines healthy"
    EXPORTERS_BAD = "exporters gone, machines bad"


TIMEOUTS: dict[Dependency, float] = {  # seconds, as the settings' defaults
    Dependency.PROMETHEUS: 20,
    Dependency.KUBERNETES: 10,
    Dependency.LEDGER: 30,
    Dependency.SLACK: 10,
    Dependency.TICKETS: 10,
    Dependency.PAGER: 10,
    Dependency.LEASE: 5,
}
# The ways in which an answer can be wrong. Of the ledger it is that it goes back to an older state.
WRONGS: dict[Dependency, tuple[str, ...]] = {
    Dependency.PROMETHEUS: (
        "everybody is bad",
        "empty",
        "in part",
        "a web page",
        "of another time",
        "each twice",
        "of strangers",
        "as it was before",
        "NaN of strangers",
    ),
    Dependency.KUBERNETES: ("old nodes", "no nodes", "conflicts", "pods unseen"),
    Dependency.LEDGER: ("failover",),
    Dependency.SLACK: ("refused",),
    Dependency.TICKETS: ("refused", "not found"),
    Dependency.PAGER: ("refused",),
    Dependency.LEASE: ("deleted", "emptied", "given away", "restored"),
}

INTERVAL = timedelta(seconds=15)  # of cycles
# After all is well again, within how many cycles nothing is left to be done. From the product's own pauses:
_COURSE = 8  # found and marked, its pods asked to leave, drained, reported, and asked for another a minute later
_LONGEST_WAIT = 300 // 15  # five minutes: execute.due, notices, board and paging rest so long at most
_COVERAGE = 300 // 15  # what each policy can see is asked every five minutes
_LEASE = 2  # a lease runs out within fifteen seconds, and is looked at every two
STATED: dict[Dependency | Accident, int] = {
    Dependency.PROMETHEUS: _COURSE + _COVERAGE,  # by what it covers a policy is held, or not
    Dependency.KUBERNETES: _COURSE + _LONGEST_WAIT,  # a write that failed often rests
    Dependency.LEDGER: _COURSE,  # each cycle begins with it
    Dependency.SLACK: _COURSE + _LONGEST_WAIT,  # a message that failed often rests
    Dependency.TICKETS: _COURSE + _LONGEST_WAIT,  # a ticket that failed often rests
    Dependency.PAGER: _COURSE + _LONGEST_WAIT,  # an alarm that failed often rests
    Dependency.LEASE: _COURSE + _LEASE,
    Accident.KILL: _COURSE + _LEASE,  # the other one takes over, and looks up what may have been done
    Accident.STOP: _COURSE + _LEASE,
    Accident.CLOCK_FORWARD: _COURSE + 600 // 15,  # a clock that was set is believed after ten minutes
    Accident.CLOCK_BACK: _COURSE + 600 // 15,
    Accident.DISK_FULL: _COURSE,  # as the ledger
    Accident.FAILOVER: _COURSE + 2,  # as the ledger; and a person is told, and says `adopt`
    Accident.CUT: _COURSE + _LONGEST_WAIT,  # as the API
    Accident.CHURN: _COURSE + _COVERAGE,
    Accident.BROKEN_POLICY: _COURSE,
    Accident.EXPORTERS_HEALTHY: _COURSE + _COVERAGE,
    Accident.EXPORTERS_BAD: _COURSE + _COVERAGE,
}


@dataclass(frozen=True)
class Episode:
    """One of them, and for how long. In seconds since the beginning."""

    what: Dependency | Accident
    begins: float
    lasts: float
    failure: Failure | None = None
    wrong: str = ""
    which: int = 0  # replica, where it is one's own
    number: int = 0  # of calls until it happens, or of whatever else is counted
    at_effects: bool = False  # only those calls count that change something

    @property
    def ends(self) -> float:
        return self.begins + self.lasts

    @property
    def said(self) -> str:
        """For people."""
        if self.failure is None:
            return str(self.what)
        return f"{self.what} {self.failure}{f' ({self.wrong})' if self.wrong else ''}"
