"""A case as people see it at this moment, as plain data: where it stands, what it waits for, who is affected.

What is shown is compared with what was shown before, so nothing here counts on from now: ages would change every cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from quarantine.core import letters
from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase, Step
from quarantine.core.decision import Hold, State
from quarantine.core.fleet import FleetSpec
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Node
from quarantine.core.policy import Rules
from quarantine.core.providers import provider_of
from quarantine.core.reasons import in_words
from quarantine.core.tickets import Filing
from quarantine.core.workload import Class, Pod

MOST_ALONE = 5  # messages of their own within `TOGETHER`, in one channel; of more cases one message tells
TOGETHER = timedelta(minutes=10)  # by the clock, from the full hour: whoever starts again groups alike
STORM = "storm-"  # begins the key of a message that tells of several cases

STANDS: Mapping[Phase, str] = {
    Phase.SUSPECTED: "is suspected, and in service",
    Phase.QUARANTINED: "is out of service",
    Phase.DRAINING: "is being drained",
    Phase.DRAINED: "is drained",
    Phase.REMEDY: "is being repaired",
    Phase.SWAP_REQUESTED: "waits for its replacement",
    Phase.SWAPPED: "was replaced",
    Phase.PROBATION: "is on probation: it proves itself",
    Phase.RELEASED: "is back in service",
    Phase.DISMISSED: "is back in service: no fault was found, or a person said so",
    Phase.RETIRED: "has left the cluster",
}


@dataclass(frozen=True, slots=True)
class Card:
    """One case. All text is raw: whoever renders it escapes it. The defaults say nothing beyond the report."""

    report: CaseReport
    phase: Phase = Phase.QUARANTINED
    since: datetime | None = None  # of the phase
    out_since: datetime | None = None  # when the machine was taken out
    waits: tuple[str, ...] = ()  # what it is held by, in sentences
    tickets: tuple[Filing, ...] = ()  # oldest first
    ticket: str = ""  # the reference that people are to look for; empty: there is none
    affected: str = ""  # which jobs run there, which GPUs are idle; empty: not known
    asks: bool = False  # whether a person's yes is waited for before another machine is asked for
    deferred: bool = False  # whether a person put that off: a yes is taken all the same
    shared: bool = False  # others than our own people read it

    @property
    def open(self) -> bool:
        """Whether anything is still to be done."""
        return self.phase not in (Phase.RELEASED, Phase.DISMISSED, Phase.RETIRED)

    @property
    def stands(self) -> str:
        """Where the machine stands, in words, without its name."""
        return STANDS[self.phase]


@dataclass(frozen=True, slots=True)
class Fold:
    """Several cases in one message. `key` is what it is found by."""

    key: str
    cluster: str
    channel: str
    cards: tuple[Card, ...]  # in the order in which their machines were taken out

    @property
    def shared(self) -> bool:
        """As `Card.shared`."""
        return any(card.shared for card in self.cards)


@dataclass(frozen=True, slots=True)
class Thread:
    """What is known of the replies to a message."""

    told: Mapping[str, str] = field(default_factory=dict)  # by case: up to where its story was told
    files: frozenset[str] = frozenset()  # the names of what was attached


@dataclass(frozen=True, slots=True)
class Reply:
    """A piece of the story of the cases that a message is about. `lines` are raw, one for each decision."""

    lines: tuple[str, ...]
    told: Mapping[str, str]  # as of `Thread`, once this is there: for every case that it tells of
    left_out: int = 0  # lines that it does not tell, since there were too many


def card(
    case: Case,
    cluster: str,
    rules: Rules,
    state: State,
    *,
    holds: tuple[Hold, ...] = (),
    node: Node | None = None,
    pods: tuple[Pod, ...] | None = None,
    deferred: bool = False,
    shared: bool | None = None,
) -> Card:
    """A case as it stands. `holds`: those about it. `pods`: what has to leave its machine; None: that is not known.

    `deferred`: see `is_deferred`. `shared`: whether others read it where it is; None: where a route sends it now.
    """
    asked = case.phase in (Phase.SWAP_REQUESTED, Phase.SWAPPED)
    report = letters.report(case, cluster, rules, state=state, ask=Step.REPLACE if asked else Step.REPORT)
    made = Card(
        report=report,
        phase=case.phase,
        since=case.phase_since,
        out_since=case.out_since,
        waits=tuple(why for why in _waits(case, holds, deferred=deferred) if why not in report.swap),
        tickets=case.filings,
        ticket=ticket_of(case),
        affected=affected(case, node, pods),
        asks=case.open and any(hold.held_by is HeldBy.APPROVAL for hold in holds),
        deferred=deferred,
    )
    others = is_shared(report.channel, rules.fleet) if shared is None else shared
    return redacted(made) if others else made


def redacted(made: Card) -> Card:
    """What others may read: the request and its proof, and no query, policy, job, budget or name of a person."""
    report = made.report
    faults = tuple(replace(fault, policy="", why="", query="", labels=()) for fault in report.faults)
    report = replace(
        report,
        reason=_measured(faults),
        done="the machine is out of service" if made.phase is not Phase.SUSPECTED else "nothing yet",
        opened_by="",
        pool="",
        faults=faults,
        provider_contact="",
        history="",
        tried=(),
        evidence_output="",
        approval="",
    )
    return replace(made, report=report, waits=(), affected="", shared=True)


def is_shared(channel: str, fleet: FleetSpec, home: str = "") -> bool:
    """Whether others than our own people read what is sent there. `home`: the settings' channel, where it is known.

    A channel that no route names any more, and that is not the settings', is taken for one that others read.
    """
    named = [route.shared for route in fleet.routes if route.channel == channel]
    return any(named) or not (named or channel in ("", home))


def holds_of(state: State) -> Mapping[str, tuple[Hold, ...]]:
    """The holds that stand, by the case that they are about, in the order in which they began."""
    found: dict[str, list[Hold]] = {}
    for hold in state.holds.values():
        for part in hold.key.split("/"):
            if part in state.cases:
                found.setdefault(part, []).append(hold)
    return {case: tuple(sorted(holds, key=lambda hold: (hold.since, hold.key))) for case, holds in found.items()}


def ticket_of(case: Case) -> str:
    """What people are to look for: the request for another machine, else the report."""
    states = (case.effects.get(effect) for effect in (Effect.REPLACE, Effect.TICKET))
    return next((state.ref for state in states if state is not None and state.status is EffectStatus.DONE), "")


def storm(state: State, case: Case, rules: Rules) -> tuple[Case, ...]:
    """The cases that one message tells of together with this one, in the order in which they were taken out.

    Empty where each has its own: no more than `MOST_ALONE` were taken out in the same ten minutes of the clock, and are
    told in the same channel.
    """
    began, channel = _window(case), _channel(case, rules)
    together = [
        other
        for other in state.cases.values()
        if Effect.NOTIFY in other.effects and _window(other) == began and _channel(other, rules) == channel
    ]
    if len(together) <= MOST_ALONE:
        return ()
    return tuple(sorted(together, key=lambda other: (other.taken_out_at, other.id)))


def storm_key(case: Case) -> str:
    """Under which the message is found that tells of this case and of others."""
    return f"{STORM}{_window(case):%Y%m%dT%H%M}"


def affected(case: Case, node: Node | None, pods: tuple[Pod, ...] | None) -> str:
    """Which jobs run on the case's machine, and which GPUs are idle. Empty where it is not known, or in service."""
    if pods is None or not case.marked:
        return ""
    gpus = f"its {node.gpus} GPUs are" if node is not None and node.gpus else "its GPUs are"
    if not pods:
        return f"nothing runs there, and {gpus} idle"
    training = [pod for pod in pods if pod.kind is Class.TRAINING]
    others = len(pods) - len(training)
    said = []
    if training:
        said.append(f"training: {in_words(_jobs(training), most=3)}")
    if others:
        said.append(f"{others} pod{'' if others == 1 else 's'} of other kinds")
    return f"there runs {', and '.join(said)}"


