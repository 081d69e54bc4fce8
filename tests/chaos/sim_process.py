"""One replica of the production controller, wired as `app` and `cli.run` wire it, at the end of breakable lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from quarantine.adapters.clock import SteadyClock
from quarantine.board import Board
from quarantine.controller import Controller, CycleReport
from quarantine.core import alarms
from quarantine.core.alarms import Alarm
from quarantine.core.decision import State
from quarantine.core.model import Mode
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from quarantine.execute import Executor
from quarantine.health import Health
from quarantine.leadership import Leadership
from quarantine.metrics import OwnMetrics
from quarantine.notices import Teller
from quarantine.observe import Observer, Pace
from quarantine.observe.tickets import Follower
from quarantine.paging import Paging
from quarantine.turns import Turns
from tests.chaos.sim_ledger import CLUSTER
from tests.chaos.sim_lines import KubeLine, LedgerLine, Line, Questions, TicketsLine
from tests.chaos.sim_trouble import INTERVAL, Dependency, Killed
from tests.test_leadership import Way

if TYPE_CHECKING:
    from tests.chaos.sim_clockwork import Simulation

P = ParamSpec("P")
T = TypeVar("T")
SETTLE = 3  # as the settings' default


class OneByOne(futures.Executor):
    """Asks in the thread that wants to know, so that a seed is one story."""

    def __init__(self, **_: object) -> None: ...

    def submit(self, fn: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(fn(*args, **options))
        return done


@dataclass(eq=False)
class Process:
    """A process on one of the machines. `kill_in` and `stop_in`: after so many more calls it is killed, or stopped."""

    sim: Simulation
    slot: int
    name: str
    dead: bool = False
    frozen: bool = False  # by SIGSTOP: none of its threads goes on
    busy: bool = False  # in a cycle
    stepping: bool = False  # in a look at the Lease
    kill_in: int | None = None
    stop_in: int | None = None
    stop_for: float = 0.0
    at_effects: bool = False  # calls that change nothing do not count for either
    report: CycleReport | None = None
    leadership: Leadership = field(init=False)
    controller: Controller = field(init=False)
    turns: Turns = field(init=False)
    ledger: Any = field(init=False)

    def __post_init__(self) -> None:
        sim = self.sim
        self.clock = SteadyClock(self._wall, lambda: sim.seconds)
        self.ledger = sim.books.opened(self.clock.now)
        self.kube = KubeLine(self, Dependency.KUBERNETES, sim.kube)
        leases: Any = Line(self, Dependency.LEASE, Way(sim.leases))
        self.leadership = Leadership(leases, self.name, self.clock.now, monotonic=lambda: sim.seconds)
        self.leadership.on_lead = lambda: sim.wake(self)
        self.controller = self._controller()
        metrics, health = OwnMetrics(interval=INTERVAL), Health(INTERVAL, INTERVAL)
        self.turns = Turns(self.controller, self.kube.refresh, metrics, health, self.leadership)

    def _wall(self) -> datetime:
        return self.sim.true_now + self.sim.skew[self.slot]

    def _controller(self) -> Controller:
        sim, kube, clock = self.sim, self.kube, self.clock
        ledger: Any = LedgerLine(self, Dependency.LEDGER, self.ledger)
        desks: Any = TicketsLine(self, Dependency.TICKETS, sim.desk)
        chat: Any = Line(self, Dependency.SLACK, sim.slack)
        channel: Any = Line(self, Dependency.SLACK, sim.channel)
        phone: Any = Line(self, Dependency.PAGER, sim.phone)
        law: Rules = sim.law
        observer = Observer(kube, Questions(self), clock, law, Pace(workers=1), follower=Follower(desks, clock))
        executor = Executor(kube, ledger, desks, chat, clock, law, leads=self.leadership.leads)

        def may() -> bool:
            return not executor.barred()

        def tenure() -> int:
            return executor.tenure

        board = Board(chat, ledger, clock, CLUSTER, may=may, tenure=tenure)

        def ended(since: datetime) -> Iterable[Alarm]:
            holds = ((hold.key, hold.held_by, hold.pool) for hold in ledger.ended_holds(since))
            return alarms.over(CLUSTER, holds, clock.now())

        paging = Paging([phone], clock, ended, may, tenure)

        def page(snapshot: Snapshot, state: State, _: Rules) -> list[str]:
            return paging.reconcile(alarms.alarms(state, CLUSTER, snapshot.now))

        return Controller(
            observer=observer,
            executor=executor,
            ledger=ledger,
            rulebook=sim.rulebook,
            teller=Teller(channel, clock, CLUSTER, may, tenure),
            cluster=CLUSTER,
            mode=Mode.ENFORCE,
            actor="controller test",
            holder=self.name,
            settle=SETTLE,
            outward=(board.tell, page),
        )

    # --- Its threads --------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """What its thread of the leadership does every two seconds. Raises Killed."""
        self.stepping = True
        try:
            self.leadership.step()
        finally:
            self.stepping = False

    def cycle(self) -> None:
        """What its timer's thread does. Raises Killed, and Superseded where the process is to end."""
        self.busy = True
        try:
            self.report = self.turns.cycle()
        finally:
            self.busy = False

    # --- What happens to it -------------------------------------------------------------------------------------------

    def point(self, *, effect: bool = False) -> None:
        """Anything may happen here: before and after each call to the outside. Raises Killed."""
        if self.dead:
            raise Killed(self.name)
        if self.at_effects and not effect:
            return
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.dead = True
                raise Killed(self.name)
        if self.stop_in is not None:
            self.stop_in -= 1
            if self.stop_in < 0:
                self.stop_in = None
                self._stopped()

    def wait(self, seconds: float) -> None:
        """A call takes so long. Raises Killed where the process did not outlive it."""
        self.sim.advance(seconds)
        if self.dead:
            raise Killed(self.name)

    def _stopped(self) -> None:
        self.frozen = True
        self.wait(self.stop_for)
        self.frozen = False
        # Which of its threads goes on first is anybody's guess.
        if not self.stepping and self.sim.rng.random() < 0.5:
            self.step()
