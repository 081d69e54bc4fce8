"""The controller's own metrics, for a Prometheus to scrape: read off what the last cycle left, counted nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from quarantine import __version__
from quarantine.controller import CycleReport
from quarantine.core.errors import LedgerUnavailable, SchemaMismatch, UsageError
from quarantine.core.law import Law
from quarantine.core.model import Mode


class OwnMetrics(Collector):
    """What is in force, and when a cycle was last completed. Scraped by other threads than the cycle's."""

    def __init__(self, law: Law | None = None) -> None:
        """`law`: what is in force before the first cycle, where that is known."""
        self._law = law
        self._completed: datetime | None = None
        self._writable: bool | None = None

    def begun(self, law: Law) -> None:
        """The cycles begin, with this in force."""
        self._law = law

    def without_ledger(self) -> None:
        """They cannot begin for want of the ledger."""
        self._writable = False

    def after(self, report: CycleReport) -> None:
        """A cycle ended."""
        self._law = report.law or self._law
        self._completed = report.at if report.error is None else self._completed
        self._writable = not isinstance(report.error, LedgerUnavailable | SchemaMismatch)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """For the registry."""
        build = GaugeMetricFamily("quarantine_build_info", "1, of this version.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        if self._writable is not None:
            yield GaugeMetricFamily(
                "quarantine_ledger_writable",
                "1 where the last cycle could write its ledger; 0: nothing is done to the cluster until one can.",
                self._writable,
            )
        if self._law is not None:
            yield from self._in_force(self._law)
        if self._completed is not None:
            yield GaugeMetricFamily(
                "quarantine_cycle_last_completed_timestamp_seconds",
                "Unix time that the last completed cycle looked at.",
                self._completed.timestamp(),
            )

    def _in_force(self, law: Law) -> Iterator[GaugeMetricFamily]:
        files = {one.file: 0 for one in law.in_force.files} | {one.file: 1 for one in law.in_force.broken}
        broken = GaugeMetricFamily(
            "quarantine_policy_file_broken",
            "1 where the present version of a policy file, or of a directory of them, is not in force.",
            labels=["file"],
        )
        for file, value in sorted(files.items()):
            broken.add_metric([file.encode("utf-8", "backslashreplace").decode()], value)
        yield broken
        yield GaugeMetricFamily(
            "quarantine_policy_files", "Policy files of which a version is in force.", len(law.in_force.files)
        )
        modes = Counter(policy.spec.mode for policy in law.rules.policies)
        policies = GaugeMetricFamily(
            "quarantine_policies",
            "Policies in force by mode; one that is new in its version counts as observing until it has settled.",
            labels=["mode"],
        )
        for mode in Mode:
            policies.add_metric([mode.value], modes[mode])
        yield policies


@contextmanager
def served(metrics: OwnMetrics, host: str, port: int) -> Iterator[int]:
    """Serve them over HTTP while the block runs, on every address where `host` is empty. Gives the port.

    Raises UsageError where it cannot be listened on.
    """
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, addr=host or "0.0.0.0", registry=registry)  # noqa: S104
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(
            f"metrics cannot be served on {host}:{port} ({why}): give metrics.listen another address, or leave it empty"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
