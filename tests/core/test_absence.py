"""How many devices must be seen of a node before it can be said that none of them is bad."""

from __future__ import annotations

import pytest

from quarantine.core.absence import wanted
from quarantine.core.fleet import Pool
from quarantine.core.model import DeviceKind
from tests.core.world import node

GPU, IB = DeviceKind.GPU, DeviceKind.IB_PORT


@pytest.mark.parametrize(
    ("declared", "own", "known", "seen", "expected"),
    [
        (8, 7, 0, 7, 8),  # the node's own word shrank with the loss
        (8, 16, 16, 8, 8),  # people outrank it
        (None, 8, 0, 7, 8),
        (None, 7, 8, 7, 8),  # by record
        (None, 16, 8, 8, 8),  # shares of eight
        (None, 8, 8, 4, 8),  # no shares: eight are on record
        (None, None, 0, 5, 1),  # nothing is known
        (None, 8, 0, 0, 8),  # a blind node shares nothing
    ],
)
def test_devices_that_must_be_seen(declared: int | None, own: int | None, known: int, seen: int, expected: int) -> None:
    expectation = {} if declared is None else {"expected": {"gpus": declared}}
    pool = Pool.model_validate({"name": "gpu", "nodeSelector": {"gpu": "yes"}, **expectation})
    assert wanted(node("node-1", gpus=own), GPU, pool, seen, known) == expected


def test_other_devices_are_wanted_as_far_as_people_declare_them() -> None:
    pool = Pool.model_validate({"name": "gpu", "nodeSelector": {"gpu": "yes"}, "expected": {"ibPorts": 10}})
    assert wanted(node("node-1", gpus=8), IB, pool, 9) == 10
    assert wanted(node("node-1", gpus=8), IB, None, 9) == 1
