"""What is in force outlives the process: the versions of the files, and how long each policy has run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.errors import Superseded
from quarantine.core.rulefiles import PolicyRun, RuleFile
from quarantine.ledger import migrate
from quarantine.ledger.absent import AbsentLedger
from quarantine.ledger.store import SqlLedger, open_ledger
from tests.ledger.samples import CLUSTER, NOW, now

HOT = RuleFile("/etc/policies/hot.yaml", "spec: {above: 78 °C}\n", "a" * 64, "3f2c1ab", NOW)
FLEET = RuleFile("/etc/policies/fleet.yaml", "kind: Fleet\n", "b" * 64, None, NOW)
ODD = RuleFile("/p/\udcff" + "x" * 900 + "\\u0000.yaml", "a\\b\udcff\n", "c" * 64, "v1\udcff", NOW)
RUNS = {"hot": PolicyRun("d" * 64, 2), "warm": PolicyRun("e" * 64, 3)}


def test_nothing_is_in_force_at_first(ledger: SqlLedger) -> None:
    assert ledger.rule_files() == ()
    assert ledger.policy_runs() is None


def test_that_there_are_no_policies_is_not_the_same_as_never_kept(ledger: SqlLedger) -> None:
    ledger.keep_rules(ledger.take_term("pod-1"), [FLEET], {})
    assert ledger.policy_runs() == {}


def test_the_defaults_of_a_file_that_is_kept_come_back_and_go(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    for defaults in ("spec: {policy: {owner: \udcff}}\n", "", None):
        kept = replace(HOT, defaults=defaults)
        ledger.keep_rules(term, [kept], RUNS)
        assert ledger.rule_files() == (kept,)


def test_what_is_kept_comes_back_as_it_was(ledger: SqlLedger) -> None:
    ledger.keep_rules(ledger.take_term("pod-1"), [HOT, FLEET, ODD], RUNS)
    assert ledger.rule_files() == (FLEET, HOT, ODD)
    assert ledger.policy_runs() == RUNS


def test_what_is_not_in_force_any_more_is_gone(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.keep_rules(term, [HOT, FLEET, ODD], RUNS)
    ledger.keep_rules(term, [FLEET], {"warm": RUNS["warm"]})
    assert ledger.rule_files() == (FLEET,)
    assert ledger.policy_runs() == {"warm": RUNS["warm"]}


def test_a_version_keeps_the_time_of_its_acceptance(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    later = NOW + timedelta(days=1)
    ledger.keep_rules(term, [HOT, FLEET], RUNS)
    changed = replace(FLEET, text="kind: Fleet\nx: 1\n", hash="f" * 64, accepted_at=later)
    ledger.keep_rules(term, [replace(HOT, accepted_at=later), changed], RUNS)
    assert ledger.rule_files() == (changed, HOT)


def test_clusters_do_not_see_each_other(ledger: SqlLedger, url: str) -> None:
    ledger.keep_rules(ledger.take_term("pod-1"), [HOT], RUNS)
    with open_ledger(url, "another", now=now) as other:
        assert other.rule_files() == ()
        other.keep_rules(other.take_term("pod-2"), [FLEET], {})
    assert ledger.rule_files() == (HOT,)
    assert ledger.policy_runs() == RUNS


def test_only_the_writer_says_what_is_in_force(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.keep_rules(term, [HOT], RUNS)
    ledger.take_term("pod-2")
    with pytest.raises(Superseded):
        ledger.keep_rules(term, [FLEET], {})
    assert ledger.rule_files() == (HOT,)


@pytest.mark.parametrize("look", [SqlLedger.rule_files, SqlLedger.policy_runs])
def test_an_older_schema_is_refused(empty_url: str, look: Callable[[SqlLedger], object]) -> None:
    with open_ledger(empty_url, CLUSTER, now=now) as unmigrated, pytest.raises(Exception, match="db upgrade"):
        look(unmigrated)
    migrate.upgrade(empty_url)
    with open_ledger(empty_url, CLUSTER, now=now) as migrated:
        assert not look(migrated)


def test_a_ledger_that_is_not_there_knows_nothing(tmp_path: object) -> None:
    absent = AbsentLedger(tmp_path)  # type: ignore[arg-type]
    assert absent.rule_files() == ()
    assert absent.policy_runs() is None
