"""The measuring itself: a line that is laid rightly, and leaks of every kind that are found, made on purpose."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.soak.measure import Reading, Readings, Slope, growing, held, slope
from tests.soak.verdict import NEVER_MORE, STANDING, Said, sound, verdict

WARM = 100
ROWS = dict.fromkeys(NEVER_MORE, 10) | dict.fromkeys(STANDING, 1) | {"decisions": 1_000, "requests": 7}


def steady(cycles: int = 2_000, every: int = 20) -> list[Reading]:
    """Readings of a process that keeps what it has, with the noise that an allocator makes."""
    dice = Random(3)  # noqa: S311
    kept = Reading(0, 200_000, 10, 25, 12, 300_000, {"builtins.dict": 90_000}, ROWS, 450)
    return [
        replace(
            kept,
            cycle=cycle,
            rss=kept.rss + dice.gauss(0, 300),
            objects=kept.objects + dice.randrange(-500, 500),
            threads=10 + dice.randrange(2),
        )
        for cycle in range(every, cycles + 1, every)
    ]


def bad(readings: list[Reading]) -> list[str]:
    return [one.text for one in verdict(readings, WARM) if not one.good]


def test_a_line_is_laid_through_what_lies_on_one() -> None:
    line = Slope.of([(float(x), 3.0 + 0.5 * x) for x in range(50)])
    assert line.per_1000 == pytest.approx(500)
    assert line.margin == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("points", [[], [(1.0, 1.0)], [(1.0, 1.0), (2.0, 9.0)], [(1.0, 1.0)] * 5])
def test_of_too_few_points_nothing_is_known(points: list[tuple[float, float]]) -> None:
    assert Slope.of(points).margin == math.inf


def test_the_interval_holds_what_the_noise_hides() -> None:
    """Nineteen of twenty lines through noise alone hold zero."""
    dice = Random(5)  # noqa: S311
    lines = [Slope.of([(float(x), dice.gauss(0, 10)) for x in range(80)]) for _ in range(200)]
    assert 180 <= sum(abs(line.per_1000) <= line.margin for line in lines) <= 199


def test_what_follows_on_one_another_widens_the_interval() -> None:
    """A process whose memory wanders is not taken for one that grows."""
    dice = Random(7)  # noqa: S311
    at, wandering = 0.0, []
    for x in range(200):
        at = 0.9 * at + dice.gauss(0, 1)
        wandering.append((float(x), at))
    alike, mixed = (
        Slope.of(wandering),
        Slope.of(
            [(x, y) for (x, _), (_, y) in zip(wandering, sorted(wandering, key=lambda _: dice.random()), strict=True)]
        ),
    )
    assert alike.margin > 2 * mixed.margin


def test_a_process_that_keeps_what_it_has_is_sound() -> None:
    assert bad(steady()) == []


@pytest.mark.parametrize(
    ("grows", "named"),
    [
        (lambda one: replace(one, rss=one.rss + 2.5 * one.cycle), "memory"),
        (lambda one: replace(one, objects=one.objects + 10 * one.cycle), "live Python objects"),
        (lambda one: replace(one, threads=one.threads + one.cycle // 200), "threads"),
        (lambda one: replace(one, descriptors=one.descriptors + one.cycle // 200), "descriptors"),
        (lambda one: replace(one, sockets=one.sockets + one.cycle // 200), "sockets"),
        (lambda one: replace(one, series=one.series + one.cycle // 10), "series"),
        (lambda one: replace(one, rows={**one.rows, "sightings": 10 * one.cycle}), "sightings"),
        (lambda one: replace(one, rows={**one.rows, "clusters": 2}), "clusters"),
        (lambda one: replace(one, rows={**one.rows, "a_new_table": one.cycle}), "a_new_table"),
    ],
)  # fmt: skip
def test_whatever_grows_is_named(grows: Callable[[Reading], Reading], named: str) -> None:
    found = bad([grows(one) for one in steady()])
    assert len(found) == 1
    assert named in found[0]


def test_too_short_a_soak_says_nothing() -> None:
    with pytest.raises(ValueError, match="make the soak longer"):
        verdict(steady(140), WARM)


def test_a_soak_is_sound_where_all_is_well() -> None:
    assert sound([Said(True, "a"), Said(True, "b")])
    assert not sound([Said(True, "a"), Said(False, "b")])


class Kept:
    """What a leak of this file is made of."""

    def __init__(self) -> None:
        self.beside: list[object] = []


def test_what_this_process_holds_is_counted() -> None:
    """A leak of objects, of threads, of sockets and of files, each seen by the real readings."""
    leaked: list[Kept] = []
    held(0)
    with ExitStack() as stack:
        over = threading.Event()
        readings = []
        for cycle in range(1, 7):
            leaked += [Kept() for _ in range(100)]
            stack.callback(_thread(over).join)
            stack.enter_context(socket.socket())
            stack.enter_context(open(__file__, encoding="utf-8"))  # noqa: PTH123
            readings.append(held(cycle))
        over.set()
    first, last = readings[0], readings[-1]
    assert last.threads - first.threads == 5
    assert last.sockets - first.sockets == 5
    assert last.descriptors - first.descriptors == 10
    assert slope(readings, "threads").per_1000 == pytest.approx(1000)
    name = f"{Kept.__module__}.{Kept.__qualname__}"
    assert growing(readings)[name].per_1000 == pytest.approx(100_000)
    assert last.objects - first.objects > 500
    assert last.rss > 1_000


def _thread(over: threading.Event) -> threading.Thread:
    made = threading.Thread(target=over.wait)
    made.start()
    return made


def test_readings_are_kept_as_they_were(tmp_path: Path) -> None:
    kept = Readings(tmp_path / "readings.jsonl")
    assert kept.all() == []
    first = replace(steady(20)[0], told={"tickets": 3}, seconds=(0.5, 0.25))
    kept.add(first)
    kept.add(replace(first, cycle=40))
    assert kept.all() == [first, replace(first, cycle=40)]
