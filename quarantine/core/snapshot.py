"""What a cycle reasons from, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from quarantine.core.decision import Decision, PendingEffect, Request, State
from quarantine.core.model import Answer, Mode, Node, PolicyAnswers


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a cycle reasons from. Read once; carries its own `now`."""

    now: datetime
    cluster: str
    mode: Mode
    actor: str
    nodes: Mapping[str, Node]
    answers: Mapping[str, PolicyAnswers]  # by policy name
    state: State
    requests: tuple[Request, ...] = ()
    pending: tuple[PendingEffect, ...] = ()
    # How long the nodes have been up, in seconds, at most the longest grace after boot: the answers of the fleet's
    # uptime signal, by reading key. Empty where nothing was found by a policy that grants such a grace.
    uptime: Mapping[str, Answer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions of one cycle, in the order in which they are recorded and carried out."""

    now: datetime
    decisions: tuple[Decision, ...]
    summary: str  # one plain English sentence
    bad_nodes: frozenset[str] = frozenset()  # on which something is found bad now
