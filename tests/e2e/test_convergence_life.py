"""The whole life of a case, with the process killed after every single write and call: the same end, nothing twice.

Real are the planner, the executor, the ledger, the tickets, Slack's adapter and Kubernetes' over HTTP to the emulator.
Only what Prometheus answers is given, since it decides nothing about convergence. The world goes on by itself: a Job
ends, and the provider brings another machine once it is asked for one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster, KubeSettings
from quarantine.adapters.kube import connect as connect_kube
from quarantine.adapters.procedures import EachItsOwn
from quarantine.adapters.slack.notifier import connect as connect_slack
from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.targets import only
from quarantine.controller import Controller
from quarantine.core.case import Case, EffectStatus, Phase, Step
from quarantine.core.model import Mode, Node, PolicyAnswers
from quarantine.core.policy import Rules
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.rulefiles import InForce
from quarantine.execute import Executor
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import open_ledger
from quarantine.notices import Teller
from quarantine.observe import Observer
from quarantine.observe.asking import Asker
from quarantine.ports import LedgerView
from quarantine.sandbox.kubeapi import KubeApi, serve
from quarantine.sandbox.slack.server import SlackServer, serve_slack
from tests.core.world import NOW, answers, hot, policy, rules

NODE, TOKEN, CHANNEL = "node-3", "xoxb-test-secret-token", "C0TEST"
CYCLE = timedelta(minutes=2)
MOST_CYCLES = 60
STRIPES = 4  # of the calls after which the process is killed, so that they can be gone through side by side
WRITES = frozenset(
    {"record", "attempt", "settle", "postpone", "keep_rules", "patch_node", "create_event", "set_condition", "evict"}
    | {"start", "stop", "open", "update", "post"}
)


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Fuse:
    """Blows right after the n-th write or call that leaves the process (0: never), once or after every n of them."""

    at: int
    again: bool = False
    crossed: list[str] = field(default_factory=list)

    def cross(self, name: str) -> None:
        self.crossed.append(name)
        if self.at and (len(self.crossed) % self.at == 0 if self.again else len(self.crossed) == self.at):
            raise Crash


class Fused:
    """A port behind a fuse."""

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in WRITES:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            if name != "record" or args[1]:  # with no decisions it only asks whether it is still the writer
                self._fuse.cross(name)
            return result

        return call


class Eyes(Observer):
    """Sees the cluster for itself, and is told what Prometheus says: node-3 is hot for as long as it is the old one."""

    def _policies(self, ask: Asker, view: LedgerView, nodes: Mapping[str, Node]) -> Mapping[str, PolicyAnswers]:  # noqa: ARG002
        node = nodes.get(NODE)
        bad = (hot(NODE),) if node is not None and node.machine.system_uuid == f"sys-{NODE}" else ()
        return {"gpu-hot": replace(answers(nodes, *bad), coverage_at=ask.now)}


@dataclass
class Hands:
    at: datetime = NOW

    def now(self) -> datetime:
        return self.at


@dataclass
class Book:
    """Rules that never change."""

    rules: InForce

    def read(self) -> InForce:
        return self.rules


def job(description: str) -> ProcedureSpec:
    containers = [{"name": "run", "image": "example.com/run:1", "args": ["{node}", "{run}"]}]
    return ProcedureSpec.model_validate({"description": description, "job": {"pod": {"containers": containers}}})


def law(*, full: bool) -> Rules:
    """`full`: evidence is taken first, and a burn-in must succeed at the end."""
    release = {"when": "on-proof", "probation": "4m", **({"burnIn": "burn-in"} if full else {})}
    ladder = [{"do": "reset", "by": "reset"}, {"do": "report"}, {"do": "replace"}]
    response = {"drain": "now", "ladder": ladder, "release": release, **({"evidence": "bug-report"} if full else {})}
    procedures = {name: job(name) for name in ("bug-report", "reset", "burn-in")}
    return replace(rules(policy(response=response)), procedures=procedures)


@dataclass
class World:
    """Everything outside of the process."""

    folder: Path
    api: KubeApi
    slack: SlackServer
    clock: Hands
    rules: Rules
    full: bool
    swapped: bool = False
    database: str = ""  # the URL of its ledger, which is migrated; left out, a file

    @property
    def url(self) -> str:
        """Of its ledger."""
        return self.database or f"sqlite:///{self.folder / 'ledger.db'}"

    @property
    def book(self) -> Book:
        """Made anew for each process."""
        return Book(InForce(self.rules, ()))

    def go_on(self) -> None:
        """What others do between two cycles: each of it once, whatever we do."""
        self.clock.at += CYCLE
        for job in self.api.list("Job"):
            if not job.get("status", {}).get("conditions"):
                self.api.end_job(job["metadata"]["name"], job["metadata"]["namespace"])
        if not self.swapped and list((self.folder / "tickets").glob("*-replace.json")):
            self.swapped = True
            self.api.delete("Node", NODE)
            make_node(self.api, NODE, hardware="new")

    @contextmanager
    def process(self, fuse: Fuse) -> Iterator[Controller]:
        """A controller that knows what ledger and cluster know."""
        with ExitStack() as stack:
            cluster: KubeCluster = stack.enter_context(
                connect_kube(
                    kubeconfig=self.folder / "kubeconfig",
                    context=None,
                    api_timeout=timedelta(seconds=20),
                    prefix=self.rules.prefix,
                    user_agent="test",
                    settings=KubeSettings(watch=False, annotations=frozenset(self.rules.fleet.guards)),
                    now=self.clock.now,
                )
            )
            ledger = Fused(stack.enter_context(closing(open_ledger(self.url, "test", now=self.clock.now))), fuse)
            jobs = EachItsOwn(Fused(cluster.jobs, fuse))
            tickets = only("folder", Fused(DirectoryTickets(self.folder / "tickets", self.clock.now), fuse))
            slack = Fused(
                connect_slack(TOKEN, CHANNEL, cluster="test", now=self.clock.now, base_url=self.slack.base_url), fuse
            )
            executor = Executor(Fused(cluster, fuse), ledger, tickets, slack, self.clock, self.rules, jobs)
            yield Controller(
                observer=Eyes(cluster, NoMetrics(), self.clock, self.rules, procedures=jobs),  # type: ignore[arg-type]
                executor=executor,
                ledger=ledger,
                rulebook=self.book,
                teller=Teller(None, self.clock, "test"),
                cluster="test",
                mode=Mode.ENFORCE,
                actor="controller test",
                holder="test",
                settle=0,
            )


class NoMetrics:
    """Nothing is asked of Prometheus here."""

    def query(self, promql: str, **_: object) -> object:
        raise AssertionError(promql)


def make_node(api: KubeApi, name: str, hardware: str) -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"systemUUID": f"sys-{hardware}", "bootID": f"boot-{hardware}"},
    }
    spec = {"providerID": f"acme://{hardware}"}
    api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"gpu": "yes"}}, "spec": spec})
    api.patch_merge("Node", name, {"status": status}, subresource="status")


def make_pod(api: KubeApi, name: str) -> None:
    containers = [{"name": "train", "image": "example.com/train:1"}]
    spec = {"nodeName": NODE, "containers": containers}
    meta = {"name": name, "namespace": "default", "labels": {"jobset.sigs.k8s.io/jobset-name": "llama"}}
    api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    running = {"phase": "Running", "containerStatuses": [{"name": "train", "ready": True, "state": {"running": {}}}]}
    api.patch_merge("Pod", name, {"status": running}, "default", subresource="status")


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("life") / "migrated.db"
    upgrade(f"sqlite:///{path}")
    return path


@contextmanager
def world(folder: Path, migrated: Path, *, full: bool) -> Iterator[World]:
    folder.mkdir()
    shutil.copy(migrated, folder / "ledger.db")
    clock = Hands()
    api = KubeApi(clock=clock.now)
    with serve(api) as server, serve_slack(token=TOKEN, channels=[CHANNEL]) as slack:
        server.write_kubeconfig(folder / "kubeconfig")
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quarantine"}})
        for number in range(10):
            make_node(api, f"node-{number}", f"node-{number}")
        for number in range(2):
            make_pod(api, f"llama-{number}")
        yield World(folder, api, slack, clock, law(full=full), full)


def live(cluster: World, fuse: Fuse) -> Case:
    """From the first finding to the end, killed once where the fuse says so."""
    for _ in range(MOST_CYCLES):
        with cluster.process(fuse) as controller, suppress(Crash):
            while True:
                report = controller.cycle()
                assert report.error is None, report.sentence
                if (ended := over(controller.ledger.load())) is not None:
                    return ended
                cluster.go_on()
                if cluster.clock.at > NOW + MOST_CYCLES * CYCLE:
                    raise AssertionError(f"no end after {MOST_CYCLES} cycles: {story(cluster)}")
        cluster.go_on()
    raise AssertionError(story(cluster))


def over(view: LedgerView) -> Case | None:
    """The case, once it has ended and nothing is left to do."""
    ended = [case for case in view.state.cases.values() if not case.open]
    return ended[0] if ended and not view.pending else None


def story(cluster: World) -> str:
    """What the trail tells."""
    with closing(open_ledger(cluster.url, "test", now=cluster.clock.now)) as ledger:
        return "\n".join(f"{row.decision.at:%H:%M} {row.decision.reason}" for row in ledger.decisions())


def check(cluster: World, case: Case) -> None:
    assert (case.phase, case.node) == (Phase.RELEASED, NODE), story(cluster)
    assert [rung.step for rung in case.rungs] == [Step.RESET, Step.REPORT, Step.REPLACE]
    assert all(state.status is not EffectStatus.PENDING for state in case.effects.values())
    full = ("burn-in-1", "burn-in-2", "evidence-1", "reset-1")
    names = [f"{case.id}-{what}" for what in (full if cluster.full else ("reset-1",))]
    assert sorted(job["metadata"]["name"] for job in cluster.api.list("Job")) == names, "each begun once"
    tickets = DirectoryTickets(cluster.folder / "tickets", cluster.clock.now)
    refs = sorted(path.stem for path in (cluster.folder / "tickets").glob("*.json"))
    assert refs == [f"R-20261129-{case.id}", f"R-20261129-{case.id}-replace"]
    assert all((ticket := tickets.read(ref)) is not None and ticket.status == "closed" for ref in refs)
    told = [m.metadata["event_payload"]["case"] for m in cluster.slack.messages if m.metadata]
    assert told == [case.id]
    node = cluster.api.get("Node", NODE)
    assert [t["key"] for t in node["spec"]["taints"]] == ["node.kubernetes.io/not-ready"], "the kubelet's, kept"
    assert not node["spec"].get("unschedulable")
    assert not [key for key in node["metadata"].get("labels", {}) if key.startswith("quarantine.gpu/")]
    notes = node["metadata"].get("annotations", {})
    assert not [key for key in notes if key.startswith("quarantine.gpu/") or key in cluster.rules.fleet.guards]
    shown = [c["status"] for c in node["status"]["conditions"] if c["type"] == "HardwareSuspect"]
    assert shown == ["False"]
    assert [pod["metadata"]["name"] for pod in cluster.api.list("Pod", "default")] == []
    assert len(case.leaving) == 1, "a gang is interrupted once"


def test_the_whole_life_of_a_case(tmp_path: Path, migrated: Path) -> None:
    fuse = Fuse(0)
    with world(tmp_path / "life", migrated, full=True) as cluster:
        check(cluster, live(cluster, fuse))
    assert {"evict", "start", "open", "update", "post", "set_condition", "patch_node"} <= set(fuse.crossed)


@pytest.mark.parametrize("every", [4, 5, 6, 7])
def test_a_process_that_is_killed_again_and_again_gets_to_the_same_end(
    tmp_path: Path, migrated: Path, every: int
) -> None:
    """With fewer calls than these it gets nowhere: the record, the attempt, the call and the outcome."""
    with world(tmp_path / "life", migrated, full=True) as cluster:
        check(cluster, live(cluster, Fuse(every, again=True)))


@pytest.mark.parametrize("first", range(1, 1 + STRIPES))
@pytest.mark.timeout(900)
def test_a_crash_after_any_call_of_the_whole_life_converges_with_nothing_done_twice(
    tmp_path: Path, migrated: Path, first: int
) -> None:
    """Every call is the last one once, in one of the stripes."""
    for at in range(first, 200, STRIPES):
        fuse = Fuse(at)
        with world(tmp_path / str(at), migrated, full=False) as cluster:
            check(cluster, live(cluster, fuse))
        if len(fuse.crossed) < at:
            break
    assert 40 < at < 190, "the last run was long enough to see them all"
