"""The figures of the page on growth are what is measured, within what the size of the measurement makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.sandbox.bench import growth
from quarantine.sandbox.bench.growth import Growth, grown
from quarantine.sandbox.postgres import PostgresServer

PAGE = (Path(__file__).parents[2] / "docs/growth.md").read_text(encoding="utf-8")
BYTES = {what: int(number) for what, number in re.findall(r"^\| ([^|]+) \| (\d+) \|$", PAGE, re.MULTILINE)}
FLEETS = re.findall(r"^\| ([\d,]+) \| (\d+) to (\d+) \| (\d+) to (\d+) MB \|$", PAGE, re.MULTILINE)
EXACT, ROUGH = 1.1, 1.3  # factors: of a text; of pages that are filled more or less


@pytest.fixture(scope="module")
def found() -> Iterator[Growth]:
    with PostgresServer() as server:
        yield grown(server.database("growth"), 250)


def test_each_size_is_what_is_measured(found: Growth) -> None:
    measured = [
        (found.body, EXACT),
        (found.finding, EXACT),
        (found.untraced, EXACT),
        (found.row, ROUGH),
        (found.whole, ROUGH),
    ]
    assert len(BYTES) == len(measured)
    for (what, said), (is_, factor) in zip(BYTES.items(), measured, strict=True):
        assert said / factor <= is_ <= said * factor, f"{what}: {is_:.0f}"


def test_a_year_follows_from_it(found: Growth) -> None:
    assert f"A failure is {found.per_life} decisions" in PAGE
    assert f"{growth.FAILURES[0]:.2f} and {growth.FAILURES[1]:.2f}" in PAGE
    *_, whole = BYTES.values()
    assert [int(nodes.replace(",", "")) for nodes, *_ in FLEETS] == list(growth.FLEETS)
    for nodes, *said in FLEETS:
        rates = [rate * int(nodes.replace(",", "")) / 1000 * found.per_life for rate in growth.FAILURES]
        expected = [*rates, *(rate * 365 * whole / 1e6 for rate in rates)]
        assert [int(number) for number in said] == [pytest.approx(number, abs=1) for number in expected]
