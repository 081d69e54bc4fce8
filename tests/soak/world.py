"""The world outside of the controller, in a process of its own: whatever it keeps is not the controller's memory.

The API emulator, what answers in Prometheus' place, Postgres, Slack, a provider's ticket system and a pager, each over
real sockets; and the people, providers and programs that do something at every cycle. All of it lives in simulated
time, and by dice of a seed, so that a run can be repeated.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.core.case import Case, Phase
from quarantine.core.decision import Request, RequestKind
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import METADATA
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.sandbox.desks.pagerduty import PagerDutyDesk
from quarantine.sandbox.desks.webhook import WebhookDesk
from quarantine.sandbox.kubeapi import KubeApi, serve
from quarantine.sandbox.postgres import PostgresServer
from quarantine.sandbox.slack.people import Person
from quarantine.sandbox.slack.server import Fault as SlackFault
from quarantine.sandbox.slack.server import FaultKind, SlackServer, serve_slack
from tests.soak.catalogue import Catalogue
from tests.soak.cluster import SimulatedCluster, let_go
from tests.soak.fleet import Fault, Fleet, devices
from tests.soak.prometheus import StandIn
from tests.soak.rules import PolicyFolder

CLUSTER, CHANNEL, ROUTING_KEY = "soak", "C0SOAK", "r" * 32
TOKEN, APP_TOKEN, SECRET = "xoxb-soak", "xapp-soak", "s" * 40
PERSON = "U0SOMEBODY"
LONG_AGO = timedelta(days=30)
PROVIDER_TAKES, REPAIR_TAKES, PATIENCE = timedelta(minutes=10), timedelta(minutes=15), timedelta(minutes=90)


@dataclass(frozen=True)
class Size:
    """How large the world is, and how much happens in it."""

    nodes: int
    faults: float  # new ones in a cycle, on average
    gangs: int
    budget: str = "40%"
    policies: tuple[str, ...] = ()  # these alone; all that are shipped where none is named
    seed: int = 1


@dataclass
class _Time:
    at: datetime

    def now(self) -> datetime:
        return self.at


class World:
    """All of it. To be used as a context manager."""

    def __init__(self, folder: Path, size: Size, start: datetime) -> None:
        self._size, self._dice = size, Random(size.seed)  # noqa: S311  (dice, no secrets)
        self._time = _Time(start - LONG_AGO)
        self._stack = ExitStack()
        self._cycle = self._asked = 0
        self._next = size.nodes - 1  # of the newest name
        self._fleet, self._catalogue = Fleet(), Catalogue()
        self._folder = folder / "policies"
        enter = self._stack.enter_context
        self._policies = PolicyFolder(self._folder, budget=size.budget, only=size.policies)
        self._postgres = enter(PostgresServer())
        self.url = self._postgres.database("soak")
        upgrade(self.url)
        self._database = enter(psycopg.connect(self.url, autocommit=True))
        self._ledger: SqlLedger = enter(open_ledger(self.url, CLUSTER, now=self._time.now))
        self._api = KubeApi(clock=self._time.now, history=2_000)
        self._cluster = SimulatedCluster(self._api, self._fleet, self._dice)
        self._kube = enter(serve(self._api))
        self._prometheus = enter(StandIn(self._fleet, self._catalogue))
        people = [Person(PERSON, "somebody")]
        self._slack: SlackServer = enter(
            serve_slack(token=TOKEN, channels=[CHANNEL], now=self._time.now, app_token=APP_TOKEN, people=people)
        )
        self._desk = enter(WebhookDesk(SECRET, self._time.now))
        self._pager = enter(PagerDutyDesk(ROUTING_KEY))
        self._kube.write_kubeconfig(folder / "kubeconfig")
        self._learn()
        self._api.create(let_go(start))
        for number in range(size.nodes):
            self._cluster.join(f"node-{number}", self._time.at)
        self._time.at = start

    def close(self) -> None:
        """End every server."""
        self._stack.close()

    def settings(self, folder: Path) -> dict[str, Any]:
        """Of the controller that lives in it."""
        (folder / "secret").write_text(SECRET)
        return {
            "cluster": CLUSTER,
            "mode": "enforce",
            "policies": [str(self._folder)],
            "prometheus": {"url": self._prometheus.url, "timeout": "60s", "clock_tolerance": "0s"},
            "cycle": {"deadline": "60s", "coverage_interval": "20m"},
            "kubernetes": {"kubeconfig": str(folder / "kubeconfig"), "timeout": "20s", "relist": "30s"},
            "slack": {
                "channel": CHANNEL,
                "base_url": self._slack.base_url,
                "digest": "07:00",
            },
            "tickets": {
                "targets": {
                    "desk": {"kind": "webhook", "url": self._desk.url, "secret_file": str(folder / "secret")},
                },
                "default": "desk",
            },
            "pagerduty": {"url": self._pager.url},
            "leader": {"elect": True, "namespace": "default", "lasts": "20s", "renew_within": "15s"},
        }

    @property
    def secrets(self) -> dict[str, str]:
        """What a file of settings is no place for: variables of the environment."""
        return {
            "QUARANTINE_DATABASE_URL": self.url,
            "QUARANTINE_SLACK__TOKEN": TOKEN,
            "QUARANTINE_SLACK__APP_TOKEN": APP_TOKEN,
            "QUARANTINE_PAGERDUTY__ROUTING_KEY": ROUTING_KEY,
        }

    # --- One cycle ----------------------------------------------------------------------------------------------------

    def tick(self, at: datetime) -> None:
        """It is this moment now, and something has happened."""
        self._time.at = at
        self._cycle += 1
        dice, every = self._dice, self._every
        with self._prometheus.lock:
            self._fleet.forget(at)
            self._break(at)
            for name, node in self._cluster.procedures(at):
                if "-burn-in-" not in name and node in self._fleet.machines:
                    self._fleet.machines[node].mended(at)
            if every(3):
                self._people(at)
            if every(7):
                self._come_and_go(at)
        for name in dice.sample(list(self._fleet.machines), 2):
            self._cluster.beat(name, at)
        if every(5):
            self._cluster.gangs(at, self._size.gangs, busy=())
        if every(25) and self._policies.churn(dice):
            self._learn()
        self._outages()

    def _every(self, cycles: int) -> bool:
        return self._cycle % cycles == 0

    def _learn(self) -> None:
        """Where a file is away or broken, the others may contradict it: what is in force is as it was."""
        rules = load_rules([self._folder])
        with self._prometheus.lock:
            self._catalogue.learn(rules)
        self._judged = [policy for policy in rules.policies if policy.name != "blind-node"]
        self._kinds = {policy.name: rules.signal_of(policy).device for policy in rules.policies}

    def _break(self, at: datetime) -> None:
        """New faults, some of which pass by themselves; an exporter dies now and then."""
        dice = self._dice
        count = int(self._size.faults) + (dice.random() < self._size.faults % 1)
        for _ in range(count):
            machine = self._fleet.machines[dice.choice(list(self._fleet.machines))]
            policy = dice.choice(self._judged)
            lasts = timedelta(minutes=dice.choice((1, 4, 20))) if dice.random() < 0.3 else None
            device = dice.randrange(devices(self._kinds[policy.name]))
            machine.faults.append(Fault(policy.name, device, at, None if lasts is None else at + lasts))
        if self._every(11):
            dark = self._fleet.machines[dice.choice(list(self._fleet.machines))]
            dark.dark_until = at + timedelta(minutes=dice.choice((3, 15)))

    def _come_and_go(self, at: datetime) -> None:
        """A machine leaves, and another comes: under its name, or as in an autoscaled pool under one never seen."""
        name = self._dice.choice(list(self._fleet.machines))
        self._cluster.leave(name)
        if self._dice.random() < 0.5:
            self._next += 1
            name = f"node-{self._next}"
        self._cluster.join(name, at)

    def _outages(self) -> None:
        """Dependencies fail for a moment, each at its own pace."""
        self._prometheus.down = self._cycle % 97 in (0, 1)
        if self._every(61):
            self._kube.drop_connections()
        if self._every(83):
            self._api.compact()
        if self._every(53):
            self._slack.fail(SlackFault(FaultKind.SERVER_ERROR), SlackFault(FaultKind.RATE_LIMITED, retry_after="30"))
        if self._every(71):
            self._slack.sockets.refresh()
        if self._every(43):
            self._desk.faults["POST tickets"] = ["cut-after", "503"]
            self._pager.faults["POST enqueue"] = ["503"]
        self._desk.asked.clear()
        self._pager.asked.clear()

    # --- People and providers -----------------------------------------------------------------------------------------

    def _people(self, at: datetime) -> None:
        cases = [case for case in self._ledger.load().state.cases.values() if case.open]
        for case in cases:
            self._care(case, at)
        dice = self._dice
        sound = dice.choice(list(self._fleet.machines))
        policy = dice.choice(self._judged).name
        match self._cycle // 3 % 12:
            case 1:
                self._ask(RequestKind.WAIVE, at, node=sound, until=at + timedelta(minutes=30))
            case 3:
                self._ask(RequestKind.PAUSE, at, scope=f"policy/{policy}", until=at + timedelta(minutes=10))
            case 5:
                self._ask(RequestKind.OPEN, at, node=sound)
            case 7:
                self._ask(RequestKind.MAINTAIN, at, scope=f"node/{sound}", until=at + timedelta(minutes=20))
            case 9:
                self._slack.acts.run(PERSON, CHANNEL, "status")
            case 11 if cases:
                node = dice.choice(cases).node
                if node in self._fleet.machines:  # one may have left, and its case is not ended yet
                    self._cluster.untaint(node, dice.choice(("kubectl", "driver-manager")))

    def _care(self, case: Case, at: datetime) -> None:
        """What the provider and the people on call do about a case by now."""
        machine = self._fleet.machines.get(case.node)
        for_now = at - case.phase_since
        if machine is None:
            return
        if case.phase is Phase.SWAP_REQUESTED and for_now > PROVIDER_TAKES:
            self._cluster.leave(case.node)
            self._cluster.join(case.node, at)
            for filing in case.filings:
                self._desk.tickets[filing.ref].now["state"] = "replaced"
        elif at - case.opened_at > PATIENCE:
            machine.mended(at)
            self._ask(RequestKind.RELEASE, at, node=case.node)
        elif case.phase is Phase.REMEDY and for_now > REPAIR_TAKES:
            machine.mended(at)
            self._ask(RequestKind.REPAIRED, at, node=case.node)
        elif case.phase is Phase.DRAINED and for_now > timedelta(minutes=3):
            self._ask(RequestKind.APPROVE, at, node=case.node)

    def _ask(
        self, kind: RequestKind, at: datetime, *, node: str = "", scope: str = "", until: datetime | None = None
    ) -> None:
        self._asked += 1
        request = Request(f"soak-{self._asked}", kind, node, "for the soak", "somebody", "cli", at, until, scope)
        self._ledger.ask(request)

    # --- What is asked of it ------------------------------------------------------------------------------------------

    def rows(self) -> dict[str, int]:
        """How many rows each table of the ledger has."""
        found = {}
        for table in METADATA.sorted_tables:
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table.name))
            row = self._database.execute(query).fetchone()
            found[table.name] = 0 if row is None else int(row[0])
        return found

    def told(self) -> dict[str, int]:
        """What the world has seen of the controller."""
        return {
            "questions": self._prometheus.asked,
            "unforeseen": len(self._prometheus.unknown),
            "messages": len(self._slack.messages),
            "tickets": len(self._desk.tickets),
            "alarms": len(self._pager.alerts),
            "nodes": len(self._fleet.machines),
            "names": self._next + 1,
        }

    @property
    def unforeseen(self) -> list[str]:
        """Questions that the catalogue does not know."""
        return self._prometheus.unknown[:5]
