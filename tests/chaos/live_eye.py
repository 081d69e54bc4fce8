"""What is seen of two replicas from outside: each write to the API server as it is done, the ledger, tickets, Slack."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from quarantine.core.decision import Action, Kind
from quarantine.core.errors import QuarantineError
from quarantine.ledger.verify import Sound
from quarantine.sandbox.kubeapi import Fault
from quarantine.sandbox.kubeapi.faults import LoggedRequest, RequestLog
from tests.chaos.live_stand import NAMES, Stand
from tests.chaos.table import Row
from tests.e2e.test_process import said
from tests.e2e.witness import READS, Witness

ENDS = frozenset({Action.RELEASE, Action.DISMISS, Action.RETIRE, Action.RECOVER})  # of a case, or of a finding of it
LEASE = "quarantine-controller"
_KEPT = 100_000
_OURS = "quarantine.gpu/suspect"

Happens = Callable[[LoggedRequest], None]


class _Log(RequestLog):
    """The API server's own, which tells of each request as soon as it is done, before its answer leaves."""

    def __init__(self, notice: Happens) -> None:
        super().__init__(_KEPT)
        self._notice = notice

    def append(self, request: LoggedRequest) -> None:
        """Add one."""
        super().append(request)
        self._notice(request)


class _Recorded(Witness):
    """Of what is done to nodes and pods: a Lease is no business of the ledger's."""

    def _look(self, method: str, path: str) -> Fault | None:
        about = "/nodes/" in path or path.endswith(("/events", "/eviction"))
        return super()._look(method, path) if about else None


