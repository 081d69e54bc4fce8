"""The controller's own metrics over HTTP: what is in force, and when a cycle was last completed."""

from __future__ import annotations

import socket
import urllib.request
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quarantine import __version__
from quarantine.controller import CycleReport
from quarantine.core.errors import LedgerUnavailable, QuarantineError, SchemaMismatch, UsageError
from quarantine.core.law import Law
from quarantine.core.rulefiles import BrokenFile, InForce, PolicyRun, RuleFile
from quarantine.metrics import OwnMetrics, served
from tests.core.world import NOW, flapping, policy, rules

HOT = RuleFile("/p/hot.yaml", "", "a" * 64, None, NOW)
ODD = RuleFile('/p/"\\\n\udcff.yaml', "", "b" * 64, None, NOW)
AT = datetime(2026, 11, 29, 12, 0, 30, tzinfo=UTC)

Sample = tuple[str, tuple[tuple[str, str], ...]]


def law(*broken: BrokenFile, files: tuple[RuleFile, ...] = (HOT, ODD)) -> Law:
    in_force = InForce(rules(policy(), flapping(mode="observe")), files, broken)
    return Law.of(in_force, None, 3)


def scraped(port: int) -> dict[Sample, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_what_is_in_force_and_how_the_cycles_go() -> None:
    broken = BrokenFile(HOT.file, "/p/hot.yaml:1:1: the file is empty", NOW)
    metrics = OwnMetrics(law(broken))
    with served(metrics, "127.0.0.1", 0) as port:
        found = scraped(port)
        assert found == {
            ("quarantine_build_info", (("version", __version__),)): 1,
            ("quarantine_policy_file_broken", (("file", HOT.file),)): 1,
            ("quarantine_policy_file_broken", (("file", '/p/"\\\n\\udcff.yaml'),)): 0,
            ("quarantine_policy_files", ()): 2,
            ("quarantine_policies", (("mode", "observe"),)): 1,
            ("quarantine_policies", (("mode", "enforce"),)): 1,
        }
        metrics.after(CycleReport("all is well", at=AT, law=law()))
        found = scraped(port)
        assert found["quarantine_policy_file_broken", (("file", HOT.file),)] == 0
        assert found["quarantine_cycle_last_completed_timestamp_seconds", ()] == AT.timestamp()
        assert found["quarantine_ledger_writable", ()] == 1
        metrics.after(CycleReport("nothing was done", error=QuarantineError("the cluster does not answer")))
        assert scraped(port) == found


@pytest.mark.parametrize("error", [LedgerUnavailable("it is down"), SchemaMismatch("it is newer")])
def test_whether_the_ledger_can_be_written(error: QuarantineError) -> None:
    metrics = OwnMetrics()
    with served(metrics, "127.0.0.1", 0) as port:
        assert scraped(port) == {("quarantine_build_info", (("version", __version__),)): 1}
        metrics.without_ledger()
        assert scraped(port)["quarantine_ledger_writable", ()] == 0
        metrics.begun(law())
        metrics.after(CycleReport("all is well", at=AT))
        found = scraped(port)
        assert found["quarantine_ledger_writable", ()] == 1
        metrics.after(CycleReport("nothing was done", error=error))
        assert scraped(port) == {**found, ("quarantine_ledger_writable", ()): 0}, (
            "what is in force is told all the same"
        )


def test_a_policy_that_is_new_counts_as_observing() -> None:
    known = {"gpu-hot": PolicyRun("0" * 64, 3)}
    metrics = OwnMetrics(Law.of(InForce(rules(policy()), ()), known, 3))
    with served(metrics, "127.0.0.1", 0) as port:
        assert scraped(port)["quarantine_policies", (("mode", "observe"),)] == 1


def test_an_address_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(UsageError, match=rf"127\.0\.0\.1:{port} \(address already in use\).*metrics\.listen"),
            served(OwnMetrics(law()), "127.0.0.1", port),
        ):
            pass


def test_a_host_that_does_not_exist_is_said() -> None:
    with pytest.raises(UsageError, match=r"metrics\.listen"), served(OwnMetrics(law()), "no-such-host.invalid", 9469):
        pass
