"""Two replicas of the real program with a Lease, on real servers and stand-ins, each behind a proxy that can fall ill.

What is measured is fed to Prometheus as the time passes, past its proxy. Cycles and Leases are short.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quarantine.core.errors import LedgerUnavailable
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.sandbox.desks.webhook import WebhookDesk
from quarantine.sandbox.kubeapi import KubeApiServer, User
from quarantine.sandbox.kubeapi.auth import MASTERS
from quarantine.sandbox.ports_free import free_port
from quarantine.sandbox.postgres import PostgresServer
from quarantine.sandbox.prometheus import PrometheusServer
from tests.chaos.live_feed import Feed
from tests.chaos.toxic import Toxic
from tests.e2e.test_replicas import Replica
from tests.e2e.worlds import CHANNEL, TOKEN, World, world

LASTS_S, RENEW_WITHIN_S, CYCLE_S = 3, 2, 1
PATIENCE_S = 180.0  # for anything that is waited for, on a machine that is busy
SECRET = "0123456789abcdef0123456789abcdef"
NAMES = ("first", "second")
ROOT = Path(__file__).parents[2]
PROMETHEUS, KUBERNETES, POSTGRES, SLACK, TICKETS = DEPENDENCIES = (
    "prometheus",
    "kubernetes",
    "postgres",
    "slack",
    "tickets",
)


@dataclass
class Stand:
    """The world, its two replicas and what is between them."""

    cluster: World
    desk: WebhookDesk
    postgres: PostgresServer
    url: str  # of the ledger, past the proxy
    ledger: SqlLedger
    toxics: Mapping[str, tuple[Toxic, ...]]  # by dependency; of Kubernetes one for each replica
    seed: str
    budget: int  # so many nodes may be out
    feed: Feed
    room: Path | None  # the small disk on which the database is, where there is one
    clocked: bool = False
    replicas: dict[str, Replica] = field(default_factory=dict)
    hot: list[str] = field(default_factory=list)
    _ends: dict[str, ExitStack] = field(default_factory=dict)
    _started: int = 0

    @property
    def clock(self) -> Path:
        """The file by which the replicas' clocks are set."""
        return self.cluster.folder / "clock"

    @property
    def leader(self) -> Replica:
        """Raises AssertionError where none leads or both say so."""
        leading = [one for one in self.replicas.values() if one.leads]
        assert len(leading) == 1, [one.word for one in self.replicas.values()]
        return leading[0]

    @property
    def other(self) -> Replica:
        """The one that does not lead."""
        leader = self.leader
        return next(one for one in self.replicas.values() if one is not leader)

    @property
    def database(self) -> str:
        """The name of the ledger's."""
        return self.url.rpartition("/")[2]

    @property
    def cycles(self) -> int:
        """How many cycles the processes that run have ended."""
        return sum(_cycles(one.listen) for one in self.replicas.values())

    @property
    def rests(self) -> int:
        """For how many cycles at most what failed is not tried again: twice as long after each attempt."""
        with suppress(LedgerUnavailable):
            self.ledger.load()  # the pool finds that its connections were cut
        return max((2**p.attempts // CYCLE_S for p in self.ledger.load().pending), default=0)

    def until(self, condition: Callable[[], bool], what: str, within: float = PATIENCE_S) -> None:
        """Wait for it. Raises AssertionError."""
        end, pause = time.monotonic() + within, threading.Event()
        while not condition():
            assert time.monotonic() < end, f"in {within:.0f} s it did not come to this: {what}"
            self.feed.top_up()
            pause.wait(0.1)

    def heat(self, number: int = 1) -> list[str]:
        """So many more nodes are hot."""
        chosen = list(self.cluster.nodes[len(self.hot) : len(self.hot) + number])
        assert len(chosen) == number, "the world is too small"
        self.hot += chosen  # before it can be seen
        for node in chosen:
            self.feed.heat(node)
        return chosen

    def start(self, name: str) -> Replica:
        """A new process of this replica."""
        self._started += 1
        stack = self._ends[name] = ExitStack()
        made = stack.enter_context(self._process(name, f"{name}-{self._started}"))
        self.replicas[name] = made
        return made

    def end(self, name: str) -> None:
        """Kill it, if it runs, and wait for its end."""
        self._ends[name].close()

    def again(self, name: str) -> Replica:
        """As a Deployment does with what has ended."""
        self.end(name)
        made = self.start(name)
        self.until(made.is_up, f"the {name} one is up again")
        return made

    def logs(self) -> list[Path]:
        """Of all processes there were."""
        return sorted(self.cluster.folder.glob("*/run.log"))

    @contextmanager
    def _process(self, name: str, run: str) -> Iterator[Replica]:
        folder = self.cluster.folder / run
        folder.mkdir()
        listen = f"127.0.0.1:{free_port()}"
        kubeconfig = _through(self.cluster.kube, self.kube_toxic(name), folder, name)
        own = replace(self.cluster, folder=folder)
        own.write_settings(**self._settings(kubeconfig, listen))
        clean = {key: value for key, value in os.environ.items() if not key.startswith("QUARANTINE_")}
        toxic = self.toxics[POSTGRES][0]
        ledger = self.url.replace(f":{self.postgres.port}/", f":{toxic.port}/")
        env = {**clean, "QUARANTINE_SLACK__TOKEN": TOKEN, "CHAOS_CLOCK": str(self.clock)}
        env["QUARANTINE_DATABASE_URL"] = f"{ledger}?sslmode=disable&gssencmode=disable&{_PATIENCE}"
        program = "tests.chaos.live_clock" if self.clocked else "quarantine"
        command = [sys.executable, "-m", program, "run", "--config", str(own.config)]
        log = folder / "run.log"
        with log.open("wb") as out, subprocess.Popen(command, stderr=out, stdout=out, env=env, cwd=ROOT) as process:
            try:
                yield Replica(name, listen, self.cluster.kube, process, log)
            finally:
                process.send_signal(signal.SIGCONT)  # what is stopped is killed all the same, but is not waited for
                process.kill()

    def kube_toxic(self, name: str) -> Toxic:
        """Between this replica and the API server."""
        return self.toxics[KUBERNETES][NAMES.index(name)]

    def _settings(self, kubeconfig: Path, listen: str) -> dict[str, Any]:
        host = f"127.0.0.1:{self.toxics[SLACK][0].port}"
        desk = {"kind": "webhook", "url": self.toxics[TICKETS][0].url, "secret_file": str(_secret(self.cluster))}
        return {
            "policies": [str(self.cluster.folder / "policies")],
            "prometheus": {"url": self.toxics[PROMETHEUS][0].url, "timeout": "2s"},
            "cycle": {"interval": f"{CYCLE_S}s", "deadline": "15s", "coverage_interval": "1m"},
            "kubernetes": {"kubeconfig": str(kubeconfig), "timeout": "1s"},
            "slack": {"channel": CHANNEL, "base_url": f"http://{host}/api/"},
            "tickets": {"targets": {"desk": desk}, "default": "desk"},
            "leader": {
                "elect": True,
                "lasts": f"{LASTS_S}s",
                "renew_within": f"{RENEW_WITHIN_S}s",
                "every": "500ms",
            },
            "metrics": {"listen": listen},
        }


_PATIENCE = "connect_timeout=2&options=-clock_timeout%3D500%20-cstatement_timeout%3D1000"


@contextmanager
def stand(
    folder: Path,
    name: str,
    prometheus: PrometheusServer,
    postgres: PostgresServer,
    *,
    budget: int,
    seed: str,
    drain: bool = False,
    clocked: bool = False,
    room: Path | None = None,
) -> Iterator[Stand]:
    """A world in which both replicas are up, and one leads. `postgres` has a migrated database called `migrated`.

    There are some more nodes than may be out. `drain`: what is taken out is emptied at once.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(world(folder, name, prometheus, size=budget + SPARE))
        cluster.write_policies(lambda document: _change(document, budget, drain=drain))
        cluster.api.gate.users += tuple(User(one, f"token-of-{one}", (MASTERS,)) for one in NAMES)
        desk = stack.enter_context(WebhookDesk(SECRET, lambda: datetime.now(UTC)))  # noqa: TID251
        database = name.replace("-", "_")
        url = postgres.database(database, template="migrated")
        stack.callback(postgres.drop, database)
        ledger = stack.enter_context(closing(open_ledger(url, "test", now=lambda: datetime.now(UTC))))  # noqa: TID251
        toxics = {
            of: stack.enter_context(Toxic(of, port, seed)) for of, port in _ports(cluster, prometheus, postgres, desk)
        }
        second = stack.enter_context(Toxic("kubernetes-second", _port(cluster.kube.url), seed))
        grouped = {of: (toxics[of],) for of in DEPENDENCIES} | {KUBERNETES: (toxics[KUBERNETES], second)}
        cluster.slack.listens_at(f"127.0.0.1:{toxics[SLACK].port}")
        feed = Feed(prometheus.url, cluster.nodes)
        made = Stand(cluster, desk, postgres, url, ledger, grouped, seed, budget, feed, room, clocked)
        for one in NAMES:
            made.start(one)
            stack.callback(made.end, one)
        for one in NAMES:
            made.until(made.replicas[one].is_up, f"the {one} one is up")
        made.until(lambda: any(one.leads for one in made.replicas.values()), "one leads")
        made.until(lambda: made.cycles > SETTLED, "its policies have settled")
        yield made


SETTLED = 4  # cycles, in which a policy that is new only observes


def _ports(
    cluster: World, prometheus: PrometheusServer, postgres: PostgresServer, desk: WebhookDesk
) -> Iterator[tuple[str, int]]:
    yield PROMETHEUS, _port(prometheus.url)
    yield KUBERNETES, _port(cluster.kube.url)
    yield POSTGRES, postgres.port
    yield SLACK, _port(cluster.slack.base_url.removesuffix("/api/"))
    yield TICKETS, _port(desk.url)


def _port(url: str) -> int:
    return int(url.rstrip("/").rpartition(":")[2])


def _change(document: dict[str, Any], budget: int, *, drain: bool) -> None:
    spec = document["spec"]
    if document["kind"] == "Fleet":
        # Only the standing number is to be seen at work, and a quarter of the pace is for what was held meanwhile.
        spec["pools"][0]["budget"] = {"quarantined": budget, "unavailable": "90%", "perHour": 4 * (budget + 1)}
    if document["kind"] == "Policy" and document["metadata"]["name"] == "gpu-hot":
        spec["breaker"] = {"maxShare": "60%"}
        if drain:
            spec["response"]["drain"] = "now"


def _secret(cluster: World) -> Path:
    path = cluster.folder / "secret"
    path.write_text(SECRET)
    return path


def _through(server: KubeApiServer, toxic: Toxic, folder: Path, user: str) -> Path:
    """A kubeconfig that leads through the proxy."""
    path = server.write_kubeconfig(folder / "kubeconfig", user=user)
    path.write_text(path.read_text().replace(f":{toxic.server}", f":{toxic.port}"))
    return path


def _cycles(listen: str) -> int:
    try:
        with urllib.request.urlopen(f"http://{listen}/metrics", timeout=2) as answer:
            text: str = answer.read().decode()
    except (urllib.error.URLError, OSError):
        return 0
    counts = [line for line in text.splitlines() if line.startswith("quarantine_cycles_total{")]
    return int(sum(float(line.rpartition(" ")[2]) for line in counts))


SPARE = 3  # nodes of a world that stay in service
LATER = timedelta(hours=2)  # by which a clock is set wrong