class Eye:
    """Counts what must never happen. One for a stand; `row` tells what came since the row before."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._found: Counter[str] = Counter()
        self._notes: list[str] = []
        self._ever: set[str] = set()
        self._marked: frozenset[str] = frozenset()
        self._evicted: Counter[str] = Counter()
        self._trail: list[tuple[int, str]] = []
        self._told = 0  # of what the witness has found
        self._waiting: list[tuple[Callable[[LoggedRequest], bool], Happens]] = []
        self._witness = _Recorded(stand.cluster.api, stand.url)
        stand.cluster.api.requests = _Log(self._wrote)

    def at_next(self, fits: Callable[[LoggedRequest], bool], act: Happens) -> None:
        """Once, as soon as a write of a replica that fits is done, and before it hears of it."""
        self._waiting.append((fits, act))

    def _wrote(self, request: LoggedRequest) -> None:
        """In the API server's thread: nothing else is written meanwhile."""
        if request.method in READS or request.user not in NAMES or not 200 <= request.status < 300:
            return
        if "/leases" in request.path or ("/nodes/" not in request.path and "/namespaces/" not in request.path):
            return
        self._look_at_writer(request)
        self._look_at_nodes(request)
        if request.path.endswith("/eviction"):
            self._evicted[request.path] += 1
        for fits, act in list(self._waiting):
            if fits(request):
                self._waiting.remove((fits, act))
                act(request)
                break

    def _look_at_writer(self, request: LoggedRequest) -> None:
        lease = self._stand.cluster.api.get("Lease", LEASE)
        holder = lease["spec"].get("holderIdentity") or "nobody"
        replica = self._stand.replicas[request.user]
        if f"/{replica.process.pid}/" not in holder:
            self._finds("stale", f"{request.method} {request.path} by the {request.user} one, and {holder} leads")

    def _look_at_nodes(self, request: LoggedRequest) -> None:
        marked = self._marks()
        if healthy := marked - set(self._stand.hot) - self._marked:
            self._finds("healthy", f"{sorted(healthy)} is out and was never hot")
        if gone := self._marked - marked:
            self._finds("released", f"{sorted(gone)} was put back by {request.method} {request.path}")
        if len(marked) > self._stand.budget and len(marked) > len(self._marked):
            self._finds("over", f"{len(marked)} are out, and {self._stand.budget} may be")
        self._marked = marked

    def _marks(self) -> frozenset[str]:
        nodes = self._stand.cluster.api.list("Node")
        out = [one for one in nodes if any(t["key"] == _OURS for t in one["spec"].get("taints") or ())]
        return frozenset(one["metadata"]["name"] for one in out)

    def _finds(self, what: str, note: str) -> None:
        """Once: what stands is not a new thing in the next row."""
        if note not in self._ever:
            self._ever.add(note)
            self._found[what] += 1
            self._notes.append(note)

    def missing(self) -> str:
        """What is not yet as it is to be; empty where what may be out is, is reported and told of, and all is done."""
        stand = self._stand
        marked, wanted = stand.cluster.marked(), min(len(stand.hot), stand.budget)
        told, tickets = len(self._messages()), len(stand.desk.tickets)
        if len(marked) != wanted or min(told, tickets) < wanted:
            return f"{wanted} out, reported and told of; it is {marked}, {tickets} tickets and {told} messages"
        pods = [one["metadata"]["name"] for one in stand.cluster.api.list("Pod") if one["spec"]["nodeName"] in marked]
        if pods:
            return f"what is out is empty; there are {', '.join(pods)}"
        words = {name: one.word for name, one in stand.replicas.items()}
        if sorted((one.leads, one.waits) for one in stand.replicas.values()) != [(False, True), (True, False)]:
            return f"one leads and one waits; they say {words}"
        try:
            pending = [f"{p.key} after {p.attempts} attempts" for p in stand.ledger.load().pending]
        except QuarantineError as error:
            return str(error)
        return f"nothing is left to do; there is {', '.join(pending)}" if pending else ""

    def _messages(self) -> Counter[str]:
        """How many tell of each node; when many go out within some minutes, one message tells of several."""
        every = re.compile(rf"\b{re.escape(self._stand.cluster.name)}-\d+\b")
        return Counter(node for one in self._stand.cluster.told for node in set(every.findall(one.text)))

    def row(self, what: str, dependency: str, failure: str, cycles: int | None, allowed: int, note: str) -> Row:
        """What was found since the last one, and how the ledger and the outside stand now."""
        self._check_ledger()
        self._check_outside()
        for log in self._stand.logs():
            if said(log, "Traceback"):
                self._finds("lost", f"a defect is told of in {log}")
        found, notes = self._found, [note, *self._notes]
        self._found, self._notes = Counter(), []
        return Row(
            "live",
            what,
            dependency,
            failure,
            cycles,
            allowed,
            healthy_quarantined=found["healthy"],
            released_on_absence=found["released"],
            lost=found["lost"],
            doubled=found["doubled"],
            over_budget=found["over"],
            stale=found["stale"],
            note="; ".join(one for one in notes if one),
        )

    def _check_ledger(self) -> None:
        stand = self._stand
        rows = list(stand.ledger.decisions())
        trail = [(row.seq, row.hash) for row in rows]
        if trail[: len(self._trail)] != self._trail:
            self._finds("lost", "rows of the trail that were there are not there any more")
        self._trail = trail
        sound = stand.ledger.verify()
        if not isinstance(sound, Sound):
            self._finds("lost", f"the trail is broken: {sound}")
        for missing in self._witness.unrecorded[self._told :]:
            self._finds("lost", f"without its record: {missing}")
        self._told = len(self._witness.unrecorded)
        decided = [row.decision for row in rows if row.decision.kind is Kind.DECIDED]
        out = Counter(one.node for one in decided if one.action is Action.QUARANTINE)
        for node, count in out.items():
            if count > 1:
                self._finds("doubled", f"{node} was quarantined {count} times")
        for node in self._marked - set(out):
            self._finds("lost", f"{node} is out, and the ledger does not know why")
        for node in set(filter(None, out)) - set(stand.hot):
            self._finds("healthy", f"{node} was decided on, and was never hot")
        for one in decided:
            if one.action in ENDS:
                self._finds("released", f"{one.action} of {one.node}: {one.reason}")

    def _check_outside(self) -> None:
        stand = self._stand
        tickets = Counter(str(kept.told["node"]) for kept in stand.desk.tickets.values())
        events = Counter(one["involvedObject"]["name"] for one in stand.cluster.api.list("Event"))
        for what, counts in (
            ("tickets of", tickets),
            ("Events of", events),
            ("messages of", self._messages()),
            ("evictions at", self._evicted),
        ):
            for of, count in counts.items():
                if count > 1:
                    self._finds("doubled", f"{count} {what} {of}")
