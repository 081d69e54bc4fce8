"""A real Prometheus on the loopback with throw-away storage: for the demo, end-to-end tests and benchmarks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests
import yaml

from quarantine.core.errors import Refused, Unavailable, UsageError
from quarantine.core.units import format_duration
from quarantine.sandbox.child import BoundChild
from quarantine.sandbox.ports_free import free_port

_ATTEMPTS = 5  # at a port that somebody else takes between our look and Prometheus' bind
_NAMED_BY = "QUARANTINE_SANDBOX_PROMETHEUS"  # the variable with the binary's path
_TAIL = 1500  # characters of the log that an error shows
_POLL_S = 0.05
Targets = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ScrapeJob:
    """A scrape job whose targets come from a file: groups of `{"targets": ["host:port"], "labels": {…}}`."""

    name: str
    targets: Targets = ()
    honor_labels: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)  # further keys of the scrape config


def find_binary(name: str = "prometheus", explicit: str | Path | None = None) -> Path:
    """Where `prometheus` or `promtool` is: argument, QUARANTINE_SANDBOX_PROMETHEUS (or beside), PATH, `.tools`.

    Raises UsageError, which says how to get it.
    """
    if explicit is not None:
        return _executable(Path(explicit), "the binary given")
    if named := os.environ.get(_NAMED_BY):
        prometheus = _executable(Path(named), _NAMED_BY)
        return prometheus if name == "prometheus" else _executable(prometheus.with_name(name), _NAMED_BY)
    if on_path := shutil.which(name):
        return Path(on_path).absolute()
    for root in (Path.cwd(), Path(__file__).resolve().parents[2]):
        found = root / ".tools" / "usr" / "bin" / name
        if os.access(found, os.X_OK):
            return found
    raise UsageError(
        f"{name} was found neither on PATH nor under .tools/usr/bin: install it (apt-get install prometheus, or the "
        "release of your platform), or set QUARANTINE_SANDBOX_PROMETHEUS to the path of the prometheus binary"
    )


def _executable(path: Path, named_by: str) -> Path:
    if not path.is_file() or not os.access(path, os.X_OK):
        raise UsageError(f"{path} ({named_by}) is no executable file: name a Prometheus binary")
    return path.absolute()


class PrometheusServer:
    """Starts on entry, and is gone with its data on exit; it also ends when this process does, however it does.

    Started again after `kill` it has its data, and its port unless somebody took that meanwhile: read `url` again.
    """

    def __init__(
        self,
        *,
        jobs: Sequence[ScrapeJob] = (),
        scrape_interval: timedelta = timedelta(seconds=15),
        rule_files: Sequence[Path] = (),
        evaluation_interval: timedelta | None = None,
        external_labels: Mapping[str, str] | None = None,
        out_of_order: timedelta = timedelta(days=30),
        flags: Sequence[str] = (),
        binary: str | Path | None = None,
        ready_within: timedelta = timedelta(seconds=60),
    ) -> None:
        """Nothing is started yet. `out_of_order` is how much older than the newest a sample may be to be accepted."""
        self._binary = find_binary("prometheus", binary)
        self._jobs = {job.name: job for job in jobs}
        self._scrape_interval = scrape_interval
        self._evaluation_interval = evaluation_interval or scrape_interval
        self._rule_files = tuple(rule_files)
        self._external_labels = dict(external_labels or {})
        self._out_of_order = out_of_order
        self._flags = tuple(flags)
        self._ready_within = ready_within
        self._directory: Path | None = None
        self._port: int | None = None
        self._child: BoundChild | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Its base URL, without a slash at the end."""
        if self._port is None:
            raise UsageError("Prometheus was not started: use it as a context manager or call start()")
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Its process id."""
        if self._child is None:
            raise UsageError("Prometheus does not run: use it as a context manager or call start()")
        return self._child.pid

    @property
    def log(self) -> str:
        """What it has logged (warnings and errors) since it was first started."""
        path = self._home() / "prometheus.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start and wait until ready. Raises Refused where it gives up, Unavailable where it is late."""
        if self._child is not None:
            raise UsageError("Prometheus runs already: stop or kill it first")
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="quarantine-prometheus-"))
        try:
            self._write_config()
            for attempt in range(1, _ATTEMPTS + 1):
                self._port = self._port or free_port()
                if self._launch(last=attempt == _ATTEMPTS):
                    return
                self._port = None
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it and delete its data. Harmless where it does not run."""
        if self._child is not None:
            self._child.stop(grace_s=10)
            self._child = None
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        self._port = None

    def kill(self) -> None:
        """End it as a crash would (SIGKILL). Data and port stay: `start` brings it back."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def pause(self) -> None:
        """It stays connected and answers nothing (SIGSTOP), until `resume`."""
        if self._child is not None:
            self._child.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._child is not None:
            self._child.signal(signal.SIGCONT)

    def set_targets(self, job: str, targets: Targets) -> None:
        """Replace a job's targets; Prometheus watches the file and follows within five seconds."""
        if job not in self._jobs:
            raise UsageError(f"there is no scrape job {job!r}: {', '.join(sorted(self._jobs)) or 'none was given'}")
        path = self._targets_file(job)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(list(targets), indent=1), encoding="utf-8")
        fresh.replace(path)

    def reload(self) -> None:
        """Have it read its configuration and rules again. Raises Refused where it finds them wrong."""
        try:
            answer = requests.post(f"{self.url}/-/reload", timeout=30)
        except requests.RequestException as error:
            raise Unavailable(f"{self.url}/-/reload did not answer ({type(error).__name__}): is it running?") from error
        if answer.status_code != 200:
            raise Refused(f"{self.url}/-/reload answered {answer.status_code}: {answer.text.strip()[:_TAIL]}")

    def query(self, promql: str, at: datetime | None = None) -> list[dict[str, Any]]:
        """The instant vector as Prometheus' JSON has it: items with `metric` and `value`. For tests and the demo."""
        form = {"query": promql} | ({"time": f"{at.timestamp():.3f}"} if at is not None else {})
        try:
            answer = requests.post(f"{self.url}/api/v1/query", data=form, timeout=60)
        except requests.RequestException as error:
            raise Unavailable(f"{self.url} did not answer ({type(error).__name__}): is it running?") from error
        if answer.status_code != 200:
            raise Refused(f"{self.url} answered {answer.status_code} to {promql}: {answer.text.strip()[:_TAIL]}")
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    # --- inside -------------------------------------------------------------------------------------------------------

    def _home(self) -> Path:
        if self._directory is None:
            raise UsageError("Prometheus was not started: use it as a context manager or call start()")
        return self._directory

    def _targets_file(self, job: str) -> Path:
        return self._home() / f"targets-{list(self._jobs).index(job)}.json"

    def _write_config(self) -> None:
        interval = format_duration(self._scrape_interval)
        config: dict[str, Any] = {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": format_duration(self._evaluation_interval),
                "external_labels": self._external_labels,
            },
            "storage": {"tsdb": {"out_of_order_time_window": format_duration(self._out_of_order)}},
            "rule_files": [str(path.absolute()) for path in self._rule_files],
            "scrape_configs": [
                {
                    "job_name": job.name,
                    "honor_labels": job.honor_labels,
                    "file_sd_configs": [{"files": [str(self._targets_file(job.name))], "refresh_interval": "5s"}],
                    **job.extra,
                }
                for job in self._jobs.values()
            ],
        }
        for job in self._jobs.values():
            if not self._targets_file(job.name).exists():
                self.set_targets(job.name, job.targets)
        (self._home() / "prometheus.yml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    def _launch(self, *, last: bool) -> bool:
        """Whether it came up; False where its port was taken and there is another attempt."""
        home = self._home()
        before = len(self.log)
        argv = [
            str(self._binary),
            f"--config.file={home / 'prometheus.yml'}",
            f"--storage.tsdb.path={home / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--web.enable-remote-write-receiver",
            "--web.enable-lifecycle",
            "--storage.tsdb.retention.time=10y",
            "--log.level=warn",
            *self._flags,
        ]
        try:
            self._child = child = BoundChild(argv, log=home / "prometheus.log", cwd=home)
        except OSError as error:
            raise UsageError(f"{self._binary} could not be started ({error.strerror}): is it a program?") from error
        deadline = time.monotonic() + self._ready_within.total_seconds()
        while not child.exited.wait(_POLL_S):
            if self._answers_as_ours():
                return True
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"Prometheus was not ready at {self.url} within {format_duration(self._ready_within)}; "
                    f"{self._tail()}"
                )
        self._child = None
        if "address already in use" in self.log[before:] and not last:
            return False
        raise Refused(f"Prometheus ended with status {child.returncode} instead of serving {self.url}; {self._tail()}")

    def _answers_as_ours(self) -> bool:
        """Ready, and not another server that took the port first: only ours stores its data in our directory."""
        try:
            if requests.get(f"{self.url}/-/ready", timeout=5).status_code != 200:
                return False
            flags = requests.get(f"{self.url}/api/v1/status/flags", timeout=5).json()
        except (requests.RequestException, ValueError):
            return False
        return bool(flags.get("data", {}).get("storage.tsdb.path") == str(self._home() / "data"))

    def _tail(self) -> str:
        text = self.log.strip()
        return f"its log ends: {text[-_TAIL:]}" if text else "its log is empty"
