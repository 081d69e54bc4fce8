"""`quarantine db rebind`: a trail goes on for a cluster that was made anew under its old name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quarantine.cli.main import app
from quarantine.ledger.store import open_ledger
from tests.ledger.samples import now, quarantined

OLD = "7ad1e3c2-0000-4000-8000-00000000000a"
WHY = ("--reason", "made anew after the move")


def rebind(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["db", "rebind", *arguments, "--database-url", url])


@pytest.fixture
def bound(still: None, url: str) -> str:
    """The ledger of a cluster with an open case."""
    with open_ledger(url, "default", now=now) as ledger:
        ledger.record(ledger.take_term("pod-1", OLD), [quarantined(1)])
    return url


def test_it_says_what_was_forgotten_and_what_becomes_of_open_cases(bound: str) -> None:
    done = rebind(bound, *WHY)
    assert done.exit_code == 0, done.output
    assert done.stdout == (
        f"The trail of default was that of the cluster whose namespace kube-system has the uid {OLD}.\n"
        "It is now that of whichever controller begins next to write it (decision 2).\n"
        "1 case is open. One whose machine is in the new cluster goes on, and its mark is put back; one whose machine "
        "is not is retired within six hours (a week, if the provider was told).\n"
    )
    with open_ledger(bound, "default", now=now) as ledger:
        *_, last = ledger.decisions()
        assert last.decision.reason.endswith(": made anew after the move")
        assert last.decision.actor.endswith(" (cli)")
        assert ledger.identity() is None


def test_in_json(bound: str) -> None:
    done = rebind(bound, *WHY, "--output", "json")
    assert json.loads(done.stdout) == {"cluster": "default", "identity": OLD, "open_cases": 1, "seq": 2}


def test_twice_is_told_and_nothing_is_added(bound: str) -> None:
    rebind(bound, *WHY)
    again = rebind(bound, *WHY)
    assert again.exit_code == 1
    assert "does not know whose the trail of default is, so there is nothing to forget" in again.output
    with open_ledger(bound, "default", now=now) as ledger:
        assert len(list(ledger.decisions())) == 2


@pytest.mark.parametrize("reason", [" ", "x" * 5000, "\udcff"])
def test_a_reason_is_wanted_that_can_be_kept(bound: str, reason: str) -> None:
    assert rebind(bound, "--reason", reason).exit_code == 2


def test_a_trail_that_is_not_there(bound: str, tmp_path: Path) -> None:
    other = rebind(bound, *WHY, "--cluster", "training-z")
    assert other.exit_code == 1
    assert "has no trail of cluster 'training-z'; it has those of 'default'" in other.output
    assert rebind(f"sqlite:///{tmp_path / 'none.db'}", *WHY).exit_code == 1
