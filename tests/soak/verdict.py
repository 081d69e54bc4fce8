"""Whether a soak was passed: plain sentences about what may not grow, each with its figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.soak.measure import FEW, MOST_KIB, MOST_OBJECTS, Reading, growing, slope

# Tables that only grow, and what makes each row (docs/growth.md). All others are bounded by what stands or is named.
PER_DECISION = 1.0  # a row of the trail
NEVER_MORE = {  # rows for each decision at most, of the tables that grow with the trail
    "decisions": PER_DECISION,
    "actions": PER_DECISION,  # an effect is decided, and ends in a decision of its own
    "cases": PER_DECISION / 2,  # one is opened and ended
    "milestones": PER_DECISION / 2,
    "hold_spans": PER_DECISION / 2,  # one begins and ends
    "holds": PER_DECISION / 2,
    "dismissals": PER_DECISION / 2,
    "tickets": PER_DECISION / 2,
    "machines": PER_DECISION,
    "sightings": 12 * PER_DECISION,  # the names of a machine: its node, its numbers, its GPUs
    "words": PER_DECISION,
    "policy_versions": PER_DECISION,  # the text of what decided
    "versions": PER_DECISION,
    "pool_sizes": PER_DECISION,
}
STANDING = {"clusters": 1, "rule_files": 100, "policy_runs": 100}  # rows at any time, of these installations
BESIDES = 200  # rows: what the beginning leaves
LOOSE = 2  # threads, descriptors or sockets that may come and go: a connection that is being made anew
MOST_SERIES = 1.1  # times as many of the controller's own metrics at the end as after the beginning


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence, and whether it is good news."""

    good: bool
    text: str


def after_warm_up(readings: Sequence[Reading], warm: int) -> list[Reading]:
    """Those after the warm-up: from then on as much is forgotten as comes, and what is kept for use is there."""
    return [one for one in readings if one.cycle > warm]


def verdict(readings: Sequence[Reading], warm: int) -> list[Said]:
    """All that is to be said. Raises ValueError where too little was read after the warm-up to say anything."""
    steady = after_warm_up(readings, warm)
    if len(steady) < 4:
        raise ValueError(f"{len(steady)} readings after the first {warm} cycles say nothing: make the soak longer")
    said = [_memory(steady), _objects(steady), *_types(steady)]
    said += [_constant(steady, what) for what in ("threads", "descriptors", "sockets")]
    said += [_series(steady), *_tables(steady[-1])]
    return said


def _memory(steady: Sequence[Reading]) -> Said:
    line = slope(steady, "rss")
    text = f"memory: {steady[0].rss / 1024:.0f} MiB after the warm-up, {steady[-1].rss / 1024:.0f} MiB at the end, "
    text += f"{line.per_1000:+.0f} ± {line.margin:.0f} KiB in 1,000 cycles"
    return Said(line.least < MOST_KIB, f"{text}; at most {MOST_KIB:.0f} beyond what the interval leaves open")


def _objects(steady: Sequence[Reading]) -> Said:
    line, most = slope(steady, "objects"), MOST_OBJECTS * steady[0].objects
    text = f"live Python objects: {steady[0].objects:,} to {steady[-1].objects:,}, {line.per_1000:+.0f} ± "
    return Said(line.least < most, f"{text}{line.margin:.0f} in 1,000 cycles; at most {most:.0f}")


def _types(steady: Sequence[Reading]) -> Iterator[Said]:
    """By type too: a leak of one kind is small beside all the rest. Named, and bad only where all together grow."""
    for name, line in list(growing(steady).items())[:5]:
        yield Said(True, f"  {name}: {line.per_1000:+.0f} ± {line.margin:.0f}, more than {FEW} in 1,000 cycles")


def _constant(steady: Sequence[Reading], what: str) -> Said:
    values = [getattr(one, what) for one in steady]
    half = len(values) // 2
    early, late = max(values[:half]), max(values[half:])
    return Said(
        late <= early + LOOSE,
        f"{what}: {min(values)} to {max(values)}; at most {early} in the first half, {late} after",
    )


def _series(steady: Sequence[Reading]) -> Said:
    first, last = steady[0].series, steady[-1].series
    return Said(last <= MOST_SERIES * first, f"series of the controller's own metrics: {first} to {last}")


def _tables(last: Reading) -> Iterator[Said]:
    decisions = last.rows.get("decisions", 0)
    for table, rows in sorted(last.rows.items()):
        if table in STANDING:
            most = float(STANDING[table])
        elif table == "requests":
            continue  # what people ask, each kept: they are as many as the people make them
        else:
            most = NEVER_MORE.get(table, math.nan) * decisions + BESIDES
        good = rows <= most  # a table that nobody documented is more than nothing
        share = f", {rows / decisions:.2f} for each decision" if decisions else ""
        yield Said(good, f"table {table}: {rows:,} rows{share}; at most {most:,.0f}")


def sound(said: Sequence[Said]) -> bool:
    """Whether all of it is good news."""
    return all(one.good for one in said)


def figures(readings: Sequence[Reading]) -> Mapping[str, float]:
    """How long cycles took, in seconds, and what the world saw at the end."""
    seconds = sorted(second for one in readings for second in one.seconds)
    if not seconds:
        return {}
    at = {"p50": 0.5, "p95": 0.95}
    return {name: seconds[min(len(seconds) - 1, int(share * len(seconds)))] for name, share in at.items()}
