"""docs/logs.md says what the log says: its examples are lines of a cycle that is run here."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine import logs
from quarantine.core.errors import ClusterUnavailable
from quarantine.ledger.migrate import upgrade
from quarantine.loglines import RARELY, SOON
from tests.execute.lab import lab
from tests.test_controller import controller

TEXT = (Path(__file__).parents[2] / "docs/logs.md").read_text(encoding="utf-8")
AWAY = "The Kubernetes API did not answer in time; it will be tried again."
VARY = ("ts", "seconds", "case", "effect")


@pytest.fixture(scope="module")
def examples() -> list[dict[str, Any]]:
    [block] = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    return [json.loads(line) for line in block.splitlines()]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of two cycles: a machine is found bad while the API server is away, and taken out when it is there again."""
    before, said = list(logging.getLogger().handlers), io.StringIO()
    ledger = tmp_path_factory.mktemp("logs") / "ledger.db"
    upgrade(f"sqlite:///{ledger}")
    here = lab(ledger)
    with here.ledger, contextlib.redirect_stderr(said):
        logs.set_up("info", "json", None, {"cluster": "lab"})
        cycles = controller(here)
        here.kube.trouble = ClusterUnavailable(AWAY)
        cycles.cycle()
        here.kube.trouble = None
        here.clock.at += timedelta(minutes=1)
        cycles.cycle()
    logging.getLogger().handlers[:] = before
    return [json.loads(line) for line in said.getvalue().splitlines()]


def shape(line: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Its fields in their order, and what they say without what differs from one run to the next."""
    without = {name: re.sub(r"q-[0-9a-f]+", "q", str(value)) for name, value in line.items() if name not in VARY}
    return list(line), without


def test_its_examples_are_lines_that_a_cycle_says(lines: list[dict[str, Any]], examples: list[dict[str, Any]]) -> None:
    said = {shape(line)[1]["event"]: shape(line) for line in lines}
    assert len(examples) == 5
    for example in examples:
        assert shape(example) == said.get(shape(example)[1]["event"])


def test_one_sentence_a_cycle_and_each_line_says_whom_it_is_about(lines: list[dict[str, Any]]) -> None:
    cycles = [line for line in lines if line["about"] == "cycle"]
    assert [line["cycle"] for line in cycles] == [1, 2]
    assert all(line["cluster"] == "lab" and line["term"] and line["level"] != "error" for line in lines)
    assert all(line["case"] and line["node"] and line["effect"] for line in lines if line["about"] == "effect")
    numbers = [line["decision"] for line in lines if "decision" in line]
    assert numbers == list(range(1, len(numbers) + 1)), "each row of the trail, in its order"


def test_every_field_is_in_its_table(lines: list[dict[str, Any]]) -> None:
    told = set(re.findall(r"`([a-z_]+)`", TEXT))
    assert {name for line in lines for name in line} <= told


def test_its_numbers_are_those_of_the_code() -> None:
    assert (timedelta(minutes=1), timedelta(hours=1)) == (SOON, RARELY)
