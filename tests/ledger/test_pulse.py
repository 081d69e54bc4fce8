"""What is to be seen of a controller from beside it."""

from __future__ import annotations

from datetime import timedelta

from quarantine.ledger.pulse import Pulse
from quarantine.ledger.store import open_ledger
from tests.ledger.samples import CLUSTER, NOW, now


def test_every_write_of_the_leader_is_a_sign_of_life(url: str) -> None:
    time = [NOW]
    with open_ledger(url, CLUSTER, now=lambda: time[0]) as ledger:
        assert ledger.pulse() is None
        term = ledger.take_term("pod-1")
        assert ledger.pulse() == Pulse("pod-1", NOW, read_only=False)
        time[0] += timedelta(minutes=1)
        ledger.record(term, ())
        assert ledger.pulse() == Pulse("pod-1", time[0], read_only=False)


def test_a_server_that_takes_no_writes(postgres: str) -> None:
    with open_ledger(postgres, CLUSTER, now=now) as ledger:
        ledger.take_term("pod-1")
    with open_ledger(f"{postgres}?options=-cdefault_transaction_read_only%3Don", CLUSTER, now=now) as ledger:
        assert ledger.pulse() == Pulse("pod-1", NOW, read_only=True)
