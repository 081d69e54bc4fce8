"""What a cycle reasons from, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from quarantine.core.decision import Decision, PendingEffect, Request, State
from quarantine.core.model import Answer, Failed, Mode, Node, PolicyAnswers
from quarantine.core.tickets import Heard
from quarantine.core.workload import RunStatus, Workloads


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
    # What runs on the nodes of marked cases and on those found bad by a policy that groups by job, with its gangs.
    workloads: Workloads | Failed = field(default_factory=Workloads)
    # What became of the procedures that cases run, by run name; one that is not there is not known to its runner.
    runs: Mapping[str, RunStatus] | Failed = field(default_factory=dict)
    # The UUIDs of the GPUs that are, or were within the fleet's memory, seen on a node; only of nodes with an open
    # case that is marked. A node that was not asked about is not there.
    hardware: Mapping[str, tuple[str, ...]] | Failed = field(default_factory=dict)
    # What was last heard of the cases' tickets, by target and reference; one that was not asked about is not there.
    tickets: Mapping[tuple[str, str], Heard | Failed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions of one cycle, in the order in which they are recorded and carried out."""

    now: datetime
    decisions: tuple[Decision, ...]
    summary: str  # one plain English sentence
    bad_nodes: frozenset[str] = frozenset()  # on which something is found bad now
    observe_only: bool = False  # nothing new is done to a machine: the installation observes, or its ledger is too old
