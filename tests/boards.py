"""A trail, the cycles over it as far as Slack sees them, and a real stand-in: for the tests of the board."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from quarantine.adapters.slack.notifier import connect
from quarantine.board import Board
from quarantine.core.case import Case, Effect, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.model import Mode, Node
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.core.workload import Workloads
from quarantine.execute import people
from quarantine.ports import TrailRow
from quarantine.sandbox.slack import Message, SlackServer
from tests.core import world
from tests.ledger.samples import NOW, quarantined

TOKEN, CHANNEL, PROVIDERS = "xoxb-1-very-secret", "C0GPUOPS", "C0ACME"
CYCLE = timedelta(seconds=15)
PNG = b"\x89PNG\r\n\x1a\n picture"


@dataclass
class Clock:
    """Moved by the tests."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


@dataclass
class Office:
    """The trail and the process: `restart` forgets all that is in memory."""

    slack: SlackServer
    clock: Clock
    rules: Rules = field(default_factory=world.rules)
    trail: list[Decision] = field(default_factory=list)
    workloads: Workloads = field(default_factory=Workloads)
    nodes: dict[str, Node] = field(default_factory=dict)
    buttons: bool = True
    timeout: timedelta = timedelta(seconds=5)
    draw: Callable[[Any], bytes] | None = None
    ledger_trouble: Exception | None = None
    board: Board = field(init=False)
    _folded: tuple[int, State] = (0, State())  # so many of the trail, and what they add up to

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.notifier = connect(
            TOKEN,
            CHANNEL,
            cluster="lab",
            now=self.clock.now,
            base_url=self.slack.base_url,
            timeout=self.timeout,
            buttons=self.buttons,
        )
        self.board = Board(self.notifier, self, self.clock, "lab", self.draw)

    # --- The trail, as a ledger gives it ---

    @property
    def state(self) -> State:
        count, known = self._folded if self._folded[0] <= len(self.trail) else (0, State())
        self._folded = (len(self.trail), fold(known, self.trail[count:]))
        return self._folded[1]

    def case(self, number: int = 1) -> Case:
        return self.state.cases[f"c-{number}"]

    def decisions(self, *, node: str | None = None, case: str | None = None) -> Iterator[TrailRow]:
        if self.ledger_trouble is not None:
            raise self.ledger_trouble
        assert node is None
        for seq, decision in enumerate(self.trail, 1):
            if decision.case == case:
                yield TrailRow(seq, decision, hashlib.sha256(f"{seq}{decision}".encode()).hexdigest())

    # --- What happens ---

    def opens(self, *numbers: int) -> None:
        self.trail += [replace(quarantined(n, effects=(Effect.NOTIFY,)), at=self.clock.at) for n in numbers]

    def decides(self, action: Action, reason: str, number: int = 1, **fields: Any) -> None:
        case = self.case(number)
        known: dict[str, Any] = {
            "at": self.clock.at,
            "kind": Kind.DECIDED,
            "actor": "controller 0.1.0",
            "node": case.node,
            "machine": case.machine,
            "case": case.id,
        }
        self.trail.append(Decision(action=action, reason=reason, **{**known, **fields}))

    def holds(self, reason: str, number: int = 1, held_by: HeldBy = HeldBy.APPROVAL, key: str = "approval") -> None:
        fields = {"kind": Kind.HELD, "held_by": held_by, "hold_key": f"{key}/c-{number}"}
        self.decides(Action.APPROVE, reason, number, **fields)

    def ends(self, number: int = 1) -> None:
        self.decides(Action.RELEASE, f"node-{number} has proven itself", number, phase=Phase.RELEASED)

    def posts(self) -> list[str]:
        """What the executor does about the messages of a cycle: why they are put off."""
        put_off = []
        for case in list(self.state.cases.values()):
            if not case.is_pending(Effect.NOTIFY):
                continue
            try:
                outcome = people.message(self.notifier, self.rules, self.state, case, "lab", still=lambda: None)
            except (Unavailable, Refused) as error:
                put_off.append(str(error))
                continue
            number = int(case.id.removeprefix("c-"))
            done = {"kind": Kind.DONE, "effect": Effect.NOTIFY, "ref": outcome.ref}
            self.decides(Action.NOTIFY, outcome.reason, number, **done)
        return put_off

    def cycle(self, times: int = 1) -> list[str]:
        """Cycles, one after the other: what the last one put off."""
        put_off: list[str] = []
        for _ in range(times):
            put_off = [*self.posts(), *self.board.tell(self.snapshot(), self.state, self.rules)]
            self.clock.at += CYCLE
        return put_off

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.clock.at, "lab", Mode.ENFORCE, "controller", self.nodes, {}, self.state, workloads=self.workloads
        )

    # --- What Slack has ---

    @property
    def messages(self) -> list[Message]:
        return [m for m in self.slack.messages if m.thread_ts is None]

    @property
    def replies(self) -> list[Message]:
        return [m for m in self.slack.messages if m.thread_ts is not None and not m.files]

    @property
    def story(self) -> list[str]:
        """The lines of all replies, oldest first."""
        return [line for m in self.replies for line in m.blocks[0]["text"]["text"].splitlines()]


def said(message: Message) -> str:
    """All texts of a message."""
    found = []
    for block in message.blocks:
        items = (block.get("text"), *block.get("fields", ()), *block.get("elements", ()))
        for item in items:
            text = item.get("text") if isinstance(item, dict) else None
            found.append(text["text"] if isinstance(text, dict) else text or "")
    return "\n".join(found)


def buttons(message: Message) -> list[tuple[str, str]]:
    """The actions that are offered, each with the node it is about."""
    return [
        (element["action_id"].removeprefix("quarantine."), element["value"])
        for block in message.blocks
        if block["type"] == "actions"
        for element in block["elements"]
    ]
