"""What came of it: exactly the three, or not. Read from the cluster, the ledger, the ticket files and Slack."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.cards import STORM
from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import Action, Kind
from quarantine.core.marks import taint_key
from quarantine.core.model import Machine, Node
from quarantine.core.units import format_number
from quarantine.inspection import what_is_seen
from quarantine.ledger.verify import Sound
from quarantine.ports import TrailRow
from quarantine.sandbox.demo.plot import Scene
from quarantine.sandbox.demo.stage import Stage


@dataclass(frozen=True, slots=True)
class Caught:
    """One of the faults, and what was done about it."""

    scene: Scene
    evidence: str
    decision: str
    ticket: str
    slack: str
    right: bool


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """One of the decoys, and why nothing was done."""

    scene: Scene
    why: tuple[str, ...]
    right: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The closing account."""

    nodes: int
    caught: tuple[Caught, ...]
    left_alone: tuple[LeftAlone, ...]
    quarantined: int
    tickets: int
    slack: int
    decisions: int
    false: tuple[str, ...]  # nodes that were touched and should not have been
    missed: tuple[str, ...]
    faults: tuple[str, ...]  # whatever else is not as it must be, one sentence each

    @property
    def right(self) -> bool:
        """Whether everything is exactly as it must be."""
        exact = not self.false and not self.missed and not self.faults
        return exact and all(c.right for c in self.caught) and all(d.right for d in self.left_alone)

    @property
    def last_line(self) -> str:
        """For people and for CI."""
        return (
            f"demo: nodes={self.nodes} quarantined={self.quarantined} tickets={self.tickets} slack={self.slack} "
            f"decisions={self.decisions} false={len(self.false)} missed={len(self.missed)}"
        )


def take_stock(stage: Stage, scenes: Sequence[Scene], asked_at: Mapping[str, datetime]) -> Outcome:
    """The account of a run. `asked_at`: when each decoy showed most."""
    with stage.ledger() as ledger:
        view, rows, sound = ledger.load(), list(ledger.decisions()), ledger.verify()
    nodes = {item["metadata"]["name"]: item for item in stage.cluster.nodes()}
    prefix = stage.rules.prefix
    marked = {name for name, item in nodes.items() if _marked(item, prefix)}
    touched = {name for name, item in nodes.items() if _touched(item, prefix)}
    wanted = {scene.node for scene in scenes if scene.caught_by}
    tickets = _tickets(stage)
    messages = _messages(stage, rows)
    cases = {case.node: case for case in view.state.cases.values() if case.marked}
    faults = [] if isinstance(sound, Sound) else [f"the trail's chain is broken: {sound}"]
    faults += [f"{p.effect} of case {p.case} is still waiting: {p.last_error}" for p in view.pending]
    return Outcome(
        nodes=len(nodes),
        caught=tuple(
            _caught(s, cases.get(s.node), s.node in marked, tickets, messages, rows) for s in scenes if s.caught_by
        ),
        left_alone=tuple(_left_alone(stage, s, asked_at, touched, rows) for s in scenes if not s.caught_by),
        quarantined=len(marked),
        tickets=len(tickets),
        slack=len(messages),
        decisions=len(rows),
        false=tuple(sorted(touched - wanted)),
        missed=tuple(sorted(wanted - marked)),
        faults=tuple(faults),
    )


def _marked(item: Mapping[str, Any], prefix: str) -> bool:
    taints = item["spec"].get("taints") or []
    ours = any(t["key"] == taint_key(prefix) and t["effect"] == "NoSchedule" for t in taints)
    return ours and item["spec"].get("unschedulable") is True


def _touched(item: Mapping[str, Any], prefix: str) -> bool:
    notes = {**(item["metadata"].get("annotations") or {}), **(item["metadata"].get("labels") or {})}
    taints = item["spec"].get("taints") or []
    ours = any(key.startswith(f"{prefix}/") for key in notes) or any(t["key"].startswith(f"{prefix}/") for t in taints)
    return ours or bool(item["spec"].get("unschedulable"))


