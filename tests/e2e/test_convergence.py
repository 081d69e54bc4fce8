"""Interrupted anywhere, done once: the process dies at every single write and call, and the next start converges.

`Crash` stands for kill -9: it is raised before or right after a call on a port, and nothing of the process survives it.
The next controller is built from nothing but the ledger and the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine import app
from quarantine.adapters.slack.notifier import SlackNotifier
from quarantine.adapters.slack.notifier import connect as connect_slack
from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.targets import only
from quarantine.controller import Controller
from quarantine.core.case import EffectStatus
from quarantine.core.errors import Superseded
from quarantine.execute import Executor
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.settings import load
from tests.e2e.worlds import CHANNEL, TOKEN, World, world


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Fuse:
    """Blows at the n-th crossing of a port, before or after the call itself."""

    left: int
    after: bool
    blown: bool = False

    def cross(self) -> bool:
        self.left -= 1
        return self.left == 0


class Fused:
    """A port behind a fuse: every method call is a crossing."""

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            blows = self._fuse.cross()
            if blows and not self._fuse.after:
                self._fuse.blown = True
                raise Crash
            result = found(*args, **kwargs)
            if blows:
                self._fuse.blown = True
                raise Crash
            return result

        return call


@dataclass
class LateClock:
    """The wall clock, some minutes ahead, so that back-offs of earlier attempts have passed."""

    ahead: timedelta

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead  # noqa: TID251 - the controller under test asks for now


@contextmanager
def controller(cluster: World, fuse: Fuse, run: int) -> Iterator[Controller]:
    """A new process, as `quarantine run` builds it, with the fuse in every port that writes."""
    environ = {"QUARANTINE_DATABASE_URL": cluster.database_url, "QUARANTINE_SLACK__TOKEN": TOKEN}
    given = load(cluster.config, {}, environ)
    with app.parts(given, watch=False, acts=True) as parts:
        clock = LateClock(timedelta(seconds=20 * run))
        made = app.controller(parts)
        tickets = DirectoryTickets(cluster.folder / "tickets", clock.now)
        slack: SlackNotifier = connect_slack(
            TOKEN, CHANNEL, cluster="test", now=clock.now, base_url=cluster.slack.base_url
        )
        ledger = Fused(parts.ledger, fuse)
        executor = Executor(
            Fused(parts.cluster, fuse),
            ledger,
            only("folder", Fused(tickets, fuse)),
            Fused(slack, fuse),
            clock,
            parts.rules,
            Fused(parts.procedures, fuse),
        )
        yield replace(made, executor=executor, ledger=ledger)


def run_until_done(cluster: World, at: int, *, after: bool) -> bool:
    """Crash once at the n-th crossing, then start again until nothing is left to do; whether it crashed at all."""
    fuse = Fuse(at, after)
    with controller(cluster, fuse, 0) as first, suppress(Crash):
        first.cycle()
    for run in range(1, 4):
        with controller(cluster, Fuse(-1, after=False), run) as again:
            report = again.cycle()
            assert report.error is None, report.sentence
    return fuse.blown


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.timeout(300)
def test_a_crash_at_any_call_converges_to_the_same_end_with_nothing_done_twice(
    live_prometheus: PrometheusServer, tmp_path: Path, *, after: bool
) -> None:
    for at in range(1, 60):
        folder = tmp_path / str(at)
        folder.mkdir()
        with world(folder, f"crash{int(after)}x{at}", live_prometheus, size=2) as cluster:
            cluster.heat(cluster.nodes[1])
            crashed = run_until_done(cluster, at, after=after)
            _check(cluster, cluster.nodes[1], at)
        if not crashed:
            break
    assert at > 12, "a quarantine crosses the ports at least so often"
    assert not crashed, "the last run was long enough to see them all"


def _check(cluster: World, node: str, at: int) -> None:
    assert node in cluster.marked(), at
    case = cluster.api.get("Node", node)["metadata"]["annotations"]["quarantine.gpu/case"]
    assert [t["key"] for t in cluster.tickets()].count(case) == 1, at
    keys = [m.metadata["event_payload"]["case"] for m in cluster.told if m.metadata]
    assert keys.count(case) == 1, at
    events = [e for e in cluster.api.list("Event") if e["involvedObject"]["name"] == node]
    assert len(events) == 1, at
    environ = {"QUARANTINE_DATABASE_URL": cluster.database_url}
    with app.ledger(load(cluster.config, {}, environ)) as ledger:
        view = ledger.load()
        assert view.pending == (), at
        mine = view.state.open_case_of(node)
        assert mine is not None
        assert {state.status for state in mine.effects.values()} == {EffectStatus.DONE}, at


def test_a_writer_that_was_succeeded_stops_and_does_nothing(cluster: World) -> None:
    fuse = Fuse(-1, after=False)
    with controller(cluster, fuse, 0) as old, controller(cluster, fuse, 0) as new:
        assert old.cycle().error is None
        assert new.cycle().error is None
        cluster.heat(cluster.nodes[2])
        with pytest.raises(Superseded):
            old.cycle()
        assert cluster.untouched()
        assert cluster.tickets() == []
        new.cycle()
        assert cluster.marked() == [cluster.nodes[2]]


def test_a_writer_that_was_paused_between_record_and_write_has_no_stale_effect(cluster: World) -> None:
    """The old process recorded its decision, was paused for long, and the new one has released the node meanwhile."""
    cluster.heat(cluster.nodes[2])
    with controller(cluster, Fuse(-1, after=False), 0) as old:
        held = replace(old.executor, cluster=_Succeeding(old.executor.cluster, cluster))
        with pytest.raises(Superseded):
            replace(old, executor=held).cycle()
    assert cluster.untouched(), "the release of the new writer stands"
    assert len(cluster.tickets()) == 1, "the new writer's"


class _Succeeding:
    """While the old process is about to write to the node, a new one takes over, writes, and a person releases."""

    def __init__(self, inner: Any, cluster: World) -> None:
        self._inner = inner
        self._world = cluster
        self._done = False

    def patch_node(self, patch: Any) -> Any:
        if not self._done:
            self._done = True
            with controller(self._world, Fuse(-1, after=False), 1) as new:
                assert new.cycle().error is None
                assert self._world.marked() == [patch.node]
                assert self._world.quarantine("release", patch.node, "--reason", "checked").exit_code == 0
                assert new.cycle().error is None
                assert self._world.untouched()
        return self._inner.patch_node(patch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
