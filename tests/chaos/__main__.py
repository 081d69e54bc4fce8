"""`scripts/chaos`: break each thing that the controller needs, in each way, and show what came of it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from quarantine.core.errors import QuarantineError
from tests.chaos.live import FULL, SHORT, Group, chosen, run_live
from tests.chaos.sim import NAMES, run_named, run_schedule
from tests.chaos.table import Row, print_table

MANY, FEW = 300, 100  # schedules
KINDS = LIVE, NAMED, DRAWN = "live", "named", "drawn"
DONE, FAILED, USAGE, UNREACHED = 0, 1, 2, 3  # exit codes


@dataclass(frozen=True)
class Wanted:
    """What is to be run."""

    groups: tuple[Group, ...]  # with live processes
    names: tuple[str, ...]  # one failure each, in simulated time
    seeds: range  # of schedules in simulated time


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all came out as they must; 1: not all; 2: there is no such name; 3: a server cannot be had."""
    given = _read(arguments)
    wanted = _wanted(given)
    if not (wanted.groups or wanted.names or wanted.seeds):
        known = "; ".join([*KINDS, *(t.name for one in FULL for t in one.troubles), *NAMES])
        sys.stderr.write(f"nothing that is to be run begins with {' or '.join(given.only)}: give one of {known}\n")
        return USAGE
    rows: list[Row] = []
    try:
        for row in _rows(wanted, f"{given.seed}"):
            rows.append(row)
            _told(row)
    except QuarantineError as error:
        sys.stderr.write(f"{error}\n")
        return UNREACHED
    shown = summed(rows)
    if given.output == "json":
        sys.stdout.write(json.dumps([asdict(row) | {"ok": row.ok} for row in shown], indent=2) + "\n")
    else:
        print_table(shown)
    return DONE if all(row.ok for row in rows) else FAILED


def _read(arguments: Sequence[str] | None) -> argparse.Namespace:
    reader = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    reader.add_argument("--short", action="store_true", help="one pair of processes, and fewer schedules")
    reader.add_argument("--seed", type=int, default=1, help="of the first schedule, and of what is drawn live")
    reader.add_argument(
        "--schedules", type=int, metavar="N", help=f"so many in simulated time; left out: {MANY}, in short {FEW}"
    )
    reader.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"how names begin, or {', '.join(KINDS)}")
    reader.add_argument("--output", choices=("table", "json"), default="table")
    return reader.parse_args(arguments)


def _wanted(given: argparse.Namespace) -> Wanted:
    only: Sequence[str] = given.only
    groups = (SHORT,) if given.short else FULL
    many: int = given.schedules if given.schedules is not None else FEW if given.short else MANY
    return Wanted(
        tuple(groups if LIVE in only else chosen(groups, only)),
        tuple(name for name in NAMES if not only or NAMED in only or name.startswith(tuple(only))),
        range(given.seed, given.seed + many if not only or DRAWN in only else given.seed),
    )


def _rows(wanted: Wanted, seed: str) -> Iterator[Row]:
    for name in wanted.names:
        yield run_named(name)
    for schedule in wanted.seeds:
        yield run_schedule(schedule)
    if wanted.groups:
        yield from run_live(wanted.groups, seed)


def _told(row: Row) -> None:
    """How it goes: a line for each, on stderr."""
    came = "as it must be" if row.ok else f"NOT as it must be: {row.note}"
    sys.stderr.write(f"{row.world} {row.what}: {row.dependency}, {row.failure}: {came}\n")
    sys.stderr.flush()


def summed(rows: Sequence[Row]) -> list[Row]:
    """The drawn ones in a line of their own, but for those that failed."""
    drawn = [row for row in rows if row.what.isdigit() and row.ok and row.world != LIVE]
    rest = [row for row in rows if row not in drawn]
    if not drawn:
        return rest
    slowest = max(drawn, key=lambda row: row.cycles_to_converge or 0)
    seeds = sorted(int(row.what) for row in drawn)
    name = f"seeds {seeds[0]} to {seeds[-1]}"
    note = f"{len(drawn)} schedules; the slowest is seed {slowest.what}"
    cycles = slowest.cycles_to_converge
    one = Row(slowest.world, name, "as drawn", "as drawn", cycles, slowest.allowed, 0, 0, 0, 0, 0, 0, note)
    return [*rest, one]


if __name__ == "__main__":
    sys.exit(main())