def _tickets(stage: Stage) -> dict[str, str]:
    """Case → the ticket's reference, from the provider's side: the files."""
    found = {}
    for path in sorted((stage.options.folder / "tickets").glob("*.json")):
        ticket = json.loads(path.read_text(encoding="utf-8"))
        if path.with_suffix(".md").is_file():
            found[ticket["key"]] = ticket["ref"]
    return found


def _messages(stage: Stage, rows: Sequence[TrailRow]) -> dict[str, str]:
    """Case → the message, from Slack's side where it is the stand-in, else as the ledger has it."""
    done = [row.decision for row in rows if row.decision.effect is Effect.NOTIFY and row.decision.kind is Kind.DONE]
    if stage.slack is None:
        return {d.case: d.ref for d in done if d.case}
    found: dict[str, str] = {}
    for message in stage.slack.messages:
        if message.thread_ts is not None:
            continue  # of a case's story
        ref = f"{message.channel}:{message.ts}"
        key = str((message.metadata or {}).get("event_payload", {}).get("case", message.ts))
        # Of many cases, one message tells.
        keys = [d.case for d in done if d.case and d.ref == ref] if key.startswith(STORM) else [key]
        for case in keys:
            # Two messages of one case must not look like one.
            found[case if case not in found else f"{case} again at {message.ts}"] = ref
    return found


def _caught(
    scene: Scene,
    case: Case | None,
    marked: bool,
    tickets: Mapping[str, str],
    messages: Mapping[str, str],
    rows: Sequence[TrailRow],
) -> Caught:
    if case is None:
        return Caught(scene, "", "nothing was done", "", "", right=False)
    finding = next((f for f in case.findings if f.policy == scene.caught_by), None)
    evidence = ""
    if finding is not None and finding.evidence.value is not None:
        value = f"{format_number(finding.evidence.value)} {finding.evidence.unit}"
        evidence = f"{value} ({finding.evidence.threshold})"
    done = [row for row in rows if row.decision.case == case.id and row.decision.effect is Effect.MARK]
    decision = done[-1].decision.reason if done else "decided, not done"
    ticket, message = tickets.get(case.id, ""), messages.get(case.id, "")
    complete = all(
        (state := case.effects.get(effect)) is not None and state.status is EffectStatus.DONE
        for effect in (Effect.MARK, Effect.EVENT, Effect.TICKET, Effect.NOTIFY)
    )
    right = marked and finding is not None and bool(ticket) and bool(message) and complete
    return Caught(scene, evidence, decision, ticket, message, right)


def _left_alone(
    stage: Stage, scene: Scene, asked_at: Mapping[str, datetime], touched: set[str], rows: Sequence[TrailRow]
) -> LeftAlone:
    """Why nothing was done: a hold in the trail, or what the policies saw when it showed most."""
    of_node = [row.decision for row in rows if row.decision.node == scene.node]
    taken = any(d.kind is Kind.DECIDED and d.action is Action.QUARANTINE for d in of_node)
    held = tuple(dict.fromkeys(d.reason for d in of_node if d.kind is Kind.HELD))
    why = held or tuple(_seen(stage, scene, asked_at[scene.title]))
    return LeftAlone(scene, why, right=not taken and scene.node not in touched and any(scene.shows in w for w in why))


def _seen(stage: Stage, scene: Scene, at: datetime) -> list[str]:
    sim = stage.fleet.node(scene.node)
    node = Node(sim.name, Machine(""), "", sim.kubernetes()["metadata"]["labels"], {}, (), False, True, (sim.address,))
    judges = tuple(policy for policy in stage.rules.policies if policy.name == scene.judged_by)
    rules = replace(stage.rules, policies=judges)
    with PrometheusMetrics(PrometheusSettings(url=stage.prometheus.url)) as metrics:
        return what_is_seen(metrics, rules, node, at=at, timeout=timedelta(seconds=10), only=scene.about)
