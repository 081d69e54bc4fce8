"""`scripts/scenarios [--write] [NAME…]`: play all, or those whose names begin so, and show what came of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quarantine.core.errors import QuarantineError
from tests.scenarios.format import scenario_files
from tests.scenarios.play import play_all
from tests.scenarios.report import delays, lines, page, picture

DOCS = Path(__file__).parents[2] / "docs"


def main() -> int:
    """0: all came out as they should; 1: not all; 2: there is no such scenario; 3: no Prometheus."""
    reader = argparse.ArgumentParser(prog="scripts/scenarios", description=__doc__)
    reader.add_argument("names", nargs="*", metavar="NAME", help="how the scenarios' names begin; left out: all")
    reader.add_argument("--write", action="store_true", help="write docs/scenarios.md and its picture anew")
    given = reader.parse_args()
    files = [f for f in scenario_files() if not given.names or f.stem.startswith(tuple(given.names))]
    if not files or (given.write and given.names):
        sys.stderr.write(f"there is no scenario called {' or '.join(given.names)}…, or --write is not of all of them\n")
        return 2
    try:
        played = play_all(files)
    except QuarantineError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    sys.stdout.write("\n".join(lines(played)) + "\n")
    if given.write:
        (DOCS / "scenarios.svg").write_text(picture(delays(played)), encoding="utf-8")
        (DOCS / "scenarios.md").write_text(page(played, "scenarios.svg"), encoding="utf-8")
    return int(any(p.problems for p in played))


if __name__ == "__main__":
    sys.exit(main())
