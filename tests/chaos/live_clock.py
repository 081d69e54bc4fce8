"""`quarantine`, with a wall clock that another program sets: `python -m tests.chaos.live_clock COMMAND …`.

`CHAOS_CLOCK` names a file with the seconds by which the clock is off. Until it is there, nothing is replaced: this is
the program itself. From then on every wall clock of the process is, and no steady one, as when a machine's time is set.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import time_machine

from quarantine.cli.start import main

_LOOKS_S = 0.1


def follow(path: Path) -> None:
    """Look at the file for as long as the process lives."""
    began, steady = datetime.now(UTC), time.monotonic()  # noqa: TID251 - it is this clock that is set
    pause = threading.Event()
    clock: time_machine.Traveller | None = None
    known = ""
    while not pause.wait(_LOOKS_S):
        try:
            told = path.read_text(encoding="ascii")
        except OSError:
            continue
        if told.endswith("\n") and told != known:
            known = told
            right = began + timedelta(seconds=time.monotonic() - steady)
            wrong = right + timedelta(seconds=float(told))
            if clock is None:
                travel = time_machine.travel(wrong, tick=True)
                clock = travel.start()
            else:
                clock.move_to(wrong)


if __name__ == "__main__":
    threading.Thread(target=follow, args=(Path(os.environ["CHAOS_CLOCK"]),), daemon=True).start()
    main()
