"""`scripts/bench NAME [--full]`."""

from __future__ import annotations

import argparse
import sys

from quarantine.core.errors import QuarantineError
from quarantine.sandbox.bench import backtest, growth, ledger, report

MEASURES = {
    "backtest": backtest.measure,
    "growth": growth.measure,
    "ledger": ledger.measure,
    "report": report.measure,
}


def main() -> int:
    """Run one benchmark; its exit code says whether it met its aims."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("name", choices=sorted(MEASURES), help="what to measure")
    parser.add_argument("--full", action="store_true", help="the large form; the small one is for CI")
    given = parser.parse_args()
    try:
        return 0 if MEASURES[given.name](full=given.full) else 1
    except QuarantineError as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
