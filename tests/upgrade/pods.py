"""Processes of either version that go on by themselves, each known to the API server by a name of its own.

Who did what is told by the API server's log of requests, and by what each process serves and says.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarantine.sandbox.kubeapi import Fault, User
from quarantine.sandbox.kubeapi.auth import MASTERS
from quarantine.sandbox.ports_free import free_port
from tests.changes import who_acted
from tests.pages import Probed, page
from tests.upgrade.town import Town
from tests.upgrade.versions import Version


@dataclass
class Pod(Probed):
    """A process that runs the controller."""

    name: str  # as the API server knows it
    town: Town
    listen: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def stands_aside(self) -> bool:
        """Whether it is not ready, since the schema is another one's."""
        return "newer than this code's" in self.word

    def failed(self) -> int:
        """How many cycles failed, by its own metrics."""
        found = re.search(
            r'^quarantine_cycles_total\{outcome="failed"\} (\S+)', page(self.listen, "metrics"), re.MULTILINE
        )
        return int(float(found[1])) if found else 0

    def asked_to_end(self) -> None:
        """As Kubernetes asks, once."""
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> None:
        """Raises AssertionError where it does not end in order."""
        assert self.process.wait(100) == 0, self.log.read_text()

    def ends(self) -> None:
        """It is asked to end, and does so. Raises as `ended`."""
        self.asked_to_end()
        self.ended()

    def dies(self) -> None:
        """It is killed at once, and lets nothing go."""
        self.process.kill()
        self.process.wait()


@contextmanager
def pod(place: Town, database: str, name: str, version: Version, **settings: Any) -> Iterator[Pod]:
    """One that goes on from the town's time on, with settings of its own; killed at the end of the block."""
    listen, log = f"127.0.0.1:{free_port()}", place.folder / f"{name}.log"
    config = acting_as(place, name, config=place.folder / f"{name}.yaml", metrics={"listen": listen}, **settings)
    with version.process(place, database, log, "run", config=config) as process:
        yield Pod(name, place, listen, process, log)


def acting_as(place: Town, user: str, *, config: Path | None = None, **settings: Any) -> Path:
    """Settings by which whoever reads them is known to the API server, with quick cycles; where they are.

    `config`: left out, the town's, and so those of whoever begins next.
    """
    if user not in {one.name for one in place.api.gate.users}:
        place.api.gate.users += (User(user, f"token-of-{user}", (MASTERS,)),)
    kubeconfig = place.kube.write_kubeconfig(place.folder / f"kubeconfig-{user}", user=user)
    cycle = {"interval": "1s", "deadline": "30s", "coverage_interval": "1m"}
    kubernetes = {"kubeconfig": str(kubeconfig), "timeout": "10s"}
    return place.write_settings(config=config, kubernetes=kubernetes, cycle=cycle, **settings)


# --- What is seen of them ---------------------------------------------------------------------------------------------


def writes(place: Town, user: str) -> int:
    """How many requests of a user changed something, or would have; counted as in `who_acted`."""
    return who_acted(place.api.requests).count(user)


def said(log: Path, text: str) -> bool:
    """Whether it said this."""
    return text in log.read_text()


def told(log: Path) -> list[str]:
    """What it said of the schema that is not its own."""
    return [line for line in log.read_text().splitlines() if "newer than this code's" in line]


def until(condition: Callable[[], bool], *logs: Path, within: float = 60) -> None:
    """Until it is so. Raises AssertionError, with what the processes said, where it takes too long (in seconds)."""
    end, pause = time.monotonic() + within, threading.Event()
    while not condition():
        assert time.monotonic() < end, "\n".join(f"{log.name}:\n{log.read_text()}" for log in logs)
        pause.wait(0.1)


# --- What happens to them ---------------------------------------------------------------------------------------------


def held_up(place: Town, method: str = "PATCH", part: str = "/nodes/", seconds: float = 2) -> threading.Event:
    """The next such request is carried out, and answered so much later; set once it has come.

    `part`: of its path; left out, it is a write to a Node.
    """
    reached = threading.Event()

    def hook(asked: str, path: str) -> Fault | None:
        if asked != method or part not in path or reached.is_set():
            return None
        reached.set()
        return Fault(hang=seconds, after=True)

    place.api.fault = hook
    return reached