def _jobs(pods: list[Pod]) -> list[str]:
    named = [pod.gang or pod.owner or str(pod.ref) for pod in pods]
    return [f"{name} ({named.count(name)} pods there)" if named.count(name) > 1 else name for name in sorted({*named})]


def is_deferred(case: Case, now: datetime) -> bool:
    """Whether a person's word stands that no other machine is asked for yet."""
    return case.open and case.deferred_until is not None and now < case.deferred_until


def _waits(case: Case, holds: tuple[Hold, ...], *, deferred: bool) -> tuple[str, ...]:
    if not case.open:
        return ()
    said = [hold.reason for hold in holds]
    if deferred and case.deferred_until is not None:
        said.append(f"no other machine is asked for before {case.deferred_until:%Y-%m-%d %H:%M} UTC, as a person said")
    return tuple(dict.fromkeys(said))


def _measured(faults: tuple[Fault, ...]) -> str:
    said = [f"{fault.device}: {fault.value}, {fault.threshold}" for fault in faults if fault.value]
    return in_words(said, most=3)


def _window(case: Case) -> datetime:
    at = case.taken_out_at.astimezone(UTC)
    size = int(TOGETHER.total_seconds() // 60)
    return at.replace(minute=at.minute - at.minute % size, second=0, microsecond=0)


def _channel(case: Case, rules: Rules) -> str:
    return letters.channel(case, provider_of(case, rules), rules.fleet)
