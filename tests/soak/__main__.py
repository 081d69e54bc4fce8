"""`scripts/soak`: run it, and say what came of it. Exit 0: nothing grows that should not; 1: something does."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from quarantine.core.errors import QuarantineError
from tests.soak.measure import Reading
from tests.soak.picture import draw
from tests.soak.run import Plan, Soaked, soak
from tests.soak.verdict import Said, figures, sound, verdict
from tests.soak.world import Size


def main() -> int:
    """The command."""
    given = _arguments()
    plan = Plan(
        cycles=given.cycles,
        size=Size(nodes=given.nodes, faults=given.faults, gangs=max(2, given.nodes // 30), seed=given.seed),
        step=timedelta(seconds=given.step),
        period=given.period,
        warm=given.cycles // 4 if given.warm_up is None else given.warm_up,
        every=given.every,
        trace=given.trace,
    )

    def said(reading: Reading) -> None:
        print(line(reading), file=sys.stderr, flush=True)

    try:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            done = soak(plan, Path(folder), said, given.readings)
        found = judged(done)
    except (QuarantineError, ValueError) as error:
        print(error, file=sys.stderr)
        return 3
    if given.chart:
        draw(done.readings, plan.warm, given.chart)
    print(json.dumps(as_json(done, found), indent=2) if given.output == "json" else as_table(done, found))
    return 0 if sound(found) else 1


def line(reading: Reading) -> str:
    """A reading, while it goes on."""
    return (
        f"cycle {reading.cycle}: {reading.rss / 1024:.1f} MiB, {reading.objects:,} objects, {reading.threads} threads, "
        f"{reading.descriptors} descriptors, {reading.sockets} sockets; {reading.open_cases} open cases of "
        f"{reading.remembered}; {sum(reading.seconds) / max(1, len(reading.seconds)):.2f} s a cycle"
    )


def judged(done: Soaked) -> list[Said]:
    """The verdict, with what of the soak itself went wrong: then it proves nothing."""
    found = verdict(done.readings, done.plan.warm)
    ended = done.troubles.get("ended", 0)
    text = f"cycles that came to their end: {ended} of {sum(done.troubles.values())}"
    found.append(Said(ended >= 0.9 * done.plan.cycles, text))
    if done.unforeseen:
        found.append(Said(False, f"a question that was not foreseen was asked: {done.unforeseen[0][:300]}"))
    return found


def as_table(done: Soaked, found: Sequence[Said]) -> str:
    """For people."""
    last, took = done.readings[-1], figures(done.readings)
    lines = [
        f"{done.plan.cycles} cycles of {done.plan.size.nodes} nodes; the first {done.plan.warm} are the warm-up",
        f"a cycle took {took['p50']:.2f} s (median), {took['p95']:.2f} s (95 of 100)",
        "the world saw: " + ", ".join(f"{number:,} {what}" for what, number in last.told.items()),
        *(f"{'ok  ' if one.good else 'BAD '} {one.text}" for one in found),
        *done.grown,
        "nothing grows that should not" if sound(found) else "something grows that should not: see what is BAD",
    ]
    return "\n".join(lines)


def as_json(done: Soaked, found: Sequence[Said]) -> Mapping[str, Any]:
    """For programs; without the counts by type, which are in the readings' file."""
    return {
        "cycles": done.plan.cycles,
        "nodes": done.plan.size.nodes,
        "sound": sound(found),
        "seconds": figures(done.readings),
        "said": [{"good": one.good, "text": one.text} for one in found],
        "outcomes": done.troubles,
        "readings": [{**one.as_json(), "types": None} for one in done.readings],
        "grown": done.grown,
    }


def _arguments() -> argparse.Namespace:
    asked = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    asked.add_argument("--cycles", type=int, default=2000)
    asked.add_argument("--nodes", type=int, default=1000)
    asked.add_argument("--faults", type=float, default=0.15, help="new ones in a cycle, on average")
    asked.add_argument("--step", type=int, default=30, help="seconds of simulated time from cycle to cycle")
    asked.add_argument("--period", type=int, default=150, help="cycles between two leaps of the clock")
    asked.add_argument("--warm-up", type=int, help="cycles that have no say in the verdict; a quarter of them")
    asked.add_argument("--every", type=int, default=20, help="cycles between two readings")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--output", choices=("table", "json"), default="table")
    asked.add_argument("--chart", type=Path, help="a PNG")
    asked.add_argument("--readings", type=Path, help="every reading, a JSON object a line")
    asked.add_argument("--trace", action="store_true", help="which lines hold more than after the warm-up")
    return asked.parse_args()


if __name__ == "__main__":
    sys.exit(main())
