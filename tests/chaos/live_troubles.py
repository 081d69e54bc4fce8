"""What befalls the live pair: each trouble lasts until it was met, and is over when its block ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from quarantine.core.case import Effect
from quarantine.sandbox.kubeapi.faults import LoggedRequest
from tests.chaos.live_answers import LIMITED, WRONG
from tests.chaos.live_eye import Eye
from tests.chaos.live_stand import (
    CYCLE_S,
    KUBERNETES,
    LASTS_S,
    LATER,
    SLACK,
    TICKETS,
    Stand,
)
from tests.chaos.toxic import Ill, Kind
from tests.e2e.test_process import said
from tests.e2e.test_replicas import Replica

During = Callable[[Stand, Eye], Iterator[None]]
SAID = {SLACK: Effect.NOTIFY, TICKETS: Effect.TICKET}  # what waits while it is ill
# Found, marked, told of and reported, emptied; a Lease runs out meanwhile, and the other one begins.
COURSE = 8 + LASTS_S // CYCLE_S
WATCHED = COURSE + 16  # a watch that failed often is tried again after so many seconds
MET = 3  # so often is a trouble met before it ends


@dataclass(frozen=True)
class Trouble:
    """One, and what is stated for it."""

    dependency: str
    failure: str
    during: During
    allowed: int = COURSE  # cycles until all is done, once it is over and what failed has rested

    @property
    def name(self) -> str:
        """By which it is asked for."""
        return f"{self.dependency}: {self.failure}"

    @contextmanager
    def on(self, stand: Stand, eye: Eye) -> Iterator[None]:
        """Its beginning and its end."""
        with contextmanager(self.during)(stand, eye):
            yield


def of(dependency: str, kind: Kind) -> Trouble:
    """Its proxies are ill."""
    failure = str(kind)
    if kind is Kind.WRONG:
        illness = Ill(kind, answers=WRONG[dependency])
        failure = "wrong answers"
    else:
        illness = Ill(kind)
    return Trouble(dependency, failure, _ill(dependency, illness), _allowed(dependency))


def _allowed(dependency: str) -> int:
    return WATCHED if dependency == KUBERNETES else COURSE


def limited(dependency: str) -> Trouble:
    """Whatever is asked, it asks to wait for a second."""
    return Trouble(
        dependency,
        "rate-limited",
        _ill(dependency, Ill(Kind.WRONG, answers=(LIMITED[dependency],))),
        _allowed(dependency),
    )


def _ill(dependency: str, illness: Ill) -> During:
    def during(stand: Stand, eye: Eye) -> Iterator[None]:
        toxics = stand.toxics[dependency]
        before = stand.cycles

        def met() -> bool:
            times = sum(toxic.met for toxic in toxics)
            return times >= MET or (times > 0 and not eye.missing())  # all is done in spite of it

        for toxic in toxics:
            toxic.fall(illness)
        try:
            yield
            if illness.kind is Kind.DOWN:
                stand.until(lambda: _hurts(stand, dependency, before), f"{dependency} is missed")
            else:
                stand.until(met, f"{dependency} is asked while ill")
        finally:
            for toxic in toxics:
                toxic.heal()

    return during


def _hurts(stand: Stand, dependency: str, before: int) -> bool:
    """Whether one that refuses connections was missed."""
    if dependency == KUBERNETES:
        return not any(one.leads for one in stand.replicas.values())
    if dependency in SAID:
        return any(p.effect is SAID[dependency] and p.attempts >= 2 for p in stand.ledger.load().pending)
    return stand.cycles >= before + 2


# --- The replicas' ----------------------------------------------------------------------------------------------------


def marks(request: LoggedRequest) -> bool:
    return request.method == "PATCH" and "/nodes/" in request.path and not request.path.endswith("/status")


def evicts(request: LoggedRequest) -> bool:
    return request.path.endswith("/eviction")


def killed(failure: str, when: Callable[[LoggedRequest], bool], *, pods: int = 0) -> Trouble:
    """The leader dies by SIGKILL once a write of this sort was done, before it hears of it, and is started again."""

    def during(stand: Stand, eye: Eye) -> Iterator[None]:
        dead, victims = threading.Event(), [stand.leader]
        _populate(stand, pods)

        def kill(request: LoggedRequest) -> None:
            victims[0] = stand.replicas[request.user]
            victims[0].process.kill()
            dead.set()

        eye.at_next(when, kill)
        yield
        stand.until(dead.is_set, "it was at work and is dead")
        stand.again(victims[0].name)

    return Trouble("leader", failure, during)


def _populate(stand: Stand, pods: int) -> None:
    """Services on the node that is next."""
    node = stand.cluster.nodes[len(stand.hot)]
    for number in range(pods):
        stand.cluster.api.create(_pod(f"{node}-{number}", node))
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        stand.cluster.api.patch_merge("Pod", f"{node}-{number}", {"status": status}, subresource="status")


def _pod(name: str, node: str) -> dict[str, object]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "registry.example.com/web:1"}]},
    }


def stopped() -> Trouble:
    """The leader is stopped by SIGSTOP once it has marked the node, until the other one leads, and goes on then."""

    def during(stand: Stand, eye: Eye) -> Iterator[None]:
        victims: list[Replica] = []

        def stop(request: LoggedRequest) -> None:
            one = stand.replicas[request.user]
            one.process.send_signal(signal.SIGSTOP)
            victims.append(one)

        eye.at_next(marks, stop)
        yield
        stand.until(lambda: bool(victims), "it was at work and is stopped")
        rest = [one for one in stand.replicas.values() if one is not victims[0]]
        stand.until(lambda: rest[0].leads, "the other one leads once the Lease has run out")
        victims[0].process.send_signal(signal.SIGCONT)
        stand.until(lambda: victims[0].waits, "it sees that its time is over")

    return Trouble("leader", "stopped for longer than the Lease", during)


def cut_off() -> Trouble:
    """The leader alone does not reach the API server."""

    def during(stand: Stand, _: Eye) -> Iterator[None]:
        leader, other = stand.leader, stand.other
        toxic = stand.kube_toxic(leader.name)
        toxic.fall(Ill(Kind.SILENT))
        try:
            yield
            stand.until(lambda: other.leads, "the other one leads")
            stand.until(lambda: not leader.leads, "and it knows that it does not")
        finally:
            toxic.heal()

    return Trouble("leader", "cut off from the API server", during, WATCHED)


def both_killed() -> Trouble:
    """Both at once, as when their machines lose power."""

    def during(stand: Stand, _: Eye) -> Iterator[None]:
        yield
        names = list(stand.replicas)
        for name in names:
            stand.replicas[name].process.kill()
        for name in names:
            stand.end(name)
        for name in names:
            stand.start(name)
        for name in names:
            stand.until(stand.replicas[name].is_up, f"the {name} one is up again")

    return Trouble("leader", "killed with the other one", during)


def clock(ahead: int, failure: str) -> Trouble:
    """The wall clocks of both are at once two hours off, ahead (1) or behind (-1), and then right again."""

    def during(stand: Stand, _: Eye) -> Iterator[None]:
        before = [said(log, _SET) for log in stand.logs()]
        stand.clock.write_text(f"{ahead * LATER.total_seconds():.0f}\n")
        leader = stand.leader
        if not any(before):
            stand.until(lambda: said(leader.log, _SET), "it sees that its clock was set")
        yield
        try:
            stand.until(lambda: stand.cluster.marked() == sorted(stand.hot), "it works on by its steady clock")
        finally:
            stand.clock.write_text("0\n")

    return Trouble("clock", failure, during)


_SET = "the clock of this machine was set"


def passes(trouble: Trouble, stand: Stand, eye: Eye, number: int) -> str:
    """It comes, `number` more nodes are hot meanwhile, and it goes. What did not come as it should; empty: nothing."""
    try:
        with trouble.on(stand, eye):
            stand.heat(number)
    except AssertionError as error:
        return str(error).partition("\n")[0]
    return ""
