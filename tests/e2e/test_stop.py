"""SIGTERM, at each moment at which it may come: the running step is ended, the Lease let go, and all is over in time.

While it waits for the database: tests/e2e/test_bad_database_process.py. Between cycles: tests/e2e/test_process.py.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quarantine.sandbox.kubeapi import Fault
from quarantine.sandbox.ports_free import free_port
from quarantine.scheduler import GRACE_S
from tests.adapters.prometheus.standin import Standin
from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import World
from tests.pages import page

SOON = GRACE_S  # what hangs is waited for as long: sooner, nothing was waited for, however busy the machine is
LONG = 90.0  # seconds: what a start may take there
LEASE = ("Lease", "quarantine-controller", "default")
LATE_S = 1.0  # a cycle that runs for so long says so: none does here that waits for nothing


def hasty(leave: float = 20.0) -> tuple[str, ...]:
    """The controller with less patience. What it may take in earnest is held against the Deployment in tests/k8s.

    `leave`: seconds after which it ends whatever hangs.
    """
    changed = f"scheduler.GRACE_S, scheduler.LATE_S, run.LEAVE_S = 0.5, {LATE_S}, {leave}"
    imports = "import sys; from quarantine import scheduler; from quarantine.cli import main, run"
    return ("-c", f"{imports}; {changed}; main.app(sys.argv[1:])")


def hung(log: Path) -> int:
    """How often a cycle has said that it does not end."""
    return log.read_text(errors="replace").count("a cycle does not end")


def elected(cluster: World, **changes: Any) -> str:
    """Settings of a replica that is elected; where it is asked how it is."""
    listen = f"127.0.0.1:{free_port()}"
    given = {
        "cycle": {"interval": "1s", "deadline": "1m", "coverage_interval": "1m"},
        "leader": {"elect": True, "lasts": "4s", "renew_within": "3s", "every": "300ms"},
        "metrics": {"listen": listen},
        "kubernetes": {"kubeconfig": str(cluster.folder / "kubeconfig"), "timeout": "30s"},
    }
    cluster.write_settings(**{**given, **changes})
    return listen


def holder(cluster: World) -> str:
    return str(cluster.api.get(*LEASE)["spec"].get("holderIdentity", ""))


def meets(cluster: World, fault: Fault, matches: Callable[[str, str], bool]) -> threading.Event:
    """Every such request meets the fault from now on; set once there is one."""
    reached = threading.Event()

    def hook(method: str, path: str) -> Fault | None:
        if not matches(method, path):
            return None
        reached.set()
        return fault

    cluster.api.fault = hook
    return reached


def marks(method: str, path: str) -> bool:
    return method == "PATCH" and "/nodes/" in path


def renews(method: str, path: str) -> bool:
    return method == "PUT" and "/leases/" in path


def stopped(process: subprocess.Popen[bytes], *, times: int = 1, code: int = 0) -> None:
    """Asked to stop so often, it ends soon, and with this exit code."""
    began = time.monotonic()
    for _ in range(times):
        process.send_signal(signal.SIGTERM)
        threading.Event().wait(0.05)  # two that are not taken for one
    assert process.wait(60) == code
    assert time.monotonic() - began < SOON


def test_while_prometheus_does_not_answer_its_answers_are_not_waited_for(cluster: World) -> None:
    log = cluster.folder / "run.log"
    with Standin(lambda peer, _: peer.hang()) as silent:
        elected(cluster, prometheus={"url": silent.url, "timeout": "50s"})
        with running(cluster) as process:
            until(lambda: bool(silent.requests), "it leads, and asks", LONG)
            stopped(process)
    assert said(log, "this process was asked to stop, so nothing was done in this cycle")
    assert said(log, "stopped after the running step, as asked")
    assert not said(log, "Traceback")
    assert holder(cluster) == "", "the Lease is let go"


def test_while_it_marks_a_machine_the_mark_is_recorded_and_the_rest_is_left(cluster: World) -> None:
    """However often it is asked. Who leads next ends what was decided, once."""
    log = cluster.folder / "run.log"
    elected(cluster)
    cluster.heat(cluster.nodes[2])
    reached = meets(cluster, Fault(hang=2), marks)
    with running(cluster) as process:
        assert reached.wait(LONG), "it is about to mark the machine"
        stopped(process, times=3)
    cluster.api.fault = None
    assert said(log, "what is left is for who leads next")
    assert not said(log, "Traceback")
    assert holder(cluster) == ""
    assert cluster.marked() == [cluster.nodes[2]]
    assert (cluster.told, cluster.tickets()) == ([], [])
    assert cluster.run_once().exit_code == 0
    assert (len(cluster.told), len(cluster.tickets())) == (1, 1)


def test_asked_again_and_again_to_its_last_moment_it_ends_in_order(cluster: World) -> None:
    """Also while the interpreter puts itself away, when a handler of Python's own is gone already."""
    log, pause = cluster.folder / "run.log", threading.Event()
    elected(cluster)
    with running(cluster) as process:
        until(lambda: said(log, "nothing to do"), "it leads, and all is well", LONG)
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            pause.wait(0.002)
    assert process.returncode == 0
    assert holder(cluster) == ""


def test_while_another_leads_its_lease_is_left_alone(cluster: World) -> None:
    listen = elected(cluster)
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")  # noqa: TID251  (as the API has it)
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 600, "renewTime": now, "acquireTime": now}
    kind, name, namespace = LEASE
    made = cluster.api.create({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec})
    with running(cluster) as process:
        until(lambda: "another leads, and this one waits" in page(listen, "readyz"), "it waits for its turn", LONG)
        stopped(process)
    assert cluster.api.get(*LEASE) == made
    assert cluster.untouched()


def test_while_the_ledger_hangs_nothing_was_begun_and_the_lease_is_let_go(cluster: World) -> None:
    elected(cluster)
    log = cluster.folder / "run.log"
    with running(cluster, program=hasty()) as process:
        until(lambda: said(log, "nothing to do"), "it leads, and all is well", LONG)
        with closing(sqlite3.connect(cluster.folder / "ledger.db", isolation_level=None)) as book:
            book.execute("begin immediate")
            before = hung(log)  # on a busy machine an earlier one, and once more the last that could still write
            until(lambda: hung(log) >= before + 2, "a cycle has begun, and waits for its turn to write")
            stopped(process)
    assert said(log, "stopped while the running cycle waited for an answer; it had begun nothing")
    assert holder(cluster) == ""


def test_while_an_action_hangs_the_lease_is_kept_until_it_runs_out(cluster: World) -> None:
    """Who leads next must not look up what became of it while it may still come to be."""
    elected(cluster)
    cluster.heat(cluster.nodes[3])
    reached = meets(cluster, Fault(hang=30), marks)
    with running(cluster, program=hasty()) as process:
        assert reached.wait(LONG), "it is about to mark the machine"
        stopped(process, code=3)
    assert said(cluster.folder / "run.log", "stopped although an action has not ended")
    assert f"/{process.pid}/" in holder(cluster)


def test_while_the_lease_cannot_be_let_go_it_leaves_all_the_same(cluster: World) -> None:
    log = cluster.folder / "run.log"
    elected(cluster)
    with running(cluster, program=hasty(leave=4.0)) as process:
        until(lambda: said(log, "nothing to do"), "it leads, and all is well", LONG)
        assert meets(cluster, Fault(hang=30), renews).wait(10)
        stopped(process, code=3)
    assert said(log, "stopped although not all was put in order")
