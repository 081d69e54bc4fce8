"""Two replicas of the real program go through one trouble after the other: the short form of `scripts/chaos`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests

from tests.chaos.live import SHORT, begin, play, servers
from tests.chaos.live_eye import Eye
from tests.chaos.live_stand import Stand
from tests.chaos.table import Row, table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@dataclass
class Played:
    """What came of it, and the world as it was left: the processes are there."""

    rows: list[Row]
    stand: Stand
    eye: Eye


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("chaos")
    with servers() as (prometheus, postgres, room), begin(folder, SHORT, prometheus, postgres, room, "1") as made:
        eye = Eye(made)
        yield Played(list(play(SHORT, made, eye)), made, eye)


def test_after_each_trouble_all_is_as_it_must_be(played: Played) -> None:
    assert [row for row in played.rows if not row.ok] == [], table(played.rows)
    assert len(played.rows) == len(SHORT.troubles)
    cluster = played.stand.cluster
    assert len(cluster.marked()) == played.stand.budget == len(played.stand.hot) - 1, "one had to stay"


def test_what_must_never_happen_would_be_seen(played: Played) -> None:
    """The processes are dead, and somebody writes in the name of the one that did not lead."""
    stand, eye = played.stand, played.eye
    waited = stand.other.name
    for name in stand.replicas:
        stand.end(name)
    healthy, out = stand.cluster.nodes[-1], stand.cluster.marked()[0]
    ours = {"key": "quarantine.gpu/suspect", "value": "q-1", "effect": "NoSchedule"}
    _patch(stand, waited, healthy, [ours])
    _patch(stand, waited, out, [])
    row = eye.row("1", "nobody", "a stranger", 0, 1, "")
    assert not row.ok
    assert (row.healthy_quarantined, row.over_budget) == (1, 1)
    assert row.released_on_absence == 1
    assert row.stale == 2
    assert row.lost == 3, "two writes and a mark without their record"
    assert row.doubled == 0
    again = eye.row("1", "nobody", "nothing", 0, 1, "")
    assert again.ok, "each is told once"


def _patch(stand: Stand, user: str, node: str, taints: list[dict[str, str]]) -> None:
    headers = {"Authorization": f"Bearer token-of-{user}", "Content-Type": "application/merge-patch+json"}
    url = f"{stand.cluster.kube.url}/api/v1/nodes/{node}"
    requests.patch(url, json={"spec": {"taints": taints}}, headers=headers, timeout=10).raise_for_status()
